// Package tracing makes OpenTelemetry spans of what becomes of a job: one where it is put in, one for each attempt, and
// one for the writing of each outcome, all in one trace, however many processes and hours lie between them.
//
// The trace travels in the headers traceparent and tracestate of the job's messages (see job.Trace), by whoever writes
// the next one, traced or not. So a producer in another language takes part, and so does a retry. A job that comes from
// nowhere begins a trace with each of its attempts.
//
// It makes spans with the provider that it is given, and sets nothing globally. No input, result or text of an error
// becomes part of a span: these are on the job's record. To send spans somewhere is the business of whoever makes the
// provider, such as package otlp beneath this one.
package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/jetcrew/jetcrew/worker"
)

// Scope is the name under which the spans are made.
const Scope = "github.com/jetcrew/jetcrew"

// System is the messaging system that the spans speak of: queues and jobs are jetcrew's, not the server's.
const System = "jetcrew"

// Attributes beside those of the conventions for messaging.
const (
	KeySpace   = attribute.Key("jetcrew.job.space")
	KeyType    = attribute.Key("jetcrew.job.type")
	KeyTrigger = attribute.Key("jetcrew.job.trigger")
	KeyAttempt = attribute.Key("jetcrew.job.attempt")
	KeyOf      = attribute.Key("jetcrew.job.max_attempts")
	KeyOutcome = attribute.Key("jetcrew.outcome")     // of an attempt: see worker.Result
	KeyCreated = attribute.Key("jetcrew.created")     // how many jobs an enqueue has made
	KeyExisted = attribute.Key("jetcrew.existed")     // how many were there already
	KeyNotMade = attribute.Key("jetcrew.not_created") // how many could not be made, or may not have been
)

// Tracing makes the spans. Its Producer is a middleware of a client, it is itself the Tracer of a worker, and its Fires
// stand before the jobs' store of a scheduler. It is safe for concurrent use.
type Tracing struct {
	tracer trace.Tracer
}

var _ worker.Tracer = (*Tracing)(nil)

// New makes spans by a provider.
func New(provider trace.TracerProvider) *Tracing {
	return &Tracing{provider.Tracer(Scope, trace.WithSchemaURL(semconv.SchemaURL))}
}

// start begins a span of an operation on a queue, which is a child of what ctx says, or of nothing.
func (t *Tracing) start(ctx context.Context, operation, queue string, kind trace.SpanKind, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	name := operation
	attrs := []attribute.KeyValue{semconv.MessagingSystemKey.String(System), semconv.MessagingOperationName(operation)}
	if queue != "" {
		name += " " + queue
		attrs = append(attrs, semconv.MessagingDestinationName(queue))
	}
	return t.tracer.Start(ctx, name, append(opts, trace.WithSpanKind(kind), trace.WithAttributes(attrs...))...)
}
