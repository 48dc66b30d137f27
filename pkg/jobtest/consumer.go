package jobtest

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// consumer takes jobs for one worker.
type consumer struct {
	q       *Queue
	cfg     job.ConsumerConfig
	started time.Time

	mu       sync.Mutex // guards what follows
	draining chan struct{}
	drained  bool
	held     map[*claim]bool
}

// Consume makes a consumer. See job.Queue.
func (q *Queue) Consume(ctx context.Context, cfg job.ConsumerConfig) (job.Consumer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	cfg.Queue = cmp.Or(cfg.Queue, job.DefaultQueue)
	if err := job.ValidateName("queue", cfg.Queue, job.MaxName); err != nil {
		return nil, err
	}
	if err := job.ValidateName("workerId", cfg.WorkerID, job.MaxName); err != nil {
		return nil, err
	}
	if cfg.Slots < 1 {
		return nil, &job.FieldError{Field: "slots", Reason: "must be at least 1"}
	}
	if cfg.Lease != 0 && cfg.Lease < time.Second {
		return nil, &job.FieldError{Field: "lease", Reason: "must be at least 1s"}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.queue(cfg.Queue)
	s.lease = cmp.Or(s.lease, cfg.Lease, defaultLease)
	c := &consumer{q: q, cfg: cfg, started: job.Millis(q.now()), draining: make(chan struct{}), held: make(map[*claim]bool)}
	q.consumers[c] = true
	return c, nil
}

// Lease is the queue's lease.
func (c *consumer) Lease() time.Duration {
	c.q.mu.Lock()
	defer c.q.mu.Unlock()
	return c.lease()
}

// lease is called with the queue's mu held.
func (c *consumer) lease() time.Duration { return c.q.queue(c.cfg.Queue).leaseTime() }

// Claim waits for a job. See job.Consumer.
func (c *consumer) Claim(ctx context.Context) (job.Claim, error) {
	for {
		select {
		case <-c.draining:
			return nil, job.ErrClosed
		default:
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		cl, changed, wait := c.q.take(c)
		if cl != nil {
			return cl, nil
		}
		t := time.NewTimer(wait)
		select {
		case <-changed:
		case <-t.C:
		case <-c.draining:
		case <-ctx.Done():
		}
		t.Stop()
	}
}

// take claims the job that has been ready for longest. Where there is none, or none may be taken, it answers what
// tells of a change, and after what time something falls due or lapses by itself.
func (q *Queue) take(c *consumer) (*claim, <-chan struct{}, time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	wait := time.Hour
	set := q.queue(c.cfg.Queue)
	if set.isPaused(now) {
		if !set.until.IsZero() {
			wait = set.until.Sub(now)
		}
		return nil, q.changed, wait
	}
	var first *entry
	running := 0
	for key, e := range q.jobs {
		if key.Queue != c.cfg.Queue {
			continue
		}
		if e.job.Status == job.Running && e.claim.abandoned {
			if left := e.job.LeaseUntil.Sub(now); left > 0 {
				wait = min(wait, left)
			} else {
				q.lapse(e, now)
			}
		}
		switch {
		case e.job.Status == job.Running:
			running++
		case e.due:
			wait = min(wait, e.job.RunAt.Sub(now))
		case e.job.Status == job.Pending && (first == nil || e.arrived < first.arrived):
			first = e
		}
	}
	if first == nil || set.concurrency > 0 && running >= set.concurrency {
		return nil, q.changed, wait
	}
	return q.claim(c, first, now), nil, 0
}

// lapse takes a job from a worker that stopped reporting. Called with mu held.
func (q *Queue) lapse(e *entry, now time.Time) {
	j := &e.job
	j.LoseAttempt(now)
	e.claim.lose(job.ErrLeaseLost)
	e.claim = nil
	switch {
	case j.CancelRequested:
		j.Status, j.Error = job.Cancelled, job.LostError
	case j.Attempts >= j.MaxAttempts:
		j.Status, j.Error = job.Dead, job.LostError
	default:
		j.Status, j.WorkerID = job.Pending, ""
		q.wait(e, now)
	}
	j.StartedAt, j.LeaseUntil = time.Time{}, time.Time{}
	j.UpdatedAt = job.Millis(now)
	q.written(e, now)
}

// claim gives a job to a worker. Called with mu held.
func (q *Queue) claim(c *consumer, e *entry, now time.Time) *claim {
	j := &e.job
	j.Status = job.Running
	j.Attempts++
	j.WorkerID = c.cfg.WorkerID
	j.StartedAt = job.Millis(now)
	j.LeaseUntil = job.Millis(now.Add(c.lease()))
	j.UpdatedAt = job.Millis(now)
	j.Error = ""
	j.Progress = nil
	cl := &claim{c: c, key: j.Key(), job: clone(j)}
	e.claim = cl
	c.mu.Lock()
	c.held[cl] = true
	c.mu.Unlock()
	q.written(e, now)
	return cl
}

// Drain takes nothing new. See job.Consumer. Nothing is ever delivered that was not claimed.
func (c *consumer) Drain(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.drained {
		c.drained = true
		close(c.draining)
	}
	return nil
}

// Close ends the consumer. See job.Consumer.
func (c *consumer) Close(ctx context.Context) error {
	err := c.Drain(ctx)
	c.mu.Lock()
	var held []*claim
	for cl := range c.held {
		held = append(held, cl)
	}
	c.mu.Unlock()
	for _, cl := range held {
		cl.Abandon()
	}
	c.q.mu.Lock()
	defer c.q.mu.Unlock()
	delete(c.q.consumers, c)
	return err
}

// claim is a job that a worker holds. Its fields below job are guarded by the queue's mu.
type claim struct {
	c   *consumer
	key job.Key
	job job.Job // as it was claimed

	abandoned bool
	over      error
	notify    func(error)
	told      error
}

var (
	_ job.Claim    = (*claim)(nil)
	_ job.Reporter = (*claim)(nil)
)

// Job is the job as it was claimed.
func (cl *claim) Job() *job.Job {
	j := clone(&cl.job)
	return &j
}

// Notify registers who is told. See job.Claim.
func (cl *claim) Notify(fn func(error)) {
	cl.c.q.mu.Lock()
	defer cl.c.q.mu.Unlock()
	if cl.notify != nil {
		return
	}
	cl.notify = fn
	if cl.told != nil {
		go fn(cl.told)
	}
}

// tell is called with the queue's mu held.
func (cl *claim) tell(err error) {
	if cl.told != nil {
		return
	}
	cl.told = err
	if cl.notify != nil {
		go cl.notify(err)
	}
}

// lose ends the hold. Called with the queue's mu held.
func (cl *claim) lose(err error) {
	if cl.over == nil {
		cl.over = err
		cl.tell(err)
	}
	cl.c.mu.Lock()
	delete(cl.c.held, cl)
	cl.c.mu.Unlock()
}

// entry is the job's record, if it is this claim's. Called with the queue's mu held.
func (cl *claim) entry() (*entry, error) {
	e := cl.c.q.jobs[cl.key]
	if e == nil || e.claim != cl {
		cl.lose(job.ErrLeaseLost)
		return nil, fmt.Errorf("%s: %w", cl.key, job.ErrLeaseLost)
	}
	return e, nil
}

// Heartbeat renews the claim. See job.Claim.
func (cl *claim) Heartbeat(context.Context) error {
	q := cl.c.q
	q.mu.Lock()
	defer q.mu.Unlock()
	e, err := cl.entry()
	if err != nil {
		return err
	}
	if cl.abandoned {
		return fmt.Errorf("%s: %w", cl.key, job.ErrLeaseLost)
	}
	e.job.LeaseUntil = job.Millis(q.now().Add(cl.c.lease()))
	return nil
}

// Settle ends the attempt. See job.Claim.
func (cl *claim) Settle(ctx context.Context, o job.Outcome) (*job.Job, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !o.Status.Terminal() && o.Status != job.Pending {
		return nil, &job.FieldError{Field: "status", Reason: fmt.Sprintf("a claim cannot be settled as %q", o.Status)}
	}
	if o.Result != nil && !o.Result.IsValid() {
		return nil, &job.FieldError{Field: "result", Reason: "is not valid JSON"}
	}
	q := cl.c.q
	q.mu.Lock()
	defer q.mu.Unlock()
	e, err := cl.entry()
	if err != nil {
		return nil, fmt.Errorf("settle %w", err)
	}
	if cl.abandoned {
		return nil, fmt.Errorf("settle %s: %w", cl.key, job.ErrLeaseLost)
	}
	j := clone(&e.job)
	now := q.now()
	j.Conclude(o, job.Run{Attempts: cl.job.Attempts, WorkerID: cl.c.cfg.WorkerID, StartedAt: cl.job.StartedAt}, now)
	if b, err := job.Encode(j); err != nil {
		return nil, fmt.Errorf("settle %s: %w", cl.key, err)
	} else if len(b) > maxDocument {
		return nil, fmt.Errorf("settle %s: %w: its document has %d bytes, the queue takes %d", cl.key, job.ErrTooLarge, len(b), maxDocument)
	}
	if o.Delay <= 0 && j.Status == job.Pending {
		j.RunAt = job.Millis(now)
	}
	e.job, e.claim = j, nil
	if j.Status == job.Pending {
		q.wait(e, now)
	}
	cl.over = job.ErrLeaseLost
	cl.c.mu.Lock()
	delete(cl.c.held, cl)
	cl.c.mu.Unlock()
	q.written(e, now)
	out := clone(&j)
	return &out, nil
}

// ReportProgress and ReportLog note on the record what the handler says. See job.Reporter.
func (cl *claim) ReportProgress(done float64, note string) {
	cl.report(func(j *job.Job, now time.Time) { j.SetProgress(done, note, now) })
}

// ReportLog adds to the record's log.
func (cl *claim) ReportLog(text string) {
	cl.report(func(j *job.Job, now time.Time) { j.AddLog(text, now) })
}

func (cl *claim) report(note func(*job.Job, time.Time)) {
	q := cl.c.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.jobs[cl.key]; e != nil && e.claim == cl && !cl.abandoned {
		note(&e.job, q.now())
	}
}

// Abandon lets the lease lapse. See job.Claim.
func (cl *claim) Abandon() {
	q := cl.c.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if cl.over != nil || cl.abandoned {
		return
	}
	cl.abandoned = true
	if e := q.jobs[cl.key]; e != nil && e.claim == cl {
		e.job.LeaseUntil = job.Millis(q.now().Add(cl.c.lease()))
	}
	cl.lose(job.ErrLeaseLost)
	q.notify()
}
