package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/streams"
	"github.com/jetcrew/jetcrew/worker"
)

const (
	roleCrowd = "crowd"
	crowdEnv  = "JETCREW_CHAOS_CROWD"
)

// crowdConfig is what a process of many workers is told.
type crowdConfig struct {
	workerConfig
	Workers int
}

// names are the ids of its workers.
func (c *crowdConfig) names() []string {
	out := make([]string, c.Workers)
	for i := range out {
		out[i] = fmt.Sprintf("%s-%d", c.ID, i)
	}
	return out
}

// runCrowd is a process of many workers, each with a connection of its own.
func runCrowd() int {
	var cfg crowdConfig
	if err := json.Unmarshal([]byte(os.Getenv(crowdEnv)), &cfg); err != nil {
		return complain(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	log := zerolog.New(os.Stdout).Level(zerolog.WarnLevel)
	failed := make([]error, cfg.Workers)
	var all sync.WaitGroup
	for i, id := range cfg.names() {
		all.Go(func() {
			one := cfg.workerConfig
			one.ID = id
			if failed[i] = one.run(ctx, log.With().Str("worker", id).Logger()); failed[i] != nil {
				stop()
			}
		})
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		return complain(err)
	}
	return 0
}

// run is one of a crowd: it does no housekeeping.
func (c *workerConfig) run(ctx context.Context, log zerolog.Logger) error {
	book, err := openLedger(c.Ledger, c.ID)
	if err != nil {
		return err
	}
	nc, err := connect(c.URL, c.options()...)
	if err != nil {
		return err
	}
	defer nc.Close()
	store, err := streams.Open(ctx, nc, streams.Config{Replicas: c.Replicas, Lease: c.Lease, Logger: log})
	if err != nil {
		return err
	}
	defer store.Close()
	w, err := worker.New(recordingQueue{store, book, new(sync.Once)}, worker.Config{
		ID: c.ID, Queues: map[string]int{c.Queue: c.Slots}, Lease: c.Lease, Logger: log,
	})
	if err != nil {
		return err
	}
	handle(w, book)
	return w.Run(ctx)
}

// crowd starts a process of many workers, and returns when all of them take jobs.
func (c *crew) crowd(id string, workers int) (*hand, []string) {
	c.t.Helper()
	cfg := crowdConfig{workerConfig: c.cfg, Workers: workers}
	cfg.ID, cfg.Ledger = id, filepath.Join(c.dir, id+".jsonl")
	text, err := json.Marshal(cfg)
	require.NoError(c.t, err)
	h := &hand{Proc: natstest.StartRole(c.t, roleCrowd, crowdEnv+"="+string(text)), id: id, crew: c}
	c.account.add(cfg.Ledger)
	for _, name := range cfg.names() {
		c.until(func() error {
			if c.account.count(is(eventUp, name, "")) == 0 {
				return fmt.Errorf("worker %s is not up", name)
			}
			return nil
		})
	}
	return h, cfg.names()
}

// The server is away for ten seconds, for 160 workers with a connection each. All of them come back, and each one
// asks for jobs again: one that has a single slot runs one of those jobs that end only when everybody has one.
func TestReconnectStorm(t *testing.T) {
	heavy(t)
	t.Parallel()
	server := natstest.StartServer(t, natstest.ServerConfig{})
	c := newCrew(t, server.URL(), workerConfig{Lease: 5 * time.Second, Slots: 1})
	var procs []*hand
	var workers []string
	for i := range 4 {
		p, names := c.crowd(fmt.Sprintf("crowd-%d", i), 40)
		procs, workers = append(procs, p), append(workers, names...)
	}
	c.housekeeping()
	c.start(2, 20*time.Millisecond)
	c.progress(60)
	server.Kill()
	c.faulted()
	time.Sleep(10 * time.Second) // the fault itself
	server.Restart(t)
	back := monotonic()
	c.progress(60)
	c.finish()

	c.put(2*len(workers), "held", input{Until: c.flag("go")}) // one to run, and one that may wait behind it
	c.until(func() error {
		idle := 0
		for _, id := range workers {
			if c.account.running(id) == 0 {
				idle++
			}
		}
		if idle > 0 {
			return fmt.Errorf("%d of %d workers have nothing to do", idle, len(workers))
		}
		return nil
	})
	t.Logf("%d workers all at work again %s after the server was back", len(workers), (monotonic() - back).Round(time.Millisecond))
	require.NoError(t, os.WriteFile(c.flag("go"), nil, 0o600))
	c.check(amnesia)
	c.dismiss(procs...)
}

// housekeeping goes on beside a test whose workers do none.
func (c *crew) housekeeping() {
	ctx, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { sweep(ctx, c.store, zerolog.Nop()) })
	c.t.Cleanup(func() {
		stop()
		done.Wait()
	})
}
