package streams

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/jetcrew/jetcrew/pkg/job"
)

const (
	// leaseMargin is how much longer than the old lease a lower one waits at most for workers to follow.
	leaseMargin = 5 * time.Second
	// configureAgain is when Configure looks again at what it wrote: another operator's write that was under way may
	// have undone it.
	configureAgain = 100 * time.Millisecond
)

// Configure changes a queue's settings. See job.QueueOperator.
//
// The server knows no guarded update of a consumer: each change is read, made and looked at again a moment later, and
// made anew where somebody else's write undid it. So of two operators' changes at the same time both hold, whatever
// the order of their writes; of two changes of the same setting the later one does.
func (s *Store) Configure(ctx context.Context, name string, set job.QueueSettings) (*job.QueueInfo, error) {
	if err := job.ValidateName("queue", name, job.MaxName); err != nil {
		return nil, err
	}
	if err := validateSettings(set); err != nil {
		return nil, err
	}
	first, cancel := bounded(ctx)
	defer cancel()
	var lease time.Duration
	if set.Lease != nil {
		lease = *set.Lease
	}
	old, err := s.makeQueue(first, name, lease)
	if err != nil {
		return nil, err
	}
	if _, ok := ctx.Deadline(); !ok { // it may have to wait for the workers
		ctx, cancel = context.WithTimeout(ctx, old.ackWait+leaseMargin+30*time.Second)
		defer cancel()
	}
	if err := s.amend(ctx, name, func(cfg *jetstream.ConsumerConfig) { apply(cfg, set, s.Now()) }); err != nil {
		return nil, err
	}
	if set.Lease != nil {
		if err := s.awaitLease(ctx, name, *set.Lease); err != nil {
			return nil, err
		}
	}
	return s.Queue(ctx, name)
}

// makeQueue finds or makes a queue. Its lease may be asked for; what it has it keeps.
func (s *Store) makeQueue(ctx context.Context, name string, lease time.Duration) (queueInfo, error) {
	info, err := s.readyInfo(ctx, name)
	if errors.Is(err, job.ErrNoQueue) {
		return s.openQueue(ctx, name, lease)
	}
	if err != nil {
		return queueInfo{}, err
	}
	return readInfo(info.Config), nil
}

func validateSettings(set job.QueueSettings) error {
	if c := set.Concurrency; c != nil && *c < 0 {
		return &job.FieldError{Field: "concurrency", Reason: fmt.Sprintf("must be 1 or more, or 0 for no limit, not %d", *c)}
	}
	if l := set.Lease; l != nil && *l < MinLease {
		return &job.FieldError{Field: "lease", Reason: fmt.Sprintf("must be at least %s, not %s", MinLease, *l)}
	}
	for _, status := range slices.Sorted(maps.Keys(set.Retention)) {
		field := "retention." + string(status)
		if !status.Terminal() {
			return &job.FieldError{Field: field, Reason: "only records of jobs that have ended have a retention: succeeded, failed, dead, cancelled"}
		}
		if d := set.Retention[status]; d != 0 && d != job.KeepDefault && d < MinRetention {
			return &job.FieldError{Field: field, Reason: fmt.Sprintf("must be at least %s, or 0 for none, not %s", MinRetention, d)}
		}
	}
	return nil
}

// apply writes settings into a ready consumer's configuration. A lower lease is only announced.
func apply(cfg *jetstream.ConsumerConfig, set job.QueueSettings, now time.Time) {
	if c := set.Concurrency; c != nil {
		switch {
		case *c > 0:
			cfg.MaxAckPending = *c
		case cfg.MaxAckPending > 0:
			cfg.MaxAckPending = -1
		}
	}
	for status, d := range set.Retention {
		if d == job.KeepDefault {
			delete(cfg.Metadata, metaRetention+string(status))
		} else {
			cfg.Metadata[metaRetention+string(status)] = d.String()
		}
	}
	if l := set.Lease; l != nil {
		if *l >= cfg.AckWait {
			cfg.AckWait = *l
			delete(cfg.Metadata, metaLease)
			delete(cfg.Metadata, metaSince)
		} else if cfg.Metadata[metaLease] != l.String() {
			cfg.Metadata[metaLease], cfg.Metadata[metaSince] = l.String(), now.UTC().Format(time.RFC3339)
		}
	}
}

// amend changes a queue's ready consumer until it is seen to be as change makes it, tells the fleet, and takes the
// change in itself. Where there is nothing to change nothing is written: an update that changes nothing is none in a
// cluster (nats-server #5526).
func (s *Store) amend(ctx context.Context, name string, change func(*jetstream.ConsumerConfig)) error {
	for try := 0; ; try++ {
		info, err := s.readyInfo(ctx, name)
		if err != nil {
			return err
		}
		have := info.Config
		want := have
		if want.Metadata = maps.Clone(have.Metadata); want.Metadata == nil {
			want.Metadata = make(map[string]string)
		}
		change(&want)
		if want.AckWait == have.AckWait && want.MaxAckPending == have.MaxAckPending && maps.Equal(want.Metadata, have.Metadata) {
			s.queues.learn(name, readInfo(have), false)
			return nil
		}
		if try >= 20 {
			return fmt.Errorf("queue %s: somebody else sets it otherwise, again and again", name)
		}
		err = s.insist(ctx, func(ctx context.Context) error {
			_, err := s.js.UpdateConsumer(ctx, s.names.stream(), want)
			return err
		})
		if err != nil {
			return fmt.Errorf("queue %s: setting it: %w", name, err)
		}
		_ = s.nc.Publish(s.names.queueHint(name), nil) // whoever misses it looks from time to time
		if err := sleep(ctx, configureAgain); err != nil {
			return fmt.Errorf("queue %s: %w", name, err)
		}
	}
}

// awaitLease waits until a lower lease has been introduced.
func (s *Store) awaitLease(ctx context.Context, name string, lease time.Duration) error {
	waits := "it is not known who"
	for try := 4; ; try++ {
		info, err := s.readyInfo(ctx, name)
		if err == nil && readInfo(info.Config).wanted != lease {
			return nil // it holds, or somebody else wants another one
		}
		var behind []string
		if err == nil {
			behind, err = s.completeLease(ctx, name, info)
		}
		if len(behind) > 0 {
			waits = strings.Join(behind, ", ")
		}
		if err == nil && len(behind) > 0 {
			err = pause(ctx, try)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("queue %s: its lease is being lowered to %s, but not all workers follow yet (%s): ask again to complete it: %w",
				name, lease, waits, ctx.Err())
		}
		if err != nil {
			return err
		}
	}
}

// completeLease has the server go by the lower lease that a queue wants, once all its workers do: the server applies
// it at once to what they hold. It answers which workers do not yet; those that are behind for more than the old lease
// and a margin are not waited for. Anybody may call it at any time.
func (s *Store) completeLease(ctx context.Context, name string, info *jetstream.ConsumerInfo) (behind []string, err error) {
	set := readInfo(info.Config)
	if set.wanted == 0 {
		return nil, nil
	}
	workers, err := s.present(ctx, queueToken(name))
	if err != nil {
		return nil, fmt.Errorf("queue %s: %w", name, err)
	}
	for _, p := range workers {
		if p.Lease == 0 || p.Lease > set.wanted {
			behind = append(behind, p.Worker)
		}
	}
	if len(behind) > 0 {
		if s.Now().Before(set.since.Add(set.ackWait + leaseMargin)) {
			return behind, nil
		}
		s.log.Warn().Str("queue", name).Strs("workers", behind).Stringer("lease", set.wanted).
			Msg("workers do not go by the queue's lower lease; it holds without them")
	}
	return nil, s.amend(ctx, name, func(cfg *jetstream.ConsumerConfig) {
		if cfg.Metadata[metaLease] == set.wanted.String() {
			cfg.AckWait = min(cfg.AckWait, set.wanted)
			delete(cfg.Metadata, metaLease)
			delete(cfg.Metadata, metaSince)
		}
	})
}

// DeleteQueue removes a queue's consumers. See job.QueueOperator.
func (s *Store) DeleteQueue(ctx context.Context, name string) error {
	if err := job.ValidateName("queue", name, job.MaxName); err != nil {
		return err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	ready, wake := s.names.readyConsumer(name), s.names.wakeConsumer(name)
	switch _, err := s.readyInfo(ctx, name); {
	case errors.Is(err, job.ErrNoQueue):
		if _, other := s.consumerInfo(ctx, wake); other != nil { // or a deletion is to be completed
			return err
		}
	case err != nil:
		return err
	}
	if err := s.unused(ctx, name); err != nil {
		return err
	}
	for _, consumer := range []string{ready, wake} {
		err := s.insist(ctx, func(ctx context.Context) error { return s.js.DeleteConsumer(ctx, s.names.stream(), consumer) })
		if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return fmt.Errorf("queue %s: deleting it: %w", name, err)
		}
	}
	s.queues.forget(name)
	s.queues.lacks(name)
	_ = s.nc.Publish(s.names.queueHint(name), nil) // producers look again from time to time as well
	if err := sleep(ctx, configureAgain); err != nil {
		return fmt.Errorf("queue %s: %w", name, err)
	}
	// A job may have come meanwhile from somebody who took the queue for there.
	if err := s.unused(ctx, name); err != nil {
		if _, again := s.openQueue(ctx, name, 0); again != nil {
			return fmt.Errorf("%w; making it again: %w", err, again)
		}
		return err
	}
	return nil
}

// unused answers job.ErrQueueInUse, and what the queue has, unless it has nothing but ended jobs.
func (s *Store) unused(ctx context.Context, name string) error {
	token := queueToken(name)
	var has []string
	for _, st := range []state{stateReady, stateDue, stateRunning} {
		_, err := s.leaderNext(ctx, s.names.job(st, token+".>"), 1)
		switch {
		case err == nil:
			has = append(has, string(st)+" jobs")
		case !errors.Is(err, job.ErrNotFound):
			return fmt.Errorf("queue %s: %w", name, err)
		}
	}
	workers, err := s.present(ctx, token)
	if err != nil {
		return fmt.Errorf("queue %s: %w", name, err)
	}
	switch len(workers) {
	case 0:
	case 1:
		has = append(has, "a worker, "+workers[0].Worker)
	default:
		has = append(has, fmt.Sprintf("%d workers", len(workers)))
	}
	if len(has) > 0 {
		return fmt.Errorf("queue %s: %w: it has %s", name, job.ErrQueueInUse, strings.Join(has, " and "))
	}
	return nil
}
