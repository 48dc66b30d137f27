package tracing

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// carrier is a job's trace as OpenTelemetry reads and writes it.
type carrier job.Trace

var _ propagation.TextMapCarrier = (*carrier)(nil)

// field is where the value of a header stands; nil for any other.
func (c *carrier) field(name string) *string {
	switch name {
	case "traceparent":
		return &c.Parent
	case "tracestate":
		return &c.State
	}
	return nil
}

// Get reads a header.
func (c *carrier) Get(name string) string {
	if v := c.field(name); v != nil {
		return *v
	}
	return ""
}

// Set writes a header.
func (c *carrier) Set(name, value string) {
	if v := c.field(name); v != nil {
		*v = value
	}
}

// Keys are the headers.
func (*carrier) Keys() []string { return propagation.TraceContext{}.Fields() }

// Of is the operation that a context belongs to, as a job carries it; none if it belongs to none.
func Of(ctx context.Context) job.Trace {
	var c carrier
	propagation.TraceContext{}.Inject(ctx, &c)
	return job.NewTrace(c.Parent, c.State) // a state may be longer than is carried along
}

// Under is ctx as a part of what a job carries. A trace that is none changes nothing.
func Under(ctx context.Context, t job.Trace) context.Context {
	t = job.NewTrace(t.Parent, t.State)
	return propagation.TraceContext{}.Extract(ctx, (*carrier)(&t))
}

// within reports whether a context belongs to an operation.
func within(ctx context.Context) bool { return trace.SpanContextFromContext(ctx).IsValid() }
