// Package jobtest is a job queue in memory, for tests of programs that enqueue jobs, handle them, or operate on them.
//
// It keeps the promises that package job's Queue and Operator make, and passes the same suite of tests as the queue
// on JetStream; only, nothing outlives the process. Its clock can be put forward, so that what waits for an instant,
// for a lease to lapse or for a record to expire is waited for in no time.
package jobtest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/jetcrew/jetcrew/pkg/job"
)

const (
	defaultLease = 30 * time.Second
	maxAll       = 1000
	maxDocument  = 1 << 20
)

// Queue is a job queue in memory. It is safe for concurrent use.
type Queue struct {
	id        string // tells its cursors from those of others
	retention map[job.Status]time.Duration

	mu        sync.Mutex // guards what follows
	skew      time.Duration
	jobs      map[job.Key]*entry
	queues    map[string]*settings
	consumers map[*consumer]bool // that are not closed
	count     uint64             // the sequence of the last change
	alarm     time.Time          // when the next record has to be looked at, see now
	changed   chan struct{}      // closed, and made anew, at each change
}

var (
	_ job.Queue    = (*Queue)(nil)
	_ job.Operator = (*Queue)(nil)
)

// entry is one job's record, and what the queue knows beside it.
type entry struct {
	job     job.Job
	created uint64    // the sequence at which it was enqueued
	changed uint64    // and that of its last change
	arrived uint64    // its place in the line of what is ready
	due     bool      // it waits for its instant, and is in no line yet
	expires time.Time // when the record of a job that has ended goes
	claim   *claim    // of a running job
}

// half says which half of Pending a job is in.
func (e *entry) half() job.Status {
	if e.due {
		return job.Due
	}
	return job.Ready
}

// Option is a setting of a new queue.
type Option func(*Queue)

// New makes an empty queue.
func New(options ...Option) *Queue {
	q := &Queue{
		id: uuid.NewString(),
		retention: map[job.Status]time.Duration{
			job.Succeeded: 24 * time.Hour, job.Cancelled: 24 * time.Hour,
			job.Dead: 7 * 24 * time.Hour, job.Failed: 7 * 24 * time.Hour,
		},
		jobs: make(map[job.Key]*entry), queues: make(map[string]*settings), consumers: make(map[*consumer]bool),
		changed: make(chan struct{}),
	}
	for _, o := range options {
		o(q)
	}
	return q
}

// Now is the queue's clock: the process's, put forward by what Advance was given.
func (q *Queue) Now() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.now()
}

// now goes in whole milliseconds, as instants on records do: what was put off by an hour is due when the clock was put
// forward by one. By then what fell due has joined its line, and records that were kept for long enough are gone.
// Called with mu held.
func (q *Queue) now() time.Time {
	now := job.CeilMillis(time.Now().Add(q.skew))
	if !q.alarm.IsZero() && !now.Before(q.alarm) {
		q.elapse(now)
	}
	return now
}

// wake has now look at the records again at an instant. Called with mu held.
func (q *Queue) wake(at time.Time) {
	if q.alarm.IsZero() || at.Before(q.alarm) {
		q.alarm = at
	}
}

// elapse lets happen what has come by an instant. Called with mu held.
func (q *Queue) elapse(now time.Time) {
	q.alarm = time.Time{}
	var fallen []*entry
	for key, e := range q.jobs {
		switch {
		case e.due && !e.job.RunAt.After(now):
			fallen = append(fallen, e)
		case e.due:
			q.wake(e.job.RunAt)
		case !e.expires.IsZero() && !e.expires.After(now):
			delete(q.jobs, key)
		case !e.expires.IsZero():
			q.wake(e.expires)
		}
	}
	slices.SortFunc(fallen, func(a, b *entry) int {
		return cmp.Or(a.job.RunAt.Compare(b.job.RunAt), cmp.Compare(a.created, b.created))
	})
	for _, e := range fallen {
		e.due, e.arrived = false, q.next()
	}
}

// Advance puts the clock forward. What falls due by it is ready at once, and leases that nobody renews lapse; those of
// claims that are held do not. Records whose retention is over are gone.
func (q *Queue) Advance(d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.skew += max(d, 0)
	q.now()
	q.notify()
}

// notify wakes whoever waits for a change. Called with mu held.
func (q *Queue) notify() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// Enqueue stores a job. See job.Queue.
func (q *Queue) Enqueue(ctx context.Context, spec job.Spec) (job.Enqueued, error) {
	if err := ctx.Err(); err != nil {
		return job.Enqueued{}, err
	}
	j, err := q.prepare(spec)
	if err != nil {
		return job.Enqueued{}, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return job.Enqueued{Key: j.Key(), Created: q.add(j)}, nil
}

// prepare checks what is asked for, and makes the record that it starts as.
func (q *Queue) prepare(spec job.Spec) (*job.Job, error) {
	if err := spec.Normalize(); err != nil {
		return nil, err
	}
	j := spec.Job()
	now := q.Now()
	due := now
	switch {
	case spec.Delay > 0:
		due = now.Add(spec.Delay)
	case spec.DueAt.After(now):
		due = spec.DueAt
	}
	if j.DueAt.IsZero() {
		j.DueAt = job.CeilMillis(due)
	}
	j.RunAt = job.CeilMillis(due)
	j.CreatedAt, j.UpdatedAt = job.Millis(now), job.Millis(now)
	if due.Equal(now) { // ready now means now, not the next millisecond
		j.RunAt = job.Millis(now)
		if spec.DueAt.IsZero() {
			j.DueAt = j.RunAt
		}
	}
	b, err := job.Encode(j)
	if err != nil {
		return nil, fmt.Errorf("encoding job: %w", err)
	}
	if len(b) > maxDocument {
		return nil, fmt.Errorf("enqueue %s: %w: its document has %d bytes, the queue takes %d", j.Key(), job.ErrTooLarge, len(b), maxDocument)
	}
	return j, nil
}

// add stores a job unless it exists. Called with mu held.
func (q *Queue) add(j *job.Job) bool {
	key := j.Key()
	now := q.now()
	if _, exists := q.jobs[key]; exists {
		return false
	}
	q.queue(key.Queue)
	e := &entry{job: clone(j), created: q.next()}
	q.jobs[key] = e
	q.wait(e, now)
	q.written(e, now)
	return true
}

// wait puts a job that is pending where it belongs: at the end of its queue's line, or among what is due. Called with
// mu held.
func (q *Queue) wait(e *entry, now time.Time) {
	e.due = e.job.RunAt.After(now)
	if e.due {
		q.wake(e.job.RunAt)
	} else {
		e.arrived = q.next()
	}
}

// written is called, with mu held, after each change of a record.
func (q *Queue) written(e *entry, now time.Time) {
	e.changed = q.next()
	e.expires = time.Time{}
	if e.job.Status.Terminal() {
		keep := q.keep(&e.job)
		if keep == 0 {
			delete(q.jobs, e.job.Key())
		}
		e.expires = now.Add(keep)
		q.wake(e.expires)
	}
	q.notify()
}

// next is the next sequence. Called with mu held.
func (q *Queue) next() uint64 {
	q.count++
	return q.count
}

// EnqueueMany stores each job by itself. See job.Queue.
func (q *Queue) EnqueueMany(ctx context.Context, specs []job.Spec) ([]job.Enqueued, error) {
	out := make([]job.Enqueued, len(specs))
	var first error
	for i, spec := range specs {
		e, err := q.Enqueue(ctx, spec)
		if err != nil {
			e.Err = fmt.Errorf("job %d: %w", i, err)
			first = cmp.Or(first, e.Err)
		}
		out[i] = e
	}
	return out, first
}

// EnqueueAll stores all jobs or none. See job.Queue.
func (q *Queue) EnqueueAll(ctx context.Context, specs []job.Spec) ([]job.Enqueued, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(specs) > maxAll {
		return nil, &job.FieldError{Field: "jobs", Reason: fmt.Sprintf("at most %d can be enqueued all or nothing, not %d", maxAll, len(specs))}
	}
	jobs := make([]*job.Job, len(specs))
	seen := make(map[job.Key]int)
	for i, spec := range specs {
		j, err := q.prepare(spec)
		if err != nil {
			return nil, fmt.Errorf("job %d: %w", i, err)
		}
		if first, twice := seen[j.Key()]; twice {
			return nil, &job.FieldError{Field: "id", Reason: fmt.Sprintf("jobs %d and %d are both %s", first, i, j.Key())}
		}
		seen[j.Key()], jobs[i] = i, j
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.now()
	conflict := &job.ConflictError{}
	for _, j := range jobs {
		if _, exists := q.jobs[j.Key()]; exists {
			conflict.Keys = append(conflict.Keys, j.Key())
		}
	}
	if len(conflict.Keys) > 0 {
		return nil, conflict
	}
	out := make([]job.Enqueued, len(jobs))
	for i, j := range jobs {
		out[i] = job.Enqueued{Key: j.Key(), Created: q.add(j)}
	}
	return out, nil
}

// Get reads a job. See job.Queue.
func (q *Queue) Get(ctx context.Context, key job.Key) (*job.Job, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.now()
	e, err := q.find(key)
	if err != nil {
		return nil, err
	}
	j := clone(&e.job)
	return &j, nil
}

// find looks for a job. Called with mu held.
func (q *Queue) find(key job.Key) (*entry, error) {
	if err := job.ValidateName("id", key.ID, job.MaxName); err != nil {
		return nil, err
	}
	key.Space = cmp.Or(key.Space, job.DefaultSpace)
	var found *entry
	var queues []string
	for k, e := range q.jobs {
		if k.Space == key.Space && k.ID == key.ID && (key.Queue == "" || k.Queue == key.Queue) {
			found = e
			queues = append(queues, k.Queue)
		}
	}
	switch len(queues) {
	case 0:
		return nil, fmt.Errorf("job %s/%s: %w", key.Space, key.ID, job.ErrNotFound)
	case 1:
		return found, nil
	default:
		slices.Sort(queues)
		return nil, &job.AmbiguousError{Space: key.Space, ID: key.ID, Queues: queues}
	}
}

// clone copies a job so deeply that no caller shares memory with the queue.
func clone(j *job.Job) job.Job {
	c := *j
	c.Input, c.Result, c.Extra = slices.Clone(j.Input), slices.Clone(j.Result), slices.Clone(j.Extra)
	c.History, c.Log = slices.Clone(j.History), slices.Clone(j.Log)
	c.Raw = slices.Clone(j.Raw)
	if j.Retry != nil {
		r := *j.Retry
		c.Retry = &r
	}
	return c
}
