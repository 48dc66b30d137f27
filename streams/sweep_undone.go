package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/jetcrew/jetcrew/pkg/failpoint"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// A server that is killed may forget deletions that it had answered for: alarms, wakes, due documents and ready
// messages stand again. It remembers that they were delivered and acked, or fired, all the same, so nobody is
// told of them any more. They are harmless for as long as their jobs' newer documents stand, and bring their
// jobs back to life once those expire. (Seen on 2.15.2 with kill -9 of an R1 stream's server.)

// sweepAcked deals with the messages that a queue's consumer takes for acked although they stand, and have for a while:
// a replica may hear of an ack a little before it removes the message. Those that still have to stand longer it takes
// down in still.
func (s *Store) sweepAcked(ctx context.Context, info *jetstream.ConsumerInfo, still map[uint64]time.Time, rep *SweepReport) error {
	var failed error
	for from := uint64(1); from <= info.AckFloor.Stream; {
		m, err := s.next(ctx, info.Config.FilterSubject, from)
		if err != nil {
			return cmp.Or(failed, err)
		}
		if m == nil || m.seq > info.AckFloor.Stream {
			break
		}
		from = m.seq + 1
		now := s.Now()
		since, seen := s.sweep.consumers.acked[m.seq]
		if !seen {
			since = now
		}
		if still[m.seq] = since; now.Sub(since) < s.sweep.after.older {
			continue
		}
		undone := false
		if strings.HasPrefix(info.Name, wakePrefix) {
			// Should its document stand and be late, that one is found by itself.
			undone, err = true, s.dropHint(ctx, m, "a wake that would not have been delivered")
		} else {
			undone, err = s.dispatchAnew(ctx, m, rep)
		}
		switch {
		case ctx.Err() != nil:
			return cmp.Or(err, ctx.Err())
		case err != nil: // the others can be dealt with all the same
			failed = cmp.Or(failed, fmt.Errorf("%s: %w", m.subject, err))
		case undone:
			rep.Undone++
		}
	}
	return failed
}

// dispatchAnew deals with a ready message that no consumer will deliver: where its job has gone on it is deleted, where
// it is the job's newest document it is written anew, and a claim of it that nobody reports goes on as a lost one, which
// is counted as such. It answers whether it did something else.
func (s *Store) dispatchAnew(ctx context.Context, m *message, rep *SweepReport) (bool, error) {
	r := s.names.record(*m)
	if r.bad != nil {
		s.tellOf(&r, rep)
		return false, nil
	}
	recs, err := s.fromLeader(ctx, r.tail)
	if err != nil {
		return false, err
	}
	n := newest(recs)
	switch {
	case n == nil || !holds(recs, m.seq): // a replica that is behind had it
		return false, nil
	case n.seq == m.seq:
		if err := failpoint.At(failpoint.AfterSweepList); err != nil {
			return false, err
		}
		d := n.next(newWriter())
		d.ClaimFirst = true // whoever had it may have begun
		_, err := s.put(ctx, write{tail: r.tail, state: stateReady, doc: &d, guard: last(recs)})
		if errors.Is(err, job.ErrTooLarge) {
			var old []uint64
			if _, old, err = s.endTooLarge(ctx, r.tail, recs, err); err == nil {
				return true, s.remove(ctx, old...)
			}
		}
		if errors.Is(err, errGuard) || retryable(err) {
			return false, nil // the next round looks again
		}
		if err != nil {
			return false, err
		}
		s.log.Warn().Stringer("job", n.job().Key()).Msg("housekeeping: a ready job would not have been delivered; written anew")
		return true, nil
	case n.state == stateRunning:
		if abandoned, err := s.abandoned(ctx, n, 0); err != nil || !abandoned {
			return false, err
		}
		return false, s.revive(ctx, r.tail, recs, rep)
	}
	if err := s.remove(ctx, m.seq); err != nil {
		return false, err
	}
	s.log.Info().Stringer("job", n.job().Key()).Str("now", string(n.state)).
		Msg("housekeeping: deleted a ready message whose job has gone on")
	return true, nil
}

// abandoned reports whether a claim lapsed so long ago, and nobody says that he runs it.
func (s *Store) abandoned(ctx context.Context, n *record, ago time.Duration) (bool, error) {
	if !n.lapsed(s.Now().Add(-ago)) {
		return false, nil
	}
	until, err := s.reported(ctx, n)
	return err == nil && !s.Now().Before(until), err
}

// sweepAlarm deletes an alarm that is long past its instant: either it was lost to the server's timers, and its
// document has been found by itself, or it has none.
func (s *Store) sweepAlarm(ctx context.Context, m *message, now time.Time, rep *SweepReport) error {
	at, err := time.Parse(time.RFC3339Nano, strings.TrimPrefix(header(m.header, jetstream.ScheduleHeader), "@at "))
	if err == nil && !at.Before(now.Add(-2*lateDue)) {
		return nil
	}
	what := "an alarm that has not fired"
	if err != nil { // it cannot fire, and nothing looks at it
		what = "a message that is no alarm"
	}
	if derr := s.dropHint(ctx, m, what); derr != nil {
		return derr
	}
	if err != nil {
		s.log.Error().Str("subject", m.subject).Bytes("body", m.data[:min(len(m.data), 200)]).
			Msg("housekeeping: a message that is no alarm stood on the alarms' subjects")
	}
	rep.Undone++
	return nil
}

// sweepWakes deletes old wakes for which there is nothing to do any more. A due document that is late needs none.
func (s *Store) sweepWakes(ctx context.Context, wakes []*message, tails []string, rep *SweepReport) error {
	asleep := make(map[string]bool)
	err := s.inspect(ctx, tails, func(tail string, recs []record) error {
		asleep[tail] = decideWake(recs, s.Now()) != wakeNothing
		return nil
	})
	if err != nil {
		return err
	}
	for i, m := range wakes {
		if asleep[tails[i]] {
			continue
		}
		if err := s.dropHint(ctx, m, "a wake for which there was nothing to do"); err != nil {
			return err
		}
		rep.Undone++
	}
	return nil
}

// dropHint deletes an alarm or a wake.
func (s *Store) dropHint(ctx context.Context, m *message, what string) error {
	if err := s.remove(ctx, m.seq); err != nil {
		return err
	}
	s.log.Info().Str("subject", m.subject).Msg("housekeeping: deleted " + what)
	return nil
}
