package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/worker"
)

const (
	processOperation = "process"
	settleOperation  = "settle"
)

// Begin begins the span of an attempt, which is a child of what the job comes from, the first attempt's like the
// last's. See worker.Tracer.
func (t *Tracing) Begin(ctx context.Context, j *job.Job) (context.Context, worker.Span) {
	// What the worker itself was started in is not what the job belongs to.
	ctx = Under(trace.ContextWithSpanContext(ctx, trace.SpanContext{}), j.Trace)
	key := j.Key()
	attrs := append(ofJob(key, j.Type), semconv.MessagingOperationTypeProcess,
		KeyTrigger.String(string(j.Trigger)), KeyAttempt.Int(j.Attempts), KeyOf.Int(j.MaxAttempts), semconv.MessagingClientID(j.WorkerID))
	ctx, span := t.start(ctx, processOperation, j.Queue, trace.SpanKindConsumer, trace.WithAttributes(attrs...))
	j.Trace = Of(ctx)
	return ctx, &attempt{tracing: t, span: span, key: key}
}

// attempt is the span of one attempt.
type attempt struct {
	tracing *Tracing
	span    trace.Span
	key     job.Key // the handler may change its job
}

// Ran ends the span. See worker.Span.
func (a *attempt) Ran(e worker.Ended) {
	a.span.SetAttributes(KeyOutcome.String(string(e.Result)))
	if e.Refusal != "" || wrong(e.Result) {
		a.span.SetAttributes(semconv.ErrorTypeKey.String(failure(e)))
	}
	if wrong(e.Result) {
		a.span.SetStatus(codes.Error, "")
	}
	a.span.End()
}

// Settled makes the span of what was written, beneath the attempt's. See worker.Span.
func (a *attempt) Settled(since time.Time, result worker.Result) {
	ctx := trace.ContextWithSpan(context.Background(), a.span)
	_, span := a.tracing.start(ctx, settleOperation, a.key.Queue, trace.SpanKindClient, trace.WithTimestamp(since),
		trace.WithAttributes(semconv.MessagingOperationTypeSettle, semconv.MessagingMessageID(a.key.ID), KeySpace.String(a.key.Space),
			KeyOutcome.String(string(result))))
	if result == worker.ResultLost || result == worker.ResultUnwritten {
		span.SetAttributes(semconv.ErrorTypeKey.String(string(result)))
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// wrong reports whether an attempt that ended so went wrong. To be handed back, or cancelled, is not wrong.
func wrong(r worker.Result) bool {
	switch r {
	case worker.ResultFailed, worker.ResultDead, worker.ResultRetried, worker.ResultLost, worker.ResultUnwritten:
		return true
	}
	return false
}

// failure is why an attempt went wrong, in a word: the code of a refusal that jetcrew knows, or the result. Handlers may
// make up codes of their own, and put anything into them.
func failure(e worker.Ended) string {
	if e.Refusal.NotNow() || e.Refusal.NotEver() {
		return string(e.Refusal)
	}
	return string(e.Result)
}
