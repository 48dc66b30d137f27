package tracing

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/jobtest"
)

// However a handler ends, its span says so in a word, and nothing else that it said.
func TestASpanSaysHowItsAttemptEnded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		handler func(context.Context, *job.Job) (any, error)
		outcome string
		failure string // empty: it is no error
	}{
		"succeeds":    {func(context.Context, *job.Job) (any, error) { return canary, nil }, "succeeded", ""},
		"fails":       {func(context.Context, *job.Job) (any, error) { return nil, errors.New(canary) }, "dead", "dead"},
		"gives up":    {func(context.Context, *job.Job) (any, error) { return nil, job.GiveUp(errors.New(canary)) }, "dead", "dead"},
		"panics":      {func(context.Context, *job.Job) (any, error) { panic(canary) }, "dead", "dead"},
		"is disabled": {func(context.Context, *job.Job) (any, error) { return nil, job.Refuse(job.CodeDisabled, canary) }, "dead", "disabled"},
		"refuses":     {func(context.Context, *job.Job) (any, error) { return nil, job.Refuse(canary, canary) }, "failed", "failed"},
		"snoozes":     {func(context.Context, *job.Job) (any, error) { return nil, job.Snooze(time.Hour, canary) }, "handed_back", ""},
		"changes its job": {func(_ context.Context, j *job.Job) (any, error) {
			*j = job.Job{ID: canary, Queue: canary, Space: canary, Type: canary}
			return nil, nil
		}, "succeeded", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, q := look(t), jobtest.New()
			_, err := q.Enqueue(t.Context(), job.Spec{
				Queue: "mail", ID: "1", Type: "welcome", MaxAttempts: 1, Input: []byte(`{"secret":"` + canary + `"}`), Trace: job.Trace{Parent: parent},
			})
			require.NoError(t, err)
			work(t, q, s, c.handler)
			settled := s.await("settle mail", 1)[0]
			span := s.named("process mail")[0]
			require.Equal(t, c.outcome, attr(t, span, "jetcrew.outcome"))
			require.Equal(t, c.outcome, attr(t, settled, "jetcrew.outcome"))
			require.Equal(t, "1", attr(t, settled, "messaging.message.id"))
			under(t, settled, span.SpanContext)
			require.Equal(t, traceID, span.SpanContext.TraceID().String())
			require.Equal(t, codes.Unset, settled.Status.Code)
			if c.failure == "" {
				require.Equal(t, codes.Unset, span.Status.Code)
			} else {
				isError(t, span, c.failure)
			}
			s.tellsNothing()
		})
	}
}

// A worker may itself be started within a span: its jobs do not belong there.
func TestAJobFromNowhereBeginsATrace(t *testing.T) {
	t.Parallel()
	s := look(t)
	ctx, around := s.provider.Tracer("test").Start(t.Context(), "around")
	defer around.End()
	j := &job.Job{Queue: "mail", ID: "1", Type: "t"}
	within, _ := s.Begin(ctx, j)
	require.Equal(t, Of(within), j.Trace)
	require.NotEmpty(t, j.Trace.Parent)
	require.NotContains(t, j.Trace.Parent, around.SpanContext().TraceID().String())
}
