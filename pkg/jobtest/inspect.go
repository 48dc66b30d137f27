package jobtest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
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
	q.now()
	var out []job.Job
	for _, e := range slices.SortedFunc(maps.Values(q.jobs), func(a, b *entry) int { return cmp.Compare(a.created, b.created) }) {
		if len(types) == 0 || slices.Contains(types, e.job.Type) {
			out = append(out, clone(&e.job))
		}
	}
	return out
}

// RunDue runs every job that is due now, and what these enqueue to run at once, on a worker of its own whose
// handlers register sets up; not those of queues that are paused. It answers the jobs that it ran, as they are
// afterwards, in the order of enqueueing, except for those whose records are not kept. What is to be tried again later
// stays; Advance, and call it again. A due job of a type that register does not handle is an error, and so is the
// context's end, which handlers are told of but not waited for.
func (q *Queue) RunDue(ctx context.Context, register func(*worker.Worker)) ([]job.Job, error) {
	queues := q.busy()
	if len(queues) == 0 {
		return nil, nil
	}
	w, err := worker.New(q, worker.Config{Queues: queues})
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

// busy are the queues that hold jobs, with a worker's concurrency; none if no job could run now.
func (q *Queue) busy() map[string]int {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	due := false
	out := make(map[string]int)
	for key, e := range q.jobs {
		out[key.Queue] = 4
		due = due || q.startable(e, now)
	}
	if !due {
		return nil
	}
	return out
}

// startable reports whether a worker would be given the job. Called with mu held.
func (q *Queue) startable(e *entry, now time.Time) bool {
	return e.job.Status == job.Pending && !e.due && !q.queue(e.job.Queue).isPaused(now)
}

// idle waits until nothing is due in the queues that were there, and nothing runs.
func (q *Queue) idle(ctx context.Context) error {
	for {
		q.mu.Lock()
		changed := q.changed
		busy := false
		now := q.now()
		for _, e := range q.jobs {
			busy = busy || e.job.Status == job.Running && !e.claim.abandoned || q.startable(e, now)
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
