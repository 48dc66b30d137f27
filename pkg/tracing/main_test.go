package tracing

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/worker"
)

func TestMain(m *testing.M) { natstest.Main(m) }

const (
	soon = time.Minute // what must come comes within

	parent  = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	traceID = "0af7651916cd43dd8448eb211c80319c"
	spanID  = "b7ad6b7169203331"

	canary = "canary-5cfae1"
)

// seen are the spans that some processes of a test have made.
type seen struct {
	t *testing.T
	*tracetest.InMemoryExporter
	provider *sdktrace.TracerProvider
	*Tracing
}

func look(t *testing.T, opts ...sdktrace.TracerProviderOption) *seen {
	t.Helper()
	to := tracetest.NewInMemoryExporter()
	p := sdktrace.NewTracerProvider(append(opts, sdktrace.WithSyncer(to))...)
	t.Cleanup(func() { require.NoError(t, p.Shutdown(context.Background())) }) // the test's own context has ended
	return &seen{t, to, p, New(p)}
}

// named are the spans of a name, in the order in which they ended.
func (s *seen) named(name string) []tracetest.SpanStub {
	var out []tracetest.SpanStub
	for _, span := range s.GetSpans() {
		if span.Name == name {
			out = append(out, span)
		}
	}
	return out
}

// await waits until there are n spans of a name.
func (s *seen) await(name string, n int) []tracetest.SpanStub {
	s.t.Helper()
	natstest.Eventually(s.t, soon, func() error {
		if got := len(s.named(name)); got != n {
			return fmt.Errorf("%d spans %q, want %d", got, name, n)
		}
		return nil
	})
	return s.named(name)
}

// tellsNothing checks that nothing in any span is the canary.
func (s *seen) tellsNothing() {
	s.t.Helper()
	spans := s.GetSpans()
	require.NotEmpty(s.t, spans)
	for _, span := range spans {
		text := fmt.Sprintf("%s %+v %+v %+v %+v", span.Name, span.Status, span.Attributes, span.Events, span.Links)
		for _, a := range span.Attributes {
			text += a.Value.String()
		}
		for _, e := range span.Events {
			b, err := json.Marshal(e.Attributes)
			require.NoError(s.t, err)
			text += string(b)
		}
		require.NotContains(s.t, text, canary)
	}
}

func attr(t *testing.T, span tracetest.SpanStub, key string) string {
	t.Helper()
	for _, a := range span.Attributes {
		if a.Key == attribute.Key(key) {
			return a.Value.String()
		}
	}
	require.Fail(t, "no such attribute", "%s in %v", key, span.Attributes)
	return ""
}

// under checks that a span is a child of another.
func under(t *testing.T, child tracetest.SpanStub, of trace.SpanContext) {
	t.Helper()
	require.Equal(t, of.TraceID(), child.SpanContext.TraceID(), child.Name)
	require.Equal(t, of.SpanID(), child.Parent.SpanID(), child.Name)
}

func isError(t *testing.T, span tracetest.SpanStub, kind string) {
	t.Helper()
	require.Equal(t, codes.Error, span.Status.Code, span.Name)
	require.Empty(t, span.Status.Description)
	require.Equal(t, kind, attr(t, span, "error.type"))
}

// connect makes a client, which traces if s is not nil.
func connect(t *testing.T, url string, s *seen) *client.Client {
	t.Helper()
	cfg := client.Config{URLs: []string{url}}
	if s != nil {
		cfg.Middleware = append(cfg.Middleware, s.Producer)
	}
	c, err := client.Connect(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// work runs a worker with one handler until it is stopped; it traces if s is not nil.
func work(t *testing.T, source job.Source, s *seen, fn worker.Handler) (stop func()) {
	t.Helper()
	cfg := worker.Config{Queues: map[string]int{"mail": 4}, Retry: worker.RetryPolicy{Base: time.Millisecond, Max: time.Millisecond}}
	if s != nil {
		cfg.Tracer = s.Tracing
	}
	w, err := worker.New(source, cfg)
	require.NoError(t, err)
	for _, typ := range []string{"welcome", "child"} {
		worker.Handle(w, typ, func(ctx context.Context, j *job.Job, _ map[string]any) (any, error) { return fn(ctx, j) })
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			require.NoError(t, <-done)
		}
	}
	t.Cleanup(stop)
	return stop
}

// headersOf are the headers of a job's last message.
func headersOf(t *testing.T, c *client.Client, key job.Key) map[string][]string {
	t.Helper()
	for _, state := range []string{"succeeded", "dead", "due", "ready"} {
		m, err := lastMessage(t, c, fmt.Sprintf("jetcrew.job.%s.%s.%s.%s", state, key.Queue, key.Space, key.ID))
		if err == nil {
			return m
		}
	}
	require.Fail(t, "the job has no message", key)
	return nil
}
