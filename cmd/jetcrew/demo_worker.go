package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/worker"
)

// demoWorkerCommand is what the demo calls itself with.
const demoWorkerCommand = "demo-worker"

// workerSetup is what the demo tells its workers, as one line of JSON on their standard input.
type workerSetup struct {
	URL     string
	Root    string // directory of the files
	Temp    string // directory of all that the demo writes
	Ledger  string
	Log     string
	Pause   time.Duration // of each handler
	Version string
}

func (a *app) newDemoWorker() *cobra.Command {
	return &cobra.Command{
		Use:    demoWorkerCommand,
		Short:  "The worker process of the demo",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   func(*cobra.Command, []string) error { return a.demoWorker() },
	}
}

func (a *app) demoWorker() error {
	in := bufio.NewReader(a.stdin)
	text, err := in.ReadBytes('\n')
	if err != nil {
		return usagef("this command is for the demo: it reads what to do from its standard input")
	}
	var setup workerSetup
	if err := json.Unmarshal(text, &setup); err != nil {
		return usagef("this command is for the demo: %w", err)
	}
	// Ctrl-C in a terminal is for the demo, which ends its workers.
	signal.Ignore(os.Interrupt)
	a.signals = terminated
	// The demo holds the other end open for as long as it lives, and longer than its worker does.
	go func() {
		_, _ = io.Copy(io.Discard, in)
		setup.cleanUp()
		os.Exit(exitFailure)
	}()
	log := zerolog.New(a.stderr).Level(zerolog.InfoLevel).With().Timestamp().Int("pid", os.Getpid()).Logger()
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	c, err := client.Connect(ctx, client.Config{URLs: []string{setup.URL}, Name: "jetcrew-demo-worker", Logger: log})
	if err != nil {
		return err
	}
	defer c.Close()
	h, err := newDemoHandlers(setup)
	if err != nil {
		return err
	}
	defer h.close()
	w, err := worker.New(c.Store(), worker.Config{
		Queues: map[string]int{job.DefaultQueue: demoSlots}, Lease: demoLease, Version: setup.Version, Logger: log,
	})
	if err != nil {
		return err
	}
	worker.Handle(w, "demo.sha256", h.sha256)
	worker.Handle(w, "demo.give-up", h.giveUp)
	worker.Handle(w, "demo.probe", h.probe)
	cfg, err := config.Load(nil, nil)
	if err != nil {
		return err
	}
	hk, err := a.newHousekeeping(ctx, c, cfg, w.ID(), newMetrics(c, "demo", log), log)
	if err != nil {
		return err
	}
	return a.runWorker(w, hk, nil, log)
}

// cleanUp removes what a demo left that was killed. It takes nothing for a demo's that does not look like it.
func (s workerSetup) cleanUp() {
	if !strings.HasPrefix(filepath.Base(s.Temp), demoDir) || filepath.Dir(s.Ledger) != s.Temp {
		return
	}
	_ = os.RemoveAll(s.Temp) // there is nobody left to tell
}

// terminated tells of SIGTERM alone.
func terminated() (<-chan os.Signal, func()) {
	ch := make(chan os.Signal, 2)
	signal.Notify(ch, syscall.SIGTERM)
	return ch, func() { signal.Stop(ch) }
}

// demoDigest is the result of a job that reads a file.
type demoDigest struct {
	digest
	Gone string `json:"gone,omitempty"` // why it cannot be read any more
}

// demoHandlers do the demo's jobs, and keep the ledger.
type demoHandlers struct {
	root   *os.Root
	ledger *ledger
	pause  time.Duration
}

func newDemoHandlers(setup workerSetup) (*demoHandlers, error) {
	root, err := os.OpenRoot(setup.Root)
	if err != nil {
		return nil, fmt.Errorf("open the demo's directory: %w", err)
	}
	l, err := openLedger(setup.Ledger)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return &demoHandlers{root, l, setup.Pause}, nil
}

func (h *demoHandlers) close() {
	_ = h.root.Close() // opened for reading
	_ = h.ledger.close()
}

func (h *demoHandlers) sha256(ctx context.Context, j *job.Job, in fileInput) (any, error) {
	if err := h.ledger.write(ledgerStart, j); err != nil {
		return nil, err
	}
	if err := wait(ctx, h.pause); err != nil {
		return nil, err
	}
	if j.Attempts <= in.Fails {
		return nil, errors.Join(fmt.Errorf("planned failure %d of %d", j.Attempts, in.Fails), h.ledger.write(ledgerFail, j))
	}
	d, err := digestFile(ctx, h.root, in.Path)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil: // it was read a moment ago: somebody deleted it, or put something else in its place
		return demoDigest{Gone: err.Error()}, h.ledger.write(ledgerDone, j)
	}
	return demoDigest{digest: d}, h.ledger.write(ledgerDone, j)
}

func (h *demoHandlers) giveUp(_ context.Context, j *job.Job, _ struct{}) (any, error) {
	if err := h.ledger.write(ledgerStart, j); err != nil {
		return nil, err
	}
	return nil, job.GiveUp(errors.New(giveUpReason))
}

func (h *demoHandlers) probe(_ context.Context, j *job.Job, _ struct{}) (any, error) {
	return nil, h.ledger.write(ledgerStart, j)
}
