package client

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// deniedFor is how long a denial explains what timed out: the server answers nothing else.
const deniedFor = 10 * time.Second

// closeWait bounds the wait for the last event of a connection.
const closeWait = 2 * time.Second

// PermissionError: the server does not allow this connection what it tried. Such a denial comes beside the
// call that caused it, which just times out; errors of a Client carry it where it fits.
type PermissionError struct {
	Operation string // Publish or Subscription, as the server says it
	Subject   string
}

func (e *PermissionError) Error() string {
	return fmt.Sprintf("the server does not permit: %s to %q", e.Operation, e.Subject)
}

func (e *PermissionError) Unwrap() error { return nats.ErrPermissionViolation }

// events logs what happens to a connection: an outage once when it begins and once when it ends.
type events struct {
	log  zerolog.Logger
	done chan struct{} // closed after the connection's last event

	mu       sync.Mutex
	downAt   time.Time // zero while connected
	own      bool      // we are closing it
	denied   *PermissionError
	deniedAt time.Time
	logged   map[string]time.Time // denials by text
}

func newEvents(log zerolog.Logger) *events {
	return &events{log: log, done: make(chan struct{}), logged: make(map[string]time.Time)}
}

func (e *events) closing() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.own = true
}

func (e *events) wait() {
	t := time.NewTimer(closeWait)
	defer t.Stop()
	select {
	case <-e.done:
	case <-t.C:
	}
}

func (e *events) disconnected(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.own || !e.downAt.IsZero() {
		return
	}
	e.downAt = time.Now()
	e.log.Warn().AnErr("reason", err).Msg("connection to NATS lost, trying to get it back")
}

func (e *events) reconnected(nc *nats.Conn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.downAt.IsZero() {
		return
	}
	e.log.Info().Dur("afterMs", time.Since(e.downAt)).Str("server", nc.ConnectedUrlRedacted()).Msg("connection to NATS is back")
	e.downAt = time.Time{}
}

func (e *events) closed(nc *nats.Conn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.own {
		e.log.Error().AnErr("reason", nc.LastError()).Msg("connection to NATS is closed for good")
	}
	close(e.done)
}

var denial = regexp.MustCompile(`(?i)permissions violation for (\w+) to "([^"]*)"`)

func (e *events) failed(_ *nats.Conn, sub *nats.Subscription, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if errors.Is(err, nats.ErrPermissionViolation) {
		e.deny(err)
		return
	}
	ev := e.log.Warn().Err(err)
	if sub != nil {
		ev = ev.Str("subject", sub.Subject)
	}
	ev.Msg("NATS reports an error")
}

// deny keeps a denial for the call that it belongs to, and logs each one once a minute at most.
func (e *events) deny(err error) {
	p := &PermissionError{Operation: "an operation", Subject: "?"}
	if m := denial.FindStringSubmatch(err.Error()); m != nil {
		p = &PermissionError{Operation: m[1], Subject: m[2]}
	}
	now := time.Now()
	e.denied, e.deniedAt = p, now
	if at, ok := e.logged[p.Error()]; ok && now.Sub(at) < time.Minute {
		return
	}
	if len(e.logged) >= 100 {
		clear(e.logged)
	}
	e.logged[p.Error()] = now
	e.log.Error().Str("operation", p.Operation).Str("subject", p.Subject).Msg("the NATS server denies a permission")
}

// explain adds a fresh denial to an error that looks like a time-out.
func (e *events) explain(err error) error {
	if err == nil || !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, nats.ErrTimeout) && !errors.Is(err, job.ErrUnknown) {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.denied == nil || time.Since(e.deniedAt) > deniedFor {
		return err
	}
	return fmt.Errorf("%w (%w)", err, e.denied)
}
