package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/tracing"
	"github.com/jetcrew/jetcrew/pkg/tracing/otlp"
	"github.com/jetcrew/jetcrew/scheduler"
	"github.com/jetcrew/jetcrew/worker"
)

// lastSpans is how long an exit waits for spans to be sent.
const lastSpans = 3 * time.Second

// spans are what this invocation traces with. The zero value traces nothing.
type spans struct {
	once     sync.Once
	tracing  *tracing.Tracing // nil: nothing is traced
	exporter *otlp.Exporter
	err      error
	log      zerolog.Logger
}

// start begins to trace, if the settings or the environment ask for that. What OpenTelemetry's own variables say is meant
// for other programs as well: where only they ask for spans, one that is wrong keeps no job from running.
func (s *spans) start(ctx context.Context, cfg *config.Config, log zerolog.Logger) error {
	s.once.Do(func() {
		s.log = log
		asked := cfg.Tracing == "on" || cfg.Tracing == "auto" && otlp.Asked(os.Getenv)
		if !asked || otlp.Forbidden(os.Getenv) {
			return
		}
		s.exporter, s.err = otlp.Start(ctx, otlp.Config{Version: programVersion(), Logger: log})
		if s.err == nil {
			s.tracing = tracing.New(s.exporter.Provider())
			return
		}
		var wrong *otlp.VariableError
		switch {
		case cfg.Tracing == "auto":
			log.Warn().Err(s.err).Msg("nothing is traced; JETCREW_TRACING=off says that this is meant")
			s.err = nil
		case errors.As(s.err, &wrong):
			s.err = usageError{s.err}
		}
	})
	return s.err
}

// stop sends the last spans.
func (s *spans) stop() {
	if s.exporter == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastSpans)
	defer cancel()
	if err := s.exporter.Close(ctx); err != nil {
		s.log.Warn().Err(err).Msg("spans were lost")
	}
}

// producer is what stands around a client's enqueues.
func (s *spans) producer() []func(client.EnqueueFunc) client.EnqueueFunc {
	if s.tracing == nil {
		return nil
	}
	return []func(client.EnqueueFunc) client.EnqueueFunc{s.tracing.Producer}
}

// tracer follows a worker's attempts.
func (s *spans) tracer() worker.Tracer {
	if s.tracing == nil {
		return nil
	}
	return s.tracing
}

// fires is a store as the firing of schedules is to see it.
func (s *spans) fires(jobs scheduler.Jobs) scheduler.Jobs {
	if s.tracing == nil {
		return jobs
	}
	return s.tracing.Fires(jobs)
}

// trace is what this invocation belongs to, as whoever started it says in the environment: jobs come from that.
func (a *app) trace() job.Trace {
	var parent, state string
	for _, v := range a.environ {
		if p, ok := strings.CutPrefix(v, "TRACEPARENT="); ok {
			parent = p
		}
		if p, ok := strings.CutPrefix(v, "TRACESTATE="); ok {
			state = p
		}
	}
	return job.NewTrace(parent, state)
}
