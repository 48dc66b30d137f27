package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
	"github.com/jetcrew/jetcrew/pkg/redact"
)

// attempt is one claim of a job, from the claim to the settlement. What it needs of the job is copied: the
// handler may change what it was given.
type attempt struct {
	claim  job.Claim
	key    job.Key
	typ    string
	number int
	log    zerolog.Logger

	ctx    context.Context // the handler's
	cancel context.CancelCauseFunc
	lost   chan struct{} // closed when the claim is known to be lost
	begun  atomic.Bool   // the handler was reached through all middleware

	started bool // the handler was called
	waited  time.Duration
	span    Span      // who follows it; nil: nobody
	writing time.Time // since when its outcome is written

	done    chan struct{} // closed when the handler has returned; then these hold
	outcome job.Outcome
	settle  bool // false: there is nothing to settle
	ran     time.Duration
	refusal job.Code
}

type attemptKey struct{}

// markBegun notes that the handler itself was reached.
func markBegun(ctx context.Context) {
	if a, ok := ctx.Value(attemptKey{}).(*attempt); ok {
		a.begun.Store(true)
	}
}

// hold makes an attempt of a claim, and from then on listens to what becomes of it.
func (r *run) hold(claim job.Claim, j *job.Job) *attempt {
	a := &attempt{
		claim: claim, key: j.Key(), typ: j.Type, number: j.Attempts, log: r.cfg.Logger,
		lost: make(chan struct{}), done: make(chan struct{}),
	}
	a.ctx, a.cancel = context.WithCancelCause(r.base)
	var once sync.Once
	claim.Notify(func(why error) {
		a.cancel(why)
		if errors.Is(why, job.ErrLeaseLost) {
			once.Do(func() { close(a.lost) })
		}
	})
	return a
}

// start calls the handler on a goroutine of its own, so that one that never returns, or leaves by
// runtime.Goexit, does not take the slot along.
func (a *attempt) start(r *run, j *job.Job, reg *registration) {
	t := terms{attempt: a.number, of: j.MaxAttempts, timeout: j.Timeout, retry: reg.retry.of(j)}
	if t.of < 1 {
		t.of = job.DefaultMaxAttempts
	}
	if t.timeout <= 0 {
		t.timeout = reg.timeout
	}
	if t.timeout <= 0 {
		t.timeout = r.cfg.Timeout
	}
	if t.timeout <= 0 {
		t.timeout = reg.guard.timeout()
	}
	var release context.CancelFunc
	a.ctx, release = bounded(a.ctx, t.timeout, j, r.w.queue)
	ctx := job.NewContext(context.WithValue(a.ctx, attemptKey{}, a), j)
	if r, ok := a.claim.(job.Reporter); ok {
		ctx = job.WithReporter(ctx, r)
	}
	if r.cfg.KV != nil {
		ctx = kv.NewContext(ctx, r.cfg.KV.Space(j.Space))
	}
	ctx = a.begin(ctx, r.cfg, j)
	ctx = pprof.WithLabels(ctx, pprof.Labels(labelJob, a.key.String(), labelType, a.typ))
	a.started, a.waited = true, waited(j)
	r.observeStart(a)
	began := time.Now()
	go func() {
		pprof.SetGoroutineLabels(ctx)
		var e ending
		returned := false
		defer func() { // runs for a Goexit, too
			if !returned {
				e = a.broken(ctx, recover())
			}
			a.ran = time.Since(began)
			a.conclude(r.cfg, e, t)
			r.returned(a)
			close(a.done)
			release()
			a.cancel(nil) // what the handler left running ends, too
		}()
		e = a.call(ctx, j, reg.handler)
		returned = true
	}()
}

// bounded is ctx with the earlier one of an attempt's timeout and its job's deadline, which is an instant
// of the store's clock.
func bounded(ctx context.Context, timeout time.Duration, j *job.Job, clock interface{ Now() time.Time }) (context.Context, context.CancelFunc) {
	limit, cause := timeout, job.ErrTimeout
	if !j.Deadline.IsZero() {
		if left := j.Deadline.Sub(clock.Now()); limit <= 0 || left < limit {
			limit, cause = max(left, 1), job.ErrDeadline
		}
	}
	if limit <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, limit, cause)
}

// call calls the handler and writes its result as JSON.
func (a *attempt) call(ctx context.Context, j *job.Job, h Handler) ending {
	result, err := h(ctx, j)
	e := ending{err: err, cause: context.Cause(ctx), unbegun: !a.begun.Load()}
	if err != nil {
		_ = err.Error() // a nil pointer made an error panics here, as the handler's own panic
		return e
	}
	e.result, e.err = encodeResult(result)
	return e
}

// encodeResult writes a result as JSON. One that cannot be written ends its job: to run it again would do
// again what is done.
func encodeResult(result any) (jsontext.Value, error) {
	if result == nil {
		return nil, nil
	}
	b, err := job.Encode(result)
	if err != nil {
		return nil, job.GiveUp(fmt.Errorf("the work was done, but its result cannot be written as JSON: %w", err))
	}
	if string(b) == "null" {
		return nil, nil
	}
	return b, nil
}

// broken is the ending of a handler that panicked with v or, if v is nil, left by runtime.Goexit.
func (a *attempt) broken(ctx context.Context, v any) ending {
	text := "the handler ended its goroutine (runtime.Goexit) without an answer"
	if v != nil {
		text = fmt.Sprintf("panic: %v", v)
	}
	a.event(zerolog.ErrorLevel).
		Str("panic", redact.Text(text)).Bytes("stack", stack()).Msg("handler panicked")
	return ending{err: errors.New(text), cause: context.Cause(ctx), panicked: true}
}

// conclude works out the outcome. Some of what it calls is the user's: methods of errors, a policy, a
// redaction. If that panics, the attempt has failed like any that panicked.
func (a *attempt) conclude(cfg *Config, e ending, t terms) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		a.event(zerolog.ErrorLevel).
			Str("panic", redact.Text(fmt.Sprint(v))).Bytes("stack", stack()).
			Msg("an error's method, a retry policy or a redaction panicked")
		t.retry = defaultRetry
		err := fmt.Errorf("panic (%T) while the attempt's end was worked out", v)
		a.outcome, a.settle = judge(ending{err: err, cause: e.cause, panicked: true}, t)
	}()
	a.refusal = refusalOf(e.err)
	o, settle := judge(e, t)
	o.Error = cfg.recordable(o.Error)
	a.outcome, a.settle = o, settle
	if !settle {
		a.event(zerolog.WarnLevel).Msg("the job went to somebody else while it ran; its outcome is not kept")
	}
}

// stack is the stack of the goroutine that panics, cut to what a log line can bear.
func stack() []byte {
	b := debug.Stack()
	return b[:min(len(b), 16<<10)]
}
