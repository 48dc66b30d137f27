package streams

import (
	"cmp"
	"context"
	"hash/maphash"
	"strings"
	"time"
)

// walkSlice is how long one round walks on.
const walkSlice = 50 * time.Millisecond

// wholeWalk goes through all messages of the stream, from its beginning to what was its end when the walk began, some in
// each round. It remembers which jobs it has met, by their hashes: about 20 bytes for each job.
type wholeWalk struct {
	next, end uint64 // none is under way where end is 0
	sparse    bool   // there are few messages for many sequences here
	seed      maphash.Seed
	met       map[uint64]struct{}
	pace      pace
}

// sweepWalk walks on. It looks for jobs with more than one document, alarms and wakes that are of no use any more,
// documents that are no job's, and queues that have something to do.
func (s *Store) sweepWalk(ctx context.Context, stream extent, rep *SweepReport) error {
	w := &s.sweep.walk
	if !w.pace.due() {
		return nil
	}
	began := time.Now()
	defer func() { s.sweep.spent(&w.pace, began, mostWalk) }()
	var failed error
	for ctx.Err() == nil && time.Since(began) < walkSlice {
		failed = cmp.Or(failed, s.sweepWalkPart(ctx, stream, rep))
		if failed != nil || w.end == 0 {
			break
		}
	}
	return cmp.Or(failed, ctx.Err())
}

// sweepWalkPart takes one step of the walk, the first one of another if none is under way.
func (s *Store) sweepWalkPart(ctx context.Context, stream extent, rep *SweepReport) error {
	w := &s.sweep.walk
	if w.end == 0 {
		*w = wholeWalk{
			next: stream.first, end: stream.last, seed: maphash.MakeSeed(), met: make(map[uint64]struct{}), pace: w.pace,
		}
	}
	msgs, err := s.walkOn(ctx, stream)
	if err != nil {
		return err
	}
	err = s.walkOver(ctx, msgs, rep)
	if w.next > w.end {
		w.end = 0
	}
	return err
}

// walkOn reads the messages that come next: by their numbers, which holds up nobody, or, where most of these are gone,
// in a batch.
func (s *Store) walkOn(ctx context.Context, stream extent) ([]message, error) {
	w := &s.sweep.walk
	from := w.next
	if w.sparse {
		msgs, left, err := s.some(ctx, from, "", int(stream.msgs))
		if err != nil {
			return nil, err
		}
		w.next = w.end + 1
		if len(msgs) > 0 && left > 0 {
			w.next = msgs[len(msgs)-1].seq + 1
		}
		w.sparse = w.next-from > sparse*uint64(len(msgs))
		return msgs, nil
	}
	to := min(from+numbers, w.end+1)
	msgs, err := s.byNumber(ctx, from, to)
	if err != nil {
		return nil, err
	}
	w.next = to
	w.sparse = to-from > sparse*uint64(len(msgs))
	return msgs, nil
}

// walkOver looks at messages in the order of the stream. A job that was met before has had two documents at one time,
// since both were written before the walk began, and deletes come right after writes: something is left over, or
// it runs.
func (s *Store) walkOver(ctx context.Context, msgs []message, rep *SweepReport) error {
	w := &s.sweep.walk
	now := s.Now()
	var twice, woken []string
	var wakes []*message
	var failed error
	for i := range msgs {
		m := &msgs[i]
		if m.seq > w.end {
			break
		}
		if strings.HasPrefix(m.subject, s.names.ns+".alarm.") {
			failed = cmp.Or(failed, s.sweepAlarm(ctx, m, now, rep))
			continue
		}
		r := s.glance(m, rep)
		switch {
		case r.tail == "":
		case r.state == "":
			if m.time.Before(now.Add(-s.sweep.after.wake)) {
				wakes, woken = append(wakes, m), append(woken, r.tail)
			}
		default:
			h := maphash.String(w.seed, r.tail)
			if _, again := w.met[h]; again {
				twice = append(twice, r.tail)
			}
			w.met[h] = struct{}{}
		}
	}
	failed = cmp.Or(failed, s.inspect(ctx, twice, func(_ string, recs []record) error {
		return s.deleteOlder(ctx, recs, rep)
	}))
	return cmp.Or(failed, s.sweepWakes(ctx, wakes, woken, rep), ctx.Err())
}

// glance takes note of what one message says of its queue, and of what is no job's. It answers the message as a
// document; of an alarm or a wake only tail and sequence.
func (s *Store) glance(m *message, rep *SweepReport) record {
	if tail, ok := strings.CutPrefix(m.subject, s.names.wake("")); ok {
		if _, err := parseTail(tail); err != nil {
			return record{seq: m.seq}
		}
		s.sweep.consumers.note(tail, "")
		return record{tail: tail, seq: m.seq}
	}
	if !strings.HasPrefix(m.subject, s.names.ns+".job.") {
		return record{seq: m.seq}
	}
	r := s.names.record(*m)
	if r.bad != nil {
		s.tellOf(&r, rep)
	}
	if (r.state == stateReady || r.state == stateDue) && r.Job.Space != "" {
		s.sweep.consumers.note(r.tail, r.Job.Queue)
	}
	if r.bad != nil {
		r.tail = "" // nothing is to be done for it
	}
	return r
}
