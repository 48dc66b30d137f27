package jobtest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/worker"
)

// Jobs are the jobs that the queue holds, in the order in which they were enqueued; those of the given types, if
// any are given.
func (q *Queue) Jobs(types ...string) []job.Job {
	q.mu.Lock()
	defer q.mu.Unlock()
	var out []job.Job
	for _, key := range q.order {
		if j := &q.jobs[key].job; len(types) == 0 || slices.Contains(types, j.Type) {
			out = append(out, clone(j))
		}
	}
	return out
}

// Cancel is what an operator's cancel does: a job that waits is cancelled, one that runs is told to stop. It answers
// false for a job that has ended or does not exist.
func (q *Queue) Cancel(key job.Key) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.jobs[key]
	if e == nil || e.job.Status.Terminal() {
		return false
	}
	if e.job.Status == job.Running {
		e.job.CancelRequested = true
		e.claim.tell(job.ErrCancelRequested)
	} else {
		e.job.Status = job.Cancelled
	}
	e.job.UpdatedAt = job.Millis(q.now())
	q.notify()
	return true
}

// RunDue runs every job that is due now, and what these enqueue to run at once, on a worker of its own whose
// handlers register sets up. It answers the jobs that it ran, as they are afterwards, in the order of enqueueing.
// What is to be tried again later stays; Advance, and call it again. A due job of a type that register does not handle is
// an error, and so is the context's end, which handlers are told of but not waited for.
func (q *Queue) RunDue(ctx context.Context, register func(*worker.Worker)) ([]job.Job, error) {
	due := q.due()
	if len(due) == 0 {
		return nil, nil
	}
	w, err := worker.New(q, worker.Config{Queues: q.queues()})
	if err != nil {
		return nil, err
	}
	register(w)
	defer context.AfterFunc(ctx, w.Kill)()
	before := q.updates()
	run, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() { done <- w.Run(run) }()
	idle := q.idle(ctx)
	stop()
	err = <-done
	if idle = cmp.Or(idle, ctx.Err()); idle != nil {
		return nil, fmt.Errorf("jobtest: ended before its jobs did: %w", idle)
	}
	if err != nil {
		return nil, fmt.Errorf("jobtest: %w", err)
	}
	var out []job.Job
	for _, j := range q.Jobs() {
		if before[j.Key()] == version(&j) {
			continue
		}
		if !slices.Contains(w.Types(), j.Type) {
			return nil, fmt.Errorf("jobtest: job %s: no handler for type %q", j.Key(), j.Type)
		}
		out = append(out, j)
	}
	return out, nil
}

// version tells records of one job apart.
func version(j *job.Job) string {
	n := 0
	if len(j.History) > 0 {
		n = j.History[len(j.History)-1].Attempt
	}
	return fmt.Sprint(j.Status, j.Attempts, n, j.RunAt, j.Error)
}

func (q *Queue) updates() map[job.Key]string {
	out := make(map[job.Key]string)
	for _, j := range q.Jobs() {
		out[j.Key()] = version(&j)
	}
	return out
}

// due are the jobs that could run now.
func (q *Queue) due() []job.Key {
	q.mu.Lock()
	defer q.mu.Unlock()
	var out []job.Key
	for key, e := range q.jobs {
		if e.job.Status == job.Pending && !e.job.RunAt.After(q.now()) {
			out = append(out, key)
		}
	}
	return out
}

// queues are the queues that hold jobs, with a worker's concurrency.
func (q *Queue) queues() map[string]int {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := make(map[string]int)
	for key := range q.jobs {
		out[key.Queue] = 4
	}
	return out
}

// idle waits until nothing is due in the queues that were there, and nothing runs.
func (q *Queue) idle(ctx context.Context) error {
	for {
		q.mu.Lock()
		changed := q.changed
		busy := false
		for _, e := range q.jobs {
			busy = busy || e.job.Status == job.Running && !e.claim.abandoned ||
				e.job.Status == job.Pending && !e.job.RunAt.After(q.now())
		}
		q.mu.Unlock()
		if !busy {
			return nil
		}
		select {
		case <-changed:
		case <-time.After(time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
