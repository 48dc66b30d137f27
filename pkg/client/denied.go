package client

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// deniedFor is how long a denial explains what timed out: the server answers nothing else.
const deniedFor = 10 * time.Second

// PermissionError: the server does not allow this connection what it tried. Such a denial comes beside the
// call that caused it, which gets no answer: a call of a Client ends with it as soon as it is there.
type PermissionError struct {
	Operation string // Publish or Subscription, as the server says it
	Subject   string
}

func (e *PermissionError) Error() string {
	return fmt.Sprintf("the server does not permit: %s to %q", e.Operation, e.Subject)
}

func (e *PermissionError) Unwrap() error { return nats.ErrPermissionViolation }

// deniedError is the end of a call that a denial cut short. It reads as the denial does.
type deniedError struct {
	*PermissionError
	unknown bool // an earlier try of a write may have been stored
}

func (e *deniedError) Unwrap() []error {
	if e.unknown {
		return []error{e.PermissionError, job.ErrUnknown}
	}
	return []error{e.PermissionError}
}

var denial = regexp.MustCompile(`(?i)permissions violation for (\w+) (?:to|with reply of) "([^"]*)"`)

// deny keeps a denial, tells the calls under way of it, and logs each one once a minute at most.
func (e *events) deny(err error) {
	p := &PermissionError{Operation: "an operation", Subject: "?"}
	if m := denial.FindStringSubmatch(err.Error()); m != nil {
		p = &PermissionError{Operation: m[1], Subject: m[2]}
	}
	now := time.Now()
	e.denied, e.deniedAt = p, now
	for w := range e.watchers {
		w.tell(p)
	}
	if at, ok := e.logged[p.Error()]; ok && now.Sub(at) < time.Minute {
		return
	}
	if len(e.logged) >= 100 {
		clear(e.logged)
	}
	e.logged[p.Error()] = now
	e.log.Error().Str("operation", p.Operation).Str("subject", p.Subject).Msg("the NATS server denies a permission")
}

// watcher is told of denials while a call is under way. tell must not call the events.
type watcher struct{ tell func(*PermissionError) }

func (e *events) watch(w *watcher) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.watchers[w] = struct{}{}
}

func (e *events) unwatch(w *watcher) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.watchers, w)
}

// guard makes a context that ends, with the *PermissionError as its cause, once the server denies what the call
// needs.
func (e *events) guard(ctx context.Context, needs func(*PermissionError) bool) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watcher{func(p *PermissionError) {
		if needs(p) {
			cancel(p)
		}
	}}
	e.watch(w)
	return ctx, func() {
		e.unwatch(w)
		cancel(nil)
	}
}

// explain makes the error of a call that a denial ended be that denial, and adds a fresh one to an error that
// looks like a time-out. ctx is the call's own, still guarded.
func (e *events) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	var p *PermissionError
	if errors.As(context.Cause(ctx), &p) && !answered(err) {
		return &deniedError{p, errors.Is(err, job.ErrUnknown)}
	}
	if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, nats.ErrTimeout) && !errors.Is(err, job.ErrUnknown) {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.denied == nil || time.Since(e.deniedAt) > deniedFor {
		return err
	}
	return fmt.Errorf("%w (%w)", err, e.denied)
}

// answered reports whether an error is what came of a call, denial or not.
func answered(err error) bool {
	for _, e := range []error{
		job.ErrNotFound, job.ErrAmbiguous, job.ErrConflict, job.ErrTooLarge, job.ErrNotRequeuable, job.ErrNoQueue, job.ErrQueueInUse,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return errors.As(err, new(*job.FieldError))
}
