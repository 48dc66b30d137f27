package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/jetcrew/jetcrew/pkg/guard"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/redact"
)

// WithSingleFlight has one job of the same key run at a time, in the whole fleet. Others that are taken meanwhile go back,
// their attempts refunded ("not started: duplicate: …"), and are tried again after the first backoff step. A later attempt
// of the job that has the key takes it over.
//
// The key is fn's, or, if fn is nil, derived from the job's space, type and input; the zero Key is none. If fn has an error
// the job ends dead. Where the key's caller named it and the guards have a replay window, a job of a run that was finished
// succeeds with the kept result, and its handler is not called.
//
// The key is held while the handler and all middleware run, and lapses once the attempt's timeout and Config.Grace are
// over. A job without a timeout gets that of the guards. It needs Config.Guards.
func WithSingleFlight(fn func(j *job.Job) (guard.Key, error)) HandleOption {
	if fn == nil {
		fn = derivedKey
	}
	return func(r *registration) { r.guards().key = fn }
}

// WithBudget has the jobs of this type draw on a budget of the process's guards, and go back, their attempts refunded,
// while it is used up. A type with WithSingleFlight draws on guard.KindCall, unless this says otherwise. It needs
// Config.Guards.
func WithBudget(kind guard.Kind) HandleOption {
	return func(r *registration) { r.guards().kind = kind }
}

// overtime is how much longer than an attempt and its grace a key is held: a run ends a little before its key lapses, which
// must not be before the attempt is over.
const overtime = 3 * time.Second

// guarding is how the jobs of a type are guarded. A nil one guards nothing.
type guarding struct {
	key  func(j *job.Job) (guard.Key, error) // nil: none
	kind guard.Kind

	cfg *Config // of the worker
}

func (r *registration) guards() *guarding {
	if r.guard == nil {
		r.guard = &guarding{kind: guard.KindCall}
	}
	return r.guard
}

func derivedKey(j *job.Job) (guard.Key, error) { return guard.Derived(j.Space, j.Type, "", j.Input) }

// begin checks the options, and takes what else is needed.
func (p *guarding) begin(cfg *Config) error {
	switch {
	case p == nil:
		return nil
	case cfg.Guards == nil:
		return &job.FieldError{Field: "WithSingleFlight, WithBudget", Reason: "need Config.Guards"}
	case p.kind != guard.KindCall && p.kind != guard.KindRender:
		return &job.FieldError{Field: "WithBudget", Reason: fmt.Sprintf("must be %s or %s, not %q", guard.KindCall, guard.KindRender, p.kind)}
	}
	p.cfg = cfg
	return nil
}

// timeout is that of a job for which nobody gave one; 0: none.
func (p *guarding) timeout() time.Duration {
	if p == nil {
		return 0
	}
	return p.cfg.Guards.Timeout()
}

// around is the outermost middleware: whatever belongs to a job is done while its key is held.
func (p *guarding) around(next Handler) Handler {
	if p == nil {
		return next
	}
	return func(ctx context.Context, j *job.Job) (any, error) {
		run, err := p.run(ctx, j)
		var kept *guard.Replay
		switch {
		case errors.As(err, &kept):
			if len(kept.Result) == 0 {
				return nil, nil
			}
			return kept.Result, nil
		case err != nil:
			return nil, err
		}
		a := ctx.Value(attemptKey{}).(*attempt) // it is the outermost: the context is the attempt's
		defer a.ended(run)
		// A handler that ignores it counts as stuck, like one that its operator has cancelled.
		defer context.AfterFunc(run.Context(), func() { a.cancelledWith(run) })()
		result, err := next(run.Context(), j)
		if err != nil {
			return result, err
		}
		encoded, err := encodeResult(result)
		if err != nil {
			return nil, err
		}
		_ = run.Finish(encoded) // ended tells its error
		if encoded == nil {
			return nil, nil
		}
		return encoded, nil
	}
}

// run begins the run of an attempt.
func (p *guarding) run(ctx context.Context, j *job.Job) (*guard.Run, error) {
	q := guard.Request{Kind: p.kind, Space: j.Space, Type: j.Type, RunID: j.RunID, Job: j.Key()}
	if p.key != nil {
		var err error
		if q.Key, err = p.key(j); err != nil {
			return nil, job.GiveUp(fmt.Errorf("the job has no run key: %w", err))
		}
	}
	if end, ok := ctx.Deadline(); ok {
		lifetime := time.Until(end) + p.cfg.Grace + overtime
		q.Timeout = min(max(lifetime, guard.MinTimeout), guard.MaxTimeout)
	}
	return p.cfg.Guards.Begin(ctx, q)
}

// ended ends the run of an attempt whose handler has returned, or panicked. That its key could not be released changes
// nothing about what the handler did.
func (a *attempt) ended(run *guard.Run) {
	a.cancelledWith(run) // before what the handler says about it is judged
	if err := run.End(); err != nil {
		a.event(zerolog.WarnLevel).Str("error", redact.Text(err.Error())).Msg("the run key was not released")
	}
}

// cancelledWith cancels the attempt if its run was.
func (a *attempt) cancelledWith(run *guard.Run) {
	if errors.Is(context.Cause(run.Context()), job.ErrCancelRequested) {
		a.cancel(job.ErrCancelRequested)
	}
}
