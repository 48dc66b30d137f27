package streams

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// ProjectionConfig of a Projection. The zero value works.
type ProjectionConfig struct {
	// Interval is how often the stream is looked at for what no event told of. Reading takes the fiftieth part of the
	// time at most, so where there is much to read it becomes longer, twenty times at most. Defaults to 250 ms, 10 ms at least.
	Interval time.Duration
	// Reconcile is how often the index is compared with the store's exact counts. Defaults to 30 s, 100 ms at least.
	Reconcile time.Duration
	// Progress, where set, is told now and then how many messages have been read of how many, while the index is
	// built. One goroutine at a time calls it; it must not wait for the projection.
	Progress func(done, total uint64)

	hear  func(*nats.Msg) bool                       // whether an event arrives; for tests
	count func(context.Context) (*job.Counts, error) // instead of the store's own; for tests
}

func (c *ProjectionConfig) normalize() error {
	for _, d := range []struct {
		name       string
		value      *time.Duration
		def, least time.Duration
	}{
		{"interval", &c.Interval, 250 * time.Millisecond, 10 * time.Millisecond},
		{"reconcile", &c.Reconcile, 30 * time.Second, 100 * time.Millisecond},
	} {
		if *d.value == 0 {
			*d.value = d.def
		}
		if *d.value < d.least {
			return fmt.Errorf("streams: projection: %s: want at least %s, not %s", d.name, d.least, *d.value)
		}
	}
	return nil
}

// Projection is an index in memory of every job, without bodies, for processes that list often: any filter, order,
// offset and total is answered from it, and costs the server nothing but the records of the page. It is safe for
// concurrent use. A job takes about 140 bytes with an id of 36.
//
// It is a reader's convenience, made from the stream and never the truth. What it promises:
//   - Every message up to the sequence that a page names is in it, and nothing that was replaced by one of those.
//     Later changes are in it as soon as their events arrive.
//   - What it knows from an event alone it reads again as soon as there is time. Until then the instants of such a
//     change are its writer's reading of the store's clock, or, for a job just enqueued, this process's.
//   - An end goes at the instant at which its retention is over.
//   - What goes without any message (purged or deleted by hand, acked by a queue that keeps no records, its event lost)
//     is found by comparing the index with the store's exact counts: gone from the index after two comparisons that
//     differ, and the time to read the state or queue in question once. Two errors that outweigh each other are found
//     once one of them is mended.
//   - While the store cannot be read it goes on answering, and its pages say for which instant.
type Projection struct {
	s      *Store
	cfg    ProjectionConfig
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	events chan *nats.Msg
	subs   []*nats.Subscription

	// Of the goroutine that follows the stream alone.
	behind     int // how often in a row the stream ended before what is known of it
	reconciled time.Time
	uncounted  bool // the last comparison was not possible
	suspects   map[part]suspicion

	mu      sync.RWMutex // guards what follows
	shown   *index       // what is answered
	next    *index       // what is kept up to date; another one only while it is built anew
	last    uint64       // the stream's last sequence when it was looked at
	failing failure
	rebuilt int
}

var _ job.Lister = (*Projection)(nil)

// NewProjection makes a projection, and answers when it knows every job. It reads the whole stream once for that, and
// tries for as long as ctx allows; ctx means nothing afterwards.
func (s *Store) NewProjection(ctx context.Context, cfg ProjectionConfig) (*Projection, error) {
	if err := cfg.normalize(); err != nil {
		return nil, err
	}
	p := &Projection{s: s, cfg: cfg, events: make(chan *nats.Msg, eventBuffer), suspects: make(map[part]suspicion)}
	if p.cfg.count == nil {
		p.cfg.count = s.Count
	}
	p.shown = newIndex()
	p.next = p.shown
	p.ctx, p.cancel = context.WithCancel(s.ctx)
	if err := p.start(ctx); err != nil {
		p.Close()
		return nil, fmt.Errorf("streams: projection: %w", err)
	}
	return p, nil
}

func (p *Projection) start(ctx context.Context) error {
	// What is told of while the stream is read comes either way.
	if err := p.listen(); err != nil {
		return err
	}
	began := time.Now()
	for try := 0; ; try++ {
		_, err := p.step(ctx)
		p.note(err)
		if err == nil && p.caughtUp() {
			break
		}
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("%w: %w", ErrTopology, err)
		}
		if perr := pause(ctx, try); perr != nil {
			if err == nil {
				err = perr
			}
			return err
		}
	}
	st := p.Stats()
	p.s.log.Info().Int("jobs", st.Jobs).Uint64("seq", st.Seq).Dur("took", time.Since(began)).Msg("the index of jobs is complete")
	p.wg.Go(p.follow)
	return nil
}

// Close ends the projection's work. What it knows can still be listed. It may be called more than once.
func (p *Projection) Close() {
	p.cancel()
	p.wg.Wait()
}

// failure is a time in which the store could not be read.
type failure struct {
	since time.Time
	tries int
	last  error // stays when it is over
}

// note logs when an outage begins, and when it ends.
func (p *Projection) note(err error) {
	if p.ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f := &p.failing
	switch {
	case err != nil:
		if f.tries == 0 {
			f.since = time.Now()
			p.s.log.Warn().Err(err).Uint64("seq", p.shown.covered.upTo).Time("at", p.shown.at).
				Msg("the store cannot be read; jobs are listed as they were")
		}
		f.tries++
		f.last = err
	case f.tries > 0:
		p.s.log.Info().Int("tries", f.tries).Dur("after", time.Since(f.since)).Msg("the store can be read again; jobs are listed as they are")
		f.tries = 0
	}
}

// ProjectionStats say how a projection is.
type ProjectionStats struct {
	Jobs        int
	Seq         uint64    // everything up to it is known,
	At          time.Time // which was everything at this instant
	Behind      uint64    // messages that the stream has had since then, when it was last looked at
	Unread      int       // changes that are known from an event alone, and to be read
	Bytes       int       // of memory, as estimated
	BytesPerJob int
	Rebuilds    int
	Failing     bool  // the store cannot be read at the moment
	LastError   error // why it could not be read the last time that it could not
}

// Stats says how the projection is.
func (p *Projection) Stats() ProjectionStats {
	p.mu.RLock()
	defer p.mu.RUnlock()
	x := p.shown
	st := ProjectionStats{
		Jobs: x.jobs.visible(), Seq: x.covered.upTo, At: x.at, Unread: x.unread, Bytes: x.bytes(),
		Rebuilds: p.rebuilt, Failing: p.failing.tries > 0, LastError: p.failing.last,
	}
	if p.last > st.Seq {
		st.Behind = p.last - st.Seq
	}
	if n := x.jobs.live(); n > 0 {
		st.BytesPerJob = st.Bytes / n
	}
	return st
}

// Totals counts the jobs by status, and what waits and runs by queue. Other than the store's own count it takes for
// running what has a claim: a job younger than that still counts as ready.
func (p *Projection) Totals() *job.Counts {
	now := p.s.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shown.expire(now)
	return p.shown.jobs.totals()
}
