package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// Handler does the work of one job. What it answers is kept as the job's result (any JSON; nil is none).
// Its error says how the attempt ended: see job.Snooze, job.RetryAfter, job.GiveUp, job.Refuse and
// job.Step; any other error is tried again while attempts are left.
//
// Its context ends at the timeout (context.Cause is job.ErrTimeout), at the job's deadline
// (job.ErrDeadline), when an operator cancels the job (job.ErrCancelRequested), when a drain has taken too
// long (job.ErrShutdown) and when the job has gone to another worker (job.ErrLeaseLost). A handler that
// answers no error has succeeded, also after that, except for the last.
type Handler func(ctx context.Context, j *job.Job) (any, error)

// Middleware wraps a handler. The result and the error that it sees are the handler's own. One that answers
// an error without having called next kept the job from starting: the job goes back, its attempt refunded,
// to be tried again after the first backoff step. One that wants a job to end says so by job.GiveUp or
// job.Refuse. The context that it passes on must be made from its own.
type Middleware func(next Handler) Handler

// HandleOption is a setting of one job type.
type HandleOption func(*registration)

// WithTimeout limits one attempt of this type, instead of Config.Timeout. A job's own timeout goes before.
func WithTimeout(d time.Duration) HandleOption { return func(r *registration) { r.timeout = d } }

// WithRetry sets the waits between attempts of this type. A job's own policy goes before.
func WithRetry(p RetryPolicy) HandleOption { return func(r *registration) { r.retry = p } }

// WithMiddleware wraps the handler of this type, the first one outermost, inside of what Use adds.
func WithMiddleware(m ...Middleware) HandleOption {
	return func(r *registration) { r.middleware = append(r.middleware, m...) }
}

// registration is what a worker knows about a job type.
type registration struct {
	typ        string
	handler    Handler // with everything around it, once the worker runs
	timeout    time.Duration
	retry      RetryPolicy
	middleware []Middleware
	guard      *guarding // nil: its jobs start unguarded
}

// Use wraps the handlers of all types, registered before or after, the first one outermost. Like Handle, it
// panics once the worker runs.
func (w *Worker) Use(m ...Middleware) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ran {
		panic("worker: Use after Run")
	}
	w.middleware = append(w.middleware, m...)
}

// Handle registers fn for the jobs of a type. Their input is decoded into In; no input decodes as {}. An
// input that does not fit In ends its job dead.
//
// Like http.ServeMux, it panics where the program is wrong: an empty type, one that is registered already,
// no function, an option out of range, or a worker that runs already.
func Handle[In any](w *Worker, typ string, fn func(ctx context.Context, j *job.Job, in In) (any, error), opts ...HandleOption) {
	r := &registration{typ: typ}
	for _, opt := range opts {
		opt(r)
	}
	if err := r.validate(); err != nil {
		panic(fmt.Sprintf("worker: Handle(%q): %s", typ, err))
	}
	if err := r.guard.begin(&w.cfg); err != nil {
		panic(fmt.Sprintf("worker: Handle(%q): %s", typ, err))
	}
	if fn == nil {
		panic(fmt.Sprintf("worker: Handle(%q): no function", typ))
	}
	r.handler = func(ctx context.Context, j *job.Job) (any, error) {
		in, err := decode[In](j)
		if err != nil {
			return nil, job.GiveUp(err)
		}
		return fn(ctx, j, in)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ran {
		panic(fmt.Sprintf("worker: Handle(%q) after Run", typ))
	}
	if w.handlers[typ] != nil {
		panic(fmt.Sprintf("worker: Handle(%q): registered already", typ))
	}
	w.handlers[typ] = r
}

func (r *registration) validate() error {
	if err := job.ValidateName("type", r.typ, job.MaxName); err != nil {
		return err
	}
	if r.timeout < 0 {
		return &job.FieldError{Field: "WithTimeout", Reason: "must not be negative"}
	}
	return r.retry.validate()
}

// wrapped is the registration with the middleware around its handler, and with its policy complete.
// The handler itself marks the attempt as begun.
func (r *registration) wrapped(retry RetryPolicy, outer []Middleware) *registration {
	inner := r.handler
	h := func(ctx context.Context, j *job.Job) (any, error) {
		markBegun(ctx)
		return inner(ctx, j)
	}
	for _, around := range [][]Middleware{r.middleware, outer} {
		for i := len(around) - 1; i >= 0; i-- {
			h = around[i](h)
		}
	}
	return &registration{typ: r.typ, handler: r.guard.around(h), timeout: r.timeout, retry: r.retry.over(retry), guard: r.guard}
}

// decode reads a job's input. Its error names the place in the input, and says what was expected there.
func decode[In any](j *job.Job) (in In, err error) {
	input := []byte(j.Input)
	if len(input) == 0 {
		input = []byte("{}")
	}
	err = job.Decode(input, &in)
	if err == nil {
		return in, nil
	}
	var at *json.SemanticError
	if !errors.As(err, &at) {
		return in, fmt.Errorf("the input cannot be read: %w", err)
	}
	place := string(at.JSONPointer)
	if place == "" {
		place = "/"
	}
	if at.Err != nil {
		return in, fmt.Errorf("the input does not fit at %s: %w", place, at.Err)
	}
	return in, fmt.Errorf("the input does not fit at %s: %s where %v is expected", place, kindName(at.JSONKind), at.GoType)
}

func kindName(k jsontext.Kind) string {
	switch k {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "JSON"
}
