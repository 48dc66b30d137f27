package tracing

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/job"
)

const enqueueOperation = "enqueue"

// Producer is a client's middleware: each call of it is a span, which its jobs come from. The span is a child of what the
// context says or, where that says nothing, of the jobs' own trace (job.Spec.Trace). Of many jobs that bring different
// ones, each keeps its own, and the span is linked to them.
func (t *Tracing) Producer(next client.EnqueueFunc) client.EnqueueFunc {
	return func(ctx context.Context, specs []job.Spec) ([]job.Enqueued, error) {
		if len(specs) == 0 {
			return next(ctx, specs)
		}
		specs = slices.Clone(specs)
		keep := !within(ctx) && !alike(specs)
		var opts []trace.SpanStartOption
		if keep {
			opts = append(opts, trace.WithLinks(links(specs)...))
		}
		if !within(ctx) && !keep {
			ctx = Under(ctx, specs[0].Trace)
		}
		ctx, span := t.enqueue(ctx, specs, opts...)
		defer span.End()
		here := Of(ctx)
		for i := range specs {
			if !keep || specs[i].Trace.Parent == "" {
				specs[i].Trace = here
			}
		}
		out, err := next(ctx, specs)
		tell(span, out, err)
		return out, err
	}
}

// alike reports whether all jobs come from the same.
func alike(specs []job.Spec) bool {
	return !slices.ContainsFunc(specs, func(s job.Spec) bool { return s.Trace != specs[0].Trace })
}

// links are what jobs come from.
func links(specs []job.Spec) []trace.Link {
	var out []trace.Link
	seen := make(map[job.Trace]bool)
	for i := range specs {
		if tr := specs[i].Trace; !seen[tr] {
			seen[tr] = true
			if sc := trace.SpanContextFromContext(Under(context.Background(), tr)); sc.IsValid() {
				out = append(out, trace.Link{SpanContext: sc})
			}
		}
	}
	return out
}

// enqueue begins the span of a call. What is no name is left out of it: the store will refuse it.
func (t *Tracing) enqueue(ctx context.Context, specs []job.Spec, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	attrs := []attribute.KeyValue{semconv.MessagingOperationTypeSend}
	queue := queueOf(&specs[0])
	if len(specs) == 1 {
		if s := specs[0]; s.Normalize() == nil {
			specs[0] = s // the id is in it now
			attrs = append(attrs, ofJob(s.Key(), s.Type)...)
			attrs = append(attrs, KeyTrigger.String(string(s.Trigger)))
		}
	} else {
		attrs = append(attrs, semconv.MessagingBatchMessageCount(len(specs)))
		if slices.ContainsFunc(specs, func(s job.Spec) bool { return queueOf(&s) != queue }) {
			queue = ""
		}
	}
	return t.start(ctx, enqueueOperation, queue, trace.SpanKindProducer, append(opts, trace.WithAttributes(attrs...))...)
}

// ofJob says which job it is.
func ofJob(key job.Key, typ string) []attribute.KeyValue {
	return []attribute.KeyValue{semconv.MessagingMessageID(key.ID), KeySpace.String(key.Space), KeyType.String(typ)}
}

// queueOf is the queue that a spec asks for, or nothing if that can be none.
func queueOf(s *job.Spec) string {
	q := cmp.Or(s.Queue, job.DefaultQueue)
	if job.ValidateName("queue", q, job.MaxName) != nil {
		return ""
	}
	return q
}

// tell says of an enqueue what came of it.
func tell(span trace.Span, out []job.Enqueued, err error) {
	if !span.IsRecording() {
		return
	}
	var created, existed, failed int
	for i := range out {
		switch {
		case out[i].Err != nil:
			failed++
		case out[i].Created:
			created++
		default:
			existed++
		}
	}
	span.SetAttributes(KeyCreated.Int(created), KeyExisted.Int(existed))
	if failed > 0 {
		span.SetAttributes(KeyNotMade.Int(failed))
	}
	if err != nil {
		span.SetAttributes(semconv.ErrorTypeKey.String(errorType(err)))
		span.SetStatus(codes.Error, "")
	}
}

// errorType is an error of an enqueue in a word. Its text may hold anything.
func errorType(err error) string {
	var field *job.FieldError
	var denied *client.PermissionError
	for _, known := range []struct {
		is   bool
		word string
	}{
		{errors.As(err, &field), "invalid"},
		{errors.Is(err, job.ErrConflict), "conflict"},
		{errors.Is(err, job.ErrTooLarge), "too_large"},
		{errors.As(err, &denied), "permission"},
		{errors.Is(err, job.ErrUnknown), "outcome_unknown"},
		{errors.Is(err, context.DeadlineExceeded), "timeout"},
		{errors.Is(err, context.Canceled), "cancelled"},
	} {
		if known.is {
			return known.word
		}
	}
	return semconv.ErrorTypeOther.Value.AsString()
}
