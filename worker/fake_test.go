package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/jetcrew/jetcrew/pkg/job"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeQueue keeps jobs in memory, one list for all queues. Its clock may differ from the worker's.
type fakeQueue struct {
	skew time.Duration

	mu        sync.Mutex
	changed   chan struct{}
	jobs      []*job.Job
	holders   map[job.Key]*fakeClaim
	consumers []job.ConsumerConfig
	events    []string
	settled   map[string][]job.Outcome // by id
	down      error                    // of Claim
	onSettle  func(ctx context.Context, key job.Key, o job.Outcome) error
}

func newFake() *fakeQueue {
	return &fakeQueue{
		changed: make(chan struct{}), holders: map[job.Key]*fakeClaim{}, settled: map[string][]job.Outcome{},
	}
}

func (f *fakeQueue) Now() time.Time { return time.Now().Add(f.skew) }

func (f *fakeQueue) Enqueue(_ context.Context, s job.Spec) (job.Enqueued, error) {
	if err := s.Normalize(); err != nil {
		return job.Enqueued{}, err
	}
	j := s.Job()
	j.CreatedAt = f.Now()
	j.RunAt = j.CreatedAt.Add(s.Delay)
	j.DueAt = j.RunAt
	f.mu.Lock()
	defer f.mu.Unlock()
	f.jobs = append(f.jobs, j)
	f.tell()
	return job.Enqueued{Key: j.Key(), Created: true}, nil
}

func (f *fakeQueue) EnqueueMany(context.Context, []job.Spec) ([]job.Enqueued, error) {
	return nil, errors.ErrUnsupported
}

func (f *fakeQueue) EnqueueAll(context.Context, []job.Spec) ([]job.Enqueued, error) {
	return nil, errors.ErrUnsupported
}

func (f *fakeQueue) Get(_ context.Context, key job.Key) (*job.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, j := range f.jobs {
		if j.Key() == key {
			return new(*j), nil
		}
	}
	return nil, job.ErrNotFound
}

func (f *fakeQueue) Consume(_ context.Context, cfg job.ConsumerConfig) (job.Consumer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.consumers = append(f.consumers, cfg)
	return &fakeConsumer{f: f, cfg: cfg}, nil
}

func (f *fakeQueue) tell() {
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fakeQueue) event(format string, args ...any) {
	f.events = append(f.events, fmt.Sprintf(format, args...))
}

// interrupt tells the holder of a job that its hold ends, or that it should.
func (f *fakeQueue) interrupt(key job.Key, why error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.holders[key]
	if errors.Is(why, job.ErrLeaseLost) {
		delete(f.holders, key)
	}
	go c.notify(why)
}

func (f *fakeQueue) breakDown(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = err
	f.tell()
}

func (f *fakeQueue) log() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.events)
}

func (f *fakeQueue) outcomes(id string) []job.Outcome {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.settled[id])
}

type fakeConsumer struct {
	f      *fakeQueue
	cfg    job.ConsumerConfig
	closed bool
}

func (c *fakeConsumer) Claim(ctx context.Context) (job.Claim, error) {
	for {
		c.f.mu.Lock()
		if c.f.down != nil {
			defer c.f.mu.Unlock()
			return nil, c.f.down
		}
		if c.closed {
			defer c.f.mu.Unlock()
			return nil, job.ErrClosed
		}
		wait := time.Duration(1<<62 - 1)
		for _, j := range c.f.jobs {
			if j.Status != job.Pending || j.Queue != c.cfg.Queue {
				continue
			}
			if left := j.RunAt.Sub(c.f.Now()); left > 0 {
				wait = min(wait, left)
				continue
			}
			defer c.f.mu.Unlock()
			j.Status, j.WorkerID, j.StartedAt = job.Running, c.cfg.WorkerID, c.f.Now()
			j.Attempts++
			claim := &fakeClaim{f: c.f, j: j}
			c.f.holders[j.Key()] = claim
			return claim, nil
		}
		changed := c.f.changed
		c.f.mu.Unlock()
		due := time.NewTimer(wait)
		select {
		case <-changed:
		case <-due.C:
		case <-ctx.Done():
			due.Stop()
			return nil, ctx.Err()
		}
		due.Stop()
	}
}

func (c *fakeConsumer) Lease() time.Duration { return c.cfg.Lease }

func (c *fakeConsumer) Drain(context.Context) error { return c.end("drain") }
func (c *fakeConsumer) Close(context.Context) error { return c.end("close") }

func (c *fakeConsumer) end(what string) error {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	c.closed = true
	c.f.event("%s", what)
	c.f.tell()
	return nil
}

type fakeClaim struct {
	f *fakeQueue
	j *job.Job

	mu   sync.Mutex
	told error
	fn   func(error)
}

func (c *fakeClaim) Job() *job.Job {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	return new(*c.j)
}

func (c *fakeClaim) Notify(fn func(error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fn = fn
	if c.told != nil {
		go fn(c.told)
	}
}

func (c *fakeClaim) notify(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = why
	if c.fn != nil {
		c.fn(why)
	}
}

func (c *fakeClaim) Heartbeat(context.Context) error { return nil }

func (c *fakeClaim) Settle(ctx context.Context, o job.Outcome) (*job.Job, error) {
	key := c.Job().Key()
	if c.f.onSettle != nil {
		if err := c.f.onSettle(ctx, key, o); err != nil {
			return nil, err
		}
	}
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	if c.f.holders[key] != c {
		c.f.event("late settle %s", key.ID)
		return nil, job.ErrLeaseLost
	}
	delete(c.f.holders, key)
	j := c.j
	j.Status, j.Error, j.Result = o.Status, o.Error, o.Result
	switch {
	case o.Status == job.Pending && o.Refund:
		j.Attempts--
		j.RunAt = c.f.Now().Add(o.Delay)
	default:
		j.RunAt = c.f.Now().Add(o.Delay)
		j.AddAttempt(job.Attempt{Status: o.AttemptStatus(), StartedAt: j.StartedAt, EndedAt: c.f.Now(), Error: o.Error})
	}
	c.f.event("settle %s %s", key.ID, o.Status)
	c.f.settled[key.ID] = append(c.f.settled[key.ID], o)
	c.f.tell()
	return new(*j), nil
}

func (c *fakeClaim) Abandon() {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	if c.f.holders[c.j.Key()] == c {
		delete(c.f.holders, c.j.Key())
		c.f.event("abandon %s", c.j.ID)
	}
}

// crew is a worker over a fake queue, within a bubble of fake time.
type crew struct {
	t    *testing.T
	q    *fakeQueue
	w    *Worker
	stop context.CancelFunc
	ctx  context.Context
	logs *safeBuffer
	err  chan error
}

// bubble runs fn with a worker in fake time. Every goroutine must have ended when it returns.
func bubble(t *testing.T, cfg Config, fn func(c *crew)) {
	synctest.Test(t, func(t *testing.T) {
		c := &crew{t: t, q: newFake(), logs: &safeBuffer{}, err: make(chan error, 1)}
		cfg.Logger = zerolog.New(c.logs)
		var err error
		c.w, err = New(c.q, cfg)
		require.NoError(t, err)
		c.ctx, c.stop = context.WithCancel(t.Context())
		fn(c)
		c.stop()
	})
}

func (c *crew) run() { go func() { c.err <- c.w.Run(c.ctx) }() }

// end stops the worker and expects a clean drain.
func (c *crew) end() {
	c.t.Helper()
	c.stop()
	require.NoError(c.t, <-c.err)
}

func (c *crew) enqueue(s job.Spec) job.Key {
	c.t.Helper()
	if s.Type == "" {
		s.Type = "t"
	}
	e, err := c.q.Enqueue(c.t.Context(), s)
	require.NoError(c.t, err)
	return e.Key
}

// handle registers the handler of type "t".
func (c *crew) handle(fn func(ctx context.Context, j *job.Job) (any, error), opts ...HandleOption) {
	Handle(c.w, "t", func(ctx context.Context, j *job.Job, _ map[string]any) (any, error) { return fn(ctx, j) }, opts...)
}

// ended waits (in fake time) until the job has ended.
func (c *crew) ended(key job.Key) *job.Job {
	c.t.Helper()
	return c.until(key, func(j *job.Job) bool { return j.Status.Terminal() })
}

func (c *crew) until(key job.Key, ok func(*job.Job) bool) *job.Job {
	c.t.Helper()
	limit := time.After(1000 * time.Hour)
	for {
		c.q.mu.Lock()
		changed := c.q.changed
		c.q.mu.Unlock()
		j, err := c.q.Get(c.t.Context(), key)
		require.NoError(c.t, err)
		if ok(j) {
			return j
		}
		select {
		case <-changed:
		case <-limit:
			require.FailNow(c.t, "job never got there", "%+v", j)
		}
	}
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
