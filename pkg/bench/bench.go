// Package bench measures jetcrew beside raw JetStream doing the same writes, in the same run and by turns. On a
// machine that is shared absolute figures drift; the ratios say something.
//
// Each measurement works in streams of its own, under a namespace that nothing else uses, and deletes them
// afterwards, so it may be run against any server; only the load is felt.
package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"github.com/rs/zerolog"

	"github.com/jetcrew/jetcrew/streams"
)

// Config of a run. Zero fields take their defaults.
type Config struct {
	Jobs     int      // per measurement; defaults to 10,000
	Rounds   int      // of each case; defaults to 3
	Cases    []string // names of cases; defaults to all
	Replicas int      // of the streams; defaults to 1
	// Progress is told before each measurement. Defaults to nothing.
	Progress func(done, total int, what string)
	// Fresh, where set, connects to a new and empty server for each measurement; close ends it. Without it
	// all measurements share the server of the connection given to Run.
	Fresh func() (nc *nats.Conn, end func(), err error)
}

// Validate says what is wrong with a configuration, before anything is measured.
func (c Config) Validate() error { return c.normalize() }

func (c *Config) normalize() error {
	if c.Jobs == 0 {
		c.Jobs = 10_000
	}
	if c.Rounds == 0 {
		c.Rounds = 3
	}
	if c.Replicas == 0 {
		c.Replicas = 1
	}
	if c.Jobs < 100 || c.Jobs > 1_000_000 {
		return fmt.Errorf("bench: jobs: want 100 to 1000000, not %d", c.Jobs)
	}
	if c.Rounds < 1 || c.Rounds > 100 {
		return fmt.Errorf("bench: rounds: want 1 to 100, not %d", c.Rounds)
	}
	if c.Replicas < 1 || c.Replicas > 5 {
		return fmt.Errorf("bench: replicas: want 1 to 5, not %d", c.Replicas)
	}
	for _, name := range c.Cases {
		if !slices.Contains(Names(), name) {
			return fmt.Errorf("bench: no case %q: there are %s", name, strings.Join(Names(), ", "))
		}
	}
	if c.Progress == nil {
		c.Progress = func(int, int, string) {}
	}
	return nil
}

// benchCase is one thing measured twice: a raw program, and jetcrew.
type benchCase struct {
	name    string
	raw     string   // what the raw program does
	figures []string // what one measurement answers
	unit    string   // "/s": more is better; "ms": less is
	goal    float64  // ratio of the first figure that is aimed at; 0: none
	measure [2]func(context.Context, *env) ([]float64, error)
}

// Names lists the cases.
func Names() []string {
	var out []string
	for _, c := range cases() {
		out = append(out, c.name)
	}
	return out
}

// Run measures, and answers what it found, case by case. Where a case fails the others still run; the error
// says which did.
func Run(ctx context.Context, nc *nats.Conn, cfg Config) (Report, error) {
	if err := cfg.normalize(); err != nil {
		return Report{}, err
	}
	var todo []benchCase
	for _, c := range cases() {
		if len(cfg.Cases) == 0 || slices.Contains(cfg.Cases, c.name) {
			todo = append(todo, c)
		}
	}
	rep := newReport(cfg)
	var errs []error
	total, done := len(todo)*cfg.Rounds*2, 0
	for _, c := range todo {
		values := [2][][]float64{}
		for range cfg.Rounds {
			for side, measure := range c.measure { // by turns, so that a drift meets both
				cfg.Progress(done, total, c.name+", "+[...]string{"raw", "jetcrew"}[side])
				done++
				v, err := measureOnce(ctx, nc, cfg, &rep, measure)
				if ctx.Err() != nil {
					return rep, ctx.Err()
				}
				if err != nil {
					errs = append(errs, fmt.Errorf("bench: %s, %s: %w", c.name, [...]string{"raw", "jetcrew"}[side], err))
					continue
				}
				values[side] = append(values[side], v)
			}
		}
		rep.add(c, values)
	}
	cfg.Progress(total, total, "done")
	return rep, errors.Join(errs...)
}

func measureOnce(ctx context.Context, nc *nats.Conn, cfg Config, rep *Report, measure func(context.Context, *env) ([]float64, error)) ([]float64, error) {
	if cfg.Fresh != nil {
		fresh, end, err := cfg.Fresh()
		if err != nil {
			return nil, err
		}
		defer end()
		nc = fresh
	}
	rep.Server = nc.ConnectedServerVersion()
	e, err := newEnv(nc, cfg)
	if err != nil {
		return nil, err
	}
	defer e.close()
	return measure(ctx, e)
}

// env is what one measurement works in.
type env struct {
	cfg   Config
	nc    *nats.Conn
	js    jetstream.JetStream
	ns    string
	store *streams.Store
}

func newEnv(nc *nats.Conn, cfg Config) (*env, error) {
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(4096))
	if err != nil {
		return nil, err
	}
	return &env{cfg: cfg, nc: nc, js: js, ns: "bench-" + strings.ToLower(nuid.Next()[12:])}, nil
}

// open makes jetcrew's streams.
func (e *env) open(ctx context.Context) error {
	var err error
	e.store, err = streams.Open(ctx, e.nc, streams.Config{Namespace: e.ns, Replicas: e.cfg.Replicas, Logger: zerolog.Nop()})
	return err
}

// close deletes what was made.
func (e *env) close() {
	if e.store != nil {
		e.store.Close()
	}
	e.js.CleanupPublisher()
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	ns := strings.ToUpper(e.ns)
	for _, name := range []string{ns + "_JOBS", "KV_" + ns + "_WORKERS", ns + "_RAW"} {
		// A request may go unanswered on a busy server; what was not made cannot be deleted, and what stays behind
		// all the same is named after the benchmark.
		for range 3 {
			if err := e.js.DeleteStream(ctx, name); err == nil || errors.Is(err, jetstream.ErrStreamNotFound) {
				break
			}
		}
	}
}
