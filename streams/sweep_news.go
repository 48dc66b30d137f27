package streams

import (
	"context"
	"time"
)

const (
	// newsMost is how many sequences one look asks for by number, at 15 us of the server's time each.
	newsMost = 4000
	// newsBacklog is how many sequences may wait for later looks. In a stream that is busier than that for long, the
	// walk through everything comes to the rest.
	newsBacklog = 200_000
)

// news is how far into the stream housekeeping has looked at what is new.
type news struct {
	began bool
	upTo  uint64 // looked at up to here
	last  uint64 // the stream's last when the round before began: every replica that answers has come to it by now
	pace  pace
}

// sweepNews looks at what was written since the last round, or at a part of it, and at the rest in the rounds to come.
func (s *Store) sweepNews(ctx context.Context, stream extent, rep *SweepReport) error {
	n := &s.sweep.news
	if !n.began || stream.last < n.upTo { // or another stream stands in its place
		*n = news{began: true, upTo: stream.last, last: stream.last}
		return nil
	}
	if !n.pace.due() {
		return nil
	}
	from, end := n.upTo+1, n.last
	n.last = stream.last
	if from > end {
		return nil
	}
	from = max(from, end-min(end, newsBacklog))
	to := min(from+newsMost-1, end)
	defer s.sweep.spent(&n.pace, time.Now(), mostLook)
	msgs, err := s.byNumber(ctx, from, to+1)
	if err != nil {
		return err
	}
	d := &s.sweep.due
	all := d.whole && d.next >= from // the due documents need not be read once more
	for i := range msgs {
		r := s.glance(&msgs[i], rep)
		if all && r.seq >= d.next {
			d.add(&r)
		}
		if r.tail != "" && r.mayHaveOlder() {
			s.sweep.older.add(r.tail, r.time.Add(s.sweep.after.older))
		}
	}
	if all {
		d.next = max(d.next, to+1)
	}
	n.upTo = to
	return nil
}

// mayHaveOlder reports whether whoever wrote a document had to delete an older one afterwards, with nobody to do it in
// his place should he die: not a worker that settles, whose ready message stands until that is done.
func (r *record) mayHaveOlder() bool {
	switch r.state {
	case stateReady:
		return r.Rev > 1
	case stateCancelled, stateDeleted:
		return true
	}
	return false
}
