package streams

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
)

const (
	// lateDue is how long past its instant a due document may stand before it is moved without a wake.
	lateDue = 10 * time.Second
	// sweepBatch is how many documents one read of housekeeping takes.
	sweepBatch = 500
	// sweepBytes bounds such a read.
	sweepBytes = 8 << 20
)

// SweepReport counts what one round of housekeeping repaired.
type SweepReport struct {
	LostReady int // claims whose ready message, lease and holder were gone
	LateDue   int // due documents that no alarm had moved
	Older     int // documents older than their job's newest
	Undone    int // messages that a crashed server brought back, or would never have delivered
}

// Repaired is the number of repairs.
func (r SweepReport) Repaired() int { return r.LostReady + r.LateDue + r.Older + r.Undone }

// sweeper remembers what housekeeping has seen: due documents by their instants, up to a sequence. It holds
// about 150 bytes for each job that waits for its instant.
type sweeper struct {
	mu       sync.Mutex
	upTo     uint64
	due      dueHeap
	readAt   time.Time       // when everything that waits was read anew
	readTook time.Duration   // and how long that took
	older    map[uint64]bool // documents that were older than their job's newest in the last round
}

type dueEntry struct {
	at   time.Time
	tail string
}

type dueHeap []dueEntry

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)        { *h = append(*h, x.(dueEntry)) }
func (h *dueHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	return e
}

// Sweep makes one round of housekeeping: it mends what crashes and server faults leave behind, by the same
// guarded writes as everyone. Any number of processes may do it at a time; one is enough. It is to be called
// every few seconds.
func (s *Store) Sweep(ctx context.Context) (SweepReport, error) {
	s.sweep.mu.Lock()
	defer s.sweep.mu.Unlock()
	var rep SweepReport
	var errs []error
	failed := func(what string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("housekeeping: %s: %w", what, err))
		}
	}
	failed("claims", s.sweepRunning(ctx, &rep))
	// Everything that waits is read anew from time to time: what was there, and gone, may be back.
	began := time.Now()
	again := began.Sub(s.sweep.readAt) >= sweepShare*s.sweep.readTook
	if again {
		s.sweep.upTo, s.sweep.due = 0, nil
	}
	failed("due jobs", s.sweepDue(ctx, &rep))
	if again {
		failed("alarms", s.sweepAlarms(ctx, &rep))
		s.sweep.readAt, s.sweep.readTook = time.Now(), time.Since(began)
	}
	failed("acked messages", s.sweepAcked(ctx, &rep))
	return rep, errors.Join(errs...)
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

// scan reads the stream's messages of one state from a sequence on, in batches, and answers where to go on.
func (s *Store) scan(ctx context.Context, st state, from uint64, each func([]record) error) (uint64, error) {
	for {
		c, err := s.read.get(ctx, directRequest{
			Seq: max(from, 1), NextFor: s.names.stateFilter(st), Batch: sweepBatch, MaxBytes: sweepBytes,
		})
		if errors.Is(err, errRetry) {
			if err := sleep(ctx, 10*time.Millisecond); err != nil {
				return from, err
			}
			continue
		}
		if err != nil {
			return from, err
		}
		if len(c.msgs) == 0 {
			return from, nil
		}
		recs := make([]record, len(c.msgs))
		for i, m := range c.msgs {
			recs[i] = s.names.record(m)
		}
		from = recs[len(recs)-1].seq + 1
		if err := each(recs); err != nil {
			return from, err
		}
		if left, err := strconv.Atoi(header(c.end, "Nats-Num-Pending")); err == nil && left == 0 {
			return from, nil
		}
	}
}

// sweepRunning looks at all claims: there are no more of them than the fleet runs jobs.
func (s *Store) sweepRunning(ctx context.Context, rep *SweepReport) error {
	seen := make(map[uint64]bool)
	var failed error
	_, err := s.scan(ctx, stateRunning, 1, func(claims []record) error {
		tails := make([]string, 0, len(claims))
		for i := range claims {
			tails = append(tails, claims[i].tail)
		}
		docs, _, err := s.documents(ctx, tails)
		if err != nil {
			return err
		}
		failed = cmp.Or(failed, each(ctx, docs, func(t string, recs []record) error {
			return s.sweepJob(ctx, t, recs, seen, rep)
		}))
		return ctx.Err()
	})
	s.sweep.older = seen
	return cmp.Or(err, failed)
}

// sweepJob mends one job that has a claim.
func (s *Store) sweepJob(ctx context.Context, tail string, recs []record, seen map[uint64]bool, rep *SweepReport) error {
	n := newest(recs)
	if n == nil {
		return nil
	}
	if n.bad != nil { // nobody of ours writes such a thing; it harms nobody, but somebody should know
		if seen[n.seq] = true; !s.sweep.older[n.seq] {
			s.log.Error().Str("job", tail).Str("state", string(n.state)).Err(n.bad).Msg("housekeeping: a document that is no job")
		}
		return nil
	}
	if n.state != stateRunning {
		return s.sweepOlder(ctx, recs, seen, rep)
	}
	for i := range recs {
		if recs[i].state == stateReady {
			return nil // its redelivery does what is to be done
		}
	}
	if !n.lapsed(s.Now()) {
		return nil
	}
	until, err := s.reported(ctx, n)
	if err != nil || s.Now().Before(until) {
		return err
	}
	// Only the leader's word counts before an attempt is taken from somebody.
	if recs, err = s.fromLeader(ctx, tail); err != nil {
		return err
	}
	now := newest(recs)
	if now == nil || now.seq != n.seq || len(recs) != 1 {
		return nil
	}
	return s.revive(ctx, tail, now, rep)
}

// revive goes on with a job whose ready message is gone, and whose holder is too.
func (s *Store) revive(ctx context.Context, tail string, n *record, rep *SweepReport) error {
	writer, at := newWriter(), s.Now()
	w := write{tail: tail, guard: n.seq}
	switch {
	case n.Job.CancelRequested:
		w.state = stateCancelled
	case n.Job.Attempts >= n.Job.MaxAttempts:
		w.state = stateDead
	default:
		w.state = stateReady
	}
	d := n.document.endLost(writer, w.state, at)
	if w.state == stateReady {
		d.Job.WorkerID = ""
		d.Job.RunAt = job.Millis(at)
	} else {
		w.ttl = s.cfg.Retention.of(w.state)
	}
	w.doc = &d
	_, err := s.put(ctx, w)
	if errors.Is(err, job.ErrTooLarge) {
		_, _, err = s.endTooLarge(ctx, tail, []record{*n}, err)
	}
	if err != nil {
		if errors.Is(err, errGuard) || retryable(err) {
			return nil // the next round looks again
		}
		return err
	}
	rep.LostReady++
	s.log.Warn().Str("job", n.job().Key().String()).Str("holder", n.Job.WorkerID).Str("now", string(w.state)).
		Msg("housekeeping: a claim had lost its ready message and its holder")
	if err := s.at(AfterSweepWrite); err != nil {
		return err
	}
	return s.remove(ctx, n.seq)
}

// sweepOlder deletes documents that are older than their job's newest, unless they may be about to be: whoever
// wrote the newest one deletes them right after.
func (s *Store) sweepOlder(ctx context.Context, recs []record, seen map[uint64]bool, rep *SweepReport) error {
	n := newest(recs)
	for i := range recs {
		r := &recs[i]
		if r.Rev >= n.Rev || r.state == stateReady {
			continue // a ready message is delivered again, and cleaned up then
		}
		if !s.sweep.older[r.seq] {
			seen[r.seq] = true
			continue
		}
		if err := s.remove(ctx, r.seq); err != nil {
			return err
		}
		rep.Older++
		s.log.Info().Str("job", r.job().Key().String()).Str("state", string(r.state)).Uint64("rev", r.Rev).
			Msg("housekeeping: deleted a document older than its job's newest")
	}
	return nil
}

// sweepDue moves due documents whose alarm was lost.
func (s *Store) sweepDue(ctx context.Context, rep *SweepReport) error {
	sw := &s.sweep
	next, err := s.scan(ctx, stateDue, sw.upTo, func(recs []record) error {
		for i := range recs {
			if r := &recs[i]; r.bad == nil {
				heap.Push(&sw.due, dueEntry{r.Job.RunAt, r.tail})
			}
		}
		return nil
	})
	sw.upTo = next
	if err != nil {
		return err
	}
	late := s.Now().Add(-lateDue)
	var failed error
	for len(sw.due) > 0 && sw.due[0].at.Before(late) {
		var tails []string
		for len(sw.due) > 0 && sw.due[0].at.Before(late) && len(tails) < maxFilters {
			tails = append(tails, heap.Pop(&sw.due).(dueEntry).tail)
		}
		docs, _, err := s.documents(ctx, tails)
		if err != nil {
			for _, t := range tails {
				heap.Push(&sw.due, dueEntry{late.Add(-time.Second), t})
			}
			return err
		}
		failed = cmp.Or(failed, each(ctx, docs, func(t string, recs []record) error {
			err := s.sweepLate(ctx, t, recs, late, rep)
			if err != nil { // again in a while
				heap.Push(&sw.due, dueEntry{s.Now(), t})
			}
			return err
		}))
		if ctx.Err() != nil {
			return cmp.Or(failed, ctx.Err())
		}
	}
	return failed
}

// sweepLate moves one due document that is late, and takes its alarm along.
func (s *Store) sweepLate(ctx context.Context, tail string, recs []record, late time.Time, rep *SweepReport) error {
	n := newest(recs)
	if n == nil || n.bad != nil {
		return nil
	}
	if n.state != stateDue {
		// Its wake moved it, and was gone before it deleted what it had moved.
		for i := range recs {
			if r := &recs[i]; r.state == stateDue && r.Rev < n.Rev {
				rep.Older++
				return s.remove(ctx, r.seq)
			}
		}
		return nil
	}
	if !n.Job.RunAt.Before(late) {
		return nil // set to another instant meanwhile; that one was read as well
	}
	purge := ""
	if n.Writer != "" { // a plain producer sets no alarm
		purge = s.names.alarm(tail, n.Writer)
	}
	if err := s.moveDue(ctx, tail, recs, purge); err != nil {
		return err
	}
	rep.LateDue++
	s.log.Warn().Str("job", n.job().Key().String()).Time("due", n.Job.RunAt).
		Msg("housekeeping: moved a due job that no alarm had moved")
	return nil
}
