package jobtest

import (
	"context"
	"fmt"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// Wait waits for a job's end. See job.Queue.
func (q *Queue) Wait(ctx context.Context, key job.Key) (*job.Job, error) {
	for {
		q.mu.Lock()
		changed := q.changed
		q.mu.Unlock()
		j, err := q.Get(ctx, key)
		if err != nil || j.Status.Terminal() {
			return j, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for %s: %w", key, ctx.Err())
		}
	}
}
