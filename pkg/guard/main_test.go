package guard_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/kvbucket"
	"github.com/jetcrew/jetcrew/pkg/guard"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

func TestMain(m *testing.M) { natstest.Main(m, natstest.Role(roleHolder, holdUntilKilled)) }

const (
	soon = 30 * time.Second // what must come comes within
	long = 10 * time.Minute // the timeout of runs that are not to lapse
)

// wall is the clock of servers that run on this very machine.
type wall struct{}

func (wall) Now() time.Time { return time.Now() }

// open is an adapter on a connection of its own.
func open(t testing.TB, url string, opts ...nats.Option) *kvbucket.Bucket {
	t.Helper()
	b, err := kvbucket.Open(t.Context(), natstest.Connect(t, url, opts...), kvbucket.Config{Clock: wall{}})
	require.NoError(t, err)
	t.Cleanup(b.Close)
	return b
}

// onEachStore runs a test over every kind of adapter: client answers one more of the same store.
func onEachStore(t *testing.T, test func(t *testing.T, client func() kv.Adapter)) {
	t.Helper()
	t.Run("in memory", func(t *testing.T) {
		t.Parallel()
		memory := kv.NewMemory(kv.MemoryOptions{})
		test(t, func() kv.Adapter { return memory })
	})
	t.Run("on a bucket", func(t *testing.T) {
		t.Parallel()
		url := natstest.Embedded(t).URL()
		test(t, func() kv.Adapter { return open(t, url) })
	})
}

func guards(t testing.TB, store kv.Adapter, change ...func(*guard.Config)) *guard.Guards {
	t.Helper()
	cfg := guard.Config{Store: store, Timeout: long, Poll: 20 * time.Millisecond}
	for _, fn := range change {
		fn(&cfg)
	}
	g, err := guard.New(cfg)
	require.NoError(t, err)
	return g
}

func replaying(c *guard.Config) { c.ReplayWindow = long }

func derived(t testing.TB, input string) guard.Key {
	t.Helper()
	key, err := guard.Derived("acme", "pay", "ada", jsontext.Value(input))
	require.NoError(t, err)
	return key
}

func named(t testing.TB, caller, name string) guard.Key {
	t.Helper()
	key, err := guard.Named("acme", caller, name, "pay", jsontext.Value(`{"sum":1}`))
	require.NoError(t, err)
	return key
}

// request is one of ada's.
func request(key guard.Key) guard.Request {
	return guard.Request{Space: "acme", Type: "pay", Caller: "ada", Key: key}
}

func begin(t testing.TB, g *guard.Guards, q guard.Request) *guard.Run {
	t.Helper()
	r, err := g.Begin(t.Context(), q)
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.End() }) // of the goroutine, where the test has failed before
	return r
}

func refused(t testing.TB, g *guard.Guards, q guard.Request, code job.Code) {
	t.Helper()
	r, err := g.Begin(t.Context(), q)
	if r != nil {
		_ = r.End()
	}
	var refusal *job.Refusal
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, code, refusal.Code)
}

// free begins and ends a run: its key is free.
func free(t testing.TB, g *guard.Guards, q guard.Request) {
	t.Helper()
	require.NoError(t, begin(t, g, q).End())
}

// ends waits for the end of a run's context, and answers why it ended.
func ends(t testing.TB, r *guard.Run) error {
	t.Helper()
	select {
	case <-r.Context().Done():
	case <-time.After(soon):
		require.FailNow(t, "the run's context has not ended")
	}
	return context.Cause(r.Context())
}

// left lists what stands in a store.
func left(t testing.TB, store kv.Adapter) []string {
	t.Helper()
	all := []string{}
	for key, err := range store.Keys(t.Context(), "") {
		require.NoError(t, err)
		all = append(all, key)
	}
	return all
}
