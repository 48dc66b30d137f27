package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// ending is how the call of a handler ended.
type ending struct {
	result   jsontext.Value
	err      error // nil: it succeeded
	cause    error // why its context had been cancelled when it returned, if it had been
	panicked bool  // or left by runtime.Goexit
	unbegun  bool  // middleware did not let it begin
}

// terms are what decides, of a job, what an ending comes to.
type terms struct {
	attempt int
	of      int // attempts allowed
	timeout time.Duration
	retry   RetryPolicy
}

// judge says what becomes of a job whose handler ended thus. It answers false if the job is not to be
// settled at all: it belongs to somebody else.
func judge(e ending, t terms) (job.Outcome, bool) {
	switch {
	case errors.Is(e.cause, job.ErrLeaseLost):
		return job.Outcome{}, false
	case e.err == nil: // also in spite of a cancel
		return job.Succeed(e.result), true
	case errors.Is(e.cause, job.ErrCancelRequested):
		return job.Outcome{Status: job.Cancelled, Error: interrupted("cancelled by an operator", e.err)}, true
	case e.panicked:
		return t.fail(e.err, t.retry.wait, e.err.Error()), true
	}
	if o, ok := decided(e.err); ok {
		return o, true
	}
	switch {
	case errors.Is(e.cause, job.ErrDeadline):
		return job.Outcome{Status: job.Dead, Error: interrupted("deadline passed", e.err)}, true
	case errors.Is(e.cause, job.ErrShutdown):
		return shutDown(e.err), true
	case e.unbegun && steering(e.err) == nil:
		return job.HandBack(t.retry.wait(1, e.err), notStarted(e.err.Error())), true
	case errors.Is(e.cause, job.ErrTimeout):
		return t.retried(e.err, interrupted(fmt.Sprintf("timed out after %s", t.timeout), e.err)), true
	}
	return t.retried(e.err, e.err.Error()), true
}

// decided is the outcome of an error by which the handler ended the job for good.
func decided(err error) (job.Outcome, bool) {
	switch s := steering(err).(type) {
	case *job.GiveUpError:
		return job.Outcome{Status: job.Dead, Error: err.Error()}, true
	case *job.Refusal:
		switch {
		case s.Code.NotNow():
		case s.Code.NotEver():
			return job.Outcome{Status: job.Dead, Error: err.Error()}, true
		default:
			return job.Outcome{Status: job.Failed, Error: err.Error()}, true
		}
	}
	return job.Outcome{}, false
}

// retried is the outcome of an error after which the job is to run again, if it may.
func (t terms) retried(err error, text string) job.Outcome {
	switch s := steering(err).(type) {
	case *job.Refusal: // not now
		return job.HandBack(t.retry.wait(1, err), notStarted(err.Error()))
	case *job.SnoozeError:
		return snoozed(s, err)
	case *job.RetryError:
		return t.fail(err, func(int, error) time.Duration { return s.Delay }, text)
	}
	return t.fail(err, t.retry.wait, text)
}

// fail is the outcome of an attempt that failed: another one, or the job's end if none is left.
func (t terms) fail(err error, wait func(int, error) time.Duration, text string) job.Outcome {
	if t.attempt >= t.of {
		return job.Outcome{Status: job.Dead, Error: text}
	}
	return job.Fail(wait(t.attempt, err), text)
}

// shutDown is the outcome of a handler that was cancelled since the worker could not wait any longer:
// nothing that it says about failing counts against the job.
func shutDown(err error) job.Outcome {
	if s, ok := steering(err).(*job.SnoozeError); ok {
		return snoozed(s, err)
	}
	return job.HandBack(0, "interrupted: "+job.ErrShutdown.Error())
}

func snoozed(s *job.SnoozeError, err error) job.Outcome {
	if _, bare := err.(*job.SnoozeError); bare { //nolint:errorlint // wrapped, it is to keep its step
		return job.HandBack(s.Delay, s.Reason)
	}
	return job.HandBack(s.Delay, err.Error())
}

func notStarted(why string) string { return "not started: " + why }

// steering is the first error in err's tree by which a handler steers, the outermost if there are several.
func steering(err error) error {
	switch e := err.(type) { //nolint:errorlint // this is the walk itself
	case nil:
		return nil
	case *job.GiveUpError, *job.Refusal, *job.SnoozeError, *job.RetryError:
		return e
	case interface{ Unwrap() error }:
		return steering(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			if s := steering(one); s != nil {
				return s
			}
		}
	}
	return nil
}

// interrupted is the text of an attempt that was ended from outside: why, in which step if that is known,
// and what the handler said if that is more than that its context had ended.
func interrupted(why string, err error) string {
	for _, known := range []error{
		context.Canceled, context.DeadlineExceeded,
		job.ErrTimeout, job.ErrDeadline, job.ErrCancelRequested,
	} {
		if errors.Is(err, known) {
			return steps(err) + why
		}
	}
	return why + ": " + err.Error()
}

// steps names the steps that err went through, as job.StepError does.
func steps(err error) string {
	var b strings.Builder
	for step := (*job.StepError)(nil); errors.As(err, &step); err = step.Err {
		fmt.Fprintf(&b, "step %q failed: ", step.Step)
	}
	return b.String()
}
