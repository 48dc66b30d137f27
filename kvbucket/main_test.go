package kvbucket

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

func TestMain(m *testing.M) {
	// Most tests wait for a lifetime to be over: far more of them than there are processors can do so at a time.
	natstest.Main(m, natstest.Parallel(12))
}

const soon = 30 * time.Second // what must come comes within

// wall is the clock of servers that run on this very machine.
type wall struct{}

func (wall) Now() time.Time { return time.Now() }

// shifted is a clock that a test can put forward.
type shifted struct{ by atomic.Int64 }

func (s *shifted) Now() time.Time          { return time.Now().Add(time.Duration(s.by.Load())) }
func (s *shifted) Advance(d time.Duration) { s.by.Add(int64(d)) }

func config() Config { return Config{Clock: wall{}} }

// server is a server of the test's own.
func server(t testing.TB) string {
	t.Helper()
	return natstest.Embedded(t).URL()
}

// open makes a bucket on a connection of its own, that is closed when the test ends.
func open(t testing.TB, url string, cfg Config, opts ...nats.Option) *Bucket {
	t.Helper()
	nc := natstest.Connect(t, url, opts...)
	var b *Bucket
	natstest.Eventually(t, soon, func() (err error) { // a cluster may be electing
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		b, err = Open(ctx, nc, cfg)
		return err
	})
	t.Cleanup(b.Close)
	return b
}

func tryOpen(t *testing.T, url string, cfg Config) error {
	t.Helper()
	b, err := Open(t.Context(), natstest.Connect(t, url), cfg)
	if err == nil {
		b.Close()
	}
	return err
}

// stock is the bucket as the client library's own KV sees it.
func stock(t testing.TB, b *Bucket) jetstream.KeyValue {
	t.Helper()
	store, err := b.js.KeyValue(t.Context(), b.name)
	require.NoError(t, err)
	return store
}

// left is how many messages stand in the bucket, and how many consumers.
func left(t testing.TB, b *Bucket) (messages uint64, consumers int) {
	t.Helper()
	s, err := b.js.Stream(t.Context(), b.stream)
	require.NoError(t, err)
	state := s.CachedInfo().State
	return state.Msgs, state.Consumers
}

// last is the last message of a key as the leader has it.
func last(t testing.TB, b *Bucket, key string) *jetstream.RawStreamMsg {
	t.Helper()
	s, err := b.js.Stream(t.Context(), b.stream)
	require.NoError(t, err)
	m, err := s.GetLastMsgForSubject(t.Context(), b.subject(key))
	require.NoError(t, err)
	return m
}

func has(t testing.TB, b kv.Adapter, key, want string) {
	t.Helper()
	got, ok, err := b.Get(t.Context(), key)
	require.NoError(t, err)
	require.True(t, ok, "%q is absent", key)
	require.Equal(t, want, got, key)
}

func absent(t testing.TB, b kv.Adapter, key string) {
	t.Helper()
	got, ok, err := b.Get(t.Context(), key)
	require.NoError(t, err)
	require.False(t, ok, "%q has %q", key, got)
}

func set(t testing.TB, b kv.Adapter, key, value string, ttl time.Duration) {
	t.Helper()
	require.NoError(t, b.Set(t.Context(), key, value, ttl))
}

func keysOf(t testing.TB, b kv.Adapter, prefix string) []string {
	t.Helper()
	found := []string{}
	for key, err := range b.Keys(t.Context(), prefix) {
		require.NoError(t, err)
		found = append(found, key)
	}
	return found
}
