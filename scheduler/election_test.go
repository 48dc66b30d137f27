package scheduler

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

func TestMain(m *testing.M) { natstest.Main(m) }

// candidate runs an election and counts.
type candidate struct {
	e       *Election
	stop    context.CancelFunc
	done    chan struct{}
	leading atomic.Bool
	terms   atomic.Int32
}

func run(t *testing.T, url, id string, work func(ctx context.Context, alive func()), adjust ...func(*Config)) *candidate {
	t.Helper()
	cfg := Config{ID: id, TTL: time.Second}
	for _, f := range adjust {
		f(&cfg)
	}
	e, err := NewElection(t.Context(), natstest.Connect(t, url), cfg)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	c := &candidate{e: e, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		e.Run(ctx, func(ctx context.Context, alive func()) {
			c.leading.Store(true)
			c.terms.Add(1)
			defer c.leading.Store(false)
			work(ctx, alive)
		})
	}()
	t.Cleanup(func() { stop(); <-c.done })
	return c
}

// diligent gives signs of life until its context ends.
func diligent(ctx context.Context, alive func()) {
	for ctx.Err() == nil {
		alive()
		pause(ctx, 50*time.Millisecond)
	}
}

func TestOneLeads(t *testing.T) {
	srv := natstest.Embedded(t)
	var cs []*candidate
	for _, id := range []string{"a", "b", "c"} {
		cs = append(cs, run(t, srv.URL(), id, diligent))
	}
	leaders := func() (n int, who *candidate) {
		for _, c := range cs {
			if c.leading.Load() {
				n++
				who = c
			}
		}
		return n, who
	}
	natstest.Eventually(t, 30*time.Second, func() bool { n, _ := leaders(); return n == 1 })
	_, first := leaders()
	l, err := first.e.Leader(t.Context())
	require.NoError(t, err)
	require.Equal(t, first.e.cfg.ID, l.ID)

	first.stop()
	<-first.done
	natstest.Eventually(t, 30*time.Second, func() bool { n, who := leaders(); return n == 1 && who != first })
}

func TestLeadIsRenewedUnderTheOwnRevisionOnly(t *testing.T) {
	srv := natstest.Embedded(t)
	c := run(t, srv.URL(), "a", diligent)
	natstest.Eventually(t, 30*time.Second, c.leading.Load)
	// Somebody overwrites the key: the leader has to notice, and must not take it back.
	js, err := jetstream.New(natstest.Connect(t, srv.URL()))
	require.NoError(t, err)
	kv, err := js.KeyValue(t.Context(), "JETCREW_LEADER")
	require.NoError(t, err)
	_, err = kv.Put(t.Context(), leaderKey, []byte(`{"id":"intruder","term":"x","pid":1}`))
	require.NoError(t, err)
	natstest.Eventually(t, 30*time.Second, func() bool { return !c.leading.Load() })
	// The intruder does not renew, so its entry expires.
	natstest.Eventually(t, 30*time.Second, func() bool { return c.leading.Load() && c.terms.Load() == 2 })
}

func TestHungWorkLosesTheLead(t *testing.T) {
	srv := natstest.Embedded(t)
	hung := make(chan struct{})
	a := run(t, srv.URL(), "a", func(ctx context.Context, _ func()) {
		<-ctx.Done()
		<-hung // does not stop, though it is told to
	}, func(c *Config) { c.Hang = 500 * time.Millisecond })
	defer close(hung)
	natstest.Eventually(t, 30*time.Second, a.leading.Load)
	b := run(t, srv.URL(), "b", diligent)
	natstest.Eventually(t, 30*time.Second, b.leading.Load)
	require.EqualValues(t, 1, a.terms.Load())
}

func TestUnreachableServerEndsTheLead(t *testing.T) {
	srv := natstest.StartServer(t, natstest.ServerConfig{})
	a := run(t, srv.URL(), "a", diligent)
	natstest.Eventually(t, 30*time.Second, a.leading.Load)
	srv.Pause()
	natstest.Eventually(t, 30*time.Second, func() bool { return !a.leading.Load() })
	srv.Resume()
	natstest.Eventually(t, 30*time.Second, a.leading.Load)
}

func TestBadConfig(t *testing.T) {
	srv := natstest.Embedded(t)
	nc := natstest.Connect(t, srv.URL())
	_, err := NewElection(t.Context(), nc, Config{})
	require.ErrorContains(t, err, "id")
	_, err = NewElection(t.Context(), nc, Config{ID: "a", TTL: time.Millisecond})
	require.ErrorContains(t, err, "ttl")
	_, err = NewElection(t.Context(), nc, Config{ID: "a", Verify: true})
	require.ErrorContains(t, err, "JETCREW_LEADER")

	js, err := jetstream.New(nc)
	require.NoError(t, err)
	_, err = js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "JETCREW_LEADER"})
	require.NoError(t, err)
	_, err = NewElection(t.Context(), nc, Config{ID: "a"})
	require.ErrorContains(t, err, "delete it")
}

// Somebody deletes the bucket under processes that take part: it is made anew, and one of them leads.
func TestADeletedBucketIsMadeAgain(t *testing.T) {
	t.Parallel()
	srv := natstest.Embedded(t)
	a, b := run(t, srv.URL(), "a", diligent), run(t, srv.URL(), "b", diligent)
	leads := func() bool { return a.leading.Load() != b.leading.Load() }
	natstest.Eventually(t, patience, leads)
	js, err := jetstream.New(natstest.Connect(t, srv.URL()))
	require.NoError(t, err)
	require.NoError(t, js.DeleteKeyValue(t.Context(), "JETCREW_LEADER"))
	natstest.Eventually(t, patience, func() bool {
		l, err := a.e.Leader(t.Context())
		return err == nil && leads() && l.ID != ""
	})
}
