package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/jetcrew/jetcrew/pkg/job"
)

var _ job.QueueOperator = (*Store)(nil)

// untilResumed is the instant of a pause that has none: the server wants one.
var untilResumed = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)

// resumeIn is how long a resume takes: the server hands out at once what waited through a pause when that runs out
// by itself, but within seconds only when it is taken back.
const resumeIn = 150 * time.Millisecond

// Queues are all queues. See job.QueueOperator.
func (s *Store) Queues(ctx context.Context) ([]job.QueueInfo, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	infos, err := s.consumers(ctx)
	if err != nil {
		return nil, fmt.Errorf("queues: %w", err)
	}
	workers, err := s.present(ctx, "*")
	if err != nil {
		return nil, fmt.Errorf("queues: %w", err)
	}
	byQueue := make(map[string][]Presence)
	for _, p := range workers {
		byQueue[p.Queue] = append(byQueue[p.Queue], p)
	}
	queues := []job.QueueInfo{}
	var ready []*jetstream.ConsumerInfo // in the same order
	for _, info := range infos {
		if name, ok := s.names.queueOf(info); ok {
			queues = append(queues, queueFacts(name, info, byQueue[name]))
			ready = append(ready, info)
		}
	}
	if err := s.oldestReady(ctx, queues, ready); err != nil {
		return nil, fmt.Errorf("queues: %w", err)
	}
	slices.SortFunc(queues, func(a, b job.QueueInfo) int { return cmp.Compare(a.Name, b.Name) })
	return queues, nil
}

// Queue is one queue. See job.QueueOperator.
func (s *Store) Queue(ctx context.Context, name string) (*job.QueueInfo, error) {
	if err := job.ValidateName("queue", name, job.MaxName); err != nil {
		return nil, err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	info, err := s.readyInfo(ctx, name)
	if err != nil {
		return nil, err
	}
	workers, err := s.present(ctx, queueToken(name))
	if err != nil {
		return nil, fmt.Errorf("queue %s: %w", name, err)
	}
	one := []job.QueueInfo{queueFacts(name, info, workers)}
	if err := s.oldestReady(ctx, one, []*jetstream.ConsumerInfo{info}); err != nil {
		return nil, fmt.Errorf("queue %s: %w", name, err)
	}
	return &one[0], nil
}

// queueFacts are what a queue's ready consumer and its workers tell.
func queueFacts(name string, info *jetstream.ConsumerInfo, workers []Presence) job.QueueInfo {
	set := readInfo(info.Config)
	q := job.QueueInfo{
		Name: name, Ready: int(info.NumPending), Running: info.NumAckPending,
		Paused: info.Paused, Concurrency: set.limit, Lease: set.lease(), Retention: set.retention, Workers: len(workers),
	}
	if set.wanted > 0 && set.lease() != set.ackWait {
		q.LeaseInForce = set.ackWait
	}
	if until := info.Config.PauseUntil; q.Paused && until != nil && until.Before(untilResumed) {
		q.PausedUntil = until.UTC()
	}
	for _, p := range workers {
		q.Slots += p.Slots
	}
	return q
}

// oldestReady reads since when the job waits that each queue hands out next: the first one after what was handed out.
func (s *Store) oldestReady(ctx context.Context, queues []job.QueueInfo, infos []*jetstream.ConsumerInfo) error {
	const atOnce = 256
	for from := 0; from < len(queues); from += atOnce {
		to := min(from+atOnce, len(queues))
		if err := s.oldestReadyOf(ctx, queues[from:to], infos[from:to]); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) oldestReadyOf(ctx context.Context, queues []job.QueueInfo, infos []*jetstream.ConsumerInfo) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	calls := make([]*call, len(queues))
	for i, info := range infos {
		if queues[i].Ready == 0 {
			continue
		}
		c, forget, err := s.read.ask(directRequest{Seq: info.Delivered.Stream + 1, NextFor: info.Config.FilterSubject})
		if err != nil {
			return err
		}
		defer forget()
		calls[i] = c
	}
	for i, c := range calls {
		if c == nil {
			continue
		}
		if err := c.wait(ctx); err != nil {
			return err
		}
		if len(c.msgs) > 0 { // it may have gone meanwhile
			queues[i].OldestReady = job.Millis(c.msgs[0].time)
		}
	}
	return nil
}

// readyInfo asks for a queue's ready consumer, for as long as ctx allows; job.ErrNoQueue if there is none.
func (s *Store) readyInfo(ctx context.Context, queue string) (*jetstream.ConsumerInfo, error) {
	info, err := s.consumerInfo(ctx, s.names.readyConsumer(queue))
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil, fmt.Errorf("queue %s: %w", queue, job.ErrNoQueue)
	}
	if err != nil {
		return nil, fmt.Errorf("queue %s: %w", queue, err)
	}
	return info, nil
}

func (s *Store) consumerInfo(ctx context.Context, name string) (info *jetstream.ConsumerInfo, err error) {
	err = s.insist(ctx, func(ctx context.Context) error {
		c, err := s.js.Consumer(ctx, s.names.stream(), name)
		if err == nil {
			info = c.CachedInfo()
		}
		return err
	})
	return info, err
}

// insist makes a request again that nobody answers, as it happens while a cluster elects its leaders, for as long as
// ctx allows.
func (s *Store) insist(ctx context.Context, request func(ctx context.Context) error) error {
	for try := 0; ; try++ {
		once, cancel := context.WithTimeout(ctx, requestTimeout)
		err := request(once)
		cancel()
		if err == nil {
			return nil
		}
		silent := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrNoResponders)
		if !silent || s.nc.IsClosed() || pause(ctx, try) != nil {
			return silence(err)
		}
	}
}

// Pause has a queue hand out nothing. See job.QueueOperator.
//
// Only the ready consumer is paused: due jobs go on becoming ready.
func (s *Store) Pause(ctx context.Context, name string, until time.Time) error {
	if err := job.ValidateName("queue", name, job.MaxName); err != nil {
		return err
	}
	switch {
	case until.IsZero() || until.After(untilResumed):
		until = untilResumed
	case !until.After(s.Now()):
		return &job.FieldError{Field: "until", Reason: "must be later than now, which is " + s.Now().Format(job.TimeFormat)}
	}
	return s.pauseUntil(ctx, name, until)
}

// Resume ends a pause. See job.QueueOperator.
func (s *Store) Resume(ctx context.Context, name string) error {
	if err := job.ValidateName("queue", name, job.MaxName); err != nil {
		return err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	info, err := s.readyInfo(ctx, name)
	if err != nil || !info.Paused {
		return err
	}
	until := s.Now().Add(resumeIn)
	if p := info.Config.PauseUntil; p == nil || until.Before(*p) {
		if err := s.pauseUntil(ctx, name, until); err != nil {
			return err
		}
	}
	return s.awaitQueue(ctx, name, func(info *jetstream.ConsumerInfo) bool { return !info.Paused })
}

// pauseUntil sets a queue's pause, and waits until it holds: in a cluster the answer comes before.
func (s *Store) pauseUntil(ctx context.Context, name string, until time.Time) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	until = until.UTC()
	err := s.insist(ctx, func(ctx context.Context) error {
		_, err := s.js.PauseConsumer(ctx, s.names.stream(), s.names.readyConsumer(name), until)
		return err
	})
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return fmt.Errorf("queue %s: %w", name, job.ErrNoQueue)
	}
	if err != nil {
		return fmt.Errorf("queue %s: %w", name, err)
	}
	return s.awaitQueue(ctx, name, func(info *jetstream.ConsumerInfo) bool {
		p := info.Config.PauseUntil
		return p != nil && p.Equal(until)
	})
}

// awaitQueue waits until a queue's consumer is seen as it should be, or for a moment only where somebody else may
// have set it otherwise since.
func (s *Store) awaitQueue(ctx context.Context, name string, holds func(*jetstream.ConsumerInfo) bool) error {
	for try := 0; ; try++ {
		info, err := s.readyInfo(ctx, name)
		if err != nil {
			return err
		}
		if holds(info) {
			return nil
		}
		if try >= 12 { // some seconds
			return fmt.Errorf("queue %s: it is not as it was set: somebody else may have set it at the same time", name)
		}
		if err := pause(ctx, try); err != nil {
			return fmt.Errorf("queue %s: %w", name, err)
		}
	}
}
