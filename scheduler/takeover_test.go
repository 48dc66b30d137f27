package scheduler

import (
	"bytes"
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// patience is how long anything may take that has to happen.
const patience = 60 * time.Second

// annals are what was written to the leader's key, as the server dates it.
type annals struct {
	mu      sync.Mutex
	entries []jetstream.KeyValueEntry
}

func keepAnnals(t *testing.T, url string) *annals {
	t.Helper()
	js, err := jetstream.New(natstest.Connect(t, url))
	require.NoError(t, err)
	kv, err := js.KeyValue(t.Context(), "JETCREW_LEADER")
	require.NoError(t, err)
	w, err := kv.Watch(context.Background(), leaderKey)
	require.NoError(t, err)
	a := &annals{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range w.Updates() {
			if e == nil {
				continue
			}
			a.mu.Lock()
			a.entries = append(a.entries, e)
			a.mu.Unlock()
		}
	}()
	t.Cleanup(func() { _ = w.Stop(); <-done })
	return a
}

// check: nobody was elected while another's entry was alive and not given back, whatever the machine was busy with.
func (a *annals) check(t *testing.T, ttl time.Duration) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	require.NotEmpty(t, a.entries)
	elections := 0
	for i, e := range a.entries[1:] {
		last := a.entries[i]
		if e.Revision() != last.Revision()+1 || e.Operation() != jetstream.KeyValuePut || last.Operation() != jetstream.KeyValuePut {
			continue // one that was not seen may have been the giving back
		}
		var was, is Leader
		require.NoError(t, job.Decode(last.Value(), &was))
		require.NoError(t, job.Decode(e.Value(), &is))
		if was.Term == is.Term {
			continue
		}
		elections++
		require.GreaterOrEqual(t, e.Created().Sub(last.Created()), ttl-10*time.Millisecond, "%s took over from %s", is.ID, was.ID)
	}
	t.Logf("%d writes, %d elections after an entry had expired", len(a.entries), elections)
}

func TestResigningMakesAnotherLeaderAtOnce(t *testing.T) {
	t.Parallel()
	srv := natstest.Embedded(t)
	ids := []string{"a", "b", "c", "d"}
	var left []*candidate
	// The entries live long: whoever waits for one to expire is not elected in time.
	for _, id := range ids {
		left = append(left, run(t, srv.URL(), id, diligent, func(c *Config) { c.TTL = 2 * time.Minute }))
	}
	first := func() *candidate {
		var who *candidate
		natstest.Eventually(t, patience, func() bool {
			for _, c := range left {
				if c.leading.Load() {
					who = c
				}
			}
			return who != nil
		})
		return who
	}
	for len(left) > 1 {
		leader := first()
		began := time.Now()
		leader.stop()
		<-leader.done
		var rest []*candidate
		for _, c := range left {
			if c != leader {
				rest = append(rest, c)
			}
		}
		left = rest
		first()
		t.Logf("the next leads %s after the last was asked to stop", time.Since(began).Round(time.Millisecond))
	}
}

func TestALeaderThatVanishesIsReplacedWhenItsEntryExpires(t *testing.T) {
	t.Parallel()
	srv := natstest.Embedded(t)
	// What a process leaves that is killed: its last entry.
	e, err := NewElection(t.Context(), natstest.Connect(t, srv.URL()), Config{ID: "killed", TTL: 2 * time.Second})
	require.NoError(t, err)
	book := keepAnnals(t, srv.URL())
	_, err = e.campaign(t.Context())
	require.NoError(t, err)
	killed := time.Now()
	heir := run(t, srv.URL(), "heir", diligent)
	natstest.Eventually(t, patience, heir.leading.Load)
	t.Logf("replaced %s after its last sign of life; entries live for 2s", time.Since(killed).Round(time.Millisecond))
	book.check(t, 2*time.Second)
}

func TestNobodyIsElectedWhileTheLeadIsRenewed(t *testing.T) {
	t.Parallel()
	srv := natstest.Embedded(t)
	ttl := 2 * time.Second
	a := run(t, srv.URL(), "a", diligent, func(c *Config) { c.TTL = ttl })
	natstest.Eventually(t, patience, a.leading.Load)
	book := keepAnnals(t, srv.URL())
	for range 3 {
		run(t, srv.URL(), "waiting", diligent)
	}
	greedy, err := NewElection(t.Context(), natstest.Connect(t, srv.URL()), Config{ID: "greedy"})
	require.NoError(t, err)
	require.Equal(t, ttl, greedy.ttl, "the bucket's, not the one it asked for")
	for began := time.Now(); time.Since(began) < 2*ttl; {
		_, _ = greedy.campaign(t.Context()) // the annals say whether it may have won
	}
	book.check(t, ttl)
}

// The leader's process goes without the server for longer than its entry lives, and with it the watches of those who wait.
func TestElectionGoesOnAfterAnOutage(t *testing.T) {
	t.Parallel()
	srv := natstest.StartServer(t, natstest.ServerConfig{})
	cs := []*candidate{run(t, srv.URL(), "a", diligent), run(t, srv.URL(), "b", diligent), run(t, srv.URL(), "c", diligent)}
	leaders := func() (n int) {
		for _, c := range cs {
			if c.leading.Load() {
				n++
			}
		}
		return n
	}
	natstest.Eventually(t, patience, func() bool { return leaders() == 1 })
	for range 2 {
		srv.Kill()
		natstest.Eventually(t, patience, func() bool { return leaders() == 0 })
		began := time.Now()
		srv.Restart(t)
		natstest.Eventually(t, patience, func() bool { return leaders() == 1 })
		t.Logf("led again %s after the server was started", time.Since(began).Round(time.Millisecond))
	}
}

// A watch that says nothing is made up for: the lead is taken when nobody has renewed it.
func TestADeafWatchOnlyDelaysATakeover(t *testing.T) {
	t.Parallel()
	srv := natstest.Embedded(t)
	a := run(t, srv.URL(), "a", diligent, func(c *Config) { c.TTL = 2 * time.Second })
	natstest.Eventually(t, patience, a.leading.Load)
	faults := &natstest.FaultDialer{}
	e, err := NewElection(t.Context(), natstest.Connect(t, srv.URL(), faults.Option()), Config{ID: "deaf"})
	require.NoError(t, err)
	faults.DropFromServer(-1, func(frame []byte) bool { return isDelivery(frame, "$KV.JETCREW_LEADER.") })
	var leads atomic.Bool
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	t.Cleanup(func() { stop(); <-done })
	go func() {
		defer close(done)
		e.Run(ctx, func(ctx context.Context, alive func()) { leads.Store(true); diligent(ctx, alive) })
	}()
	natstest.Eventually(t, patience, func() bool { from, _ := faults.Dropped(); return from > 0 })
	require.False(t, leads.Load())
	a.stop()
	<-a.done
	natstest.Eventually(t, patience, leads.Load)
}

// isDelivery reports whether a protocol message brings one of a subject that begins so.
func isDelivery(frame []byte, subject string) bool {
	return bytes.HasPrefix(bytes.TrimPrefix(frame, []byte("H")), []byte("MSG "+subject))
}

func TestTasksOfATermShareItsFate(t *testing.T) {
	t.Parallel()
	for name, work := range map[string]Task{
		"one ends":  func(context.Context, func()) {},
		"one hangs": func(ctx context.Context, alive func()) { alive(); <-ctx.Done() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := natstest.Embedded(t)
			e, err := NewElection(t.Context(), natstest.Connect(t, srv.URL()), Config{ID: "a", TTL: time.Second, Hang: 700 * time.Millisecond})
			require.NoError(t, err)
			ctx, stop := context.WithCancel(context.Background())
			var terms, running, most atomic.Int32
			task := func(ctx context.Context, alive func()) {
				most.Store(max(most.Load(), running.Add(1)))
				defer running.Add(-1)
				diligent(ctx, alive)
			}
			first := func(ctx context.Context, alive func()) {
				if terms.Add(1) == 1 {
					work(ctx, alive)
					return
				}
				diligent(ctx, alive)
			}
			done := make(chan struct{})
			t.Cleanup(func() { stop(); <-done })
			go func() {
				defer close(done)
				e.Run(ctx, task, first, task)
			}()
			// The lead is given up, the other tasks with it, and a second term begins with all of them.
			natstest.Eventually(t, patience, func() bool { return terms.Load() >= 2 && running.Load() == 2 })
			require.EqualValues(t, 2, most.Load(), "a task of one term went on in the next")
		})
	}
}

// Work that does not end though the lead is lost keeps nobody else from leading, but its own process from leading anew.
func TestStubbornWorkBelongsToOneTerm(t *testing.T) {
	t.Parallel()
	srv := natstest.Embedded(t)
	e, err := NewElection(t.Context(), natstest.Connect(t, srv.URL()), Config{ID: "a", TTL: time.Second})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	release := make(chan struct{})
	var ended, begun atomic.Int32
	stubborn := func(_ context.Context, alive func()) {
		begun.Add(1)
		defer ended.Add(1)
		for {
			alive()
			select {
			case <-release:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Run(ctx, stubborn, diligent)
	}()
	natstest.Eventually(t, patience, func() bool { return begun.Load() == 1 })
	js, err := jetstream.New(natstest.Connect(t, srv.URL(), nats.Name("intruder")))
	require.NoError(t, err)
	kv, err := js.KeyValue(t.Context(), "JETCREW_LEADER")
	require.NoError(t, err)
	_, err = kv.Put(t.Context(), leaderKey, []byte(`{"id":"intruder","term":"x","pid":1}`))
	require.NoError(t, err)
	other := run(t, srv.URL(), "b", diligent)
	natstest.Eventually(t, patience, other.leading.Load)
	require.Zero(t, ended.Load())
	require.EqualValues(t, 1, begun.Load(), "no second term before the first one's work has ended")
	close(release)
	natstest.Eventually(t, patience, func() bool { return ended.Load() == 1 })
	stop()
	<-done
}
