package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/streams"
)

const (
	// patience is how long anything may take that has to happen.
	patience = 90 * time.Second
	stream   = "JETCREW_JOBS"
)

// crew is one test's producers and worker processes, on a server or a cluster that the test treats badly.
type crew struct {
	*producers
	t       testing.TB
	dir     string
	cfg     workerConfig
	js      jetstream.JetStream
	account *account
	faults  []time.Duration          // when the test did what it does, by the ledgers' clock
	ends    map[string]time.Duration // when each job's end was stored, by the same clock; known at rest
}

// newCrew connects the test's producers to url, where its workers will connect as well.
func newCrew(t testing.TB, url string, cfg workerConfig) *crew {
	t.Helper()
	cfg.URL = url
	if cfg.Queue == "" {
		cfg.Queue = "default"
	}
	if cfg.Slots == 0 {
		cfg.Slots = 8
	}
	nc, err := connect(url, cfg.options()...)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var store *streams.Store
	natstest.Eventually(t, patience, func() error { // a cluster that has just come up may think for a moment that a node is away
		store, err = streams.Open(ctx, nc, streams.Config{Replicas: cfg.Replicas, Lease: cfg.Lease})
		return err
	})
	t.Cleanup(store.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	return &crew{
		producers: newProducers(t, store, cfg.Queue), t: t, dir: t.TempDir(), cfg: cfg, js: js, account: newAccount(t), ends: make(map[string]time.Duration),
	}
}

// hand is one worker process.
type hand struct {
	*natstest.Proc
	id   string
	crew *crew
	said []string
}

// work starts a worker process, with further variables in its environment, and returns when it takes jobs.
func (c *crew) work(id string, env ...string) *hand {
	c.t.Helper()
	cfg := c.cfg
	cfg.ID, cfg.Ledger = id, filepath.Join(c.dir, id+".jsonl")
	text, err := json.Marshal(cfg)
	require.NoError(c.t, err)
	h := &hand{Proc: natstest.StartRole(c.t, roleWorker, append(env, workerEnv+"="+string(text))...), id: id, crew: c}
	c.account.add(cfg.Ledger)
	c.until(func() error {
		if c.account.count(is(eventUp, id, "")) == 0 {
			return fmt.Errorf("worker %s is not up", id)
		}
		return nil
	})
	return h
}

// busy waits until a worker runs at least n jobs.
func (h *hand) busy(n int) {
	h.crew.t.Helper()
	h.crew.until(func() error {
		if got := h.crew.account.running(h.id); got < n {
			return fmt.Errorf("worker %s runs %d jobs, want %d", h.id, got, n)
		}
		return nil
	})
}

func (c *crew) until(cond func() error) {
	c.t.Helper()
	natstest.Eventually(c.t, patience, cond)
}

// progress waits until n more jobs were settled than now.
func (c *crew) progress(n int) {
	c.t.Helper()
	c.settled(c.account.count(is(eventSettled, "", "")) + n)
}

// settled waits until so many settlements have been made.
func (c *crew) settled(want int) {
	c.t.Helper()
	c.until(func() error {
		if got := c.account.count(is(eventSettled, "", "")); got < want {
			return fmt.Errorf("%d settled, want %d", got, want)
		}
		return nil
	})
}

// put enqueues jobs that do what in says.
func (c *crew) put(n int, name string, in input) []string {
	c.t.Helper()
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s-%d", name, i)
		c.enqueue(&asked{ends: job.Succeeded, spec: job.Spec{
			ID: ids[i], Queue: c.cfg.Queue, Type: jobType, MaxAttempts: 20, Input: in.json(),
		}}, false)
	}
	return ids
}

// flag is a file for jobs to wait for.
func (c *crew) flag(name string) string { return filepath.Join(c.dir, name) }

// job reads a job's record.
func (c *crew) job(id string) (*job.Job, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return c.store.Get(ctx, job.Key{Queue: c.cfg.Queue, Space: job.DefaultSpace, ID: id})
}

// claimed waits until the record of each job says that a worker runs it.
func (c *crew) claimed(ids []string, worker string) {
	c.t.Helper()
	for _, id := range ids {
		c.until(func() error {
			j, err := c.job(id)
			if err == nil && (j.Status != job.Running || j.WorkerID != worker) {
				err = fmt.Errorf("job %s is %s by %q, want it run by %s", id, j.Status, j.WorkerID, worker)
			}
			return err
		})
	}
}

// dismiss has workers stop, and wants them to end well.
func (c *crew) dismiss(hands ...*hand) {
	c.t.Helper()
	for _, h := range hands {
		h.Signal(syscall.SIGTERM)
	}
	for _, h := range hands {
		require.Zero(c.t, h.Wait(patience), "exit code of worker %s", h.id)
	}
}
