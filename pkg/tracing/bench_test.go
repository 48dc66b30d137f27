package tracing

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/worker"
)

// What the spans of one job cost where they are made, beside what it costs without: an enqueue, and an attempt with its
// settling. Nothing is sent anywhere.
func BenchmarkSpans(b *testing.B) {
	for _, c := range []struct {
		name    string
		sampler sdktrace.Sampler
	}{{"sampled", sdktrace.AlwaysSample()}, {"unsampled", sdktrace.NeverSample()}} {
		t := New(sdktrace.NewTracerProvider(sdktrace.WithSampler(c.sampler)))
		to := &jobs{}
		b.Run("enqueue/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := t.Producer(to.EnqueueMany)(context.Background(), []job.Spec{{ID: "1", Type: "t"}})
				require.NoError(b, err)
			}
		})
		b.Run("process/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				j := &job.Job{ID: "1", Queue: "mail", Space: "default", Type: "t", Attempts: 1, Trace: job.Trace{Parent: parent}}
				_, span := t.Begin(context.Background(), j)
				span.Ran(worker.Ended{Result: worker.ResultSucceeded})
				span.Settled(time.Now(), worker.ResultSucceeded)
			}
		})
	}
}
