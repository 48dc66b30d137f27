package worker

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/jetcrew/jetcrew/pkg/guard"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

// Defaults and limits of a Config.
const (
	DefaultConcurrency = 4
	MaxConcurrency     = 5_000
	DefaultLease       = 30 * time.Second
	MinLease           = time.Second
	DefaultGrace       = 30 * time.Second
	DefaultMaxStuck    = 10
)

// Config says what a worker takes, and how it treats what it took. The zero value works.
type Config struct {
	// ID names the worker. It must be new at every start; a host name is none. Defaults to the process id
	// and a random part.
	ID string
	// Queues to take from, each with how many of its jobs run at a time; 0 takes nothing from it.
	// Defaults to 4 of the queue "default".
	Queues map[string]int
	// Lease of a queue that is new; one that has a lease keeps it. At least 1 s. Defaults to 30 s.
	Lease time.Duration
	// Retry is how long failed attempts wait, unless their type or the job says otherwise. Defaults to
	// 30 s, doubled per attempt, at most 15 min.
	Retry RetryPolicy
	// Timeout of one attempt, unless its type or the job says otherwise. Defaults to none.
	Timeout time.Duration
	// Grace is how long a handler may go on once its context is cancelled. Past it, it counts as stuck:
	// its job is given up to other workers, and its slot stays taken. Defaults to 30 s.
	Grace time.Duration
	// MaxStuck is how many stuck handlers the worker bears. With more, or with every slot stuck, Run
	// drains and answers ErrStuck. Defaults to 10.
	MaxStuck int
	// DrainTimeout is how long a stop waits for running handlers; past it they are cancelled and their
	// jobs handed back, attempt refunded. Defaults to none: a stop waits however long they take.
	DrainTimeout time.Duration
	// Redact takes secrets out of error texts before they are recorded or logged. What looks like one (see
	// package redact) is taken out in any case. Defaults to nothing more.
	Redact func(text string) string
	// KV, where set, gives each handler the space of its job: kv.FromContext finds it. Defaults to none.
	KV *kv.Store
	// Guards are those of the process, for the types that ask for one: see WithSingleFlight and WithBudget. Their store has
	// to be the fleet's. Defaults to none.
	Guards *guard.Guards
	// Observer is told how each attempt ended. Defaults to nobody.
	Observer Observer
	// Tracer follows each attempt, such as one of package tracing. Defaults to nobody.
	Tracer Tracer
	// Version of the program, shown with the worker's presence.
	Version string
	// Logger defaults to silence.
	Logger zerolog.Logger
}

// normalize fills in the defaults, and refuses what makes no sense by a *job.FieldError.
func (c Config) normalize() (Config, error) {
	wrong := func(field, format string, args ...any) (Config, error) {
		return c, fmt.Errorf("worker: %w", &job.FieldError{Field: field, Reason: fmt.Sprintf(format, args...)})
	}
	if c.ID == "" {
		c.ID = newID()
	}
	if err := job.ValidateName("ID", c.ID, job.MaxName); err != nil {
		return c, fmt.Errorf("worker: %w", err)
	}
	c.Queues = maps.Clone(c.Queues)
	if len(c.Queues) == 0 {
		c.Queues = map[string]int{job.DefaultQueue: DefaultConcurrency}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Queues)) {
		if err := job.ValidateName(fmt.Sprintf("Queues[%q]", name), name, job.MaxName); err != nil {
			return c, fmt.Errorf("worker: %w", err)
		}
		if n := c.Queues[name]; n < 0 || n > MaxConcurrency {
			return wrong(fmt.Sprintf("Queues[%q]", name), "must be 0 to %d, not %d", MaxConcurrency, n)
		}
	}
	if len(c.Version) > job.MaxName {
		return wrong("Version", "has %d bytes, at most %d are allowed", len(c.Version), job.MaxName)
	}
	setDefault(&c.Lease, DefaultLease)
	setDefault(&c.Grace, DefaultGrace)
	setDefault(&c.MaxStuck, DefaultMaxStuck)
	if c.Lease < MinLease {
		return wrong("Lease", "must be at least %s, not %s", MinLease, c.Lease)
	}
	for _, f := range []struct {
		name string
		d    time.Duration
	}{{"Timeout", c.Timeout}, {"Grace", c.Grace}, {"DrainTimeout", c.DrainTimeout}} {
		if f.d < 0 {
			return wrong(f.name, "must not be negative, not %s", f.d)
		}
	}
	if c.MaxStuck < 0 {
		return wrong("MaxStuck", "must not be negative, not %d", c.MaxStuck)
	}
	if err := c.Retry.validate(); err != nil {
		return c, fmt.Errorf("worker: %w", err)
	}
	c.Retry = c.Retry.over(defaultRetry)
	return c, nil
}

func setDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

func newID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the program instead
	return fmt.Sprintf("%d-%s", os.Getpid(), hex.EncodeToString(b[:]))
}
