package doctor

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// everything is all that a server keeps: streams, their settings and what stands in them, and consumers.
func everything(t *testing.T, js jetstream.JetStream) string {
	t.Helper()
	type stream struct {
		Config    jetstream.StreamConfig
		State     jetstream.StreamState
		Consumers []jetstream.ConsumerConfig
		Delivered []jetstream.SequenceInfo
	}
	var all []stream
	list := js.ListStreams(t.Context())
	for info := range list.Info() {
		s, err := js.Stream(t.Context(), info.Config.Name)
		require.NoError(t, err)
		one := stream{Config: info.Config, State: info.State}
		consumers := s.ListConsumers(t.Context())
		for c := range consumers.Info() {
			one.Consumers = append(one.Consumers, c.Config)
			one.Delivered = append(one.Delivered, c.Delivered)
		}
		require.NoError(t, consumers.Err())
		all = append(all, one)
	}
	require.NoError(t, list.Err())
	b, err := json.MarshalIndent(all, "", " ")
	require.NoError(t, err)
	return string(b)
}

// making listens for the server's word of streams and consumers that are made, changed or deleted, until the function
// that it answers is called for them.
func making(t *testing.T, url string) func() []string {
	t.Helper()
	nc := natstest.Connect(t, url)
	sub, err := nc.SubscribeSync("$JS.EVENT.ADVISORY.>")
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	return func() []string {
		require.NoError(t, nc.Flush())
		var out []string
		for n, _, err := sub.Pending(); n > 0; n, _, err = sub.Pending() {
			require.NoError(t, err)
			m, err := sub.NextMsg(patient)
			require.NoError(t, err)
			if what := strings.TrimPrefix(m.Subject, "$JS.EVENT.ADVISORY."); !strings.HasPrefix(what, "API") {
				out = append(out, what)
			}
		}
		return out
	}
}

func TestAnEmptyServerStaysEmpty(t *testing.T) {
	t.Parallel()
	url := empty(t)
	nc := natstest.Connect(t, url)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	r := examine(t, url, Config{})
	require.Equal(t, "null", everything(t, js))
	r.has(t, "jobs-stream", Error, "JETCREW_JOBS is missing")
	r.has(t, "workers-bucket", Error, "is missing")
	r.has(t, "kv-bucket", Warning, "is missing")
	r.has(t, "schedules-bucket", Warning, "is missing")
	r.has(t, "leader-bucket", Error, "is missing")
	r.has(t, "leader", Error, "nobody leads")
	for _, id := range []string{"replicas", "clock", "consumers", "queues", "stuck", "overdue", "dead-jobs", "set-aside"} {
		r.has(t, id, Warning, "not checked")
	}
}

// A user that may do everything has everything tried.
func TestChangesNothing(t *testing.T) {
	t.Parallel()
	url := empty(t)
	f := settle(t, url, 1)
	f.enqueue(t, job.Spec{Type: "t", ID: "1"}, job.Spec{Type: "t", ID: "2", Queue: "other"})
	makes := making(t, url)
	before := everything(t, f.js)
	for _, cfg := range []Config{{}, {Role: "worker"}, {Role: "operator", Queue: "other"}} {
		examine(t, url, cfg)
	}
	require.Equal(t, before, everything(t, f.js))
	require.Empty(t, makes(), "not even for a moment")

	// That this test can see what is made, and what is written.
	require.NoError(t, f.consumer(t, "third").Close(t.Context()))
	f.enqueue(t, job.Spec{Type: "t", ID: "3"})
	require.NotEqual(t, before, everything(t, f.js))
	natstest.Eventually(t, patient, func() bool { return len(makes()) > 0 }, "the making of a queue is heard")
}

func TestChangesNothingInDefects(t *testing.T) {
	t.Parallel()
	url := empty(t)
	f := settle(t, url, 1)
	f.edit(t, "JETCREW_JOBS", func(c *jetstream.StreamConfig) { c.MaxMsgs = 1000 })
	f.editConsumer(t, "ready-default", func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 3 })
	require.NoError(t, f.js.DeleteConsumer(t.Context(), "JETCREW_JOBS", "wake-default"))
	require.NoError(t, f.js.DeleteConsumer(t.Context(), "JETCREW_JOBS", "count-dead"))
	require.NoError(t, f.js.DeleteStream(t.Context(), "KV_JETCREW_KV"))
	before := everything(t, f.js)
	r := examine(t, url, Config{})
	require.Positive(t, r.Count(Error), r)
	require.Equal(t, before, everything(t, f.js))
}

func TestAHealthyFleet(t *testing.T) {
	t.Parallel()
	p := natstest.StartServer(t, natstest.ServerConfig{JetStream: "sync_interval: always, max_file_store: 10MB"})
	f := settle(t, p.URL(), 1)
	f.lead(t)
	w := f.consumer(t, "default")
	t.Cleanup(func() { _ = w.Close(context.Background()) })
	r := examine(t, p.URL(), Config{Monitors: []string{p.MonitorURL()}})
	r.allOK(t, ids()...)
	require.Zero(t, r.Count(Warning)+r.Count(Error), r)
	require.Equal(t, len(r.Findings), r.Count(OK))
	require.Equal(t, "n1", r.Server)
}

func TestIdsAreDistinct(t *testing.T) {
	t.Parallel()
	all := ids()
	slices.Sort(all)
	require.Len(t, slices.Compact(all), len(checks))
}

func TestBadConfig(t *testing.T) {
	t.Parallel()
	nc := natstest.Connect(t, empty(t))
	for field, cfg := range map[string]Config{
		"namespace": {Namespace: "A"},
		"replicas":  {Replicas: 6},
		"role":      {Role: "king"},
		"timeout":   {Timeout: time.Millisecond},
		"monitor":   {Monitors: []string{"nats://user:hunter2@host"}},
		"queue":     {Queue: string(make([]byte, 200))},
		"space":     {Space: string(make([]byte, 200))},
	} {
		_, err := Check(t.Context(), nc, cfg)
		require.ErrorIs(t, err, ErrConfig)
		require.ErrorContains(t, err, field)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func TestAServerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	url := empty(t)
	settle(t, url, 1)
	d := &natstest.FaultDialer{}
	nc := natstest.Connect(t, url, d.Option(), nats.MaxReconnects(0))
	d.BlackholeFromServer()
	r, err := Check(t.Context(), nc, Config{Timeout: 200 * time.Millisecond})
	require.NoError(t, err)
	r.has(t, "jetstream", Error, "not checked: no answer within 200ms")
	require.Equal(t, 1, r.Count(Error), "it is told of once: %s", r)
}

func TestAnEndedContextEndsIt(t *testing.T) {
	t.Parallel()
	nc := natstest.Connect(t, empty(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Check(ctx, nc, Config{})
	require.ErrorIs(t, err, context.Canceled)
}
