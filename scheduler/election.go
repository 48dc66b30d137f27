// Package scheduler elects one process of a fleet to do what one is enough for, such as housekeeping.
//
// The election is a key in a bucket whose entries expire. Whoever holds it renews it under the revision that
// it wrote itself, and no other; it gives up by its own monotonic clock as soon as it could not renew for as
// long as an entry lives, whatever the server says later. Two leaders at a time are possible for moments all
// the same (a paused process does not know that it was): what a leader does has to be harmless when two do it.
package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"github.com/rs/zerolog"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// DefaultTTL is how long a leader that says nothing stays leader.
const DefaultTTL = 10 * time.Second

const defaultNamespace = "jetcrew"

// retryMin is how long a process waits after an attempt to be elected before it makes another.
const retryMin = 50 * time.Millisecond

// leaderKey is the key that is fought for.
const leaderKey = "leader"

// ErrNoLeader: nobody leads at the moment.
var ErrNoLeader = errors.New("no leader")

// Config of an Election. ID is required.
type Config struct {
	// ID of this process, new at every start: a host name is no identity.
	ID string
	// Namespace as in the jobs' stream. Defaults to "jetcrew".
	Namespace string
	// Replicas of the bucket where it is made. Defaults to 1.
	Replicas int
	// Verify has a missing bucket refused instead of made.
	Verify bool
	// TTL is how long an entry lives. It is the bucket's, so it counts only where the bucket is made.
	// Defaults to 10 s, 1 s at least.
	TTL time.Duration
	// Hang is how long the leader's work may go without a sign of life before it counts as hung and the
	// lead is given up. Defaults to a minute.
	Hang time.Duration
	// Logger tells who leads. Defaults to none.
	Logger zerolog.Logger
}

// Leader is who leads.
type Leader struct {
	ID    string    `json:"id"`
	Term  string    `json:"term"` // new each time that somebody begins to lead
	Host  string    `json:"host,omitzero"`
	PID   int       `json:"pid"`
	Since time.Time `json:"since"` // by its own clock; for people to read
}

// Election is one process's part in electing a leader.
type Election struct {
	cfg Config
	nc  *nats.Conn
	kv  jetstream.KeyValue
	ttl time.Duration
}

// NewElection finds or makes the bucket that the election is held in.
func NewElection(ctx context.Context, nc *nats.Conn, cfg Config) (*Election, error) {
	if err := job.ValidateName("id", cfg.ID, job.MaxName); err != nil {
		return nil, fmt.Errorf("scheduler: %w", err)
	}
	if cfg.Namespace == "" {
		cfg.Namespace = defaultNamespace
	}
	if cfg.TTL == 0 {
		cfg.TTL = DefaultTTL
	}
	if cfg.TTL < time.Second {
		return nil, fmt.Errorf("scheduler: ttl: want at least 1s, not %s", cfg.TTL)
	}
	if cfg.Hang == 0 {
		cfg.Hang = time.Minute
	}
	e := &Election{cfg: cfg, nc: nc}
	if err := e.open(ctx); err != nil {
		return nil, err
	}
	status, err := e.kv.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("scheduler: bucket %s: %w", e.kv.Bucket(), err)
	}
	if e.ttl = status.TTL(); e.ttl < time.Second {
		return nil, fmt.Errorf("scheduler: bucket %s keeps its entries for %s: delete it, and it is made with a TTL of %s",
			e.kv.Bucket(), e.ttl, cfg.TTL)
	}
	return e, nil
}

// open finds or makes the bucket.
func (e *Election) open(ctx context.Context) (err error) {
	e.kv, err = openBucket(ctx, e.nc, e.cfg.Verify, jetstream.KeyValueConfig{
		Bucket: strings.ToUpper(e.cfg.Namespace) + "_LEADER", Description: "jetcrew: who leads", History: 1,
		Replicas: max(1, e.cfg.Replicas), TTL: e.cfg.TTL,
	})
	return err
}

// reopen makes the bucket anew where somebody deleted it. The old handle is good for the new one.
func (e *Election) reopen(ctx context.Context) error {
	again := *e
	again.cfg.TTL = e.ttl
	return again.open(ctx)
}

// Leader answers who leads, or ErrNoLeader.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	l, _, err := e.read(ctx)
	return l, err
}

func (e *Election) read(ctx context.Context) (Leader, uint64, error) {
	entry, err := e.kv.Get(ctx, leaderKey)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return Leader{}, 0, ErrNoLeader
	}
	if err != nil {
		return Leader{}, 0, fmt.Errorf("scheduler: reading who leads: %w", err)
	}
	var l Leader
	if err := job.Decode(entry.Value(), &l); err != nil {
		return Leader{}, 0, fmt.Errorf("scheduler: reading who leads: %w", err)
	}
	return l, entry.Revision(), nil
}

// Task is work that one process of a fleet is enough for. Its context ends when the lead is lost; it has to call alive
// at least once in Config.Hang, or it counts as hung and the lead is given up.
type Task func(ctx context.Context, alive func())

// Run takes part in the election until ctx ends. While this process leads, the tasks run, side by side; when one ends,
// the lead is given up. A lead that is given up cleanly is free at once.
func (e *Election) Run(ctx context.Context, tasks ...Task) {
	failed := 0
	for ctx.Err() == nil {
		t, err := e.win(ctx)
		if err != nil {
			failed = e.lost(ctx, err, failed)
			// Nothing is known. A little disorder keeps the fleet from asking all at once.
			pause(ctx, e.ttl/6+rand.N(e.ttl/6))
			continue
		}
		if failed > 0 {
			e.cfg.Logger.Info().Int("failed", failed).Msg("the election goes on")
		}
		failed = 0
		e.cfg.Logger.Info().Str("id", e.cfg.ID).Msg("leading")
		t.serve(ctx, tasks)
		e.cfg.Logger.Info().Str("id", e.cfg.ID).Msg("leading no more")
		pause(ctx, rand.N(e.ttl/3))
	}
}

// lost deals with an election that cannot be held. It is told of when that begins.
func (e *Election) lost(ctx context.Context, err error, failed int) int {
	if ctx.Err() != nil {
		return failed
	}
	if failed == 0 {
		e.cfg.Logger.Warn().Err(err).Msg("the election cannot be held")
	}
	within, cancel := context.WithTimeout(ctx, e.ttl/3)
	defer cancel()
	if err := e.reopen(within); err != nil {
		e.cfg.Logger.Debug().Err(err).Msg("the election's bucket is not there")
	}
	return failed + 1
}

// win waits until this process is elected. It tries when it sees that the lead was given back, and when nobody has
// renewed it for as long as an entry lives.
func (e *Election) win(ctx context.Context) (*term, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := e.kv.Watch(ctx, leaderKey)
	if err != nil {
		return nil, err
	}
	defer w.Stop()
	try := time.NewTimer(e.ttl/6 + rand.N(e.ttl/6))
	defer try.Stop()
	held := false
	for wait := retryMin; ; {
		select {
		case entry, ok := <-w.Updates():
			switch {
			case !ok:
				return nil, errors.New("the watch was broken off")
			case entry == nil && !held: // nobody led when the watch began
				try.Reset(0)
			case entry == nil:
			case entry.Operation() == jetstream.KeyValuePut:
				held, wait = true, retryMin
				try.Reset(e.ttl)
			default: // it was given back
				try.Reset(0)
			}
		case <-try.C:
			t, err := e.campaign(ctx)
			if !errors.Is(err, errHeld) {
				return t, err
			}
			// The server takes a moment to see that an entry has expired, or somebody else was faster.
			try.Reset(wait + rand.N(wait))
			wait = min(2*wait, max(retryMin, e.ttl/6))
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// errHeld: somebody leads.
var errHeld = errors.New("somebody leads")

// campaign tries once to become leader.
func (e *Election) campaign(ctx context.Context) (*term, error) {
	ctx, cancel := context.WithTimeout(ctx, e.ttl/3)
	defer cancel()
	switch _, _, err := e.read(ctx); {
	case err == nil:
		return nil, errHeld
	case !errors.Is(err, ErrNoLeader):
		return nil, err
	}
	host, _ := os.Hostname() // only for people to read
	t := &term{e: e, me: Leader{ID: e.cfg.ID, Term: nuid.Next(), Host: host, PID: os.Getpid(), Since: job.Millis(time.Now())}}
	var err error
	if t.body, err = job.Encode(t.me); err != nil {
		return nil, err
	}
	t.renewed = time.Now()
	t.rev, err = e.kv.Create(ctx, leaderKey, t.body)
	if errors.Is(err, jetstream.ErrKeyExists) {
		return nil, errHeld
	}
	return t, err
}
