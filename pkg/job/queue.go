package job

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrClosed: the consumer takes nothing any more.
var ErrClosed = errors.New("consumer closed")

// ErrUnknown: no answer came, so whether a write took effect is not known. Enqueueing the same id again is
// safe: it tells the truth.
var ErrUnknown = errors.New("outcome unknown")

// Enqueued is what became of one job that a producer asked for.
type Enqueued struct {
	Key     Key
	Created bool  // false: a job of that identity exists already, and was left as it is
	Err     error // of this one job, in a bulk call that goes on; wraps ErrUnknown if it may have been stored
}

// ConflictError names the jobs that exist already, when all or none were to be enqueued.
type ConflictError struct{ Keys []Key }

func (e *ConflictError) Error() string {
	names := make([]string, 0, 5)
	for i, k := range e.Keys {
		if i == 5 {
			names = append(names, fmt.Sprintf("and %d more", len(e.Keys)-i))
			break
		}
		names = append(names, k.String())
	}
	return "nothing was enqueued, since these exist already: " + strings.Join(names, ", ")
}

func (e *ConflictError) Unwrap() error { return ErrConflict }

// AmbiguousError names the queues in which an id was found.
type AmbiguousError struct {
	Space, ID string
	Queues    []string
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("job %s/%s is in several queues, name one: %s", e.Space, e.ID, strings.Join(e.Queues, ", "))
}

func (e *AmbiguousError) Unwrap() error { return ErrAmbiguous }

// Queue is what producers and workers ask of whatever holds the jobs. It is safe for concurrent use.
type Queue interface {
	Producer
	Source
}

// Clock tells the store's time.
type Clock interface {
	Now() time.Time
}

// Producer is what those ask who want work done.
type Producer interface {
	Clock
	// Enqueue stores a job unless one of its identity exists; then Created is false and nothing changes.
	Enqueue(ctx context.Context, spec Spec) (Enqueued, error)
	// EnqueueMany stores each job by itself, pipelined; the answers stand in the order of specs. The error
	// is that of the first job that has one.
	EnqueueMany(ctx context.Context, specs []Spec) ([]Enqueued, error)
	// EnqueueAll stores all jobs or none, at most 1,000; a *ConflictError names those that exist already.
	EnqueueAll(ctx context.Context, specs []Spec) ([]Enqueued, error)
	// Get reads a job by its identity. An empty queue means: whichever has it; a *AmbiguousError if
	// several do. ErrNotFound if none does.
	Get(ctx context.Context, key Key) (*Job, error)
	// Wait waits for a job's end and answers its record; ErrNotFound if there is no such job (any more), the
	// context's error if it ends first.
	Wait(ctx context.Context, key Key) (*Job, error)
}

// Source is what a worker takes its jobs from.
type Source interface {
	Clock
	// Consume makes a consumer of one queue for one worker.
	Consume(ctx context.Context, cfg ConsumerConfig) (Consumer, error)
}

// ConsumerConfig says who takes jobs, from where, and how many at a time.
type ConsumerConfig struct {
	Queue    string        // defaults to "default"
	WorkerID string        // required: new at every start of a worker
	Slots    int           // how many jobs the worker runs at a time; at least 1
	Lease    time.Duration // for a queue that is new; 0: 30 s. A queue that has a lease keeps it.
	Version  string        // of the worker's program, for whoever looks at its presence
	Types    []string      // that the worker has handlers for, likewise
}

// Consumer hands out the jobs of one queue, each under a lease that it renews by itself for as long as the
// claim is held. It is safe for concurrent use.
type Consumer interface {
	// Claim waits for a job, and holds it for the caller from then on: its handler may start at once.
	// It asks the store for as many jobs as there are callers waiting, and little more. It answers
	// ErrClosed once the consumer drains, the context's error, or an error after which it can take
	// nothing any more (the connection is closed for good).
	Claim(ctx context.Context) (Claim, error)
	// Lease is the queue's lease.
	Lease() time.Duration
	// Drain takes nothing new, and hands back, refunded, what was delivered but not claimed yet. Claims that
	// callers hold go on, and so do their heartbeats. It waits for the hand-backs, at most until ctx ends.
	Drain(ctx context.Context) error
	// Close ends everything: heartbeats stop, presence is withdrawn. It implies Drain. Claims still held
	// are abandoned.
	Close(ctx context.Context) error
}

// Claim is a job that a worker holds. It is safe for concurrent use.
type Claim interface {
	// Job is the job as it was claimed: running, its attempt counted. The caller may change the copy.
	Job() *Job
	// Notify has fn called once, from another goroutine, when the hold ends before it is settled or the
	// handler should stop: with ErrCancelRequested (an operator cancelled the job; it is still held, and
	// to be settled as Cancelled) or with ErrLeaseLost (it belongs to somebody else, or nothing is known
	// of it for a lease: stop, settle nothing). At most one function; what happened before is told at once.
	Notify(fn func(error))
	// Heartbeat renews the claim now, without waiting for the consumer's next round.
	Heartbeat(ctx context.Context) error
	// Settle ends the attempt. It answers ErrLeaseLost, and has changed nothing, if the claim is no longer
	// this one's; it tries again for as long as ctx allows when the store cannot be reached. The job it
	// answers is the record as it was written.
	Settle(ctx context.Context, o Outcome) (*Job, error)
	// Abandon stops the heartbeats of this claim: its lease will lapse, and another worker take it over.
	Abandon()
}
