package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
)

const (
	closeTime = 5 * time.Second        // for consumers to say goodbye
	killTime  = 250 * time.Millisecond // for the same when there is no time
)

// run is the state of a worker while it runs.
type run struct {
	w        *Worker
	cfg      *Config
	handlers map[string]*registration
	slots    int // of all queues
	queues   []*queueRun

	base      context.Context // parent of the handlers' contexts: the stop of Run does not end it
	interrupt context.CancelCauseFunc
	draining  atomic.Bool
	failed    chan error // the first reason why the worker cannot go on

	outage    outage
	unhandled unhandled
}

// Run takes jobs and runs them until ctx ends, which means a stop: it takes nothing new, waits for what
// runs (see Config.DrainTimeout), and answers nil once all is settled. It answers an error when it could
// not begin, when it can take nothing any more (the connection is closed for good), and when it ends with
// handlers that are stuck (ErrStuck) or outcomes that could not be written; the process should exit then.
// Before it answers such an error it waits for what runs, for DrainTimeout or, without one, for a lease.
//
// It may be called once: a worker's id is new at every start.
func (w *Worker) Run(ctx context.Context) error {
	r, err := w.begin(ctx)
	if err != nil {
		return err
	}
	defer w.kill() // who has not returned by now is not waited for
	log := &w.cfg.Logger
	if err := r.open(ctx); err != nil {
		r.close()
		switch {
		case w.live.Err() != nil:
			return ErrKilled
		case ctx.Err() != nil:
			return nil
		}
		return err
	}
	for _, q := range r.queues {
		q.startSlots()
	}
	log.Info().Str("worker", w.cfg.ID).Int("slots", r.slots).Strs("types", w.Types()).Msg("working")

	var fatal error
	select {
	case <-ctx.Done():
	case <-w.live.Done():
	case fatal = <-r.failed:
		log.Error().Str("error", r.cfg.redacted(fatal)).Msg("worker cannot go on")
	}
	err = r.drain(r.drainTimeout(fatal))
	if w.live.Err() != nil {
		r.interrupt(job.ErrShutdown)
	}
	r.close()
	r.unhandled.report()
	if errors.Is(fatal, ErrStuck) && errors.Is(err, ErrStuck) {
		err = nil // said already
	}
	return errors.Join(fatal, err)
}

// begin freezes the registrations.
func (w *Worker) begin(ctx context.Context) (*run, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ran {
		return nil, errors.New("worker: Run was called before; make a new worker")
	}
	w.ran = true
	log := w.cfg.Logger
	r := &run{
		w: w, cfg: &w.cfg, handlers: map[string]*registration{}, failed: make(chan error, 1),
		outage: outage{log: log}, unhandled: unhandled{log: log},
	}
	for typ, reg := range w.handlers {
		r.handlers[typ] = reg.wrapped(w.cfg.Retry, w.middleware)
	}
	r.base, r.interrupt = context.WithCancelCause(context.WithoutCancel(ctx))
	return r, nil
}

// open makes the consumers.
func (r *run) open(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.w.live, cancel)()
	for _, name := range slices.Sorted(maps.Keys(r.cfg.Queues)) {
		slots := r.cfg.Queues[name]
		if slots == 0 {
			continue
		}
		consumer, err := r.w.queue.Consume(ctx, job.ConsumerConfig{
			Queue: name, WorkerID: r.cfg.ID, Slots: slots, Lease: r.cfg.Lease, Version: r.cfg.Version, Types: r.w.Types(),
		})
		if err != nil {
			return fmt.Errorf("worker: queue %q: %w", name, err)
		}
		q := &queueRun{run: r, name: name, slots: slots, consumer: consumer, writes: make(chan struct{}, 2*slots)}
		q.claims, q.stopClaims = context.WithCancel(r.w.live)
		r.queues = append(r.queues, q)
		r.slots += slots
	}
	return nil
}

// fail ends the run for the given reason, unless it ends already.
func (r *run) fail(err error) {
	select {
	case r.failed <- err:
	default:
	}
}

// drainTimeout is how long the drain may take: after a failure not for ever, since what still runs may
// never be settled.
func (r *run) drainTimeout(fatal error) time.Duration {
	limit := r.cfg.DrainTimeout
	if fatal != nil && limit == 0 {
		for _, q := range r.queues {
			limit = max(limit, q.lease())
		}
	}
	return limit
}

func (q *queueRun) lease() time.Duration { return max(q.consumer.Lease(), MinLease) }

// close ends the consumers, and with them the heartbeats and the worker's presence.
func (r *run) close() {
	limit := closeTime
	if r.w.live.Err() != nil {
		limit = killTime
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var all sync.WaitGroup
	for _, q := range r.queues {
		all.Go(func() {
			q.stopClaims()
			if err := q.consumer.Close(ctx); err != nil {
				r.cfg.Logger.Warn().Str("error", r.cfg.redacted(err)).Str("queue", q.name).Msg("consumer did not close cleanly")
			}
		})
	}
	all.Wait()
	r.interrupt(job.ErrShutdown)
}
