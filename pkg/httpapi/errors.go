package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/jetcrew/jetcrew/kvbucket"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
	"github.com/jetcrew/jetcrew/scheduler"
)

var errDisconnected = errors.New("not connected to NATS")

// known are the errors that a caller is told of, each with its status, its code and what it says.
var known = []struct {
	err    error
	status int
	code   Code
	detail string
}{
	{job.ErrNotFound, http.StatusNotFound, CodeNotFound, nothing},
	{job.ErrNoQueue, http.StatusNotFound, CodeNotFound, nothing},
	{scheduler.ErrNotFound, http.StatusNotFound, CodeNotFound, nothing},
	{ErrNoToken, http.StatusNotFound, CodeNotFound, nothing},
	{ErrNoRecord, http.StatusNotFound, CodeNotFound, nothing},
	{ErrTokenExists, http.StatusConflict, CodeUnchanged, "there is a token of that name: nothing was changed"},
	{ErrManyTokens, http.StatusConflict, CodeUnchanged, "no more tokens can be stored until some are revoked: nothing was changed"},
	{job.ErrQueueInUse, http.StatusConflict, CodeInUse, "the queue has jobs that have not ended, or workers"},
	{job.ErrNotRequeuable, http.StatusConflict, CodeNotRequeuable, "it cannot be run again: its deadline is over, or it never could be read as a job"},
	{job.ErrConflict, http.StatusConflict, CodeUnchanged, "a job of that identity exists already; nothing was changed"},
	{scheduler.ErrOwned, http.StatusConflict, CodeOwned, "the schedule is declared by another owner, and nothing was changed: owner says whose it is"},
	{scheduler.ErrUnreadable, http.StatusConflict, CodeUnreadable, "what is stored there is no schedule: putting one mends it"},
	{kv.ErrNotInteger, http.StatusConflict, CodeNotInteger, "the value is no integer, or the sum would leave the 64 bits of one; nothing was changed"},
	{job.ErrTooLarge, http.StatusRequestEntityTooLarge, CodeTooLarge, "the job is larger than the store takes"},
	{kv.ErrTooLarge, http.StatusRequestEntityTooLarge, CodeTooLarge, "the value is larger than the store takes"},
	{scheduler.ErrBusy, http.StatusServiceUnavailable, CodeBusy, "others change it all the time; nothing was changed"},
	{job.ErrFull, http.StatusServiceUnavailable, CodeUnavailable, "the store is full; nothing was changed"},
	{kv.ErrFull, http.StatusServiceUnavailable, CodeUnavailable, "the store is full; nothing was changed"},
	{kvbucket.ErrClosed, http.StatusServiceUnavailable, CodeUnavailable, "this process is ending; nothing was changed"},
	{kv.ErrUnknown, http.StatusServiceUnavailable, CodeOutcomeUnknown, "the store did not answer, so it may have been done or not"},
	{job.ErrUnknown, http.StatusServiceUnavailable, CodeOutcomeUnknown, unknownJob},
}

const unknownJob = "the store did not answer, so the job may have been stored or not; sending it again under the same id is safe"

// explain is the problem that a caller is shown for an error. What it must not see is told to the log, under an
// id. ctx is that of the call which failed, with its deadline.
func explain(ctx context.Context, err error) *Problem {
	var (
		problem   *Problem
		field     *job.FieldError
		ambiguous *job.AmbiguousError
		refusal   *job.Refusal
	)
	switch {
	case errors.As(err, &problem):
		return problem
	case errors.As(err, &field):
		return badFields(FieldProblem{"/" + strings.ReplaceAll(field.Field, ".", "/"), field.Reason})
	case errors.Is(err, kv.ErrKey):
		return badParameter("key", kv.ErrKey)
	case errors.Is(err, kv.ErrTTL):
		return badParameter("ttl", kv.ErrTTL)
	case errors.As(err, &ambiguous):
		p := newProblem(http.StatusConflict, CodeAmbiguous, "several queues have a job of this id: name one with ?queue=")
		p.Queues = ambiguous.Queues
		return p
	case errors.As(err, &refusal) && refusal.Code == job.CodeOverCapacity:
		return newProblem(http.StatusServiceUnavailable, CodeBusy, "others change it all the time; nothing was changed").because(ctx, err)
	}
	for _, k := range known {
		if !errors.Is(err, k.err) {
			continue
		}
		p := newProblem(k.status, k.code, k.detail)
		if k.status >= http.StatusInternalServerError {
			p.because(ctx, err)
		}
		return p
	}
	if ctx.Err() != nil || unreachable(err) {
		return unavailable().because(ctx, err)
	}
	return internal().because(ctx, err)
}

// badParameter says what is wrong with a parameter.
func badParameter(name string, err error) *Problem {
	reason := err.Error()
	var field *job.FieldError
	switch {
	case errors.As(err, &field):
		reason = field.Reason
	case errors.Is(err, kv.ErrKey):
		reason = "must be 1 to 764 bytes of UTF-8, less what the name of its space needs beyond a few bytes"
	case errors.Is(err, kv.ErrTTL):
		reason = "must be a millisecond or more, or 0s for ever"
	}
	return badFields(FieldProblem{name, reason})
}

// unreachable reports whether an error says that the store did not answer.
func unreachable(err error) bool {
	for _, target := range []error{
		context.DeadlineExceeded, context.Canceled, nats.ErrTimeout, nats.ErrNoResponders, nats.ErrConnectionClosed,
		nats.ErrDisconnected, nats.ErrReconnectBufExceeded, nats.ErrInvalidConnection, nats.ErrNoServers,
		jetstream.ErrNoStreamResponse,
	} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}
