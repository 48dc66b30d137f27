package jobtest

import (
	"context"
	"fmt"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// Cancel ends a waiting job, or has a running one stopped. See job.Steerer.
func (q *Queue) Cancel(ctx context.Context, key job.Key) (job.Changed, error) {
	return q.operate(ctx, job.OpCancel, key)
}

// Requeue has a job that has ended run again. See job.Steerer.
func (q *Queue) Requeue(ctx context.Context, key job.Key) (job.Changed, error) {
	return q.operate(ctx, job.OpRequeue, key)
}

// RunNow has a job start that waits for its instant. See job.Steerer.
func (q *Queue) RunNow(ctx context.Context, key job.Key) (job.Changed, error) {
	return q.operate(ctx, job.OpRunNow, key)
}

// Delete removes a job's record. See job.Steerer.
func (q *Queue) Delete(ctx context.Context, key job.Key) (job.Changed, error) {
	return q.operate(ctx, job.OpDelete, key)
}

// operate does one operation to one job.
func (q *Queue) operate(ctx context.Context, op job.Operation, key job.Key) (job.Changed, error) {
	if err := ctx.Err(); err != nil {
		return job.Changed{Key: key}, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	e, err := q.find(key)
	if err != nil {
		return job.Changed{Key: key}, fmt.Errorf("%s: %w", op, err)
	}
	key = e.job.Key()
	out := job.Changed{Key: key}
	if out.Done = e.takes(op); out.Done {
		if err := q.change(e, op, now); err != nil {
			return job.Changed{Key: key}, fmt.Errorf("%s %s: %w", op, key, err)
		}
	}
	if op != job.OpDelete || !out.Done {
		out.Status, out.CancelRequested = e.job.Status, e.job.CancelRequested
	}
	return out, nil
}

// takes reports whether an operation would change the job.
func (e *entry) takes(op job.Operation) bool {
	s := e.job.Status
	switch op {
	case job.OpCancel:
		return s == job.Pending || s == job.Running && !e.job.CancelRequested
	case job.OpRequeue:
		return s.Terminal()
	case job.OpRunNow:
		return e.due
	case job.OpDelete:
		return s != job.Running
	}
	return false
}

// change does an operation that the job takes. Called with mu held.
func (q *Queue) change(e *entry, op job.Operation, now time.Time) error {
	j := &e.job
	switch op {
	case job.OpCancel:
		if j.Status == job.Running {
			j.CancelRequested = true
			e.claim.tell(job.ErrCancelRequested)
		} else {
			j.Status, e.due = job.Cancelled, false
		}
	case job.OpRequeue:
		if err := requeue(j, now); err != nil {
			return err
		}
		q.queue(j.Queue) // it may have been deleted
		q.wait(e, now)
	case job.OpRunNow:
		j.RunAt = job.Millis(now)
		q.wait(e, now)
	case job.OpDelete:
		delete(q.jobs, j.Key())
		q.notify()
		return nil
	}
	j.UpdatedAt = job.Millis(now)
	q.written(e, now)
	return nil
}

// requeuable says why a job that has ended cannot be run again, if that is so.
func requeuable(j *job.Job, now time.Time) error {
	if j.Raw != nil {
		return fmt.Errorf("%w: it is a message that could not be read as a job", job.ErrNotRequeuable)
	}
	if !j.Deadline.IsZero() && !now.Before(j.Deadline) {
		return fmt.Errorf("%w: its deadline was %s", job.ErrNotRequeuable, j.Deadline.Format(job.TimeFormat))
	}
	return nil
}

// requeue begins a job anew.
func requeue(j *job.Job, now time.Time) error {
	if err := requeuable(j, now); err != nil {
		return err
	}
	j.Status = job.Pending
	j.Attempts = 0
	j.CancelRequested = false
	j.Error, j.WorkerID = "", ""
	j.Result, j.Progress = nil, nil
	j.StartedAt, j.LeaseUntil = time.Time{}, time.Time{}
	j.RunAt = job.Millis(now)
	return nil
}
