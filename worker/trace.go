package worker

import (
	"context"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// Tracer follows attempts from the call of their handlers to what is written of them. An attempt whose handler is not
// called is not followed. Its methods, and those of its Spans, are called by the goroutines that do the work: they have
// to be quick, and must not panic.
type Tracer interface {
	// Begin is called before a handler is, and answers the context that the handler gets, made from ctx. It may change
	// j.Trace to what is going on in here, for whoever passes it on; the record keeps its own.
	Begin(ctx context.Context, j *job.Job) (context.Context, Span)
}

// Span is one attempt as a Tracer follows it.
type Span interface {
	// Ran is called once the handler has returned, with what its end comes to. It is not called for a handler that
	// never returns.
	Ran(Ended)
	// Settled is called after Ran, once that was written since then, or was not: the result says so.
	Settled(since time.Time, result Result)
}

// begin has the attempt followed, if anybody does that.
func (a *attempt) begin(ctx context.Context, cfg *Config, j *job.Job) context.Context {
	if cfg.Tracer == nil {
		return ctx
	}
	ctx, a.span = cfg.Tracer.Begin(ctx, j)
	return ctx
}

// returned tells whoever follows the attempt that its handler has.
func (r *run) returned(a *attempt) {
	if a.span == nil {
		return
	}
	result := ResultLost
	if a.settle {
		result = resultOf(a.outcome, nil)
	}
	a.span.Ran(r.end(a, result))
}
