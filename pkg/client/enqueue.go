package client

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// Option says something about one job.
type Option func(*job.Spec)

// WithID names the job. Without it, every call makes a new one; with it, a second call finds the first.
func WithID(id string) Option { return func(s *job.Spec) { s.ID = id } }

// WithSpace puts the job into a space (a tenant).
func WithSpace(space string) Option { return func(s *job.Spec) { s.Space = space } }

// WithQueue puts the job on a queue.
func WithQueue(queue string) Option { return func(s *job.Spec) { s.Queue = queue } }

// WithDelay makes the job wait, counted from the store's now.
func WithDelay(d time.Duration) Option { return func(s *job.Spec) { s.Delay = d } }

// WithDueAt makes the job wait for an instant of the store's clock; see Client.Now.
func WithDueAt(t time.Time) Option { return func(s *job.Spec) { s.DueAt = t } }

// WithMaxAttempts says how often the job is tried.
func WithMaxAttempts(n int) Option { return func(s *job.Spec) { s.MaxAttempts = n } }

// WithTimeout bounds each attempt.
func WithTimeout(d time.Duration) Option { return func(s *job.Spec) { s.Timeout = d } }

// WithDeadline is the instant past which no attempt starts or goes on.
func WithDeadline(t time.Time) Option { return func(s *job.Spec) { s.Deadline = t } }

// WithRetry replaces the worker's backoff: first wait base, doubled per attempt, up to longest.
func WithRetry(base, longest time.Duration) Option {
	return func(s *job.Spec) { s.Retry = &job.Retry{Base: base, Max: longest} }
}

// Enqueue puts one job of a type in. input is written as a JSON object: a struct, a map, or JSON that is
// ready ([]byte, json.RawMessage, jsontext.Value); nil is none. Created is false if a job of that
// identity existed already.
func (c *Client) Enqueue(ctx context.Context, jobType string, input any, opts ...Option) (job.Enqueued, error) {
	return Enqueue(ctx, c.Producer(), jobType, input, opts...)
}

// Enqueue puts one job of a type in, by whatever takes jobs: a Client's Producer, or in a test a jobtest.Queue. See
// Client.Enqueue.
func Enqueue(ctx context.Context, p job.Producer, jobType string, input any, opts ...Option) (job.Enqueued, error) {
	spec := job.Spec{Type: jobType}
	for _, o := range opts {
		o(&spec)
	}
	var err error
	if spec.Input, err = encodeInput(input); err != nil {
		return job.Enqueued{}, err
	}
	return p.Enqueue(ctx, spec)
}

// Producer is the client as a job.Producer, middleware and all, for programs that are to run on a jobtest.Queue in
// their tests.
func (c *Client) Producer() job.Producer { return producer{c} }

type producer struct{ *Client }

func (p producer) Enqueue(ctx context.Context, spec job.Spec) (job.Enqueued, error) {
	return p.EnqueueSpec(ctx, spec)
}

// EnqueueSpec puts one job in.
func (c *Client) EnqueueSpec(ctx context.Context, spec job.Spec) (job.Enqueued, error) {
	out, err := c.through(func(ctx context.Context, specs []job.Spec) ([]job.Enqueued, error) {
		if len(specs) != 1 { // a middleware took it out, or made several of it
			return c.enqueueMany(ctx, specs)
		}
		specs, keys := named(specs)
		ctx, done := c.guardWrite(ctx, keys)
		defer done()
		e, err := c.store.Enqueue(ctx, specs[0])
		var p *PermissionError
		if e.Err = c.events.explain(ctx, err); err == nil && errors.As(context.Cause(ctx), &p) {
			e.Err = c.names.late(p)
		}
		return []job.Enqueued{e}, e.Err
	})(ctx, []job.Spec{spec})
	if len(out) == 0 {
		return job.Enqueued{}, err
	}
	return out[0], err
}

// EnqueueMany puts each job in by itself, pipelined; the answers stand in the order of specs, and the error
// is that of the first job that has one.
func (c *Client) EnqueueMany(ctx context.Context, specs []job.Spec) ([]job.Enqueued, error) {
	return c.through(c.enqueueMany)(ctx, specs)
}

// EnqueueAll puts all jobs in or none, at most 1,000; a *job.ConflictError names those that exist already.
func (c *Client) EnqueueAll(ctx context.Context, specs []job.Spec) ([]job.Enqueued, error) {
	return c.through(func(ctx context.Context, specs []job.Spec) ([]job.Enqueued, error) {
		specs, keys := named(specs)
		ctx, done := c.guardWrite(ctx, keys)
		defer done()
		out, err := c.store.EnqueueAll(ctx, specs)
		return out, c.events.explain(ctx, err)
	})(ctx, specs)
}

// through puts the middleware around fn.
func (c *Client) through(fn EnqueueFunc) EnqueueFunc {
	for i := len(c.wrap) - 1; i >= 0; i-- {
		fn = c.wrap[i](fn)
	}
	return fn
}

// guardWrite ends the context once the server denies what any of the jobs needs.
func (c *Client) guardWrite(ctx context.Context, keys []job.Key) (context.Context, func()) {
	return c.events.guard(ctx, func(p *PermissionError) bool { return slices.ContainsFunc(keys, c.names.writing(p).has) })
}

// named gives every job its identity, so that a denial can be told to be its own. What is wrong with a spec is
// for the store to say.
func named(specs []job.Spec) ([]job.Spec, []job.Key) {
	specs = slices.Clone(specs)
	keys := make([]job.Key, len(specs))
	for i := range specs {
		if s := specs[i]; s.Normalize() == nil {
			specs[i] = s
		}
		keys[i] = specs[i].Key()
	}
	return specs, keys
}

func encodeInput(input any) (jsontext.Value, error) {
	switch v := input.(type) {
	case nil:
		return nil, nil
	case jsontext.Value:
		return v, nil
	case json.RawMessage:
		return jsontext.Value(v), nil
	case []byte:
		return v, nil
	}
	b, err := job.Encode(input)
	if err != nil {
		return nil, &job.FieldError{Field: "input", Reason: "cannot be written as JSON: " + err.Error()}
	}
	return b, nil
}
