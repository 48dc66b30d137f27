package kvbucket

import (
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

// frozen is a clock that stands.
type frozen time.Time

func (f frozen) Now() time.Time { return time.Time(f) }

func TestALifetimeIsToldToTheServerInWholeSecondsAndKeptExactly(t *testing.T) {
	t.Parallel()
	cfg := config()
	now := time.Now().Truncate(time.Millisecond).Add(time.Millisecond / 2)
	cfg.Clock = frozen(now)
	b := open(t, server(t), cfg)
	for ttl, want := range map[time.Duration]string{
		time.Millisecond: "1", time.Second: "1", 1001 * time.Millisecond: "2", 90 * time.Minute: "5400", 0: "",
		200 * 365 * 24 * time.Hour: "", // the server's arithmetic would overflow
	} {
		set(t, b, "k", "v", ttl)
		m := last(t, b, "k")
		require.Equal(t, want, m.Header.Get("Nats-TTL"), ttl)
		if ttl == 0 {
			require.Empty(t, m.Header.Get(headerExpires))
			continue
		}
		ms, err := strconv.ParseInt(m.Header.Get(headerExpires), 10, 64)
		require.NoError(t, err)
		require.Equal(t, now.Add(ttl).UnixMilli()+1, ms, "rounded up")
	}
}

// The server removes by its own clock; what answers is the store's, which here is put forward.
func TestLifetimesAreJudgedByTheStoresClock(t *testing.T) {
	t.Parallel()
	clock := &shifted{}
	cfg := config()
	cfg.Clock = clock
	b := open(t, server(t), cfg)
	for _, key := range []string{"get", "swap", "increment", "expire", "deleteIf"} {
		set(t, b, key, "5", time.Hour)
	}
	clock.Advance(time.Hour - soon)
	has(t, b, "get", "5")
	clock.Advance(soon + time.Millisecond)
	absent(t, b, "get")
	require.Empty(t, keysOf(t, b, ""))
	ok, err := b.Swap(t.Context(), "swap", nil, "6", 0)
	require.NoError(t, err)
	require.True(t, ok)
	ok, err = b.Expire(t.Context(), "expire", time.Hour)
	require.NoError(t, err)
	require.False(t, ok)
	ok, err = b.DeleteIf(t.Context(), "deleteIf", "5")
	require.NoError(t, err)
	require.False(t, ok)
	sum, err := b.Increment(t.Context(), "increment", 2)
	require.NoError(t, err)
	require.EqualValues(t, 2, sum)
	require.Empty(t, last(t, b, "increment").Header.Get(headerExpires))
	n, err := b.Wipe(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, 2, n)
}

func TestAnIncrementKeepsTheExactEnd(t *testing.T) {
	t.Parallel()
	b := open(t, server(t), config())
	set(t, b, "k", "1", 90*time.Minute)
	end := last(t, b, "k").Header.Get(headerExpires)
	for want := int64(2); want < 5; want++ {
		sum, err := b.Increment(t.Context(), "k", 1)
		require.NoError(t, err)
		require.Equal(t, want, sum)
		m := last(t, b, "k")
		require.Equal(t, end, m.Header.Get(headerExpires))
		left, err := strconv.Atoi(m.Header.Get("Nats-TTL"))
		require.NoError(t, err)
		require.LessOrEqual(t, left, 5400, "what is left of it, rounded up")
		require.Greater(t, left, 5300)
	}
}

func TestDeletedAndLapsedKeysLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.MarkerTTL = time.Second
	b := open(t, server(t), cfg)
	ctx := t.Context()
	const n = 300
	for i := range n {
		key := "k/" + strconv.Itoa(i)
		switch i % 5 {
		case 0:
			set(t, b, key, "v", 0)
			require.NoError(t, b.Delete(ctx, key))
		case 1:
			set(t, b, key, "v", 0)
			ok, err := b.DeleteIf(ctx, key, "v")
			require.NoError(t, err)
			require.True(t, ok)
		case 2:
			set(t, b, key, "v", time.Second)
		case 3:
			set(t, b, key, "v", 0)
			ok, err := b.Expire(ctx, key, 10*time.Millisecond)
			require.NoError(t, err)
			require.True(t, ok)
		case 4:
			set(t, b, key, "v", 0)
		}
	}
	wiped, err := b.Wipe(ctx, "k/")
	require.NoError(t, err)
	require.GreaterOrEqual(t, wiped, n/5)
	require.Empty(t, keysOf(t, b, ""))
	natstest.Eventually(t, soon, func() bool {
		messages, _ := left(t, b)
		return messages == 0
	}, "the bucket is not empty")
	_, consumers := left(t, b)
	require.Zero(t, consumers)
}

// At the instant at which a marker goes, or a lapsed message, what is there changes between a read and the write.
func TestCreatingAtTheInstantAMarkerGoes(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.MarkerTTL = time.Second
	b := open(t, server(t), cfg)
	ctx := t.Context()
	for round := range 3 {
		const n = 20
		for i := range n {
			key := strconv.Itoa(i)
			if i%2 == 0 {
				set(t, b, key, "v", 0)
				require.NoError(t, b.Delete(ctx, key))
			} else {
				set(t, b, key, "v", time.Second)
			}
		}
		started := time.Now()
		for i := range n { // one after the other, around the instant
			natstest.Eventually(t, soon, func() bool {
				return time.Since(started) > time.Second+time.Duration(20*(i-5))*time.Millisecond
			})
			key := strconv.Itoa(i)
			there := i%2 == 1 // unless it has lapsed
			ok, err := b.Swap(ctx, key, nil, "w", 0)
			require.NoError(t, err)
			for ; there && !ok; ok, err = b.Swap(ctx, key, nil, "w", 0) {
				require.NoError(t, err)
				require.Less(t, time.Since(started), soon)
			}
			require.True(t, ok, "round %d, key %d: something is said to be there", round, i)
		}
		// The server removes what lapsed, and nothing that was written after it.
		natstest.Eventually(t, soon, func() bool { return time.Since(started) > 3500*time.Millisecond })
		for i := range n {
			has(t, b, strconv.Itoa(i), "w")
		}
		_, err := b.Wipe(ctx, "")
		require.NoError(t, err)
	}
}

func TestTheStockToolsReadAndWriteTheBucket(t *testing.T) {
	t.Parallel()
	b := open(t, server(t), config())
	ctx := t.Context()
	store := stock(t, b)
	set(t, b, "v/acme/board", `{"a":1}`, time.Hour)
	e, err := store.Get(ctx, "v.acme.board")
	require.NoError(t, err)
	require.Equal(t, `{"a":1}`, string(e.Value()))

	require.NoError(t, b.Delete(ctx, "v/acme/board"))
	_, err = store.Get(ctx, "v.acme.board")
	require.ErrorIs(t, err, jetstream.ErrKeyNotFound)
	_, err = store.Create(ctx, "v.acme.board", []byte("7"), jetstream.KeyTTL(time.Hour))
	require.NoError(t, err)
	has(t, b, "v/acme/board", "7")
	sum, err := b.Increment(ctx, "v/acme/board", 1)
	require.NoError(t, err)
	require.EqualValues(t, 8, sum)
	require.Regexp(t, "^3(600|5..)$", last(t, b, "v/acme/board").Header.Get("Nats-TTL"), "its lifetime is kept as well")

	_, err = store.Put(ctx, "n", []byte("41"))
	require.NoError(t, err)
	sum, err = b.Increment(ctx, "n", 1)
	require.NoError(t, err)
	require.EqualValues(t, 42, sum)
	require.NoError(t, store.Delete(ctx, "n"))
	absent(t, b, "n")
	ok, err := b.Swap(ctx, "n", nil, "new", 0)
	require.NoError(t, err)
	require.True(t, ok)
	require.NoError(t, store.Purge(ctx, "n"))
	absent(t, b, "n")

	for key, name := range map[string]string{"v/acme//x": "v.acme.=.x", "v/acme/": "v.acme.=", "/": "=.="} { // no token is empty
		set(t, b, key, key, 0)
		e, err = store.Get(ctx, name)
		require.NoError(t, err, name)
		require.Equal(t, key, string(e.Value()))
		_, err = store.Update(ctx, name, []byte("by hand"), e.Revision())
		require.NoError(t, err, name)
		has(t, b, key, "by hand")
		require.NoError(t, b.Delete(ctx, key))
	}

	for _, foreign := range []string{"a=", "a/b", "=2f", "x=FF", "=41", "=2F", "==", "=", "a.=b"} { // no names that jetcrew writes
		_, err = store.Put(ctx, foreign, []byte("v"))
		require.NoError(t, err, foreign)
	}
	require.Equal(t, []string{"v/acme/board"}, keysOf(t, b, ""))
	n, err := b.Wipe(ctx, "")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	e, err = store.Get(ctx, "a/b")
	require.NoError(t, err, "what is not ours stays")
	require.Equal(t, "v", string(e.Value()))
}

func TestALifetimeBeginsWhenTheValueIsSent(t *testing.T) {
	t.Parallel()
	d := &natstest.FaultDialer{}
	b := open(t, server(t), config(), d.Option())
	lost := b.nc.StatusChanged(nats.RECONNECTING)
	d.Refuse()
	d.Cut()
	<-lost
	asked, done := time.Now(), make(chan error)
	go func() { done <- b.Set(t.Context(), "k", "v", time.Hour) }()
	natstest.Eventually(t, soon, func() bool { return time.Since(asked) > 300*time.Millisecond })
	healed := time.Now()
	d.Heal()
	require.NoError(t, <-done)
	ms, err := strconv.ParseInt(last(t, b, "k").Header.Get(headerExpires), 10, 64)
	require.NoError(t, err)
	require.False(t, time.UnixMilli(ms).Before(healed.Add(time.Hour)))
}
