package streams

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// stuckMost is how many documents one round writes anew for one queue.
const stuckMost = 100

// passing is a queue's consumer that has something old to deliver, or has passed it by.
type passing struct {
	delivered uint64          // how often it had delivered
	since     time.Time       // and since when it has stood there
	passed    map[uint64]bool // messages that it seems to have passed by
	told      bool
}

// sweepPassing finds out whether a queue's consumer is stuck: workers wait, nothing holds it back, and still it does not
// deliver what is old, be it that it has passed it by or that it does not go on. What it does not deliver is written
// anew, and so delivered as something new. It answers what is to be remembered until the next look.
func (s *Store) sweepPassing(ctx context.Context, info *jetstream.ConsumerInfo, was *passing, rep *SweepReport) (*passing, error) {
	limited := info.Config.MaxAckPending > 0 && info.NumAckPending >= info.Config.MaxAckPending
	if info.Paused || info.NumWaiting == 0 || limited {
		return nil, nil // nobody expects it to deliver
	}
	now := s.Now()
	old := now.Add(-s.sweep.after.stuck)
	filter := info.Config.FilterSubject
	first, err := s.next(ctx, filter, 1)
	if err != nil || first == nil || first.time.After(old) {
		return nil, err
	}
	is := &passing{delivered: info.Delivered.Consumer, since: now}
	if was != nil {
		is.told = was.told
		if was.delivered == is.delivered {
			is.since = was.since
		}
	}
	var stuck []*message
	if first.seq <= info.Delivered.Stream {
		passed, err := s.passedBy(ctx, info, first.seq, old)
		if err != nil {
			return was, err
		}
		is.passed = make(map[uint64]bool, len(passed))
		for _, m := range passed {
			is.passed[m.seq] = true
			if was != nil && was.passed[m.seq] {
				stuck = append(stuck, m)
			}
		}
	}
	if !is.since.After(old) {
		for from := max(info.Delivered.Stream+1, 1); len(stuck) < stuckMost; {
			m, err := s.next(ctx, filter, from)
			if err != nil {
				return is, err
			}
			if m == nil || m.time.After(old) {
				break
			}
			stuck = append(stuck, m)
			from = m.seq + 1
		}
	}
	var failed error
	for _, m := range stuck[:min(len(stuck), stuckMost)] {
		if !is.told {
			is.told = true
			s.log.Error().Str("consumer", info.Name).Uint64("pending", info.NumPending).Int("unacked", info.NumAckPending).
				Int("waiting", info.NumWaiting).Time("oldest", first.time).
				Msg("housekeeping: a queue's consumer is stuck; what it does not deliver is written anew")
		}
		done, err := s.dispatchAnew(ctx, m, rep)
		switch {
		case ctx.Err() != nil:
			return is, cmp.Or(err, ctx.Err())
		case err != nil: // the others can be dealt with all the same
			failed = cmp.Or(failed, fmt.Errorf("%s: %w", m.subject, err))
		case done:
			rep.Stuck++
		}
	}
	return is, failed
}

// passedBy are old messages that the consumer has come past and that wait for nobody's ack. Which ones it does wait for
// it does not say, only how many: if more stand than that, those may be stuck whose jobs no worker reports to run. (A
// worker that holds one of them unstarted loses it, to be delivered again.)
func (s *Store) passedBy(ctx context.Context, info *jetstream.ConsumerInfo, from uint64, old time.Time) ([]*message, error) {
	msgs, _, err := s.some(ctx, from, info.Config.FilterSubject, maxBatch*countEach)
	if err != nil {
		return nil, err
	}
	n := 0
	for n < len(msgs) && msgs[n].seq <= info.Delivered.Stream {
		n++
	}
	if n <= info.NumAckPending {
		return nil, nil
	}
	byTail := make(map[string]*message)
	var tails []string
	for i := range msgs[:n] {
		if r := s.names.record(msgs[i]); r.bad == nil && msgs[i].time.Before(old) {
			byTail[r.tail] = &msgs[i]
			tails = append(tails, r.tail)
		}
	}
	var out []*message
	err = s.inspect(ctx, tails, func(tail string, recs []record) error {
		m := byTail[tail]
		n := newest(recs)
		switch {
		case n.state == stateRunning:
			abandoned, err := s.abandoned(ctx, n, s.sweep.after.stuck)
			if err != nil || !abandoned {
				return err
			}
		case n.seq != m.seq:
			return nil // it is an older document, or was replaced
		}
		out = append(out, m)
		return nil
	})
	return out, err
}
