package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// consumerConfig is a queue's consumer as jetcrew makes it. MaxDeliver has no limit, since a message past it
// would stay in the stream and never be delivered again (nats-server #5564): attempts are the document's.
func (s *Store) consumerConfig(name, filter string, lease time.Duration) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       name,
		Name:          name,
		FilterSubject: filter,
		DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       lease,
		MaxDeliver:    -1,
		MaxAckPending: -1,
		MaxWaiting:    8192, // cannot be raised later
	}
}

// wakeWait is how long a wake may be held before it is delivered to somebody else. Handling one takes
// milliseconds, and to do it twice is harmless; the jobs of a worker that vanished wait for it.
const wakeWait = 5 * time.Second

// ensureQueue makes a queue's consumers where they are missing, unless it is known that they are there.
func (s *Store) ensureQueue(ctx context.Context, queue string) error {
	if s.queues.uses(queue) {
		return nil
	}
	_, err := s.openQueue(ctx, queue, 0)
	return err
}

// openQueue finds, checks or makes a queue's consumers. A lease of 0 takes what is there, or the store's. One that was
// there is made again as it was last seen.
func (s *Store) openQueue(ctx context.Context, queue string, lease time.Duration) (queueInfo, error) {
	last := s.queues.last(queue)
	last.ackWait = cmp.Or(last.ackWait, lease, s.cfg.Lease)
	have, err := s.ensureConsumer(ctx, s.readyConfig(queue, last))
	if err != nil {
		return queueInfo{}, err
	}
	if _, err := s.ensureConsumer(ctx, s.consumerConfig(s.names.wakeConsumer(queue), s.names.wakeFilter(queue), wakeWait)); err != nil {
		return queueInfo{}, err
	}
	info := readInfo(have)
	if lease != 0 && info.lease() != lease { // it was set on purpose, and holds
		s.log.Debug().Str("queue", queue).Stringer("lease", info.lease()).Stringer("asked", lease).Msg("the queue keeps its lease")
	}
	s.queues.learn(queue, info, true)
	return info, nil
}

// readyConfig is a queue's ready consumer.
func (s *Store) readyConfig(queue string, info queueInfo) jetstream.ConsumerConfig {
	cfg := s.consumerConfig(s.names.readyConsumer(queue), s.names.readyFilter(queue), info.ackWait)
	if info.limit > 0 {
		cfg.MaxAckPending = info.limit
	}
	cfg.Metadata = info.metadata(queue)
	return cfg
}

// ensureConsumer finds, checks or makes one consumer. A request that nobody answers, as it happens while a cluster
// elects its leaders, is made again for as long as ctx allows.
func (s *Store) ensureConsumer(ctx context.Context, want jetstream.ConsumerConfig) (jetstream.ConsumerConfig, error) {
	for try := 0; ; try++ {
		once, cancel := context.WithTimeout(ctx, requestTimeout)
		have, err := s.ensureConsumerOnce(once, want)
		cancel()
		silent := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrNoResponders)
		if !silent || pause(ctx, try) != nil {
			return have, err
		}
	}
}

func (s *Store) ensureConsumerOnce(ctx context.Context, want jetstream.ConsumerConfig) (jetstream.ConsumerConfig, error) {
	c, err := s.js.Consumer(ctx, s.names.stream(), want.Durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		if s.cfg.Manage == ManageVerify {
			return want, fmt.Errorf("streams: %w: consumer %s is missing, and this process may not make it", ErrTopology, want.Durable)
		}
		c, err = s.js.CreateConsumer(ctx, s.names.stream(), want)
		if errors.Is(err, jetstream.ErrConsumerExists) { // somebody else was faster, with another lease
			c, err = s.js.Consumer(ctx, s.names.stream(), want.Durable)
		}
	}
	if errors.Is(err, jetstream.ErrNotPullConsumer) {
		return want, fmt.Errorf("streams: %w: consumer %s: deliver_subject is set, want none: %s: %s", ErrTopology, want.Durable, whyPush, remedyConsumer)
	}
	if err != nil {
		return want, fmt.Errorf("streams: consumer %s: %w", want.Durable, err)
	}
	return s.mendConsumer(ctx, c.CachedInfo().Config, want)
}

// mendConsumer refuses what hands out nothing, changes what would lose jobs, and adds the name of a queue where it cannot
// be told otherwise.
func (s *Store) mendConsumer(ctx context.Context, have, want jetstream.ConsumerConfig) (jetstream.ConsumerConfig, error) {
	drift := consumerDrift(want, have)
	if why := refusal(drift, s.cfg.Manage); why != "" {
		return want, fmt.Errorf("streams: %w: consumer %s", ErrTopology, why)
	}
	fixed := mended(want, have, drift)
	queue := want.Metadata[metaQueue]
	nameless := have.Metadata[metaQueue] != queue && strings.HasPrefix(queueToken(queue), hashMark)
	if nameless {
		fixed.Metadata = maps.Clone(have.Metadata)
		if fixed.Metadata == nil {
			fixed.Metadata = make(map[string]string)
		}
		fixed.Metadata[metaQueue] = queue
	}
	if s.cfg.Manage == ManageCreate && (nameless || mendable(drift)) {
		if _, err := s.js.UpdateConsumer(ctx, s.names.stream(), fixed); err != nil {
			return want, fmt.Errorf("streams: %w: mending consumer %s: %w", ErrTopology, want.Durable, err)
		}
		for i := range drift {
			drift[i].Mended = drift[i].Mends
		}
		have = fixed
	}
	s.report(drift)
	return have, nil
}
