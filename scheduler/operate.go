package scheduler

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nuid"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// Get reads a schedule; ErrNotFound if there is none.
func (s *Store) Get(ctx context.Context, space, name string) (*Schedule, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	r, err := again(ctx, func(ctx context.Context) (*record, error) { return s.read(ctx, space, name) })
	if err != nil {
		return nil, failed(space, name, err)
	}
	return &r.Schedule, nil
}

func failed(space, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("schedule %s/%s: %w", space, name, err)
}

// SetEnabled enables or disables a schedule, and reports whether it was otherwise before. Its promised instant stays: one
// that comes due while it is disabled is owed once it is enabled again.
func (s *Store) SetEnabled(ctx context.Context, space, name string, enabled bool) (*Schedule, bool, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	changed := false
	r, err := again(ctx, func(ctx context.Context) (*record, error) {
		r, err := s.read(ctx, space, name)
		if err != nil || r.Active() == enabled {
			return r, err
		}
		changed = true
		r.Enabled = &enabled
		return s.write(ctx, r)
	})
	if err != nil {
		return nil, false, failed(space, name, err)
	}
	return &r.Schedule, changed, nil
}

// Delete removes a schedule, whoever owns it. The jobs that it made stay.
func (s *Store) Delete(ctx context.Context, space, name string) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	_, err := again(ctx, func(ctx context.Context) (any, error) {
		r, err := s.read(ctx, space, name)
		if err != nil && !errors.Is(err, ErrUnreadable) {
			return nil, err
		}
		return nil, s.remove(ctx, key(space, name), r.rev)
	})
	return failed(space, name, err)
}

// RunNow enqueues a schedule's job at once, besides its fires and also while it is disabled.
func (s *Store) RunNow(ctx context.Context, jobs job.Producer, space, name string) (job.Enqueued, error) {
	sched, err := s.Get(ctx, space, name)
	if err != nil {
		return job.Enqueued{}, err
	}
	// Short enough for the longest name.
	out, err := jobs.Enqueue(ctx, sched.job(sched.Name+"@run-"+nuid.Next(), 0))
	return out, failed(space, name, err)
}
