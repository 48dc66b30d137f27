package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// sweepShare bounds the part of its time that housekeeping spends on each of its looks: the hundredth part.
	sweepShare = 100
	// mostLook and mostWalk bound for how long a look is put off for that: one at what runs, is new, or hands out, and
	// one at a part of everything.
	mostLook = 10 * time.Second
	mostWalk = time.Minute
)

// sweepAges is for how long something has to stand before housekeeping takes it for left behind, and how it paces
// itself.
type sweepAges struct {
	// older: a job's last change, before what is older is deleted. Whoever wrote the newest document deletes the
	// older ones right after, and what was acked is removed by every replica in its own time.
	older time.Duration
	// ready: the same for an older ready message. Its redelivery finishes the clean-up in most cases; but a queue may
	// be paused, or have no workers, for longer than the newest document is kept.
	ready time.Duration
	// wake: a wake for which there is nothing to do.
	wake time.Duration
	// queue: a queue without a consumer. A worker whose consumer was deleted makes it again with its own settings.
	queue time.Duration
	// stuck: a ready document, and the consumer's idleness, before the consumer counts as stuck.
	stuck time.Duration

	share time.Duration // of its time that a look rests for each that it takes
}

var defaultSweepAges = sweepAges{
	older: 5 * time.Second, ready: time.Minute, wake: time.Minute, queue: 10 * time.Second, stuck: time.Minute,
	share: sweepShare,
}

// sweeper is what housekeeping remembers from one round to the next. A process that begins with none of it finds out
// everything again by itself, step by step.
type sweeper struct {
	mu        sync.Mutex // held for a round
	after     sweepAges
	claims    pace
	due       dueIndex
	news      news
	walk      wholeWalk
	older     olderLooks
	consumers consumerLook
	garbage   garbage

	most int // messages of one batch; 0: not known yet

	count  sync.Mutex // guards totals
	totals SweepReport
}

// pace keeps one of housekeeping's looks to its share of the time.
type pace struct{ next time.Time }

func (p *pace) due() bool { return !time.Now().Before(p.next) }

// spent puts the next look off for as long as the time since began allows for, but never for very long: a round that
// took its time because the store did not answer says nothing of the next.
func (sw *sweeper) spent(p *pace, began time.Time, most time.Duration) {
	now := time.Now()
	p.next = now.Add(min(sw.after.share*now.Sub(began), most))
}

// Sweep makes one round of housekeeping: it mends what crashes and server faults leave behind, by the same
// guarded writes as everyone. Any number of processes may do it at a time; one is enough. It is to be called
// every few seconds.
//
// What there may be much of is read in parts, a round at a time, so that neither the server nor this process is
// kept busy for more than about a hundredth of the time. At a million records that makes it an hour until everything
// was looked at once; what is new is looked at within seconds all the same, as is what runs or is late.
func (s *Store) Sweep(ctx context.Context) (SweepReport, error) {
	sw := &s.sweep
	sw.mu.Lock()
	defer sw.mu.Unlock()
	sw.after = cmp.Or(sw.after, defaultSweepAges)
	var rep SweepReport
	err := s.round(ctx, &rep)
	sw.count.Lock()
	defer sw.count.Unlock()
	sw.totals.add(rep)
	return rep, err
}

func (s *Store) round(ctx context.Context, rep *SweepReport) error {
	stream, err := s.extent(ctx)
	if err != nil {
		return fmt.Errorf("housekeeping: %w", err)
	}
	var errs []error
	for _, look := range []struct {
		what string
		look func(context.Context, extent, *SweepReport) error
	}{
		{"claims", s.sweepClaims},
		{"what is new", s.sweepNews},
		{"due jobs", s.sweepDue},
		{"older documents", s.sweepOlder},
		{"all there is", s.sweepWalk},
		{"consumers", s.sweepConsumers},
	} {
		if err := look.look(ctx, stream, rep); err != nil {
			errs = append(errs, fmt.Errorf("housekeeping: %s: %w", look.what, err))
		}
		if ctx.Err() != nil {
			break // the others would only say the same
		}
	}
	return errors.Join(errs...)
}

// each has something done for every job of a batch. One that cannot be mended does not keep the others from it:
// the error, of the first such job, is for the end. A round that has run out of time ends at once.
func each(ctx context.Context, docs map[string][]record, mend func(tail string, recs []record) error) error {
	var first error
	for tail, recs := range docs {
		if err := mend(tail, recs); err != nil {
			first = cmp.Or(first, fmt.Errorf("%s: %w", tail, err))
		}
		if ctx.Err() != nil {
			return cmp.Or(first, ctx.Err())
		}
	}
	return first
}

// inspect reads the documents of jobs, in parts, and has something done for each job that has any.
func (s *Store) inspect(ctx context.Context, tails []string, mend func(tail string, recs []record) error) error {
	var failed error
	for len(tails) > 0 {
		n := min(len(tails), maxFilters)
		docs, _, err := s.documents(ctx, tails[:n])
		if err != nil {
			return err
		}
		failed = cmp.Or(failed, each(ctx, docs, mend))
		if ctx.Err() != nil {
			return cmp.Or(failed, ctx.Err())
		}
		tails = tails[n:]
	}
	return failed
}
