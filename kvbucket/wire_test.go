package kvbucket

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

// outsider is a program without this package, which does what docs/wire-format.md says.
type outsider struct{ nc *nats.Conn }

// wrote is what the server answers to a publish.
type wrote struct {
	Seq   uint64
	Error *jetstream.APIError
}

func (o outsider) publish(ctx context.Context, name, value string, headers ...string) (wrote, error) {
	m := nats.NewMsg("$KV.JETCREW_KV." + name)
	m.Data = []byte(value)
	for i := 0; i < len(headers); i += 2 {
		m.Header.Set(headers[i], headers[i+1])
	}
	var w wrote
	answer, err := o.nc.RequestMsgWithContext(ctx, m)
	if err == nil {
		err = json.Unmarshal(answer.Data, &w)
	}
	return w, err
}

func (o outsider) writes(t *testing.T, name, value string, headers ...string) {
	t.Helper()
	w, err := o.publish(t.Context(), name, value, headers...)
	require.NoError(t, err)
	require.Nil(t, w.Error)
}

// increment adds one to a counter that is there.
func (o outsider) increment(ctx context.Context, name string) error {
	for {
		answer, err := o.nc.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET.KV_JETCREW_KV", []byte(`{"last_by_subj":"$KV.JETCREW_KV.`+name+`"}`))
		if err != nil {
			return err
		}
		var last struct {
			Message struct {
				Seq        uint64
				Data, Hdrs []byte
			}
		}
		if err := json.Unmarshal(answer.Data, &last); err != nil {
			return err
		}
		n, err := strconv.ParseInt(string(last.Message.Data), 10, 64)
		if err != nil {
			return err
		}
		h, err := nats.DecodeHeadersMsg(last.Message.Hdrs)
		if err != nil {
			return err
		}
		w, err := o.publish(ctx, name, strconv.FormatInt(n+1, 10), "Nats-Expected-Last-Subject-Sequence", strconv.FormatUint(last.Message.Seq, 10),
			"Jetcrew-Nonce", nuid.Next(), "Jetcrew-Expires", h.Get("Jetcrew-Expires"), "Nats-TTL", h.Get("Nats-TTL"))
		switch {
		case err != nil:
			return err
		case w.Error == nil:
			return nil
		case w.Error.ErrorCode != 10071:
			return w.Error
		}
	}
}

func TestOthersWriteByTheDocumentedHeaders(t *testing.T) {
	t.Parallel()
	url := server(t)
	clock := &shifted{}
	cfg := config()
	cfg.Clock = clock
	b, o := open(t, url, cfg), outsider{natstest.Connect(t, url)}
	end := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	o.writes(t, "v.acme.plain", `"v"`)
	o.writes(t, "v.acme.seconds", `"v"`, "Nats-TTL", "3600")
	o.writes(t, "v.acme.exact", `"v"`, "Nats-TTL", "3600", "Jetcrew-Expires", strconv.FormatInt(end.UnixMilli(), 10))
	o.writes(t, "v.acme.=.x", `"v"`)
	o.writes(t, "v.acme.gone", `"v"`)
	o.writes(t, "v.acme.gone", "", "KV-Operation", "PURGE", "Nats-Rollup", "sub", "Nats-TTL", "30")
	require.ElementsMatch(t, []string{"v/acme/plain", "v/acme/seconds", "v/acme/exact", "v/acme//x"}, keysOf(t, b, "v/acme/"))
	absent(t, b, "v/acme/gone")

	clock.Advance(time.Hour + soon) // past both ends
	require.ElementsMatch(t, []string{"v/acme/plain", "v/acme//x"}, keysOf(t, b, "v/acme/"))
	for _, key := range []string{"v/acme/seconds", "v/acme/exact", "v/acme/gone"} {
		absent(t, b, key)
		ok, err := b.Swap(t.Context(), key, nil, "new", 0)
		require.NoError(t, err)
		require.True(t, ok, key)
	}
}

func TestAnOutsiderCountsAlong(t *testing.T) {
	t.Parallel()
	url := server(t)
	b, o := open(t, url, config()), outsider{natstest.Connect(t, url)}
	set(t, b, "c", "0", time.Hour)
	end := last(t, b, "c").Header.Get("Jetcrew-Expires")
	const each = 100
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for range each {
				assertNoError(t, o.increment(t.Context(), "c"))
				_, err := b.Increment(t.Context(), "c", 1)
				assertNoError(t, err)
			}
		})
	}
	all.Wait()
	has(t, b, "c", fmt.Sprint(3*2*each))
	assert.Equal(t, end, last(t, b, "c").Header.Get("Jetcrew-Expires"))
}

// Every header that a write can have, beside what the documentation says of it.
func TestTheHeadersAreThoseOfTheDocumentation(t *testing.T) {
	t.Parallel()
	b := open(t, server(t), config())
	ctx := t.Context()
	names := func() (all []string) {
		for name := range last(t, b, "k").Header {
			switch name {
			case jetstream.StreamHeader, jetstream.SubjectHeader, jetstream.SequenceHeader, jetstream.TimeStampHeaer: // of the answer
			default:
				all = append(all, name)
			}
		}
		return all
	}
	set(t, b, "k", "1", 0)
	require.ElementsMatch(t, []string{"Jetcrew-Nonce"}, names())
	ok, err := b.Expire(ctx, "k", time.Hour)
	require.NoError(t, err)
	require.True(t, ok)
	require.ElementsMatch(t, []string{"Jetcrew-Nonce", "Jetcrew-Expires", "Nats-TTL", "Nats-Expected-Last-Subject-Sequence", "Jetcrew-Again"}, names())
	require.Equal(t, "1", last(t, b, "k").Header.Get("Jetcrew-Again"), "what the first was guarded by")
	require.Equal(t, "2", last(t, b, "k").Header.Get("Nats-Expected-Last-Subject-Sequence"))
	_, err = b.Increment(ctx, "k", 1)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"Jetcrew-Nonce", "Jetcrew-Expires", "Nats-TTL", "Nats-Expected-Last-Subject-Sequence"}, names())
	nonce := last(t, b, "k").Header.Get("Jetcrew-Nonce")
	require.NoError(t, b.Delete(ctx, "k"))
	second := []string{"Nats-Expected-Last-Subject-Sequence", "Jetcrew-Again"}
	require.ElementsMatch(t, append(second, "Jetcrew-Nonce", "KV-Operation", "Nats-Rollup", "Nats-TTL"), names())
	m := last(t, b, "k")
	require.Equal(t, "any", m.Header.Get("Jetcrew-Again"))
	require.Equal(t, "PURGE", m.Header.Get("KV-Operation"))
	require.Equal(t, "sub", m.Header.Get("Nats-Rollup"))
	require.Equal(t, "30", m.Header.Get("Nats-TTL"))
	require.NotEqual(t, nonce, m.Header.Get("Jetcrew-Nonce"))
}
