package streams

import (
	"context"
	"time"

	"github.com/jetcrew/jetcrew/pkg/failpoint"
)

// maxOlderLooks bounds how many jobs wait to be looked at again. The walk through everything finds the others.
const maxOlderLooks = 10_000

// olderLooks are jobs that may have documents older than their newest, which nobody may be about to delete any more at
// an instant.
type olderLooks struct{ waiting map[string]time.Time }

func (o *olderLooks) add(tail string, at time.Time) {
	if o.waiting == nil {
		o.waiting = make(map[string]time.Time)
	}
	if len(o.waiting) < maxOlderLooks {
		o.waiting[tail] = at
	}
}

// sweepOlder looks at the jobs that wait for it.
func (s *Store) sweepOlder(ctx context.Context, _ extent, rep *SweepReport) error {
	now := s.Now()
	var tails []string
	for tail, at := range s.sweep.older.waiting {
		if !at.After(now) {
			tails = append(tails, tail)
			delete(s.sweep.older.waiting, tail)
		}
	}
	return s.inspect(ctx, tails, func(_ string, recs []record) error { return s.deleteOlder(ctx, recs, rep) })
}

// deleteOlder deletes the documents of a job that are older than its newest, but for the ready message under a claim.
// Whether the documents were read from a replica that is behind does not matter: what is older once is so for ever.
//
// What is left of a deleted record is not touched: it goes by itself, at the instant that it was given.
func (s *Store) deleteOlder(ctx context.Context, recs []record, rep *SweepReport) error {
	n := newest(recs)
	if n == nil || n.bad != nil || len(recs) < 2 {
		return nil
	}
	changed := n.time
	for i := range recs { // a plain producer may have published over it
		if recs[i].time.After(changed) {
			changed = recs[i].time
		}
	}
	var ready *record
	for i := range recs {
		r := &recs[i]
		switch {
		case r.bad != nil || r.Rev >= n.Rev || r.state == stateDeleted:
		case r.state == stateReady:
			ready = r
		default:
			if err := s.deleteOld(ctx, r, changed.Add(s.sweep.after.older), rep); err != nil {
				return err
			}
		}
	}
	if ready == nil || n.state == stateRunning {
		return nil
	}
	// It goes last, since its delivery finishes what is left undone here.
	return s.deleteOld(ctx, ready, changed.Add(s.sweep.after.ready), rep)
}

// deleteOld deletes one older document, or has it looked at again when its time has come.
func (s *Store) deleteOld(ctx context.Context, r *record, from time.Time, rep *SweepReport) error {
	if s.Now().Before(from) {
		s.sweep.older.add(r.tail, from)
		return nil
	}
	if err := failpoint.At(failpoint.AfterSweepList); err != nil {
		return err
	}
	if err := s.remove(ctx, r.seq); err != nil {
		return err
	}
	rep.Older++
	s.log.Info().Stringer("job", r.job().Key()).Str("state", string(r.state)).Uint64("rev", r.Rev).
		Msg("housekeeping: deleted a document older than its job's newest")
	return nil
}
