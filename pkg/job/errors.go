package job

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Errors that callers branch on.
var (
	// ErrNotFound: no such job, or none that the caller may see.
	ErrNotFound = errors.New("job not found")
	// ErrAmbiguous: an id without a queue names jobs in several queues.
	ErrAmbiguous = errors.New("job id is ambiguous")
	// ErrConflict: a job of that identity exists already.
	ErrConflict = errors.New("job exists already")
	// ErrLeaseLost: another worker holds the job, or it has ended; nothing was changed.
	ErrLeaseLost = errors.New("lease lost")
	// ErrCancelRequested is the cause of a handler's context when an operator cancelled its job.
	ErrCancelRequested = errors.New("cancel requested")
	// ErrTimeout is the cause of a handler's context when its attempt took longer than its timeout.
	ErrTimeout = errors.New("timed out")
	// ErrDeadline is the cause of a handler's context when the job's deadline passed.
	ErrDeadline = errors.New("deadline passed")
	// ErrShutdown is the cause of a handler's context when the worker's drain took too long.
	ErrShutdown = errors.New("the worker was shutting down")
	// ErrNotRequeuable: what is left of the job cannot be run again.
	ErrNotRequeuable = errors.New("cannot be run again")
	// ErrNoQueue: there is no queue of that name.
	ErrNoQueue = errors.New("no such queue")
	// ErrQueueInUse: a queue has jobs, or workers.
	ErrQueueInUse = errors.New("the queue is in use")
	// ErrTooLarge: a document does not fit the server's limit.
	ErrTooLarge = errors.New("job too large")
	// ErrFull: the server's or the account's storage is used up. Nothing was stored.
	ErrFull = errors.New("the store is full")
)

// SnoozeError asks for another try later, without using an attempt. See Snooze.
type SnoozeError struct {
	Delay  time.Duration
	Reason string
}

func (e *SnoozeError) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("not now: again in %s", e.Delay)
	}
	return fmt.Sprintf("not now: %s: again in %s", e.Reason, e.Delay)
}

// Snooze is returned by a handler that cannot do its work yet: the job waits for delay (at least 0) and
// runs again; the attempt is given back and the history is unchanged. reason stands in the record's error.
func Snooze(delay time.Duration, reason string) error {
	return &SnoozeError{Delay: max(delay, 0), Reason: reason}
}

// RetryError is a failure whose next attempt waits a given time. See RetryAfter.
type RetryError struct {
	Delay time.Duration
	Err   error
}

func (e *RetryError) Error() string { return e.Err.Error() }
func (e *RetryError) Unwrap() error { return e.Err }

// RetryAfter fails the attempt with err like any error, but the next attempt waits for delay instead of
// what the retry policy says.
func RetryAfter(delay time.Duration, err error) error {
	if err == nil {
		err = errors.New("retry asked for")
	}
	return &RetryError{Delay: max(delay, 0), Err: err}
}

// GiveUpError ends the job dead, whatever attempts are left. See GiveUp.
type GiveUpError struct{ Err error }

func (e *GiveUpError) Error() string { return e.Err.Error() }
func (e *GiveUpError) Unwrap() error { return e.Err }

// GiveUp is returned by a handler that knows that no further attempt can succeed: the job ends dead with
// err as its reason.
func GiveUp(err error) error {
	if err == nil {
		err = errors.New("given up")
	}
	return &GiveUpError{Err: err}
}

// Code classifies a refusal.
type Code string

// Codes with a meaning of their own. A refusal of any other code ends the job failed.
const (
	// Not now: the job goes back with its attempt refunded.
	CodeDuplicate    Code = "duplicate"
	CodeOverCapacity Code = "over_capacity"
	// Not ever: the job ends dead.
	CodeNotFound  Code = "not_found"
	CodeDisabled  Code = "disabled"
	CodeForbidden Code = "forbidden"
	CodeRecursion Code = "recursion"
)

// NotNow reports whether a refusal of this code means that the job may be started later.
func (c Code) NotNow() bool { return c == CodeDuplicate || c == CodeOverCapacity }

// NotEver reports whether a refusal of this code means that no attempt can succeed.
func (c Code) NotEver() bool {
	return c == CodeNotFound || c == CodeDisabled || c == CodeForbidden || c == CodeRecursion
}

// Refusal is an error whose message was written for the caller: it may be shown to whoever asked for the
// job, where any other error is for the operator alone.
type Refusal struct {
	Code    Code
	Message string
}

func (e *Refusal) Error() string { return e.Message }

// Refuse is returned by a handler (or a guard) that will not do the work. What becomes of the job depends
// on the code; see Code.
func Refuse(code Code, message string) error { return &Refusal{Code: code, Message: message} }

// StepError says which step of a handler failed. See Step.
type StepError struct {
	Step string
	Err  error
}

func (e *StepError) Error() string { return fmt.Sprintf("step %q failed: %s", e.Step, e.Err) }
func (e *StepError) Unwrap() error { return e.Err }

// Step runs fn as a named step of a handler: if it fails, the job's error says so in words an operator can
// act on (step "charge" failed: card declined). What fn returns to steer (Snooze, GiveUp, Refuse,
// RetryAfter) keeps its meaning.
func Step(ctx context.Context, name string, fn func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return &StepError{Step: name, Err: context.Cause(ctx)}
	}
	if err := fn(ctx); err != nil {
		return &StepError{Step: name, Err: err}
	}
	return nil
}

// FieldError says which field of a request is wrong, and what is allowed.
type FieldError struct {
	Field  string // as written in JSON
	Reason string
}

func (e *FieldError) Error() string { return fmt.Sprintf("%s: %s", e.Field, e.Reason) }
