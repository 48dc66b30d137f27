package tracing

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/scheduler"
)

// jobs takes what is enqueued.
type jobs struct {
	scheduler.Jobs
	specs []job.Spec
	err   error
}

func (j *jobs) EnqueueMany(_ context.Context, specs []job.Spec) ([]job.Enqueued, error) {
	j.specs = specs
	out := make([]job.Enqueued, len(specs))
	for i := range out {
		out[i] = job.Enqueued{Key: specs[i].Key(), Created: i%2 == 0 && j.err == nil, Err: j.err}
	}
	return out, j.err
}

func traceOf(sc trace.SpanContext) job.Trace {
	return Of(trace.ContextWithSpanContext(context.Background(), sc))
}

func TestManyJobsComeFromOneSpan(t *testing.T) {
	t.Parallel()
	s, to := look(t), &jobs{}
	specs := []job.Spec{{Type: "t"}, {Type: "t", Queue: "default", Trace: job.Trace{}}, {Type: "t"}}
	_, err := s.Producer(to.EnqueueMany)(t.Context(), specs)
	require.NoError(t, err)
	span := s.await("enqueue default", 1)[0]
	require.Equal(t, "3", attr(t, span, "messaging.batch.message_count"))
	require.Equal(t, "2", attr(t, span, "jetcrew.created"))
	require.Equal(t, "1", attr(t, span, "jetcrew.existed"))
	for i := range to.specs {
		require.Equal(t, traceOf(span.SpanContext), to.specs[i].Trace)
		require.Zero(t, specs[i].Trace, "the caller's own are left alone")
	}
	s.Reset()
	specs[1].Queue = "mail"
	_, err = s.Producer(to.EnqueueMany)(t.Context(), specs)
	require.NoError(t, err)
	s.await("enqueue", 1)
	_, err = s.Producer(to.EnqueueMany)(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, s.GetSpans(), 1)
}

func TestTheContextGoesBeforeTheJobsOwnTrace(t *testing.T) {
	t.Parallel()
	s, to := look(t), &jobs{}
	own := job.Trace{Parent: parent}
	_, err := s.Producer(to.EnqueueMany)(t.Context(), []job.Spec{{Type: "t", Trace: own}})
	require.NoError(t, err)
	require.Equal(t, spanID, s.named("enqueue default")[0].Parent.SpanID().String())

	ctx, request := s.provider.Tracer("test").Start(t.Context(), "request")
	_, err = s.Producer(to.EnqueueMany)(ctx, []job.Spec{{Type: "t", Trace: own}})
	require.NoError(t, err)
	under(t, s.named("enqueue default")[1], request.SpanContext())
	request.End()
}

// Jobs that come from different requests stay with them, though they are put in together.
func TestJobsOfSeveralTracesKeepTheirs(t *testing.T) {
	t.Parallel()
	s, to := look(t), &jobs{}
	own, other := job.Trace{Parent: parent}, job.Trace{Parent: strings.Replace(parent, "0af", "1bf", 1)}
	_, err := s.Producer(to.EnqueueMany)(t.Context(), []job.Spec{{Type: "t", Trace: own}, {Type: "t", Trace: other}, {Type: "t", Trace: own}, {Type: "t"}})
	require.NoError(t, err)
	span := s.named("enqueue default")[0]
	require.False(t, span.Parent.IsValid())
	require.Len(t, span.Links, 2)
	require.Equal(t, []job.Trace{own, other, own, traceOf(span.SpanContext)},
		[]job.Trace{to.specs[0].Trace, to.specs[1].Trace, to.specs[2].Trace, to.specs[3].Trace})
}

// Each fire of a schedule begins a trace, whatever the scheduler itself runs in.
func TestAFireBeginsATrace(t *testing.T) {
	t.Parallel()
	s, to := look(t), &jobs{}
	ctx, around := s.provider.Tracer("test").Start(t.Context(), "around")
	defer around.End()
	_, err := s.Fires(to).EnqueueMany(ctx, []job.Spec{
		{Type: "t", ID: "nightly@1", Trigger: job.TriggerSchedule}, {Type: "t", ID: "nightly@2", Trigger: job.TriggerSchedule, Queue: "mail"},
	})
	require.NoError(t, err)
	one, two := s.named("enqueue default")[0], s.named("enqueue mail")[0]
	for i, span := range []tracetest.SpanStub{one, two} {
		require.NotEqual(t, around.SpanContext().TraceID(), span.SpanContext.TraceID())
		require.Equal(t, fmt.Sprintf("nightly@%d", i+1), attr(t, span, "messaging.message.id"))
		require.Equal(t, traceOf(span.SpanContext), to.specs[i].Trace)
	}
	require.NotEqual(t, one.SpanContext.TraceID(), two.SpanContext.TraceID())
	require.False(t, one.Parent.IsValid())
	require.Equal(t, "schedule", attr(t, one, "jetcrew.job.trigger"))
	require.Equal(t, "1", attr(t, one, "jetcrew.created"))
	require.Equal(t, "1", attr(t, two, "jetcrew.existed"))
}

func TestAFailureIsAWord(t *testing.T) {
	t.Parallel()
	s := look(t)
	for word, err := range map[string]error{
		"invalid":         &job.FieldError{Field: "type", Reason: canary},
		"conflict":        &job.ConflictError{Keys: []job.Key{{ID: canary}}},
		"too_large":       fmt.Errorf("%w: %s", job.ErrTooLarge, canary),
		"outcome_unknown": fmt.Errorf("%w: %s", job.ErrUnknown, canary),
		"timeout":         fmt.Errorf("%s: %w", canary, context.DeadlineExceeded),
		"cancelled":       context.Canceled,
		"_OTHER":          errors.New(canary),
	} {
		s.Reset()
		_, got := s.Producer((&jobs{err: err}).EnqueueMany)(t.Context(), []job.Spec{{Type: "t"}})
		require.Equal(t, err, got)
		span := s.named("enqueue default")[0]
		isError(t, span, word)
		require.Equal(t, "1", attr(t, span, "jetcrew.not_created"))
		s.tellsNothing()
	}
}

// What is no job's name is not put into a span: a collector would refuse the lot.
func TestWhatIsNoNameIsLeftOut(t *testing.T) {
	t.Parallel()
	s, to := look(t), &jobs{}
	for _, spec := range []job.Spec{{Type: canary, Queue: "\xff" + canary}, {Type: "t", Queue: strings.Repeat(canary, 100)}, {ID: canary + "\xff", Type: "t"}, {Type: ""}} {
		_, err := s.Producer(to.EnqueueMany)(t.Context(), []job.Spec{spec})
		require.NoError(t, err)
	}
	require.Len(t, s.GetSpans(), 4)
	s.tellsNothing()
}

// Where a producer is not sampled, the job says so, and whoever runs it makes no spans.
func TestWhatIsNotSampledIsNotSampledAnywhere(t *testing.T) {
	t.Parallel()
	off, s, to := look(t, sdktrace.WithSampler(sdktrace.NeverSample())), look(t), &jobs{}
	_, err := off.Producer(to.EnqueueMany)(t.Context(), []job.Spec{{Type: "t"}})
	require.NoError(t, err)
	require.Regexp(t, `^00-[0-9a-f]{32}-[0-9a-f]{16}-0[02]$`, to.specs[0].Trace.Parent)
	ctx, span := s.Begin(t.Context(), to.specs[0].Job())
	require.Contains(t, to.specs[0].Trace.Parent, trace.SpanContextFromContext(ctx).TraceID().String())
	require.NotNil(t, span)
	require.Empty(t, off.GetSpans())
	require.Empty(t, s.GetSpans())
}
