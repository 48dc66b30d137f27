package streams

import (
	"context"
	"fmt"
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

// patient is the lease of queues whose jobs are held through a test that is not about leases: a busy machine may be
// late by more than a second.
const patient = 20 * time.Second

func (n *node) configure(queue string, set job.QueueSettings) *job.QueueInfo {
	n.t.Helper()
	q, err := n.Configure(n.t.Context(), queue, set)
	require.NoError(n.t, err)
	return q
}

func (n *node) readyConsumerOf(queue string) jetstream.ConsumerConfig {
	n.t.Helper()
	c, err := n.js.Consumer(n.t.Context(), n.names.stream(), n.names.readyConsumer(queue))
	require.NoError(n.t, err)
	return c.CachedInfo().Config
}

func TestSettingsAreChecked(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	for says, set := range map[string]job.QueueSettings{
		"concurrency":         {Concurrency: new(-1)},
		"lease: must be at":   {Lease: new(MinLease - 1)},
		"retention.dead":      {Retention: map[job.Status]time.Duration{job.Dead: MinRetention - 1}},
		"retention.succeeded": {Retention: map[job.Status]time.Duration{job.Succeeded: -2}},
		"retention.pending":   {Retention: map[job.Status]time.Duration{job.Pending: MinRetention}},
		"retention.running":   {Retention: map[job.Status]time.Duration{job.Running: 0}},
	} {
		_, err := n.Configure(t.Context(), "q", set)
		var field *job.FieldError
		require.ErrorAs(t, err, &field, says)
		require.ErrorContains(t, err, says)
	}
	_, err := n.Queue(t.Context(), "q")
	require.ErrorIs(t, err, job.ErrNoQueue, "nothing was made")
}

func TestConfigureMakesAQueue(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	q := n.configure("q", job.QueueSettings{
		Concurrency: new(3), Lease: new(7 * time.Second), Retention: map[job.Status]time.Duration{job.Dead: time.Hour, job.Succeeded: 0},
	})
	require.Equal(t, &job.QueueInfo{
		Name: "q", Concurrency: 3, Lease: 7 * time.Second,
		Retention: map[job.Status]time.Duration{job.Dead: time.Hour, job.Succeeded: 0},
	}, q)
	have := n.readyConsumerOf("q")
	require.Equal(t, 3, have.MaxAckPending)
	require.Equal(t, 7*time.Second, have.AckWait)
	q = n.configure("q", job.QueueSettings{Concurrency: new(0), Retention: map[job.Status]time.Duration{job.Dead: job.KeepDefault}})
	require.Zero(t, q.Concurrency)
	require.Equal(t, map[job.Status]time.Duration{job.Succeeded: 0}, q.Retention)
	require.Equal(t, -1, n.readyConsumerOf("q").MaxAckPending)
}

func TestWhatChangesNothingIsNotWritten(t *testing.T) {
	t.Parallel()
	p := server(t)
	n := p.open(t)
	set := job.QueueSettings{Concurrency: new(3), Lease: new(5 * time.Second), Retention: map[job.Status]time.Duration{job.Dead: time.Hour}}
	n.configure("q", set)
	var writes atomic.Int64
	spy := natstest.Connect(t, p.url())
	_, err := spy.Subscribe(apiPrefix+"CONSUMER.CREATE.>", func(*nats.Msg) { writes.Add(1) })
	require.NoError(t, err)
	require.NoError(t, spy.Flush())
	n.configure("q", set)
	n.configure("q", job.QueueSettings{})
	p.open(t).work("q", "w")
	require.NoError(t, spy.Flush())
	require.Zero(t, writes.Load())
	n.configure("q", job.QueueSettings{Concurrency: new(4)})
	natstest.Eventually(t, soon, func() bool { return writes.Load() == 1 })
}

func TestSettingsReachWhoeverUsesTheQueue(t *testing.T) {
	t.Parallel()
	p := server(t)
	n, producer, worker := p.open(t), p.open(t), p.open(t)
	producer.enqueue(spec("q", "1"))
	worker.work("q", "w")
	retention := func(of *node) time.Duration { return of.settings("q").retention[job.Dead] }
	require.Zero(t, retention(producer))
	n.configure("q", job.QueueSettings{Retention: map[job.Status]time.Duration{job.Dead: time.Hour}})
	for _, of := range []*node{n, producer, worker} {
		natstest.Eventually(t, soon, func() bool { return retention(of) == time.Hour })
	}

	// Nobody gives a hint, but after a reconnect all is looked at.
	cfg := n.readyConsumerOf("q")
	cfg.Metadata[metaRetention+"dead"] = "2h0m0s"
	_, err := n.js.UpdateConsumer(t.Context(), n.names.stream(), cfg)
	require.NoError(t, err)
	for _, of := range []*node{producer, worker} {
		require.Equal(t, time.Hour, retention(of))
		require.NoError(t, of.nc.ForceReconnect())
		natstest.Eventually(t, soon, func() bool { return retention(of) == 2*time.Hour })
	}

	// Who has never used the queue reads it when asked to, or soon.
	stranger := p.open(t)
	require.NoError(t, stranger.learnQueue(t.Context(), "q"))
	require.Equal(t, 2*time.Hour, retention(stranger))
	require.NoError(t, stranger.learnQueue(t.Context(), "none"))
	another := p.open(t)
	natstest.Eventually(t, soon, func() bool { return retention(another) == 2*time.Hour })
	_, err = n.Queue(t.Context(), "none")
	require.ErrorIs(t, err, job.ErrNoQueue)
}

func TestTheLimitHoldsInTheWholeFleet(t *testing.T) {
	t.Parallel()
	p := server(t)
	n := p.open(t)
	n.configure("q", job.QueueSettings{Concurrency: new(1), Lease: new(patient)})
	a, b := n.work("q", "a"), p.open(t).work("q", "b")
	for i := range 3 {
		n.enqueue(spec("q", fmt.Sprint(i)))
	}
	first := claimOne(t, a)
	claimNone(t, b, while)
	n.configure("q", job.QueueSettings{Concurrency: new(2)})
	second := claimOne(t, b)
	claimNone(t, a, while)
	n.configure("q", job.QueueSettings{Concurrency: new(0)})
	third := claimOne(t, a)
	for _, cl := range []job.Claim{first, second, third} {
		settle(t, cl, job.Succeed(nil))
	}
	n.clean("q", 3)
}

func TestTwoOperatorsAtOnce(t *testing.T) {
	t.Parallel()
	p := server(t)
	a, b := p.open(t), p.open(t)
	a.configure("q", job.QueueSettings{})
	for i := range 8 {
		limit, keep := i+1, MinRetention+time.Duration(i)*time.Minute
		var wg sync.WaitGroup
		wg.Go(func() { a.configure("q", job.QueueSettings{Concurrency: &limit}) })
		wg.Go(func() {
			b.configure("q", job.QueueSettings{Retention: map[job.Status]time.Duration{job.Dead: keep}})
		})
		wg.Wait()
		q, err := a.Queue(t.Context(), "q")
		require.NoError(t, err)
		require.Equal(t, limit, q.Concurrency)
		require.Equal(t, keep, q.Retention[job.Dead])
	}
}

func TestTheLeaseChangesAtRunTime(t *testing.T) {
	everywhere(t, map[string]func(t *testing.T, p *place){
		"a lower one lapses nothing":  lowerLease,
		"a higher one lapses nothing": higherLease,
	})
}

// watched is a job that is held while others wait for it.
type watched struct {
	n    *node
	key  job.Key
	cl   *claim
	all  []*consumer
	stop func()
}

func watch(t *testing.T, p *place, n *node) *watched {
	t.Helper()
	w := &watched{n: n}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	w.stop = func() { cancel(); wg.Wait() }
	t.Cleanup(w.stop)
	holder := n.work("q", "holder")
	w.key = n.enqueue(spec("q", "held"))
	w.cl = claimOne(t, holder)
	w.cl.Notify(func(err error) { t.Errorf("the held claim was interrupted: %s", err) })
	n.see(w.key, job.Running)
	w.all = []*consumer{holder}
	for i := range 2 {
		c := p.open(t).work("q", fmt.Sprint("idle", i))
		w.all = append(w.all, c)
		wg.Go(func() {
			if cl, err := c.Claim(ctx); err == nil {
				t.Errorf("%s was handed out", cl.Job().Key())
			}
		})
	}
	return w
}

// all go by a lease, and their entries say so.
func (w *watched) goBy(want time.Duration) {
	w.n.t.Helper()
	natstest.Eventually(w.n.t, soon, func() error {
		for _, c := range w.all {
			if c.Lease() != want {
				return fmt.Errorf("%s goes by %s", c.cfg.WorkerID, c.Lease())
			}
		}
		workers, err := w.n.Workers(w.n.t.Context())
		if err != nil {
			return err
		}
		if len(workers) != len(w.all) {
			return fmt.Errorf("%d workers", len(workers))
		}
		for _, worker := range workers {
			if worker.Queues[0].Lease != want {
				return fmt.Errorf("%+v", worker)
			}
		}
		return nil
	})
}

// end settles the job, which nobody lost.
func (w *watched) end() {
	t := w.n.t
	t.Helper()
	w.stop()
	require.EqualValues(t, 1, w.cl.count)
	j := settle(t, w.cl, job.Succeed(nil))
	require.Equal(t, 1, j.Attempts)
	require.Len(t, j.History, 1)
	w.n.clean("q", 1)
}

func lowerLease(t *testing.T, p *place) {
	const old, lower = 6 * time.Second, time.Second
	if p.replicas > 1 {
		lowerLeaseTo(t, p, old, 2*time.Second) // its servers are slow to answer at times
		return
	}
	lowerLeaseTo(t, p, old, lower)
}

func lowerLeaseTo(t *testing.T, p *place, old, lower time.Duration) {
	heard := p.renewals(t)
	n := p.open(t)
	n.configure("q", job.QueueSettings{Lease: new(old)})
	w := watch(t, p, n)
	w.goBy(old)
	require.Equal(t, lower, p.open(t).configure("q", job.QueueSettings{Lease: new(lower)}).Lease)
	have := n.readyConsumerOf("q")
	require.Equal(t, lower, have.AckWait)
	require.NotContains(t, have.Metadata, metaLease)
	w.goBy(lower)
	heard.await(t, int(3*old/(lower/3)), w.cl) // three old leases
	j, err := n.Get(t.Context(), w.key)
	require.NoError(t, err)
	require.Equal(t, "holder", j.WorkerID)
	w.end()

	// What is claimed from now on is under the lower lease.
	key := n.enqueue(spec("q", "next"))
	next := claimOne(t, w.all[1])
	require.WithinDuration(t, n.Now().Add(lower), next.Job().LeaseUntil, lower)
	require.WithinDuration(t, n.Now().Add(lower), n.see(key, job.Running).LeaseUntil, lower)
	settle(t, next, job.Succeed(nil))
}

func higherLease(t *testing.T, p *place) {
	n := p.open(t)
	n.configure("q", job.QueueSettings{Lease: new(2 * time.Second)})
	w := watch(t, p, n)
	w.goBy(2 * time.Second)
	n.configure("q", job.QueueSettings{Lease: new(6 * time.Second)})
	require.Equal(t, 6*time.Second, n.readyConsumerOf("q").AckWait)
	w.goBy(6 * time.Second)
	heard := p.renewals(t)
	heard.await(t, 3, w.cl)
	w.goBy(6 * time.Second)
	w.end()
}

// A program that knows nothing of this says no lease, and goes by the one that it found.
func TestALowerLeaseWaitsForEveryWorker(t *testing.T) {
	t.Parallel()
	p := server(t)
	n := p.open(t)
	n.configure("q", job.QueueSettings{Lease: new(time.Hour)})
	c := n.work("q", "follows")
	body, err := job.Encode(Presence{Worker: "old", Queue: "q", BeatAt: n.Now()})
	require.NoError(t, err)
	_, err = n.kv.Put(t.Context(), presenceKey("old", "q"), body)
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err = n.Configure(ctx, "q", job.QueueSettings{Lease: new(2 * time.Second)})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "(old)")
	require.ErrorContains(t, err, "ask again")
	require.Equal(t, time.Hour, n.readyConsumerOf("q").AckWait)
	natstest.Eventually(t, soon, func() bool { return c.Lease() == 2*time.Second }, "who knows goes by it already")

	// It is taken back, and asked for again; the old worker vanishes meanwhile.
	n.configure("q", job.QueueSettings{Lease: new(time.Hour)})
	natstest.Eventually(t, soon, func() bool { return c.Lease() == time.Hour })
	failed := make(chan error, 1)
	go func() {
		_, err := n.Configure(context.Background(), "q", job.QueueSettings{Lease: new(2 * time.Second)})
		failed <- err
	}()
	natstest.Eventually(t, soon, func() bool { return n.readyConsumerOf("q").Metadata[metaLease] == "2s" })
	require.NoError(t, n.kv.Purge(t.Context(), presenceKey("old", "q")))
	require.NoError(t, <-failed)
	require.Equal(t, 2*time.Second, n.readyConsumerOf("q").AckWait)
	require.Equal(t, 2*time.Second, c.Lease())
}

// What an operator that died has begun is done by housekeeping, when the workers have had all the time that they need.
func TestALowerLeaseDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	p := server(t)
	n := p.open(t)
	n.configure("q", job.QueueSettings{Lease: new(time.Hour)})
	body, err := job.Encode(Presence{Worker: "old", Queue: "q", BeatAt: n.Now()})
	require.NoError(t, err)
	_, err = n.kv.Put(t.Context(), presenceKey("old", "q"), body)
	require.NoError(t, err)
	cfg := n.readyConsumerOf("q")
	cfg.Metadata[metaLease] = "2s"
	cfg.Metadata[metaSince] = n.Now().Add(-time.Hour - leaseMargin - time.Second).Format(time.RFC3339)
	_, err = n.js.UpdateConsumer(t.Context(), n.names.stream(), cfg)
	require.NoError(t, err)
	_, err = n.Sweep(t.Context())
	require.NoError(t, err)
	have := n.readyConsumerOf("q")
	require.Equal(t, 2*time.Second, have.AckWait)
	require.NotContains(t, have.Metadata, metaLease)
	require.NotContains(t, have.Metadata, metaSince)
}

func TestAQueueThatVanishesIsMadeAgainAsItWas(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	c := n.work("q", "w")
	set := job.QueueSettings{Concurrency: new(2), Lease: new(3 * time.Second), Retention: map[job.Status]time.Duration{job.Dead: time.Hour}}
	n.configure("q", set)
	natstest.Eventually(t, soon, func() bool { return c.queue.Load().limit == 2 })
	require.NoError(t, n.js.DeleteConsumer(t.Context(), n.names.stream(), "ready-q"))
	claimNone(t, c, while) // asks for a job, and notices
	q := n.expectQueue("q", func(*job.QueueInfo) bool { return true })
	require.Equal(t, 2, q.Concurrency)
	require.Equal(t, 3*time.Second, q.Lease)
	require.Equal(t, set.Retention, q.Retention)
}
