package client

import (
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

// closeWait bounds the wait for the last event of a connection.
const closeWait = 2 * time.Second

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
	watchers map[*watcher]struct{}
}

func newEvents(log zerolog.Logger) *events {
	return &events{
		log: log, done: make(chan struct{}), logged: make(map[string]time.Time), watchers: make(map[*watcher]struct{}),
	}
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
