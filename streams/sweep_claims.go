package streams

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/jetcrew/jetcrew/pkg/failpoint"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// sweepClaims looks at the claims whose leases are over, as far as their documents say: there are no more of them than
// the fleet runs jobs.
func (s *Store) sweepClaims(ctx context.Context, _ extent, rep *SweepReport) error {
	if !s.sweep.claims.due() {
		return nil
	}
	defer s.sweep.spent(&s.sweep.claims, time.Now(), mostLook)
	var failed error
	filter := s.names.stateFilter(stateRunning)
	for from, matches := uint64(1), 0; ; {
		msgs, left, err := s.some(ctx, from, filter, matches)
		if err != nil {
			return err
		}
		now := s.Now()
		var tails []string
		for i := range msgs {
			switch r := s.names.record(msgs[i]); {
			case r.bad != nil:
				s.tellOf(&r, rep)
			case r.lapsed(now):
				tails = append(tails, r.tail)
			}
		}
		failed = cmp.Or(failed, s.inspect(ctx, tails, func(tail string, recs []record) error {
			return s.sweepClaim(ctx, tail, recs, rep)
		}))
		if ctx.Err() != nil || left == 0 || len(msgs) == 0 {
			return cmp.Or(failed, ctx.Err())
		}
		from, matches = msgs[len(msgs)-1].seq+1, int(left)
	}
}

// sweepClaim mends one job that has a claim.
func (s *Store) sweepClaim(ctx context.Context, tail string, recs []record, rep *SweepReport) error {
	if err := s.deleteOlder(ctx, recs, rep); err != nil {
		return err
	}
	n := newest(recs)
	if n.bad != nil || n.state != stateRunning || !n.lapsed(s.Now()) {
		return nil
	}
	for i := range recs {
		if recs[i].state == stateReady {
			return nil // its redelivery does what is to be done
		}
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
	if now == nil || now.seq != n.seq {
		return nil
	}
	for i := range recs {
		if recs[i].state == stateReady {
			return nil
		}
	}
	return s.revive(ctx, tail, recs, rep)
}

// revive goes on with a job whose newest document is a claim that nobody is left to report for, and whose ready message
// is gone or will not be delivered.
func (s *Store) revive(ctx context.Context, tail string, recs []record, rep *SweepReport) error {
	n := newest(recs)
	if err := s.learnQueue(ctx, n.Job.Queue); err != nil { // it may say how long an end is kept
		return err
	}
	if err := failpoint.At(failpoint.AfterSweepList); err != nil {
		return err
	}
	writer, at := newWriter(), s.Now()
	w := write{tail: tail, guard: last(recs)}
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
		// A fault of the server led here, and may bring back more of the job: its end has to stay for a while even where
		// no record is to be kept.
		w.ttl = s.lastingTTL(d.job(), w.state)
	}
	w.doc = &d
	_, err := s.put(ctx, w)
	if err == nil {
		s.losses.count(n.Job.Queue, lostAs(w.state))
	}
	if errors.Is(err, job.ErrTooLarge) {
		_, _, err = s.endTooLarge(ctx, tail, recs, err)
	}
	if err != nil {
		if errors.Is(err, errGuard) || retryable(err) {
			return nil // the next round looks again
		}
		return err
	}
	rep.LostReady++
	s.log.Warn().Stringer("job", n.job().Key()).Str("holder", n.Job.WorkerID).Str("now", string(w.state)).
		Msg("housekeeping: a claim had lost its ready message and its holder")
	if err := s.at(AfterSweepWrite); err != nil {
		return err
	}
	return s.remove(ctx, older(recs, d.Rev, 0)...)
}
