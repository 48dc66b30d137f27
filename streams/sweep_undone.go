package streams

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A server that is killed may forget deletions that it had answered for: alarms, wakes, due documents and ready
// messages stand again. It remembers that they were delivered and acked, or fired, all the same, so nobody is
// told of them any more. They are harmless for as long as their jobs' newer documents stand, and bring their
// jobs back to life once those expire. (Seen on 2.15.2 with kill -9 of an R1 stream's server.)

// sweepShare bounds the part of its time that housekeeping spends on reading everything that waits anew: the
// hundredth part.
const sweepShare = 100

// sweepAcked deals with the messages that a queue's consumers take for acked although they stand.
func (s *Store) sweepAcked(ctx context.Context, rep *SweepReport) error {
	stream, err := s.js.Stream(ctx, s.names.stream())
	if err != nil {
		return err
	}
	consumers := stream.ListConsumers(ctx)
	var infos []*jetstream.ConsumerInfo
	for info := range consumers.Info() { // to its end: the library's goroutine waits for whoever reads
		infos = append(infos, info)
	}
	if err := consumers.Err(); err != nil {
		return err
	}
	for _, info := range infos {
		mend := s.sweepAckedReady
		switch {
		case strings.HasPrefix(info.Name, "wake-"):
			mend = s.sweepAckedWake
		case !strings.HasPrefix(info.Name, "ready-"):
			continue
		}
		for from := uint64(1); from <= info.AckFloor.Stream; {
			m, err := s.next(ctx, info.Config.FilterSubject, from)
			if err != nil {
				return err
			}
			if m == nil || m.seq > info.AckFloor.Stream {
				break
			}
			from = m.seq + 1
			if err := mend(ctx, m, rep); err != nil {
				return err
			}
		}
	}
	return nil
}

// next reads the first message from a sequence on that filter matches; nil if there is none.
func (s *Store) next(ctx context.Context, filter string, from uint64) (*message, error) {
	c, err := s.read.get(ctx, directRequest{Seq: from, NextFor: filter, Batch: 1})
	if err != nil || len(c.msgs) == 0 {
		return nil, err
	}
	return &c.msgs[0], nil
}

// sweepAckedWake deletes a wake. Should its document stand and be late, that one is found by itself.
func (s *Store) sweepAckedWake(ctx context.Context, m *message, rep *SweepReport) error {
	rep.Undone++
	return s.remove(ctx, m.seq)
}

// sweepAckedReady deletes a ready message whose job has gone on. Where it is the job's newest document, nobody
// will ever be handed it: it is written anew.
func (s *Store) sweepAckedReady(ctx context.Context, m *message, rep *SweepReport) error {
	r := s.names.record(*m)
	if r.bad != nil {
		return nil
	}
	recs, err := s.fromLeader(ctx, r.tail)
	if err != nil {
		return err
	}
	n := newest(recs)
	switch {
	case n == nil || !holds(recs, m.seq): // a replica that is behind had it
		return nil
	case n.seq == m.seq:
		d := n.next(newWriter())
		d.ClaimFirst = true // whoever acked it may have begun
		if _, err := s.put(ctx, write{tail: r.tail, state: stateReady, doc: &d, guard: last(recs)}); err != nil {
			if errors.Is(err, errGuard) || retryable(err) {
				return nil // the next round looks again
			}
			return err
		}
		s.log.Warn().Stringer("job", n.job().Key()).Msg("housekeeping: a ready job would not have been delivered; written anew")
	case n.state == stateRunning:
		if !n.lapsed(s.Now()) {
			return nil
		}
		if until, err := s.reported(ctx, n); err != nil || s.Now().Before(until) {
			return err
		}
		return s.revive(ctx, r.tail, n, rep)
	default:
		if err := s.remove(ctx, m.seq); err != nil {
			return err
		}
	}
	rep.Undone++
	return nil
}

// sweepAlarms deletes alarms that are long past their instant: either they were lost to the server's timers, and
// their documents have been found by themselves, or they have none.
func (s *Store) sweepAlarms(ctx context.Context, rep *SweepReport) error {
	late := s.Now().Add(-2 * lateDue)
	for from := uint64(1); ; {
		c, err := s.read.get(ctx, directRequest{
			Seq: from, NextFor: s.names.ns + ".alarm.>", Batch: sweepBatch, MaxBytes: sweepBytes,
		})
		if err != nil && !errors.Is(err, errRetry) {
			return fmt.Errorf("reading alarms: %w", err)
		}
		if err != nil {
			if err := sleep(ctx, 10*time.Millisecond); err != nil {
				return err
			}
			continue
		}
		if len(c.msgs) == 0 {
			return nil
		}
		for i := range c.msgs {
			m := &c.msgs[i]
			from = m.seq + 1
			at, err := time.Parse(time.RFC3339Nano, strings.TrimPrefix(header(m.header, jetstream.ScheduleHeader), "@at "))
			if err != nil { // it cannot fire, and nothing looks at it
				s.log.Error().Str("subject", m.subject).Bytes("body", m.data[:min(len(m.data), 200)]).
					Msg("housekeeping: deleted a message that is no alarm from the alarms' subjects")
			} else if !at.Before(late) {
				continue
			}
			if err := s.remove(ctx, m.seq); err != nil {
				return err
			}
			rep.Undone++
		}
	}
}
