package tracing

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/trace"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/scheduler"
)

// Fires is the jobs' store as a scheduler.Firer is to see it: each fire begins a trace of its own, whatever the context
// belongs to.
func (t *Tracing) Fires(jobs scheduler.Jobs) scheduler.Jobs { return &fires{jobs, t} }

type fires struct {
	scheduler.Jobs
	tracing *Tracing
}

// EnqueueMany makes the jobs of fires.
func (f *fires) EnqueueMany(ctx context.Context, specs []job.Spec) ([]job.Enqueued, error) {
	specs = slices.Clone(specs)
	spans := make([]trace.Span, len(specs))
	for i := range specs {
		var within context.Context
		within, spans[i] = f.tracing.enqueue(ctx, specs[i:i+1], trace.WithNewRoot())
		specs[i].Trace = Of(within)
	}
	out, err := f.Jobs.EnqueueMany(ctx, specs)
	for i, span := range spans {
		if i < len(out) {
			tell(span, out[i:i+1], out[i].Err)
		} else {
			tell(span, nil, err)
		}
		span.End()
	}
	return out, err
}
