package faketime

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/streams"
	"github.com/jetcrew/jetcrew/worker"
)

// handler is what a hand does with a job of type "t".
type handler func(ctx context.Context, j *job.Job) (any, error)

func ok(context.Context, *job.Job) (any, error) { return nil, nil }

// takes is a handler that succeeds after so long, unless it is stopped.
func takes(d time.Duration) handler {
	return func(ctx context.Context, _ *job.Job) (any, error) {
		select {
		case <-time.After(d):
			return nil, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// handConfig is a hand's connection, store and worker.
type handConfig struct {
	link    *link // defaults to one without faults
	store   streams.Config
	worker  worker.Config
	handler handler
}

// hand is a worker that notes what it does.
type hand struct {
	w      *world
	nc     *nats.Conn // where it is the hand's own
	worker *worker.Worker
	stop   context.CancelFunc
	done   chan struct{}
	err    error // of Run

	mu     sync.Mutex // guards what follows
	starts []time.Time
	runs   []ran
	ends   []worker.Ended
}

// ran is one call of a handler, by the bubble's clock.
type ran struct {
	id          string
	attempt     int
	began, done time.Time
	cause       error // why its context had ended
}

// hire starts a worker with a connection and a store of its own.
func (w *world) hire(id string, cfg handConfig) *hand {
	w.t.Helper()
	var opts []nats.Option
	if cfg.link != nil {
		opts = append(opts, nats.InProcessServer(cfg.link))
	}
	nc := w.connect(opts...)
	store := w.open(nc, func(c *streams.Config) { *c = cfg.store })
	h := w.work(id, store, cfg.handler, func(c *worker.Config) {
		own := cfg.worker
		own.ID, own.Observer = c.ID, c.Observer
		*c = own
	})
	h.nc = nc
	return h
}

// work starts a worker on a store.
func (w *world) work(id string, store *streams.Store, fn handler, adjust ...func(*worker.Config)) *hand {
	w.t.Helper()
	h := &hand{w: w, done: make(chan struct{})}
	cfg := worker.Config{ID: id, Observer: h}
	for _, f := range adjust {
		f(&cfg)
	}
	var err error
	h.worker, err = worker.New(store, cfg)
	require.NoError(w.t, err)
	worker.Handle(h.worker, "t", func(ctx context.Context, j *job.Job, _ map[string]any) (any, error) {
		r := ran{id: j.ID, attempt: j.Attempts, began: time.Now()}
		h.note(func() { h.starts = append(h.starts, r.began) })
		result, err := fn(ctx, j)
		r.done, r.cause = time.Now(), context.Cause(ctx)
		h.note(func() { h.runs = append(h.runs, r) })
		return result, err
	})
	ctx, stop := context.WithCancel(context.Background())
	h.stop = stop
	go func() {
		defer close(h.done)
		h.err = h.worker.Run(ctx)
	}()
	w.t.Cleanup(func() {
		h.die()
		stop()
	})
	return h
}

func (h *hand) note(fn func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	fn()
}

// AttemptEnded notes what became of an attempt. See worker.Observer.
func (h *hand) AttemptEnded(e worker.Ended) {
	h.note(func() { h.ends = append(h.ends, e) })
}

// die ends the worker as a crash does: its connection first, so that it can say nothing any more.
func (h *hand) die() {
	if h.nc != nil {
		h.nc.Close()
	}
	h.worker.Kill()
	<-h.done
}

// retire drains the worker, and answers how long that took.
func (h *hand) retire() time.Duration {
	h.w.t.Helper()
	began := time.Now()
	h.stop()
	<-h.done
	require.NoError(h.w.t, h.err)
	return time.Since(began)
}

// began is when each call of the handler began.
func (h *hand) began() []time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]time.Time(nil), h.starts...)
}

// ran are the calls that have returned.
func (h *hand) ran() []ran {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]ran(nil), h.runs...)
}

// results are what the worker saw its attempts come to.
func (h *hand) results() []worker.Result {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []worker.Result
	for _, e := range h.ends {
		out = append(out, e.Result)
	}
	return out
}

// first waits until the handler was called for a job, and answers when that was.
func (h *hand) first(key job.Key) time.Time {
	h.w.t.Helper()
	for range 600 {
		for _, r := range h.ran() {
			if r.id == key.ID {
				return r.began
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	require.Fail(h.w.t, "not run within a minute of fake time", "%s", key)
	return time.Time{}
}
