package streams

import (
	"cmp"
	"container/heap"
	"context"
	"strings"
	"time"

	"github.com/jetcrew/jetcrew/pkg/failpoint"
)

const (
	// lateDue is how long past its instant a due document may stand before it is moved without a wake.
	lateDue = 10 * time.Second
	// dueSlice is how long one round reads on in what waits, when it is read as a whole.
	dueSlice = 500 * time.Millisecond
	// lateSlice is how long one round moves what is late.
	lateSlice = 10 * time.Second
)

// dueIndex is what waits for its instant: about 150 bytes for each job. It is read as a whole by a new leader, and
// again from time to time, since what was there, and gone, may be back; in between only what is new is read.
type dueIndex struct {
	waiting dueHeap
	before  dueHeap // of the last reading, while this one is under way
	next    uint64  // the sequence to read on from
	matches int     // due documents that there were when the reading began
	whole   bool    // the reading has come to the end
	again   time.Time
	cost    time.Duration // of this reading
	pace    pace          // of reading what is new
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
	old[len(old)-1] = dueEntry{}
	*h = old[:len(old)-1]
	return e
}

// add takes a document in.
func (d *dueIndex) add(r *record) {
	if r.state == stateDue && r.bad == nil {
		heap.Push(&d.waiting, dueEntry{r.due(), r.tail})
	}
}

// sweepDue moves due documents whose alarm was lost.
func (s *Store) sweepDue(ctx context.Context, stream extent, rep *SweepReport) error {
	failed := s.readDue(ctx, stream, rep)
	late := s.Now().Add(-lateDue)
	end := time.Now().Add(lateSlice)
	for _, h := range []*dueHeap{&s.sweep.due.waiting, &s.sweep.due.before} {
		for ctx.Err() == nil && time.Now().Before(end) && len(*h) > 0 && (*h)[0].at.Before(late) {
			failed = cmp.Or(failed, s.sweepLate(ctx, h, late, rep))
		}
	}
	return cmp.Or(failed, ctx.Err())
}

// readDue reads on in the due documents.
func (s *Store) readDue(ctx context.Context, stream extent, rep *SweepReport) error {
	d := &s.sweep.due
	began := time.Now()
	if d.next == 0 || d.whole && !began.Before(d.again) {
		*d = dueIndex{before: d.waiting, next: 1}
	}
	if d.whole && (d.next > stream.last || !d.pace.due()) {
		return nil
	}
	defer func() {
		d.cost += time.Since(began)
		s.sweep.spent(&d.pace, began, mostLook)
	}()
	prefix := s.names.job(stateDue, "")
	for {
		filter, counted := s.names.stateFilter(stateDue), max(d.matches, len(d.waiting))
		if uint64(counted) > stream.msgs/5 && counted > minBatch {
			filter, counted = "", int(stream.msgs) // to have everything counted is cheaper
		}
		msgs, left, err := s.some(ctx, d.next, filter, counted)
		if err != nil {
			return err
		}
		if d.next == 1 && filter != "" {
			d.matches = len(msgs) + int(left)
		}
		for i := range msgs {
			if strings.HasPrefix(msgs[i].subject, prefix) {
				r := s.glance(&msgs[i], rep)
				d.add(&r)
			}
			d.next = msgs[i].seq + 1
		}
		if left == 0 || len(msgs) == 0 {
			break
		}
		if time.Since(began) > dueSlice {
			return nil
		}
	}
	if !d.whole {
		d.whole, d.before = true, nil
		d.again = time.Now().Add(s.sweep.after.share * (d.cost + time.Since(began)))
	}
	return nil
}

// sweepLate looks at some of the jobs that are late, and moves those that nobody else did.
func (s *Store) sweepLate(ctx context.Context, h *dueHeap, late time.Time, rep *SweepReport) error {
	var tails []string
	for len(*h) > 0 && (*h)[0].at.Before(late) && len(tails) < maxFilters {
		tails = append(tails, heap.Pop(h).(dueEntry).tail)
	}
	again := func(tail string) { heap.Push(h, dueEntry{s.Now(), tail}) } // in a while
	docs, _, err := s.documents(ctx, tails)
	if err != nil {
		for _, t := range tails {
			again(t)
		}
		return err
	}
	return each(ctx, docs, func(t string, recs []record) error {
		err := s.moveLate(ctx, t, recs, late, rep)
		if err != nil {
			again(t)
		}
		return err
	})
}

// moveLate moves one due document that is late, and takes its alarm along.
func (s *Store) moveLate(ctx context.Context, tail string, recs []record, late time.Time, rep *SweepReport) error {
	n := newest(recs)
	if n.bad != nil {
		return nil
	}
	if n.state != stateDue {
		// Its wake moved it, and was gone before it deleted what it had moved.
		return s.deleteOlder(ctx, recs, rep)
	}
	if !n.due().Before(late) {
		return nil // set to another instant meanwhile; that one was read as well
	}
	purge := ""
	if n.Writer != "" { // a plain producer sets no alarm
		purge = s.names.alarm(tail, n.Writer)
	}
	if err := failpoint.At(failpoint.AfterSweepList); err != nil {
		return err
	}
	if err := s.moveDue(ctx, tail, recs, purge); err != nil {
		return err
	}
	rep.LateDue++
	s.log.Warn().Stringer("job", n.job().Key()).Time("due", n.due()).
		Msg("housekeeping: moved a due job that no alarm had moved")
	return nil
}
