// Package otlp sends spans to a collector, by OTLP over HTTP, as the standard variables of OpenTelemetry say
// (OTEL_EXPORTER_OTLP_ENDPOINT and so on).
//
// It promises that a collector that is slow or gone costs no job anything: spans wait in a bounded buffer, and are lost
// when that is full; an outage is logged once when it begins and once when it ends. It sets nothing globally.
package otlp

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/jetcrew/jetcrew/pkg/redact"
)

// DefaultEndpoint is where a collector is looked for when no variable says so.
const DefaultEndpoint = "http://localhost:4318"

// DefaultService is what the spans' process is called when no variable says so.
const DefaultService = "jetcrew"

// Config of an Exporter. The zero value works.
type Config struct {
	// Version of the program. Defaults to none.
	Version string
	// Logger is told when spans cannot be sent. Defaults to none.
	Logger zerolog.Logger
}

// Exporter sends the spans that its provider makes.
type Exporter struct{ provider *sdktrace.TracerProvider }

// Start begins to send what there is to send. It waits for nobody. A variable that is wrong is a *VariableError.
func Start(ctx context.Context, cfg Config) (*Exporter, error) {
	if err := Check(os.Getenv); err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	var opts []otlptracehttp.Option
	if endpoint(os.Getenv) == "" {
		opts = append(opts, otlptracehttp.WithEndpointURL(DefaultEndpoint+"/v1/traces"))
	}
	to, err := otlptracehttp.New(ctx, opts...)
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName(DefaultService), semconv.ServiceVersion(cfg.Version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv()) // the later one beats the earlier
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", &VariableError{"OTEL_RESOURCE_ATTRIBUTES", "must be key=value pairs, separated by commas"})
	}
	return &Exporter{sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(&patient{SpanExporter: to, log: cfg.Logger}), sdktrace.WithResource(about))}, nil
}

// Provider makes the spans.
func (e *Exporter) Provider() trace.TracerProvider { return e.provider }

// Close sends what has not been sent yet, and ends it all. What could not be sent when ctx ends is lost.
func (e *Exporter) Close(ctx context.Context) error {
	if err := e.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("tracing: the last spans may not have been sent: %w", err)
	}
	return nil
}

// patient sends spans, and says once that it cannot.
type patient struct {
	sdktrace.SpanExporter
	log zerolog.Logger

	mu      sync.Mutex
	failing bool
	lost    int
}

// ExportSpans sends spans. It answers no error: the SDK would tell the global handler of each.
func (p *patient) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := p.SpanExporter.ExportSpans(ctx, spans)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err != nil:
		if !p.failing {
			p.log.Warn().Str("error", redact.Text(err.Error())).Msg("spans cannot be sent; they are lost until they can")
		}
		p.failing = true
		p.lost += len(spans)
	case p.failing:
		p.log.Info().Int("lost", p.lost).Msg("spans are sent again")
		p.failing, p.lost = false, 0
	}
	return nil
}
