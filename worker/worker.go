// Package worker runs jobs: it takes them from a job.Source, calls the handler of each job's type, and
// settles what came of it.
//
// It promises that no more than the configured number of handlers run at a time, that a handler's panic,
// refusal, timeout or cancellation comes to exactly the outcome that the job package's words describe, that
// a stop lets what runs end, and that a shutdown or an outage never costs a job an attempt. A job may still
// run twice, when a worker vanishes in the middle of it: handlers must bear that.
//
// Leases, heartbeats, presence and the store's clock are the queue's business; which outcome an attempt
// has, when to try again, and when to stop, is decided here.
package worker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// Errors that Run answers.
var (
	// ErrKilled: Kill was called; the jobs that ran are redelivered once their leases lapse.
	ErrKilled = errors.New("worker: killed before its jobs ended")
	// ErrStuck: handlers go on although their contexts were cancelled long ago. The process should exit.
	ErrStuck = errors.New("worker: handlers ignore their context")
)

// Worker runs the jobs of some queues. Register handlers with Handle, then call Run, once.
type Worker struct {
	queue job.Source
	cfg   Config

	live context.Context // ends at Kill, and when Run returns
	kill context.CancelFunc

	mu         sync.Mutex
	ran        bool
	handlers   map[string]*registration
	middleware []Middleware
	tally      tally
}

// New makes a worker. Its errors name the field of cfg that is wrong.
func New(queue job.Source, cfg Config) (*Worker, error) {
	if queue == nil {
		return nil, errors.New("worker: no queue given")
	}
	cfg, err := cfg.normalize()
	if err != nil {
		return nil, err
	}
	w := &Worker{queue: queue, cfg: cfg, handlers: map[string]*registration{}}
	w.live, w.kill = context.WithCancel(context.Background())
	return w, nil
}

// ID is the worker's id, by which records and presence name it.
func (w *Worker) ID() string { return w.cfg.ID }

// Types are the job types that have a handler, sorted.
func (w *Worker) Types() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.handlers))
}

// Queues are the queues that it takes from, sorted.
func (w *Worker) Queues() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(w.cfg.Queues)) {
		if w.cfg.Queues[name] > 0 {
			names = append(names, name)
		}
	}
	return names
}

// Kill makes Run return at once, with ErrKilled. Handlers have their contexts cancelled (job.ErrShutdown)
// but are not waited for; nothing of them is settled, and their jobs are redelivered. It may be called at
// any time, more than once, from any goroutine.
func (w *Worker) Kill() { w.kill() }

// Stats says what a worker is doing.
type Stats struct {
	Running  int // handlers, the stuck ones included
	Stuck    int // handlers that ignore their cancelled context; they hold their slots
	Settling int // outcomes being written
}

// Stats says what the worker is doing now.
func (w *Worker) Stats() Stats { return w.tally.stats() }
