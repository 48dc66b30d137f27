package worker

import (
	"errors"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// Result says how an attempt ended for the worker.
type Result string

// The results. The first four are ends of jobs.
const (
	ResultSucceeded  Result = "succeeded"
	ResultFailed     Result = "failed"
	ResultDead       Result = "dead"
	ResultCancelled  Result = "cancelled"
	ResultRetried    Result = "retried"     // it failed, and another attempt follows
	ResultHandedBack Result = "handed_back" // refunded: it could or should not run here and now
	ResultLost       Result = "lost"        // the job went to somebody else
	ResultUnwritten  Result = "unwritten"   // the outcome could not be written; the job will be redelivered
)

// Ended is an attempt that has ended.
type Ended struct {
	Key     job.Key
	Type    string // empty: the worker has no handler for it
	Attempt int
	Result  Result
	Refusal job.Code      // why the handler refused it; empty: it did not
	Started bool          // false: the handler was not called
	Waited  time.Duration // from when it could start to when it did, by the store's clock
	Ran     time.Duration // in the handler
}

// Observer is told what a worker does. Its methods are called by the goroutines that do it: they have to be quick, and
// must not panic.
type Observer interface {
	AttemptEnded(Ended)
}

// observed says of an attempt how it ended.
func (r *run) observed(a *attempt, result Result) {
	if a.span != nil && !a.writing.IsZero() {
		a.span.Settled(a.writing, result)
	}
	if r.cfg.Observer != nil {
		r.cfg.Observer.AttemptEnded(r.end(a, result))
	}
}

// end is an attempt that came to a result.
func (r *run) end(a *attempt, result Result) Ended {
	e := Ended{
		Key: a.key, Attempt: a.number, Result: result, Refusal: a.refusal, Started: a.started,
		Waited: a.waited, Ran: a.ran,
	}
	if r.handlers[a.typ] != nil {
		e.Type = a.typ
	}
	return e
}

// resultOf is what an outcome that was written comes to.
func resultOf(o job.Outcome) Result {
	switch {
	case o.Status != job.Pending:
		return Result(o.Status)
	case o.Refund:
		return ResultHandedBack
	}
	return ResultRetried
}

// refusalOf is the code of a refusal, if an error is one.
func refusalOf(err error) job.Code {
	var r *job.Refusal
	if errors.As(err, &r) {
		return r.Code
	}
	return ""
}

// waited is how long a job could have been running before it was taken.
func waited(j *job.Job) time.Duration {
	since := j.CreatedAt
	if j.RunAt.After(since) {
		since = j.RunAt
	}
	if since.IsZero() || j.StartedAt.Before(since) {
		return 0
	}
	return j.StartedAt.Sub(since)
}
