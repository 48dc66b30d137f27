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

// Started is an attempt whose handler is about to be called.
type Started struct {
	Key     job.Key
	Type    string
	Attempt int
	Waited  time.Duration // from when it could start to now, by the store's clock
}

// StartObserver is an Observer that is told of starts as well: how long jobs wait is known then, while attempts may run for
// hours until they end.
type StartObserver interface {
	Observer
	AttemptStarted(Started)
}

// observeStart says of an attempt that its handler is about to be called.
func (r *run) observeStart(a *attempt) {
	if o, ok := r.cfg.Observer.(StartObserver); ok {
		o.AttemptStarted(Started{Key: a.key, Type: a.typ, Attempt: a.number, Waited: a.waited})
	}
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

// resultOf is what an outcome comes to. Once it is written, the record of its job is known as well: one that had grown too
// large to be tried again is dead.
func resultOf(o job.Outcome, rec *job.Job) Result {
	switch {
	case o.Status != job.Pending:
		return Result(o.Status)
	case rec != nil && rec.Status == job.Dead:
		return ResultDead
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
