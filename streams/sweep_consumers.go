package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const wakePrefix = "wake-"

// consumerLook is what housekeeping knows of queues' consumers.
type consumerLook struct {
	pace    pace
	queues  map[string]*waitingQueue // by their tokens
	acked   map[uint64]time.Time     // messages that stand although they count as acked, since when
	passing map[string]*passing      // by the consumers' names
}

// sweepConsumers looks at the queues' consumers: at what they will never deliver although it stands, and at what has
// none.
func (s *Store) sweepConsumers(ctx context.Context, _ extent, rep *SweepReport) error {
	look := &s.sweep.consumers
	if !look.pace.due() {
		return nil
	}
	defer s.sweep.spent(&look.pace, time.Now(), mostLook)
	asking, cancel := context.WithTimeout(ctx, 2*requestTimeout)
	defer cancel()
	infos, err := s.consumers(asking)
	if err != nil {
		return err
	}
	there := make(map[string]bool)
	var failed error
	also := func(what string, err error) {
		if err != nil {
			failed = cmp.Or(failed, fmt.Errorf("%s: %w", what, err))
		}
	}
	acked := make(map[uint64]time.Time)
	passing := make(map[string]*passing)
	for _, info := range infos {
		if ctx.Err() != nil {
			return cmp.Or(failed, ctx.Err())
		}
		there[info.Name] = true
		switch {
		case strings.HasPrefix(info.Name, readyPrefix):
			look.learn(s.names, info)
			also(info.Name, s.sweepAcked(ctx, info, acked, rep))
			also(info.Name, s.sweepLease(ctx, info))
			p, err := s.sweepPassing(ctx, info, look.passing[info.Name], rep)
			also(info.Name, err)
			if p != nil {
				passing[info.Name] = p
			}
		case strings.HasPrefix(info.Name, wakePrefix):
			also(info.Name, s.sweepAcked(ctx, info, acked, rep))
		}
	}
	look.acked, look.passing = acked, passing
	also("queues", s.sweepQueues(ctx, there, rep))
	return failed
}

// sweepLease goes on with a lower lease that an operator announced, and did not live to see in force.
func (s *Store) sweepLease(ctx context.Context, info *jetstream.ConsumerInfo) error {
	name, ok := s.names.queueOf(info)
	if !ok || s.cfg.Manage == ManageVerify || readInfo(info.Config).wanted == 0 {
		return nil
	}
	behind, err := s.completeLease(ctx, name, info)
	if err == nil && len(behind) == 0 {
		s.log.Info().Str("queue", name).Msg("housekeeping: a lower lease that was announced is in force")
	}
	return err
}

// waitingQueue is a queue that there is, or was seen to have something to do.
type waitingQueue struct {
	name    string     // empty where only a hash of it is known
	set     *queueInfo // as it was set when its consumer was last seen
	missing time.Time  // since when a consumer of its is missing
	told    bool       // that it cannot be made
}

// note takes note that something of a queue waits, named by a job's tail. name is empty where it is not known.
func (l *consumerLook) note(tail, name string) {
	token, _, _ := strings.Cut(tail, ".")
	q := l.queues[token]
	if q == nil {
		if l.queues == nil {
			l.queues = make(map[string]*waitingQueue)
		}
		q = &waitingQueue{}
		q.name, _ = unescape(token) // a hash is none: it stays empty
		l.queues[token] = q
	}
	if q.name == "" {
		q.name = name
	}
}

// learn takes in how a queue is set.
func (l *consumerLook) learn(n names, info *jetstream.ConsumerInfo) {
	name, ok := n.queueOf(info)
	if token := strings.TrimPrefix(info.Name, readyPrefix); ok && queueToken(name) == token {
		l.note(token, name)
		set := readInfo(info.Config)
		l.queues[token].set = &set
	}
}

// sweepQueues makes the consumers of queues that have something to do and nobody to hand it out: somebody deleted them,
// or a plain producer published to a queue that nobody had opened.
func (s *Store) sweepQueues(ctx context.Context, there map[string]bool, rep *SweepReport) error {
	look := &s.sweep.consumers
	var failed error
	for token, q := range look.queues {
		if there[readyPrefix+token] && there[wakePrefix+token] {
			q.missing, q.told = time.Time{}, false
			continue
		}
		waits, err := s.waits(ctx, token, q)
		if err != nil {
			return err
		}
		now := s.Now()
		switch {
		case !waits:
			delete(look.queues, token) // it is noted again
			continue
		case q.missing.IsZero():
			q.missing = now
		}
		if now.Sub(q.missing) < s.sweep.after.queue {
			continue
		}
		if q.name == "" {
			if !q.told {
				q.told = true
				s.log.Error().Str("token", token).
					Msg("housekeeping: a queue has jobs and no consumer, and its name stands in none of them")
			}
			continue
		}
		if err := s.makeConsumers(ctx, q, rep); err != nil {
			failed = cmp.Or(failed, err)
		}
	}
	return failed
}

// makeConsumers makes what a queue lacks, set as it was when it was last seen.
func (s *Store) makeConsumers(ctx context.Context, q *waitingQueue, rep *SweepReport) error {
	ctx, cancel := context.WithTimeout(ctx, 2*requestTimeout)
	defer cancel()
	lacks := false
	for _, name := range []string{s.names.readyConsumer(q.name), s.names.wakeConsumer(q.name)} {
		_, err := s.consumerInfo(ctx, name)
		lacks = lacks || errors.Is(err, jetstream.ErrConsumerNotFound)
	}
	if !lacks { // somebody has made it, or nobody answered for it
		q.missing = time.Time{}
		return nil
	}
	if q.set != nil {
		s.queues.learn(q.name, *q.set, false)
	}
	s.queues.forget(q.name)
	_, err := s.openQueue(ctx, q.name, 0)
	switch {
	case err == nil:
		q.missing, q.told = time.Time{}, false
		rep.Queues++
		s.log.Warn().Str("queue", q.name).Msg("housekeeping: a queue had jobs and no consumer; made it")
	case !errors.Is(err, ErrTopology):
		return fmt.Errorf("queue %s: %w", q.name, err)
	case !q.told: // it may not be made, or something else is in its place: for people to mend
		q.told = true
		s.log.Error().Err(err).Str("queue", q.name).Msg("housekeeping: a queue has jobs and no consumer")
	}
	return nil
}

// waits reports whether anything of a queue stands that wants a consumer, and finds out the queue's name. (A wake alone
// is of no use to anybody.)
func (s *Store) waits(ctx context.Context, token string, q *waitingQueue) (bool, error) {
	for _, st := range []state{stateReady, stateDue} {
		m, err := s.next(ctx, s.names.job(st, token+".>"), 1)
		if err != nil {
			return false, err
		}
		if m == nil {
			continue
		}
		if r := s.names.record(*m); r.bad == nil {
			q.name = r.Job.Queue
		}
		return true, nil
	}
	return false, nil
}
