package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/metrics"
	"github.com/jetcrew/jetcrew/scheduler"
	"github.com/jetcrew/jetcrew/streams"
	"github.com/jetcrew/jetcrew/worker"
)

const (
	roleSteady = "steady"
	steadyEnv  = "JETCREW_CHAOS_STEADY"
)

func init() { roles = append(roles, natstest.Role(roleSteady, runSteady)) }

// steadyConfig is what a process is told that is to live through a long test.
type steadyConfig struct {
	workerConfig
	Leads   bool   // it leads, fires and sweeps; else it works
	Address string // a file that it writes the address of its metrics into
}

// steady is such a process.
type steady struct {
	*natstest.Proc
	name, address string
}

// steady starts such a process, and returns when it can be measured.
func (c *crew) steady(name string, leads bool) *steady {
	c.t.Helper()
	cfg := steadyConfig{workerConfig: c.cfg, Leads: leads, Address: filepath.Join(c.dir, name+".address")}
	cfg.ID, cfg.Ledger = "steady-"+name, filepath.Join(c.dir, "steady-"+name+".jsonl")
	text, err := json.Marshal(cfg)
	require.NoError(c.t, err)
	s := &steady{Proc: natstest.StartRole(c.t, roleSteady, steadyEnv+"="+string(text)), name: name}
	c.account.add(cfg.Ledger)
	c.until(func() error {
		address, err := os.ReadFile(cfg.Address)
		s.address = string(address)
		return err
	})
	return s
}

func runSteady() int {
	var cfg steadyConfig
	if err := json.Unmarshal([]byte(os.Getenv(steadyEnv)), &cfg); err != nil {
		return complain(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := cfg.run(ctx); err != nil {
		return complain(err)
	}
	return 0
}

func (c *steadyConfig) run(ctx context.Context) error {
	nc, err := connect(c.URL, c.options()...)
	if err != nil {
		return err
	}
	defer nc.Close()
	log := zerolog.New(os.Stdout).Level(zerolog.WarnLevel).With().Timestamp().Logger()
	store, err := streams.Open(ctx, nc, streams.Config{Replicas: c.Replicas, Lease: c.Lease, Logger: log})
	if err != nil {
		return err
	}
	defer store.Close()
	m := metrics.New("devel", c.ID, log)
	m.Conn(nc)
	m.Store(store)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: m.Handler(), ReadHeaderTimeout: 5 * time.Second}
	var beside sync.WaitGroup
	defer beside.Wait()
	defer server.Close()
	beside.Go(func() { _ = server.Serve(l) }) // it ends with the process
	if err := os.WriteFile(c.Address+".new", []byte("http://"+l.Addr().String()), 0o600); err != nil {
		return err
	}
	if err := os.Rename(c.Address+".new", c.Address); err != nil {
		return err
	}
	if c.Leads {
		return c.lead(ctx, nc, store, m, log)
	}
	return c.work(ctx, store, m, log)
}

func (c *steadyConfig) work(ctx context.Context, store *streams.Store, m *metrics.Metrics, log zerolog.Logger) error {
	book, err := openLedger(c.Ledger, c.ID)
	if err != nil {
		return err
	}
	w, err := worker.New(recordingQueue{store, book, new(sync.Once)}, worker.Config{
		ID: c.ID, Queues: map[string]int{c.Queue: c.Slots}, Lease: c.Lease, Grace: 5 * time.Second, Observer: m, Logger: log,
	})
	if err != nil {
		return err
	}
	m.Worker(w)
	handle(w, book)
	return w.Run(ctx)
}

func (c *steadyConfig) lead(ctx context.Context, nc *nats.Conn, store *streams.Store, m *metrics.Metrics, log zerolog.Logger) error {
	schedules, err := scheduler.OpenStore(ctx, nc, scheduler.StoreConfig{Clock: store, Logger: log})
	if err != nil {
		return err
	}
	election, err := scheduler.NewElection(ctx, nc, scheduler.Config{ID: c.ID, Logger: log})
	if err != nil {
		return err
	}
	firer := scheduler.NewFirer(schedules, store, scheduler.FirerConfig{Observe: m.Fired, Logger: log})
	election.Run(ctx, func(ctx context.Context, alive func()) {
		for ctx.Err() == nil {
			alive()
			round, cancel := context.WithTimeout(ctx, 10*time.Second)
			_, err := store.Sweep(round)
			cancel()
			if err != nil && ctx.Err() == nil {
				log.Warn().Err(err).Msg("housekeeping")
			}
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	}, firer.Run)
	return nil
}

// figures are what was measured of a process at one instant.
type figures struct{ bytes, goroutines float64 }

// measured has what was measured of one process over a test, and what it may grow by.
type measured struct {
	name string
	ask  func(context.Context) (figures, error)
	all  []figures
	// From the second fifth of the time to the last, memory may grow by half, or by so many bytes more: files that are read
	// and what the collector has not come round to are in it.
	slack float64
}

// measuring takes figures of processes until it is finished.
type measuring struct {
	t    testing.TB
	of   []*measured
	stop context.CancelFunc
	done sync.WaitGroup
}

func measure(t testing.TB, every time.Duration, server *natstest.Process, processes []*steady) *measuring {
	ctx, stop := context.WithCancel(context.Background())
	m := &measuring{t: t, stop: stop}
	t.Cleanup(m.finish)
	for _, p := range processes {
		m.of = append(m.of, &measured{name: p.name, slack: 32 << 20, ask: p.figures})
	}
	m.of = append(m.of, &measured{name: "server", slack: 128 << 20, ask: func(ctx context.Context) (figures, error) {
		var is struct {
			Mem float64 `json:"mem"`
		}
		body, err := get(ctx, server.MonitorURL()+"/varz")
		if err == nil {
			err = json.Unmarshal(body, &is)
		}
		return figures{bytes: is.Mem}, err
	}})
	for _, one := range m.of {
		m.done.Go(func() {
			for ctx.Err() == nil {
				// A server that is just being restarted is measured the next time.
				if f, err := one.ask(ctx); err == nil {
					one.all = append(one.all, f)
				}
				select {
				case <-time.After(every):
				case <-ctx.Done():
				}
			}
		})
	}
	return m
}

func get(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(resp.Status)
	}
	return io.ReadAll(resp.Body)
}

// figures are those of the process's own metrics.
func (s *steady) figures(ctx context.Context) (figures, error) {
	body, err := get(ctx, s.address)
	if err != nil {
		return figures{}, err
	}
	var f figures
	for line := range strings.Lines(string(body)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		var to *float64
		switch name {
		case "process_resident_memory_bytes":
			to = &f.bytes
		case "go_goroutines":
			to = &f.goroutines
		default:
			continue
		}
		if *to, err = strconv.ParseFloat(value, 64); err != nil {
			return figures{}, err
		}
	}
	if f.bytes == 0 || f.goroutines == 0 {
		return figures{}, errors.New("metrics without the process's memory and goroutines")
	}
	return f, nil
}

// finish ends the measuring.
func (m *measuring) finish() {
	m.stop()
	m.done.Wait()
}

// fifth is what is in the middle of the n-th fifth of the figures, of five.
func (m *measured) fifth(n int) figures {
	part := m.all[len(m.all)*(n-1)/5 : len(m.all)*n/5]
	middle := func(of func(figures) float64) float64 {
		values := make([]float64, len(part))
		for i, f := range part {
			values[i] = of(f)
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	return figures{
		middle(func(f figures) float64 { return f.bytes }),
		middle(func(f figures) float64 { return f.goroutines }),
	}
}

// enough reports whether there are figures to compare.
func (m *measured) enough() bool { return len(m.all) >= 10 }

// String says how large the processes were in the second and in the last fifth of the time.
func (m *measuring) String() string {
	parts := make([]string, len(m.of))
	for i, one := range m.of {
		if !one.enough() {
			parts[i] = fmt.Sprintf("%s: measured %d times", one.name, len(one.all))
			continue
		}
		first, last := one.fifth(2), one.fifth(5)
		parts[i] = fmt.Sprintf("%s: %.1f to %.1f MiB", one.name, first.bytes/(1<<20), last.bytes/(1<<20))
		if last.goroutines > 0 {
			parts[i] += fmt.Sprintf(", %.0f to %.0f goroutines", first.goroutines, last.goroutines)
		}
	}
	return strings.Join(parts, "; ")
}

// check wants no process to have grown.
func (m *measuring) check() {
	m.t.Helper()
	for _, one := range m.of {
		require.True(m.t, one.enough(), "%s was measured %d times only", one.name, len(one.all))
		first, last := one.fifth(2), one.fifth(5)
		require.LessOrEqual(m.t, last.bytes, first.bytes*1.5+one.slack, "bytes of the %s, that had %.0f", one.name, first.bytes)
		require.LessOrEqual(m.t, last.goroutines, first.goroutines*1.5+20, "goroutines of the %s, that had %.0f", one.name, first.goroutines)
	}
}
