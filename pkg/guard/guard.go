// Package guard keeps work from being done twice, or too much of it at once, across a fleet: single flight by a key, caps
// per process, cancelling a run from any replica, and answering what a run answered before.
//
// It promises, over any kv.Adapter, that by the store's clock a key never has two holders; that a run's context ends
// before its hold on the key does; that a run is stopped by its owner only; and that what the store cannot answer fails
// the caller. Nothing is shared between callers.
//
// It leaves to others what a handler does once its context has ended: one that goes on past the run's timeout goes on
// without the key. Caps are per process, since a counter across replicas leaks when a holder dies; the cap of a fleet is
// its queue's. A cancel asked for in the first moments of a run may find it not yet there, where a replica of the store
// that is behind answers.
package guard

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

// Defaults and limits of a Config.
const (
	DefaultTimeout = 15 * time.Minute
	MinTimeout     = time.Second
	MaxTimeout     = 366 * 24 * time.Hour
	DefaultPoll    = 500 * time.Millisecond
	MinPoll        = 10 * time.Millisecond
	MaxPoll        = time.Minute
)

// Errors that callers branch on.
var (
	// ErrNotReleased: a run has ended, and its key could not be given back. It lapses with the run's timeout.
	ErrNotReleased = errors.New("the run key was not released")
	// ErrForeign: something else has written what stands under a key of the guards.
	ErrForeign = errors.New("not written by a guard")
)

// Config of Guards. Only Store has to be given.
type Config struct {
	// Store keeps the keys; all replicas have the same. Required.
	Store kv.Adapter
	// Timeout of a run that names none. Defaults to 15 min; 1 s to 366 days.
	Timeout time.Duration
	// ReplayWindow is how long what a run answered is kept, if its caller named its key. Defaults to none: nothing is.
	ReplayWindow time.Duration
	// Calls is how many runs of kind call may be going on in this process. Defaults to no limit.
	Calls int
	// CallsPerSpace is the same for those of one space. Defaults to no limit.
	CallsPerSpace int
	// Renders is how many runs of kind render may be going on in this process. Defaults to no limit.
	Renders int
	// Poll is how often a run looks whether it was cancelled from elsewhere. Defaults to 500 ms; 10 ms to 1 min.
	Poll time.Duration
	// Logger takes what an operator should know. Defaults to silence.
	Logger zerolog.Logger
}

// normalize fills in the defaults, and refuses what makes no sense by a *job.FieldError.
func (c *Config) normalize() error {
	if c.Store == nil {
		return &job.FieldError{Field: "Store", Reason: "is required"}
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Poll == 0 {
		c.Poll = DefaultPoll
	}
	if err := checkTimeout("Timeout", c.Timeout); err != nil {
		return err
	}
	if c.Poll < MinPoll || c.Poll > MaxPoll {
		return &job.FieldError{Field: "Poll", Reason: fmt.Sprintf("must be %s to %s, not %s", MinPoll, MaxPoll, c.Poll)}
	}
	if err := kv.CheckTTL(c.ReplayWindow); err != nil {
		return &job.FieldError{Field: "ReplayWindow", Reason: fmt.Sprintf("must be at least 1 ms, or 0 for none, not %s", c.ReplayWindow)}
	}
	for _, f := range []struct {
		name string
		n    int
	}{{"Calls", c.Calls}, {"CallsPerSpace", c.CallsPerSpace}, {"Renders", c.Renders}} {
		if f.n < 0 {
			return &job.FieldError{Field: f.name, Reason: fmt.Sprintf("must be positive, or 0 for no limit, not %d", f.n)}
		}
	}
	return nil
}

func checkTimeout(field string, d time.Duration) error {
	if d < MinTimeout || d > MaxTimeout {
		return &job.FieldError{Field: field, Reason: fmt.Sprintf("must be %s to %s, not %s", MinTimeout, MaxTimeout, d)}
	}
	return nil
}

// Guards are the guards of one process. It has one set, whoever uses them: two would each count for themselves. They are
// safe for concurrent use, and need no closing: whatever goes on in them belongs to a Run, and ends with it.
type Guards struct {
	cfg    Config
	outage outage

	mu    sync.Mutex
	runs  map[*Run]struct{} // what goes on, or begins
	kinds map[Kind]int      // how many of each kind
	calls map[string]int    // of kind call, by space
}

// New makes the guards of a process. Its errors name the field of cfg that is wrong.
func New(cfg Config) (*Guards, error) {
	if err := cfg.normalize(); err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	return &Guards{
		cfg: cfg, outage: outage{log: cfg.Logger},
		runs: make(map[*Run]struct{}), kinds: make(map[Kind]int), calls: make(map[string]int),
	}, nil
}

// Timeout is that of a run that names none.
func (g *Guards) Timeout() time.Duration { return g.cfg.Timeout }
