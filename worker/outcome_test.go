package worker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

func step(name string, err error) error { return &job.StepError{Step: name, Err: err} }

func TestContract_EveryEndingHasItsOutcome(t *testing.T) {
	const wait = 7 * time.Second
	declined := errors.New("card declined")
	dead := func(text string) job.Outcome { return job.Outcome{Status: job.Dead, Error: text} }
	cancelled := func(text string) job.Outcome { return job.Outcome{Status: job.Cancelled, Error: text} }
	for _, c := range []struct {
		name string
		end  ending
		last bool // its last attempt
		want job.Outcome
	}{
		{"success", ending{result: jsontext.Value(`1`)}, false, job.Succeed(jsontext.Value(`1`))},
		{"success in spite of a cancel", ending{cause: job.ErrCancelRequested}, false, job.Succeed(nil)},
		{"success in spite of a timeout", ending{cause: job.ErrTimeout}, false, job.Succeed(nil)},
		{"success in spite of a shutdown", ending{cause: job.ErrShutdown}, true, job.Succeed(nil)},

		{"failure", ending{err: declined}, false, job.Fail(wait, "card declined")},
		{"last failure", ending{err: declined}, true, dead("card declined")},
		{"failure of a step", ending{err: step("charge", declined)}, true, dead(`step "charge" failed: card declined`)},
		{"panic", ending{err: errors.New("panic: x"), panicked: true}, false, job.Fail(wait, "panic: x")},
		{"last panic", ending{err: errors.New("panic: x"), panicked: true}, true, dead("panic: x")},

		{"duplicate", ending{err: job.Refuse(job.CodeDuplicate, "runs already")}, true, job.HandBack(wait, "not started: runs already")},
		{"over capacity", ending{err: job.Refuse(job.CodeOverCapacity, "busy")}, false, job.HandBack(wait, "not started: busy")},
		{"not found", ending{err: job.Refuse(job.CodeNotFound, "no such user")}, false, dead("no such user")},
		{"disabled", ending{err: job.Refuse(job.CodeDisabled, "off")}, false, dead("off")},
		{"forbidden", ending{err: job.Refuse(job.CodeForbidden, "no")}, false, dead("no")},
		{"recursion", ending{err: job.Refuse(job.CodeRecursion, "loop")}, false, dead("loop")},
		{"other refusal", ending{err: job.Refuse("bad_order", "sold out")}, false, job.Outcome{Status: job.Failed, Error: "sold out"}},
		{"refusal in a step", ending{err: step("look", job.Refuse(job.CodeNotFound, "no such user"))}, false, dead(`step "look" failed: no such user`)},

		{"snooze", ending{err: job.Snooze(time.Hour, "bank closed")}, true, job.HandBack(time.Hour, "bank closed")},
		{"snooze in a step", ending{err: step("pay", job.Snooze(time.Hour, "bank closed"))}, true, job.HandBack(time.Hour, `step "pay" failed: not now: bank closed: again in 1h0m0s`)},
		{"give up", ending{err: job.GiveUp(declined)}, false, dead("card declined")},
		{"give up in a step", ending{err: step("charge", job.GiveUp(declined))}, false, dead(`step "charge" failed: card declined`)},
		{"retry after", ending{err: job.RetryAfter(time.Minute, declined)}, false, job.Fail(time.Minute, "card declined")},
		{"retry after, in a step", ending{err: step("charge", job.RetryAfter(time.Minute, declined))}, false, job.Fail(time.Minute, `step "charge" failed: card declined`)},
		{"retry after, the last time", ending{err: job.RetryAfter(time.Minute, declined)}, true, dead("card declined")},
		{"the outermost steers", ending{err: job.RetryAfter(time.Minute, job.GiveUp(declined))}, false, job.Fail(time.Minute, "card declined")},
		{"joined", ending{err: errors.Join(declined, job.GiveUp(declined))}, false, dead("card declined\ncard declined")},

		{"cancel", ending{err: context.Canceled, cause: job.ErrCancelRequested}, true, cancelled("cancelled by an operator")},
		{"cancel in a step", ending{err: step("charge", context.Canceled), cause: job.ErrCancelRequested}, false, cancelled(`step "charge" failed: cancelled by an operator`)},
		{"cancel, and another error", ending{err: declined, cause: job.ErrCancelRequested}, false, cancelled("cancelled by an operator: card declined")},
		{"cancel, and a snooze", ending{err: job.Snooze(1, "x"), cause: job.ErrCancelRequested}, false, cancelled("cancelled by an operator: not now: x: again in 1ns")},
		{"cancel, and a panic", ending{err: errors.New("panic: x"), panicked: true, cause: job.ErrCancelRequested}, false, cancelled("cancelled by an operator: panic: x")},
		{"cancel of its own making", ending{err: context.Canceled}, false, job.Fail(wait, "context canceled")},

		{"timeout", ending{err: context.DeadlineExceeded, cause: job.ErrTimeout}, false, job.Fail(wait, "timed out after 5s")},
		{"last timeout", ending{err: context.DeadlineExceeded, cause: job.ErrTimeout}, true, dead("timed out after 5s")},
		{"timeout in steps", ending{err: step("a", step("b", fmt.Errorf("get: %w", context.DeadlineExceeded))), cause: job.ErrTimeout}, false, job.Fail(wait, `step "a" failed: step "b" failed: timed out after 5s`)},
		{"timeout, and another error", ending{err: declined, cause: job.ErrTimeout}, false, job.Fail(wait, "timed out after 5s: card declined")},
		{"timeout, and giving up", ending{err: job.GiveUp(declined), cause: job.ErrTimeout}, false, dead("card declined")},
		{"timeout, and retry after", ending{err: job.RetryAfter(1, context.DeadlineExceeded), cause: job.ErrTimeout}, false, job.Fail(1, "timed out after 5s")},

		{"deadline", ending{err: context.DeadlineExceeded, cause: job.ErrDeadline}, false, dead("deadline passed")},
		{"deadline, and a snooze", ending{err: job.Snooze(1, "x"), cause: job.ErrDeadline}, false, dead("deadline passed: not now: x: again in 1ns")},

		{"shutdown", ending{err: context.Canceled, cause: job.ErrShutdown}, true, job.HandBack(0, "interrupted: the worker was shutting down")},
		{"shutdown, and another error", ending{err: declined, cause: job.ErrShutdown}, true, job.HandBack(0, "interrupted: the worker was shutting down")},
		{"shutdown, and a snooze", ending{err: job.Snooze(time.Hour, "x"), cause: job.ErrShutdown}, true, job.HandBack(time.Hour, "x")},
		{"shutdown, and giving up", ending{err: job.GiveUp(declined), cause: job.ErrShutdown}, true, dead("card declined")},
		{"shutdown, and a panic", ending{err: errors.New("panic: x"), panicked: true, cause: job.ErrShutdown}, false, job.Fail(wait, "panic: x")},

		{"middleware in the way", ending{err: declined, unbegun: true}, true, job.HandBack(wait, "not started: card declined")},
		{"middleware gives up", ending{err: job.GiveUp(declined), unbegun: true}, false, dead("card declined")},
		{"middleware times out", ending{err: declined, unbegun: true, cause: job.ErrTimeout}, true, job.HandBack(wait, "not started: card declined")},
	} {
		t.Run(c.name, func(t *testing.T) {
			terms := terms{attempt: 1, of: 3, timeout: 5 * time.Second, retry: RetryPolicy{
				Next: func(int, error) time.Duration { return wait },
			}}
			if c.last {
				terms.attempt = 3
			}
			got, settle := judge(c.end, terms)
			require.True(t, settle)
			require.Equal(t, c.want, got)
		})
	}
}

func TestContract_ALostLeaseSettlesNothing(t *testing.T) {
	for _, e := range []ending{
		{cause: job.ErrLeaseLost},
		{cause: job.ErrLeaseLost, err: job.GiveUp(errors.New("x"))},
		{cause: job.ErrLeaseLost, err: errors.New("x"), panicked: true},
	} {
		_, settle := judge(e, terms{attempt: 1, of: 1, retry: defaultRetry})
		require.False(t, settle)
	}
}
