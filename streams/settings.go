package streams

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// settingsEvery is how often the settings of a queue in use are read again at least: what a lost hint costs.
const settingsEvery = 30 * time.Second

// What a queue says of itself stands in the metadata of its ready consumer, beside what the server acts upon.
const (
	metaQueue     = "jetcrew.queue"       // its true name: a long one stands hashed in the consumer's
	metaLease     = "jetcrew.lease"       // a lower lease that is being introduced
	metaSince     = "jetcrew.lease.since" // since when it is
	metaRetention = "jetcrew.retention."  // and a final status: for how long its records stay
)

// finals are the states that have a retention.
var finals = [...]state{stateSucceeded, stateFailed, stateDead, stateCancelled}

// queueInfo is how a queue is set.
type queueInfo struct {
	ackWait   time.Duration                // after which the server hands out anew what nobody has renewed
	wanted    time.Duration                // a lower lease that is being introduced; 0: none
	since     time.Time                    // since when it is
	limit     int                          // of jobs at a time in the whole fleet; 0: none
	retention map[job.Status]time.Duration // of records, where the queue has its own; 0: none
}

// lease is what workers go by: the lower one as soon as it is wanted, so that nothing lapses when the server goes by
// it as well.
func (i queueInfo) lease() time.Duration {
	if i.wanted > 0 {
		return min(i.wanted, i.ackWait)
	}
	return i.ackWait
}

// readInfo reads a queue's settings. What somebody wrote by hand and is not allowed is taken for not written.
func readInfo(cfg jetstream.ConsumerConfig) queueInfo {
	i := queueInfo{ackWait: cfg.AckWait, limit: max(cfg.MaxAckPending, 0)}
	if d, err := time.ParseDuration(cfg.Metadata[metaLease]); err == nil && d >= MinLease && d < i.ackWait {
		i.wanted = d
		i.since, _ = time.Parse(time.RFC3339, cfg.Metadata[metaSince]) // the zero time: long ago
	}
	for _, s := range finals {
		text, ok := cfg.Metadata[metaRetention+string(s)]
		d, err := time.ParseDuration(text)
		if !ok || err != nil || d != 0 && d < MinRetention {
			continue
		}
		if i.retention == nil {
			i.retention = make(map[job.Status]time.Duration)
		}
		i.retention[job.Status(s)] = d
	}
	return i
}

// metadata writes what readInfo reads.
func (i queueInfo) metadata(queue string) map[string]string {
	m := map[string]string{metaQueue: queue}
	if i.wanted > 0 {
		m[metaLease], m[metaSince] = i.wanted.String(), i.since.UTC().Format(time.RFC3339)
	}
	for s, d := range i.retention {
		m[metaRetention+string(s)] = d.String()
	}
	return m
}

// queueHint is where it is said that a queue's settings changed.
func (n names) queueHint(queue string) string { return n.ns + ".control.queue." + queueToken(queue) }
func (n names) queueHints() string            { return n.ns + ".control.queue.*" }

// queueBook is what a process knows of the queues that it uses.
type queueBook struct {
	poked chan struct{} // has the queues that are due looked at now

	mu    sync.Mutex // guards what follows
	known map[string]*knownQueue
}

type knownQueue struct {
	info   queueInfo
	read   bool      // info is set
	there  bool      // its consumers are known to be there
	next   time.Time // when to read it again
	used   time.Time
	follow map[*consumer]struct{} // who is told of changes
}

func (b *queueBook) of(queue string) *knownQueue {
	k := b.known[queue]
	if k == nil {
		if b.known == nil {
			b.known = make(map[string]*knownQueue)
		}
		k = &knownQueue{follow: make(map[*consumer]struct{})}
		b.known[queue] = k
	}
	return k
}

// settings are a queue's as they were last seen. It never waits: those of a queue that is new to this process are
// read soon, and are empty until then; see learnQueue.
func (s *Store) settings(queue string) queueInfo {
	b := &s.queues
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	k := b.of(queue)
	k.used = now
	if !k.next.After(now) {
		b.poke()
	}
	return k.info
}

// learnQueue reads a queue's settings unless they are known, for those who write ends to queues that they do not work
// off. A queue that is not there has none.
func (s *Store) learnQueue(ctx context.Context, queue string) error {
	b := &s.queues
	b.mu.Lock()
	known := b.of(queue).read
	b.mu.Unlock()
	if known {
		return nil
	}
	return s.readQueue(ctx, queue)
}

// uses notes that a queue is used, and reports whether its consumers are known to be there.
func (b *queueBook) uses(queue string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.of(queue)
	k.used = time.Now()
	return k.there
}

// learn takes in what was read of a queue, and tells whoever works it off.
func (b *queueBook) learn(queue string, info queueInfo, there bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.of(queue)
	k.there = k.there || there
	k.read, k.info = true, info
	k.next = time.Now().Add(k.every())
	for c := range k.follow {
		c.follow(info)
	}
	b.poke() // it may be due earlier than all others
}

// lacks takes in that a queue is not there. What its workers know of it they need to make it again.
func (b *queueBook) lacks(queue string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.of(queue)
	k.there = false
	k.next = time.Now().Add(settingsEvery)
	if len(k.follow) == 0 {
		k.read, k.info = true, queueInfo{}
	}
}

// forget has a queue's consumers looked for again, because one seems to be gone.
func (b *queueBook) forget(queue string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of(queue).there = false
}

// last is what is known of a queue.
func (b *queueBook) last(queue string) queueInfo {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of(queue).info
}

// join has a consumer told of its queue's settings until it leaves.
func (b *queueBook) join(queue string, c *consumer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of(queue).follow[c] = struct{}{}
}

func (b *queueBook) leave(queue string, c *consumer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.of(queue).follow, c)
}

// every is how often the queue is read: its workers have to learn of a lower lease before the current one is over.
// The lowest one there is cannot be lowered. Called with mu held.
func (k *knownQueue) every() time.Duration {
	if lease := k.info.lease(); len(k.follow) > 0 && lease > MinLease {
		return min(settingsEvery, lease/3)
	}
	return settingsEvery
}

func (b *queueBook) poke() {
	select {
	case b.poked <- struct{}{}:
	default:
	}
}

// due are the queues to read now, and when to look again.
func (b *queueBook) due(now time.Time) (queues []string, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	wait = settingsEvery
	for queue, k := range b.known {
		if len(k.follow) == 0 && now.Sub(k.used) > 2*settingsEvery {
			continue // not in use
		}
		if left := k.next.Sub(now); left > 0 {
			wait = min(wait, left)
		} else {
			queues = append(queues, queue)
		}
	}
	return queues, wait
}

// stale has a queue read again soon, or all of them.
func (b *queueBook) stale(fits func(queue string) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for queue, k := range b.known {
		if fits(queue) {
			k.next = time.Time{}
		}
	}
	b.poke()
}

// later puts off the next reading of a queue, after one that failed.
func (b *queueBook) later(queue string, d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of(queue).next = time.Now().Add(d)
}

// watchQueues keeps what is known of the queues in use fresh: by hints, and from time to time.
func (s *Store) watchQueues() error {
	b := &s.queues
	prefix := s.names.queueHint("")
	hints, err := s.nc.Subscribe(s.names.queueHints(), func(m *nats.Msg) {
		token := strings.TrimPrefix(m.Subject, prefix)
		b.stale(func(queue string) bool { return queueToken(queue) == token })
	})
	if err != nil {
		return err
	}
	changed := s.nc.StatusChanged(nats.CONNECTED)
	s.wg.Go(func() {
		defer s.nc.RemoveStatusListener(changed)
		defer func() { _ = hints.Unsubscribe() }() // fails only on a closed connection
		failures := 0
		t := time.NewTimer(settingsEvery)
		defer t.Stop()
		for {
			select {
			case <-s.ctx.Done():
				return
			case <-t.C:
			case <-b.poked:
			case _, ok := <-changed:
				if !ok {
					changed = nil // the connection is closed
					continue
				}
				b.stale(func(string) bool { return true }) // hints may have been missed
			}
			queues, wait := b.due(time.Now())
			for _, queue := range queues {
				failures = s.readAgain(queue, failures)
				if s.ctx.Err() != nil {
					return
				}
				wait = 0
			}
			t.Reset(wait)
		}
	})
	return nil
}

// readAgain reads a queue's settings, and tells of an outage once when it begins and once when it ends.
func (s *Store) readAgain(queue string, failures int) int {
	ctx, cancel := context.WithTimeout(s.ctx, requestTimeout)
	defer cancel()
	err := s.readQueue(ctx, queue)
	switch {
	case s.ctx.Err() != nil || s.nc.IsClosed():
		s.queues.later(queue, settingsEvery)
	case err != nil:
		s.queues.later(queue, time.Second)
		if failures == 0 {
			s.log.Warn().Err(err).Msg("settings of queues cannot be read; going on by those that are known")
		}
		return failures + 1
	case failures > 0:
		s.log.Info().Int("failed", failures).Msg("settings of queues can be read again")
	}
	return 0
}

// readQueue reads a queue's settings now.
func (s *Store) readQueue(ctx context.Context, queue string) error {
	c, err := s.js.Consumer(ctx, s.names.stream(), s.names.readyConsumer(queue))
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		s.queues.lacks(queue)
		return nil
	}
	if err != nil {
		return err
	}
	s.queues.learn(queue, readInfo(c.CachedInfo().Config), false)
	return nil
}
