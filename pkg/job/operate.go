package job

import (
	"context"
	"fmt"
	"time"
)

// Operator is what those ask who run the fleet: they look at the jobs, steer single ones and many, and set how
// queues are worked off. It is safe for concurrent use.
type Operator interface {
	Clock
	Lister
	// Count counts the jobs: exact, and cheap enough to be asked for every second.
	Count(ctx context.Context) (*Counts, error)
	Steerer
	QueueOperator
	// Workers are those that are alive, by id.
	Workers(ctx context.Context) ([]Worker, error)
}

// Lister lists jobs.
type Lister interface {
	// List answers a page of the jobs that a filter means, the newest update first unless another order is asked
	// for. Its errors are *FieldError for what cannot be asked, such as a cursor from elsewhere.
	List(ctx context.Context, req ListRequest) (*Page, error)
}

// Limits of a page.
const (
	DefaultPage = 50
	MaxPage     = 1000
)

// Order is what a listing is sorted by.
type Order string

// The orders. Only a listing that has an index can do more than ByUpdated, newest first.
const (
	ByUpdated Order = "updated"
	ByCreated Order = "created"
	ByRun     Order = "run" // when its next attempt may start
)

// ListRequest asks for a page.
type ListRequest struct {
	Filter    Filter
	Limit     int    // 1 to MaxPage; defaults to DefaultPage
	Cursor    string // Next of an earlier page, with the same filter and order
	Order     Order  // defaults to ByUpdated
	Ascending bool   // the oldest first
	Offset    int    // so many are skipped; not together with a cursor
	Bare      bool   // the records may lack what is long: input, result, error, history, log, progress
}

// Normalize fills in the defaults and refuses what cannot be asked, with a *FieldError.
func (r *ListRequest) Normalize() error {
	if err := r.Filter.Validate(); err != nil {
		return err
	}
	if r.Limit == 0 {
		r.Limit = DefaultPage
	}
	if r.Limit < 1 || r.Limit > MaxPage {
		return &FieldError{"limit", fmt.Sprintf("must be 1 to %d, not %d", MaxPage, r.Limit)}
	}
	if r.Order == "" {
		r.Order = ByUpdated
	}
	if r.Order != ByUpdated && r.Order != ByCreated && r.Order != ByRun {
		return &FieldError{"order", fmt.Sprintf("must be %s, %s or %s, not %q", ByUpdated, ByCreated, ByRun, r.Order)}
	}
	if r.Offset < 0 {
		return &FieldError{"offset", "must not be negative"}
	}
	if r.Offset > 0 && r.Cursor != "" {
		return &FieldError{"offset", "give an offset or a cursor, not both"}
	}
	return nil
}

// Uncounted is the total of a page whose jobs were not counted.
const Uncounted = -1

// Page is a part of a listing.
type Page struct {
	Jobs  []*Job
	Next  string    // the cursor to go on from; empty: there is nothing more
	Total int       // how many jobs fit in all, or Uncounted
	Seq   uint64    // the answer is true for the store as it was at this sequence of the stream,
	At    time.Time // and at this instant

	// A listing without an index stops when it has looked at many jobs that do not fit, with fewer jobs than asked
	// for, or none, and a cursor to go on from.
	Stopped  bool
	Looked   int       // at so many records
	LookedTo time.Time // back to this update
}

// Counts says how many jobs there are. Ready and Running are also told by queue.
type Counts struct {
	Ready     int `json:"ready"`
	Due       int `json:"due"`
	Running   int `json:"running"` // held by a worker, which may not have started it yet
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"`
	Dead      int `json:"dead"`
	Cancelled int `json:"cancelled"`

	Queues map[string]QueueCounts `json:"queues"`
}

// QueueCounts says how many jobs of a queue there are.
type QueueCounts struct {
	Ready   int `json:"ready"`
	Running int `json:"running"`
}

// Total is the number of all jobs.
func (c *Counts) Total() int {
	return c.Ready + c.Due + c.Running + c.Succeeded + c.Failed + c.Dead + c.Cancelled
}

// Of counts the jobs of one of FilterStatuses.
func (c *Counts) Of(s Status) int {
	switch s {
	case Pending:
		return c.Ready + c.Due
	case Ready:
		return c.Ready
	case Due:
		return c.Due
	case Running:
		return c.Running
	case Succeeded:
		return c.Succeeded
	case Failed:
		return c.Failed
	case Dead:
		return c.Dead
	case Cancelled:
		return c.Cancelled
	}
	return 0
}

// Operation is what an operator may do to a job.
type Operation string

// The operations.
const (
	OpCancel  Operation = "cancel"  // end what waits, have what runs stopped
	OpRequeue Operation = "requeue" // run again what has ended, with all its attempts
	OpRunNow  Operation = "run-now" // start what waits for its instant
	OpDelete  Operation = "delete"  // remove the record of what waits or has ended
)

// Statuses are those of the jobs that an operation can be done to.
func (o Operation) Statuses() []Status {
	switch o {
	case OpCancel:
		return []Status{Ready, Due, Running}
	case OpRequeue:
		return []Status{Succeeded, Failed, Dead, Cancelled}
	case OpRunNow:
		return []Status{Due}
	case OpDelete:
		return []Status{Ready, Due, Succeeded, Failed, Dead, Cancelled}
	}
	return nil
}

// Valid reports whether o is one of the operations.
func (o Operation) Valid() bool { return o.Statuses() != nil }

// Changed is what became of an operation on one job.
type Changed struct {
	Key  Key
	Done bool // this call changed the job
	// Status is the job's: where something was done afterwards (empty where the record is gone), otherwise as it was
	// found.
	Status Status
	// CancelRequested: it runs, and is being stopped.
	CancelRequested bool
}

// Steerer does operations. A key's empty space is "default"; an empty queue means whichever has the id. Errors to
// branch on: ErrNotFound, ErrAmbiguous, ErrUnknown (it is safe to ask again), ErrNotRequeuable.
type Steerer interface {
	// Cancel ends a waiting job at once, and has a running one stopped: its handler's context ends within a second.
	// A job that has ended, or is being stopped already, is left as it is.
	Cancel(ctx context.Context, key Key) (Changed, error)
	// Requeue has a job that has ended run again, with all its attempts; its history stays. One that has not ended
	// is left as it is.
	Requeue(ctx context.Context, key Key) (Changed, error)
	// RunNow has a job start that waits for its instant. Any other is left as it is.
	RunNow(ctx context.Context, key Key) (Changed, error)
	// Delete removes the record of a job that waits or has ended; its id may be used anew. A running one is left as
	// it is.
	Delete(ctx context.Context, key Key) (Changed, error)
	// Bulk does an operation to all jobs that a filter means as they are met, those that were there when it began.
	// Asking again is safe. The error is of what keeps it from going on; single jobs that could not be changed are
	// counted and named in the result.
	Bulk(ctx context.Context, req BulkRequest) (BulkResult, error)
}

// BulkRequest asks for an operation on many jobs.
type BulkRequest struct {
	Operation Operation
	Filter    Filter
	Limit     int  // stop after so many changes; 0: none
	DryRun    bool // only count what would be changed
	// Progress, where set, is told of now and then, by one goroutine at a time.
	Progress func(BulkResult)
}

// Validate refuses what cannot be asked, with a *FieldError.
func (r *BulkRequest) Validate() error {
	if !r.Operation.Valid() {
		return &FieldError{"operation", fmt.Sprintf("must be %s, %s, %s or %s, not %q", OpCancel, OpRequeue, OpRunNow, OpDelete, r.Operation)}
	}
	if r.Limit < 0 {
		return &FieldError{"limit", "must not be negative"}
	}
	return r.Filter.Validate()
}

// BulkResult says what became of an operation on many jobs.
type BulkResult struct {
	Looked  int `json:"looked"`  // records that were looked at
	ToLook  int `json:"toLook"`  // records that there are to look at, as far as is known
	Matched int `json:"matched"` // jobs that the filter means and the operation can be done to
	Done    int `json:"done"`    // jobs that were changed, or would be; of running ones: told to stop
	Left    int `json:"left"`    // jobs that somebody else changed first, left as they are
	Failed  int `json:"failed"`  // jobs that could not be changed
	// Errors of the first few of those.
	Errors []BulkError `json:"errors,omitzero"`
}

// MaxBulkErrors is how many errors a BulkResult names.
const MaxBulkErrors = 20

// BulkError is why one job could not be changed.
type BulkError struct {
	Key   Key    `json:"key"`
	Error string `json:"error"`
}

// Fail counts a job that could not be changed.
func (r *BulkResult) Fail(key Key, err error) {
	r.Failed++
	if len(r.Errors) < MaxBulkErrors {
		r.Errors = append(r.Errors, BulkError{key, CutError(err.Error())})
	}
}

// QueueOperator looks at queues and sets how they are worked off, for the whole fleet, and for as long as the queue
// exists.
type QueueOperator interface {
	// Queues are all queues, by name.
	Queues(ctx context.Context) ([]QueueInfo, error)
	// Queue is one of them; ErrNoQueue if there is none of that name.
	Queue(ctx context.Context, name string) (*QueueInfo, error)
	// Pause has nothing of the queue handed out any more until an instant of the store's, or, with none, until it is
	// resumed. What workers hold goes on. Jobs that fall due, and new ones, wait.
	Pause(ctx context.Context, name string, until time.Time) error
	// Resume ends a pause. One that is not paused stays so.
	Resume(ctx context.Context, name string) error
	// Configure changes the settings that are given, and answers how the queue is set afterwards. It makes a queue
	// that is not there. It may wait for as long as the old lease, until all workers know of a shorter one.
	Configure(ctx context.Context, name string, set QueueSettings) (*QueueInfo, error)
	// DeleteQueue removes a queue that has no jobs left but ended ones; ErrQueueInUse if it has, or workers.
	DeleteQueue(ctx context.Context, name string) error
}

// QueueInfo is a queue as it is set, and how much there is to do.
type QueueInfo struct {
	Name        string        `json:"name"`
	Ready       int           `json:"ready"`
	Running     int           `json:"running"`              // held by a worker, which may not have started it yet
	OldestReady time.Time     `json:"oldestReady,omitzero"` // since when the job waits that is next
	Paused      bool          `json:"paused"`
	PausedUntil time.Time     `json:"pausedUntil,omitzero"` // none: until it is resumed
	Concurrency int           `json:"concurrency"`          // jobs at a time in the whole fleet; 0: no limit
	Lease       time.Duration `json:"lease"`
	// LeaseInForce is the old lease for as long as a lower one is being introduced: until all workers know of it.
	LeaseInForce time.Duration `json:"leaseInForce,omitzero"`
	// Retention of records where it is the queue's own, by final status; 0 keeps none.
	Retention map[Status]time.Duration `json:"retention,omitzero"`
	Workers   int                      `json:"workers"` // that are alive
	Slots     int                      `json:"slots"`   // of all these
}

// KeepDefault is the retention that a queue has not set: what its workers are configured with holds.
const KeepDefault = time.Duration(-1)

// QueueSettings are changes to a queue's settings. What is nil stays as it is.
type QueueSettings struct {
	Concurrency *int           // jobs at a time in the whole fleet; 0: no limit
	Lease       *time.Duration // a second at least
	// Retention of records by final status: ten minutes at least, 0 for none, or KeepDefault.
	Retention map[Status]time.Duration
}

// Worker is a process that takes jobs.
type Worker struct {
	ID        string        `json:"id"`
	Host      string        `json:"host,omitzero"`
	PID       int           `json:"pid"`
	Version   string        `json:"version,omitzero"`
	StartedAt time.Time     `json:"startedAt"`
	BeatAt    time.Time     `json:"beatAt"`
	Queues    []WorkerQueue `json:"queues"`
}

// WorkerQueue is a worker's part in one queue.
type WorkerQueue struct {
	Queue   string        `json:"queue"`
	Slots   int           `json:"slots"`
	Lease   time.Duration `json:"lease"`
	Running int           `json:"running"`        // claims that have been written
	Types   []string      `json:"types,omitzero"` // that it has handlers for, the first of them where they are many
	Jobs    []WorkerJob   `json:"jobs,omitzero"`  // of these, where they are not too many to be named
}

// WorkerJob is a job that a worker runs.
type WorkerJob struct {
	Space string    `json:"space"`
	ID    string    `json:"id"`
	Type  string    `json:"type,omitzero"`
	Since time.Time `json:"since,omitzero"`
}
