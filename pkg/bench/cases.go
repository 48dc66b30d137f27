package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/worker"
)

func cases() []benchCase {
	type measure = [2]func(context.Context, *env) ([]float64, error)
	return []benchCase{
		{
			name: "enqueue", figures: []string{"enqueue, pipelined"}, unit: "/s", goal: 0.7,
			raw: "async publishes with the same headers", measure: measure{rawEnqueue, ourEnqueue},
		},
		{
			name: "drain-10", figures: []string{"drain, 10 slots"}, unit: "/s",
			raw: "consume, publish a guarded record, ack", measure: measure{rawDrain(10), ourDrain(10)},
		},
		{
			name: "drain-100", figures: []string{"drain, 100 slots"}, unit: "/s", goal: 0.5,
			raw: "consume, publish a guarded record, ack", measure: measure{rawDrain(100), ourDrain(100)},
		},
		{
			name: "pickup", figures: []string{"idle pickup p50", "idle pickup p99"}, unit: "ms",
			raw: "publish to an idle consumer, one by one", measure: measure{rawPickup, ourPickup},
		},
		{
			name: "delayed", figures: []string{"due at one instant"}, unit: "/s",
			raw: "server schedules, consume, a guarded record, ack", measure: measure{rawDelayed, ourDelayed},
		},
		{
			name: "scheduled", figures: []string{"scheduled, late p50", "scheduled, late p99"}, unit: "ms",
			raw: "server schedules, one each 10 ms", measure: measure{rawScheduled, ourScheduled},
		},
	}
}

func rate(n int, since time.Time) []float64 {
	return []float64{float64(n) / time.Since(since).Seconds()}
}

// latencies are two quantiles of what was measured, in milliseconds.
func latencies(v []float64) []float64 { return []float64{quantile(v, 0.5), quantile(v, 0.99)} }

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func specs(n int, adjust func(i int, s *job.Spec)) []job.Spec {
	out := make([]job.Spec, n)
	for i := range out {
		out[i] = job.Spec{ID: strconv.Itoa(i), Type: "noop", Input: body}
		adjust(i, &out[i])
	}
	return out
}

func asIs(int, *job.Spec) {}

func rawEnqueue(ctx context.Context, e *env) ([]float64, error) {
	if _, err := e.rawStream(ctx); err != nil {
		return nil, err
	}
	start := time.Now()
	err := e.publish(ctx, e.cfg.Jobs, e.rawReady)
	return rate(e.cfg.Jobs, start), err
}

func ourEnqueue(ctx context.Context, e *env) ([]float64, error) {
	if err := e.open(ctx); err != nil {
		return nil, err
	}
	jobs := specs(e.cfg.Jobs, asIs)
	start := time.Now()
	_, err := e.store.EnqueueMany(ctx, jobs)
	return rate(e.cfg.Jobs, start), err
}

func rawDrain(slots int) func(context.Context, *env) ([]float64, error) {
	return func(ctx context.Context, e *env) ([]float64, error) {
		c, err := e.rawStream(ctx)
		if err != nil {
			return nil, err
		}
		if err := e.publish(ctx, e.cfg.Jobs, e.rawReady); err != nil {
			return nil, err
		}
		start := time.Now()
		err = e.rawDrain(ctx, c, e.cfg.Jobs, slots, func(int) {})
		return rate(e.cfg.Jobs, start), err
	}
}

func ourDrain(slots int) func(context.Context, *env) ([]float64, error) {
	return func(ctx context.Context, e *env) ([]float64, error) {
		if err := e.open(ctx); err != nil {
			return nil, err
		}
		if _, err := e.store.EnqueueMany(ctx, specs(e.cfg.Jobs, asIs)); err != nil {
			return nil, err
		}
		start := time.Now()
		end, err := e.work(ctx, slots, e.cfg.Jobs, func(*job.Job) {})
		return []float64{float64(e.cfg.Jobs) / end.Sub(start).Seconds()}, err
	}
}

// work runs n jobs whose handler does nothing but call each, and answers when the last one was settled.
func (e *env) work(ctx context.Context, slots, n int, each func(*job.Job)) (end time.Time, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var left atomic.Int64
	left.Store(int64(n))
	ran := make(chan struct{})
	done, err := e.start(ctx, slots, func(j *job.Job) {
		each(j)
		if left.Add(-1) == 0 {
			close(ran)
		}
	})
	if err != nil {
		return end, err
	}
	select {
	case <-ran:
		err = e.settled(ctx)
	case <-ctx.Done():
		err = fmt.Errorf("%d jobs were not run: %w", left.Load(), ctx.Err())
	}
	end = time.Now()
	stop()
	return end, errors.Join(err, <-done)
}

// settled waits until nothing of the queue is delivered and not acked.
func (e *env) settled(ctx context.Context) error {
	for {
		c, err := e.js.Consumer(ctx, strings.ToUpper(e.ns)+"_JOBS", "ready-"+job.DefaultQueue)
		if err != nil {
			return err
		}
		if c.CachedInfo().NumAckPending == 0 {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
}

// start runs a worker until ctx ends.
func (e *env) start(ctx context.Context, slots int, each func(*job.Job)) (<-chan error, error) {
	w, err := worker.New(e.store, worker.Config{Queues: map[string]int{job.DefaultQueue: slots}, Logger: zerolog.Nop()})
	if err != nil {
		return nil, err
	}
	worker.Handle(w, "noop", func(_ context.Context, j *job.Job, _ struct{}) (any, error) {
		each(j)
		return nil, nil
	})
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	return done, nil
}

// pickups is how many jobs are picked up one by one.
func (e *env) pickups() int { return min(e.cfg.Jobs/10, 500) }

func rawPickup(ctx context.Context, e *env) ([]float64, error) {
	c, err := e.rawStream(ctx)
	if err != nil {
		return nil, err
	}
	it, err := c.Messages()
	if err != nil {
		return nil, err
	}
	defer it.Stop()
	stop := context.AfterFunc(ctx, it.Stop)
	defer stop()
	var late []float64
	for i := range e.pickups() {
		from := time.Now()
		if _, err := e.js.PublishMsg(ctx, e.rawReady(i)); err != nil {
			return nil, err
		}
		m, err := it.Next()
		if err != nil {
			return nil, err
		}
		late = append(late, millis(time.Since(from)))
		if err := m.Ack(); err != nil {
			return nil, err
		}
	}
	return latencies(late), nil
}

func ourPickup(ctx context.Context, e *env) ([]float64, error) {
	if err := e.open(ctx); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	started := make(chan time.Time, 1)
	done, err := e.start(ctx, 4, func(*job.Job) { started <- time.Now() })
	if err != nil {
		return nil, err
	}
	var late []float64
	for _, spec := range specs(e.pickups(), asIs) {
		from := time.Now()
		if _, err := e.store.Enqueue(ctx, spec); err != nil {
			stop()
			return nil, errors.Join(err, <-done)
		}
		select {
		case at := <-started:
			late = append(late, millis(at.Sub(from)))
		case err := <-done:
			return nil, errors.Join(err, ctx.Err())
		}
	}
	stop()
	return latencies(late), <-done
}

// lead is how long before their instant jobs are enqueued, so that all of them are in by then.
func lead(n int) time.Duration { return 3*time.Second + time.Duration(n)*200*time.Microsecond }

func rawDelayed(ctx context.Context, e *env) ([]float64, error) {
	c, err := e.rawStream(ctx)
	if err != nil {
		return nil, err
	}
	at := time.Now().Add(lead(e.cfg.Jobs))
	if err := e.publish(ctx, e.cfg.Jobs, func(i int) *nats.Msg { return e.rawSchedule(i, at) }); err != nil {
		return nil, err
	}
	if time.Now().After(at) {
		return nil, fmt.Errorf("storing %d schedules took longer than %s", e.cfg.Jobs, lead(e.cfg.Jobs))
	}
	err = e.rawDrain(ctx, c, e.cfg.Jobs, 100, func(int) {})
	return rate(e.cfg.Jobs, at), err
}

func ourDelayed(ctx context.Context, e *env) ([]float64, error) {
	if err := e.open(ctx); err != nil {
		return nil, err
	}
	at := e.store.Now().Add(lead(e.cfg.Jobs))
	if _, err := e.store.EnqueueMany(ctx, specs(e.cfg.Jobs, func(_ int, s *job.Spec) { s.DueAt = at })); err != nil {
		return nil, err
	}
	if e.store.Now().After(at) {
		return nil, fmt.Errorf("enqueueing %d jobs took longer than %s", e.cfg.Jobs, lead(e.cfg.Jobs))
	}
	began, from := time.Now(), e.store.Now()
	end, err := e.work(ctx, 100, e.cfg.Jobs, func(*job.Job) {})
	return []float64{float64(e.cfg.Jobs) / (end.Sub(began) - at.Sub(from)).Seconds()}, err
}

const scheduleEvery = 10 * time.Millisecond

func (e *env) scheduled() int { return min(e.cfg.Jobs/10, 300) }

func rawScheduled(ctx context.Context, e *env) ([]float64, error) {
	c, err := e.rawStream(ctx)
	if err != nil {
		return nil, err
	}
	n := e.scheduled()
	first := time.Now().Add(time.Second)
	at := func(i int) time.Time { return first.Add(time.Duration(i) * scheduleEvery) }
	if err := e.publish(ctx, n, func(i int) *nats.Msg { return e.rawSchedule(i, at(i)) }); err != nil {
		return nil, err
	}
	late := make([]float64, n)
	err = e.rawDrain(ctx, c, n, 10, func(i int) { late[i] = millis(time.Since(at(i))) })
	return latencies(late), err
}

func ourScheduled(ctx context.Context, e *env) ([]float64, error) {
	if err := e.open(ctx); err != nil {
		return nil, err
	}
	n := e.scheduled()
	first := job.CeilMillis(e.store.Now().Add(time.Second))
	jobs := specs(n, func(i int, s *job.Spec) { s.DueAt = first.Add(time.Duration(i) * scheduleEvery) })
	if _, err := e.store.EnqueueMany(ctx, jobs); err != nil {
		return nil, err
	}
	late := make([]float64, n)
	_, err := e.work(ctx, 10, n, func(j *job.Job) {
		if i, err := strconv.Atoi(j.ID); err == nil {
			late[i] = millis(e.store.Now().Sub(j.DueAt))
		}
	})
	return latencies(late), err
}
