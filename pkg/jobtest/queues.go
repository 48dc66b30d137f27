package jobtest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// settings are how one queue is worked off.
type settings struct {
	lease       time.Duration // 0: its first worker says
	concurrency int           // 0: no limit
	paused      bool
	until       time.Time
	retention   map[job.Status]time.Duration
}

// queue is a queue's settings, made where the queue is not there yet. Called with mu held.
func (q *Queue) queue(name string) *settings {
	s := q.queues[name]
	if s == nil {
		s = &settings{}
		q.queues[name] = s
	}
	return s
}

// known is the settings of a queue that is there. Called with mu held.
func (q *Queue) known(ctx context.Context, name string) (*settings, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := job.ValidateName("queue", name, job.MaxName); err != nil {
		return nil, err
	}
	s := q.queues[name]
	if s == nil {
		return nil, fmt.Errorf("%w: %q", job.ErrNoQueue, name)
	}
	return s, nil
}

func (s *settings) leaseTime() time.Duration { return cmp.Or(s.lease, defaultLease) }

func (s *settings) isPaused(now time.Time) bool {
	return s.paused && (s.until.IsZero() || now.Before(s.until))
}

// Queues are all queues, by name. See job.QueueOperator.
func (q *Queue) Queues(ctx context.Context) ([]job.QueueInfo, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	var out []job.QueueInfo
	for _, name := range slices.Sorted(maps.Keys(q.queues)) {
		out = append(out, q.info(name, now))
	}
	return out, nil
}

// Queue is one of the queues. See job.QueueOperator.
func (q *Queue) Queue(ctx context.Context, name string) (*job.QueueInfo, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, err := q.known(ctx, name); err != nil {
		return nil, err
	}
	info := q.info(name, q.now())
	return &info, nil
}

// info tells how a queue is. Called with mu held.
func (q *Queue) info(name string, now time.Time) job.QueueInfo {
	s := q.queue(name)
	info := job.QueueInfo{Name: name, Concurrency: s.concurrency, Lease: s.leaseTime(), Retention: maps.Clone(s.retention)}
	if info.Paused = s.isPaused(now); info.Paused {
		info.PausedUntil = s.until
	}
	var first *entry
	for key, e := range q.jobs {
		switch {
		case key.Queue != name || e.due:
		case e.job.Status == job.Running:
			info.Running++
		case e.job.Status == job.Pending:
			info.Ready++
			if first == nil || e.arrived < first.arrived {
				first = e
			}
		}
	}
	if first != nil {
		info.OldestReady = later(first.job.UpdatedAt, first.job.RunAt)
	}
	workers := make(map[string]bool)
	for c := range q.consumers {
		if c.cfg.Queue == name {
			workers[c.cfg.WorkerID] = true
			info.Slots += c.cfg.Slots
		}
	}
	info.Workers = len(workers)
	return info
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Pause has nothing of a queue handed out. See job.QueueOperator.
func (q *Queue) Pause(ctx context.Context, name string, until time.Time) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	s, err := q.known(ctx, name)
	if err != nil {
		return err
	}
	if !until.IsZero() && !until.After(q.now()) {
		return &job.FieldError{Field: "until", Reason: "must be later than now"}
	}
	s.paused, s.until = true, job.CeilMillis(until)
	q.notify()
	return nil
}

// Resume ends a pause. See job.QueueOperator.
func (q *Queue) Resume(ctx context.Context, name string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	s, err := q.known(ctx, name)
	if err != nil {
		return err
	}
	s.paused, s.until = false, time.Time{}
	q.notify()
	return nil
}

// Configure changes a queue's settings. See job.QueueOperator. Claims that are held take a new lease at their next
// heartbeat.
func (q *Queue) Configure(ctx context.Context, name string, set job.QueueSettings) (*job.QueueInfo, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := job.ValidateName("queue", name, job.MaxName); err != nil {
		return nil, err
	}
	if set.Concurrency != nil && *set.Concurrency < 0 {
		return nil, &job.FieldError{Field: "concurrency", Reason: "must not be negative"}
	}
	if set.Lease != nil && *set.Lease < time.Second {
		return nil, &job.FieldError{Field: "lease", Reason: "must be at least 1s"}
	}
	if err := checkRetention(set.Retention); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.queue(name)
	if set.Concurrency != nil {
		s.concurrency = *set.Concurrency
	}
	if set.Lease != nil {
		s.lease = *set.Lease
	}
	for status, d := range set.Retention {
		if d == job.KeepDefault {
			delete(s.retention, status)
			continue
		}
		if s.retention == nil {
			s.retention = make(map[job.Status]time.Duration)
		}
		s.retention[status] = d
	}
	q.notify()
	info := q.info(name, q.now())
	return &info, nil
}

// DeleteQueue removes a queue. See job.QueueOperator.
func (q *Queue) DeleteQueue(ctx context.Context, name string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, err := q.known(ctx, name); err != nil {
		return err
	}
	q.now()
	jobs := 0
	for key, e := range q.jobs {
		if key.Queue == name && !e.job.Status.Terminal() {
			jobs++
		}
	}
	if workers := q.info(name, q.now()).Workers; jobs+workers > 0 {
		return fmt.Errorf("delete queue %q: %w: it has %d jobs that have not ended, and %d workers", name, job.ErrQueueInUse, jobs, workers)
	}
	delete(q.queues, name)
	return nil
}
