package streams

import (
	"context"
	"time"
)

const (
	// newsMost is how many sequences are asked for by number, at 15 us of the server's time each. Of more than that
	// only a batch is looked at, which costs less for each and has the server count all messages that there are.
	newsMost = 4000
	// newsJobs is how many jobs a round of news has looked at for older documents.
	newsJobs = 1000
)

// news is how far into the stream housekeeping has looked at what is new.
type news struct {
	began bool
	upTo  uint64 // looked at up to here
	last  uint64 // the stream's last when the round before began: every replica that answers has come to it by now
	pace  pace
}

// sweepNews looks at what was written since the last round. In a busy stream that is a part of it: the walk through
// everything comes to the rest.
func (s *Store) sweepNews(ctx context.Context, stream extent, rep *SweepReport) error {
	n := &s.sweep.news
	if !n.began || stream.last < n.upTo { // or another stream stands in its place
		*n = news{began: true, upTo: stream.last, last: stream.last}
		return nil
	}
	from, to := n.upTo+1, n.last
	if !n.pace.due() {
		return nil
	}
	n.last = stream.last
	if from > to {
		return nil
	}
	defer s.sweep.spent(&n.pace, time.Now(), mostLook)
	all := to-from < newsMost
	var msgs []message
	var err error
	if all {
		msgs, err = s.byNumber(ctx, from, to+1)
	} else {
		msgs, _, err = s.some(ctx, from, "", int(stream.msgs))
	}
	if err != nil {
		return err
	}
	d := &s.sweep.due
	all = all && d.whole && d.next >= from // the due documents need not be read once more
	jobs := 0
	for i := range msgs {
		r := s.glance(&msgs[i], rep)
		if all && r.seq >= d.next {
			d.add(&r)
		}
		if r.tail != "" && r.mayHaveOlder() && jobs < newsJobs {
			jobs++
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
