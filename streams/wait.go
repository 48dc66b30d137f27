package streams

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// waitPoll is how often a wait looks at the record though nothing was heard: what a lost hint costs.
const waitPoll = time.Second

// Wait waits for a job's end. See job.Queue.
func (s *Store) Wait(ctx context.Context, key job.Key) (*job.Job, error) {
	if key.Space == "" {
		key.Space = job.DefaultSpace
	}
	if err := job.ValidateName("id", key.ID, job.MaxName); err != nil {
		return nil, err
	}
	hints := make(chan *nats.Msg, 16)
	sub, err := s.nc.ChanSubscribe(s.names.events(key), hints)
	if err != nil {
		return nil, fmt.Errorf("wait for %s/%s: %w", key.Space, key.ID, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only on a closed connection
	poll := time.NewTicker(waitPoll)
	defer poll.Stop()
	seen := false
	for failing := false; ; {
		// The first look comes after the subscription: an end in between is seen by one of the two.
		j, err := s.Get(ctx, key)
		switch {
		case err == nil && j.Status.Terminal():
			return j, nil
		case err == nil:
			failing, seen = false, true
			key.Queue = j.Queue
		case ctx.Err() != nil:
			return nil, fmt.Errorf("wait for %s/%s: %w", key.Space, key.ID, ctx.Err())
		case seen && errors.Is(err, job.ErrNotFound):
			return nil, fmt.Errorf("wait for %s/%s: it has ended and left no record, or was deleted: %w", key.Space, key.ID, err)
		case final(err):
			return nil, err
		case s.nc.IsClosed():
			return nil, err
		default: // the store cannot be reached; the job goes on all the same
			if !failing {
				s.log.Debug().Err(err).Str("id", key.ID).Msg("waiting for a job that cannot be read at the moment")
			}
			failing = true
		}
		if err := s.hintOrPoll(ctx, hints, poll.C); err != nil {
			return nil, fmt.Errorf("wait for %s/%s: %w", key.Space, key.ID, err)
		}
	}
}

// final reports whether asking again cannot help.
func final(err error) bool {
	return errors.Is(err, job.ErrNotFound) || errors.Is(err, job.ErrAmbiguous) || errors.As(err, new(*job.FieldError))
}

// hintOrPoll waits until there is a reason to look again.
func (s *Store) hintOrPoll(ctx context.Context, hints <-chan *nats.Msg, poll <-chan time.Time) error {
	for {
		select {
		case m := <-hints:
			if st, ok := s.names.eventState(m.Subject); ok && st.terminal() {
				return nil
			}
		case <-poll:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
