package streams

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/jetcrew/jetcrew/pkg/failpoint"
	"github.com/jetcrew/jetcrew/pkg/job"
)

const (
	// claimDelay is how long a handler may run before its claim is written. Most jobs end sooner, and save
	// the write.
	claimDelay = 100 * time.Millisecond
	// lookAhead is for how long the slots' work is fetched ahead, while jobs are short.
	lookAhead = 20 * time.Millisecond
	// checkers is how many batches of deliveries are checked at a time.
	checkers = 2
)

// consumer takes the jobs of one queue for one worker.
type consumer struct {
	s       *Store
	cfg     job.ConsumerConfig
	queue   atomic.Pointer[queueInfo] // how it is set
	log     zerolog.Logger
	started time.Time // by the store's clock
	made    time.Time // the same by this process's monotonic clock

	jobs  *puller
	wakes *puller

	waiting atomic.Int64                  // callers of Claim
	inHand  atomic.Int64                  // delivered, and neither claimed by a caller nor let go
	runTime atomic.Int64                  // moving average of how long jobs run, in nanoseconds
	lastRun atomic.Int64                  // when the last one ended, in nanoseconds since made
	epoch   atomic.Int64                  // counts reconnects: what was checked before one is checked again
	well    atomic.Pointer[chan struct{}] // closed by the next heartbeat that succeeds; nil: the last one did
	highest atomic.Uint64                 // sequence that was delivered
	agreed  atomic.Int64                  // the lease that holds now, in nanoseconds; see pace

	arrived  chan *claim // deliveries to check
	ready    chan *claim // checked, for Claim
	woken    chan *nats.Msg
	wakers   chan struct{} // a token for each due document that is being moved
	draining chan struct{} // nothing new is taken
	quiet    chan struct{} // and the server hands out nothing any more
	empty    chan struct{} // and all that was not claimed is handed back
	dead     chan struct{} // the connection is closed for good
	looks    chan []*claim // claims to be looked at again now
	changed  chan struct{} // the queue is set anew

	ctx    context.Context // ends at Close
	cancel context.CancelFunc
	wg     sync.WaitGroup
	drain  sync.Once
	close  sync.Once

	mu   sync.Mutex        // guards what follows
	held map[uint64]*claim // by the sequence of the ready message

	unclaimed sync.WaitGroup // deliveries that no caller has, and that are not done with
}

// Consume makes a consumer. See job.Queue.
func (s *Store) Consume(ctx context.Context, cfg job.ConsumerConfig) (job.Consumer, error) {
	if err := normalizeConsumer(&cfg); err != nil {
		return nil, fmt.Errorf("streams: %w", err)
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	info, err := s.openQueue(ctx, cfg.Queue, cfg.Lease)
	if err != nil {
		return nil, err
	}
	c := &consumer{
		s: s, cfg: cfg, started: s.Now(), made: time.Now(),
		log:      s.log.With().Str("queue", cfg.Queue).Str("worker", cfg.WorkerID).Logger(),
		arrived:  make(chan *claim, 16*1024),
		ready:    make(chan *claim, 16*1024),
		woken:    make(chan *nats.Msg, 4*wakeBatch),
		wakers:   make(chan struct{}, wakeWriters),
		draining: make(chan struct{}),
		quiet:    make(chan struct{}),
		empty:    make(chan struct{}),
		dead:     make(chan struct{}),
		looks:    make(chan []*claim, 64),
		changed:  make(chan struct{}, 1),
		held:     make(map[uint64]*claim),
	}
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	c.queue.Store(&info)
	c.agreed.Store(int64(info.lease()))
	s.queues.join(cfg.Queue, c)
	s.losses.count(cfg.Queue, Losses{})
	if err := c.appear(ctx); err != nil {
		c.abort()
		return nil, fmt.Errorf("streams: saying that worker %s is there: %w", cfg.WorkerID, err)
	}
	// Whoever lowers the lease waits for the workers that it finds: one that has just appeared looks once more, before
	// it holds anything.
	if err := s.readQueue(ctx, cfg.Queue); err != nil {
		c.abort()
		return nil, fmt.Errorf("streams: reading the settings of queue %s: %w", cfg.Queue, err)
	}
	c.agreed.Store(int64(c.pace()))
	if err := c.start(); err != nil {
		c.abort()
		return nil, err
	}
	return c, nil
}

func (c *consumer) abort() {
	c.s.queues.leave(c.cfg.Queue, c)
	c.cancel()
	c.wg.Wait()
}

func (c *consumer) start() error {
	hints, err := c.s.nc.Subscribe(c.s.names.cancelHints(c.cfg.Queue), c.hinted)
	if err != nil {
		return fmt.Errorf("streams: %w", err)
	}
	c.jobs = c.puller(c.s.names.readyConsumer(c.cfg.Queue), c.wantJobs, c.deliver)
	c.wakes = c.puller(c.s.names.wakeConsumer(c.cfg.Queue), c.wantWakes, c.deliverWake)
	c.wakes.log = zerolog.Nop()
	status := c.s.nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	c.wg.Go(func() {
		defer c.s.nc.RemoveStatusListener(status)
		defer func() { _ = hints.Unsubscribe() }() // fails only on a closed connection
		c.watchConnection(status)
	})
	c.wg.Go(func() { c.jobs.run(c.draining) })
	c.wg.Go(func() { c.wakes.run(c.draining) })
	for range checkers {
		c.wg.Go(c.check)
	}
	c.wg.Go(c.wakeUp)
	c.wg.Go(c.beat)
	c.wg.Go(c.look)
	return nil
}

func (c *consumer) puller(name string, want func(int) int, receive func(*nats.Msg)) *puller {
	return &puller{
		nc: c.s.nc, log: c.log, stream: c.s.names.stream(), consumer: name,
		want: want, receive: receive, missing: c.missing, spawn: c.wg.Go, poked: make(chan struct{}, 1),
	}
}

// missing makes the queue's consumers again if they are gone. The stream is never made again.
func (c *consumer) missing() error {
	ctx, cancel := context.WithTimeout(c.ctx, requestTimeout)
	defer cancel()
	c.s.queues.forget(c.cfg.Queue)
	_, err := c.s.openQueue(ctx, c.cfg.Queue, 0)
	if c.ctx.Err() != nil {
		return nil
	}
	return err
}

func (c *consumer) watchConnection(status <-chan nats.Status) {
	for {
		select {
		case <-c.ctx.Done():
			return
		case st, ok := <-status:
			if !ok || st == nats.CLOSED {
				close(c.dead)
				return
			}
			// The server has forgotten what was asked for over the old connection.
			c.epoch.Add(1)
			c.jobs.restart()
			c.wakes.restart()
			c.lookAgain(c.holding())
		}
	}
}

// wantJobs is how many more deliveries there is use for: one for each free slot, and, while jobs are short
// and the queue has no limit across the fleet, what the slots will have done in the next lookAhead, at most
// one more for each slot.
func (c *consumer) wantJobs(outstanding int) int {
	have := outstanding + int(c.inHand.Load())
	if failpoint.Broken(failpoint.PrefetchWithoutBeats) {
		return 500 - have
	}
	target := int(c.waiting.Load())
	if run := c.runTime.Load(); run > 0 && c.queue.Load().limit == 0 && time.Since(c.made)-time.Duration(c.lastRun.Load()) < claimDelay {
		target += int(min(int64(c.cfg.Slots), int64(c.cfg.Slots)*int64(lookAhead)/run))
	}
	want := target - have
	if want < max(1, target/2) && have > 0 {
		return 0 // not worth a request of its own; the next free slot makes it one
	}
	return want
}

// ran takes a job's run time into the moving average.
func (c *consumer) ran(d time.Duration) {
	c.lastRun.Store(int64(time.Since(c.made)))
	old := c.runTime.Load()
	if old == 0 {
		c.runTime.Store(max(1, int64(d)))
		return
	}
	c.runTime.Store(max(1, old+(int64(d)-old)/16))
}

// Lease is the queue's lease.
func (c *consumer) Lease() time.Duration { return c.lease() }

func (c *consumer) lease() time.Duration { return time.Duration(c.agreed.Load()) }

// Claim waits for a job. See job.Consumer.
func (c *consumer) Claim(ctx context.Context) (job.Claim, error) {
	c.waiting.Add(1)
	defer c.waiting.Add(-1)
	c.jobs.poke()
	for {
		select {
		case <-c.draining:
			return nil, job.ErrClosed
		case <-c.dead:
			return nil, fmt.Errorf("queue %s: %w", c.cfg.Queue, nats.ErrConnectionClosed)
		default:
		}
		select {
		case cl := <-c.ready:
			c.waiting.Add(-1) // it is served: nothing more is asked for in its name
			begun := c.renewable(ctx, cl) && cl.begin()
			c.waiting.Add(1)
			if begun {
				return cl, nil
			}
			c.jobs.poke()
		case <-c.draining:
		case <-c.dead:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// renewable waits until a heartbeat succeeds, if the last one failed: a job that began now could not be kept, and would
// lose an attempt. It answers false if nothing is to begin any more, and hands the claim back then.
func (c *consumer) renewable(ctx context.Context, cl *claim) bool {
	well := c.well.Load()
	if well == nil {
		return true
	}
	select {
	case <-*well:
		return true
	case <-c.draining:
	case <-c.dead:
	case <-ctx.Done():
	}
	c.wg.Go(func() { cl.handBack("the worker was shutting down") })
	return false
}

// deliver takes a ready message from the server.
func (c *consumer) deliver(m *nats.Msg) {
	cl, err := c.newClaim(m)
	if err != nil {
		c.log.Error().Err(err).Msg("a delivery that the server did not number")
		return
	}
	if c.s.at(AfterDelivery) != nil {
		return
	}
	// First deliveries go up the stream. One that does not is a message that the server has forgotten to have
	// delivered, and perhaps to have removed: a follower that is behind must not speak for its job.
	if high := c.highest.Load(); cl.seq > high {
		c.highest.Store(cl.seq) // deliveries come one by one
	} else {
		cl.doubtful = true
	}
	c.mu.Lock()
	if c.ctx.Err() != nil {
		c.mu.Unlock()
		return
	}
	if old, ok := c.held[cl.seq]; ok {
		c.mu.Unlock()
		old.redelivered(m.Reply)
		return // this process has it already: it is left to run, or to be settled
	}
	c.held[cl.seq] = cl
	c.unclaimed.Add(1)
	c.inHand.Add(1)
	c.mu.Unlock()
	c.queueCheck(cl)
}

// queueCheck has a delivery compared with its job's documents.
func (c *consumer) queueCheck(cl *claim) {
	cl.mu.Lock()
	cl.decided = false
	cl.mu.Unlock()
	select {
	case c.arrived <- cl:
	case <-c.ctx.Done():
	}
}

// offer makes a checked delivery available to Claim.
func (c *consumer) offer(cl *claim) {
	cl.mu.Lock()
	cl.decided, cl.offered = true, time.Now()
	cl.mu.Unlock()
	select {
	case <-c.empty: // it came late, when nobody claims any more
		c.wg.Go(func() { cl.handBack("the worker was shutting down") })
	default:
		select {
		case c.ready <- cl:
		case <-c.ctx.Done():
		}
	}
}

// holding is a snapshot of what this consumer holds.
func (c *consumer) holding() []*claim {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]*claim, 0, len(c.held))
	for _, cl := range c.held {
		out = append(out, cl)
	}
	return out
}

// release forgets a claim. It answers whether the claim was held until now.
func (c *consumer) release(cl *claim) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held[cl.seq] != cl {
		return false
	}
	delete(c.held, cl.seq)
	return true
}

// Drain takes nothing new and hands back what was not claimed. See job.Consumer.
func (c *consumer) Drain(ctx context.Context) error {
	c.drain.Do(func() {
		close(c.draining)
		jobs, wakes := c.jobs.drain(), c.wakes.drain()
		c.wg.Go(func() {
			c.await(jobs)
			c.await(wakes)
			close(c.quiet)
		})
		c.wg.Go(func() {
			c.await(c.quiet)
			c.unclaimed.Wait()
			close(c.empty)
		})
		c.wg.Go(c.handBackBuffered)
	})
	select {
	case <-c.empty:
		return nil
	case <-c.ctx.Done():
		return job.ErrClosed
	case <-c.dead:
		return fmt.Errorf("draining queue %s: %w", c.cfg.Queue, nats.ErrConnectionClosed)
	case <-ctx.Done():
		return fmt.Errorf("draining queue %s: %w", c.cfg.Queue, ctx.Err())
	}
}

// handBackBuffered gives away what was checked and found to be startable, until there is nothing left.
func (c *consumer) handBackBuffered() {
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		select {
		case cl := <-c.ready:
			wg.Go(func() { cl.handBack("the worker was shutting down") })
		case <-c.empty:
			return
		case <-c.ctx.Done():
			return
		}
	}
}

func (c *consumer) await(ch <-chan struct{}) {
	select {
	case <-ch:
	case <-c.ctx.Done():
	case <-c.dead:
	}
}

// Close ends the consumer. See job.Consumer.
func (c *consumer) Close(ctx context.Context) error {
	err := c.Drain(ctx)
	c.close.Do(func() {
		c.cancel()
		c.s.queues.leave(c.cfg.Queue, c)
		for _, cl := range c.holding() {
			cl.Abandon()
		}
		c.wg.Wait()
		if !c.s.nc.IsClosed() {
			c.withdrawPresence()
		}
	})
	return err
}
