package scheduler

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/jetcrew/jetcrew/pkg/job"
)

const (
	// relistEvery is how often the leader reads all schedules anew: what it hears of changes is a hint.
	relistEvery = time.Minute
	// lookAtLeast is how often it looks at its clock, which may jump.
	lookAtLeast = time.Second
	// batch is how many fires are begun at a time, and underWay how many may be under way; of those that failed before,
	// suspects may.
	batch    = 1024
	underWay = 4096
	suspects = 128
)

// Jobs is what fires need of the jobs' store.
type Jobs interface {
	EnqueueMany(ctx context.Context, specs []job.Spec) ([]job.Enqueued, error)
	Get(ctx context.Context, key job.Key) (*job.Job, error)
	Cancel(ctx context.Context, key job.Key) (job.Changed, error)
}

// Fire is what became of one promised instant.
type Fire struct {
	Space, Name string
	At          time.Time     // the promised instant
	Late        time.Duration // how long after it the job was enqueued, by the store's clock
	Job         job.Key
	Created     bool  // false: somebody else had made it, or nothing was to be made
	Skipped     bool  // the last fire's job has not ended
	Missed      int   // fires that got no job of their own
	Err         error // why the job could not be enqueued
}

// FirerConfig of a Firer. The zero value works.
type FirerConfig struct {
	// Observe is told of each fire that this process made or gave up, from the goroutine that fires. Defaults to nobody.
	Observe func(Fire)
	// Logger tells of fires that were missed or refused. Defaults to none.
	Logger zerolog.Logger
}

// Firer enqueues the jobs of schedules that are due. One of a fleet should run, whoever leads; two do no harm, since
// the ids of the jobs are the same.
type Firer struct {
	store  *Store
	jobs   Jobs
	cfg    FirerConfig
	log    zerolog.Logger
	relist time.Duration // shorter in tests
	vain   int           // tries that came to nothing, in an outage
}

// NewFirer fires the schedules of a store.
func NewFirer(store *Store, jobs Jobs, cfg FirerConfig) *Firer {
	if cfg.Observe == nil {
		cfg.Observe = func(Fire) {}
	}
	return &Firer{store: store, jobs: jobs, cfg: cfg, log: cfg.Logger, relist: relistEvery}
}

// Run fires until ctx ends. It calls alive at least every few seconds while the server answers. An outage is logged
// once, and when it is over.
func (f *Firer) Run(ctx context.Context, alive func()) { f.lookOut(alive).run(ctx) }

// take takes in what is stored under a key.
func (f *Firer) take(known *board, e jetstream.KeyValueEntry) {
	if e.Operation() != jetstream.KeyValuePut {
		known.drop(e.Key(), e.Revision())
		return
	}
	if it := known.items[e.Key()]; it != nil && it.rev >= e.Revision() {
		return // what this process wrote itself
	}
	r, err := decode(e.Key(), e.Value(), e.Revision())
	if err != nil {
		f.log.Error().Err(err).Msg("a schedule cannot be read, and does not fire")
		known.set(e.Key(), e.Revision(), nil, time.Time{})
		return
	}
	known.set(e.Key(), e.Revision(), e.Value(), r.look())
}

// look is when a schedule is to be looked at next. One without a promise, which somebody else wrote, is given one.
func (s *Schedule) look() time.Time {
	switch {
	case !s.Active():
		return time.Time{}
	case s.NextRunAt.IsZero():
		return time.Unix(0, 0)
	}
	return s.NextRunAt
}
