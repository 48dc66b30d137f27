package httpapi

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
)

const (
	// countsFor is how long a count of the jobs is good.
	countsFor = time.Second
	// fullFor is how long it is good for refusing some.
	fullFor = 100 * time.Millisecond
)

// boundedJobs takes no jobs for a queue that has so many ready already. It goes by a count of a second ago, and what came
// through it since. Where jobs cannot be counted they are let through: the store says then what is wrong with it.
type boundedJobs struct {
	Jobs
	most  int
	count func(context.Context) (*job.Counts, error)

	mu    sync.Mutex
	at    time.Time
	ready map[string]int
}

// EnqueueSpec puts a job in.
func (b *boundedJobs) EnqueueSpec(ctx context.Context, spec job.Spec) (job.Enqueued, error) {
	if p := b.full(ctx, []job.Spec{spec}); p != nil {
		return job.Enqueued{}, p
	}
	return b.Jobs.EnqueueSpec(ctx, spec)
}

// EnqueueMany puts jobs in: all of them, or, where one of their queues is full, none.
func (b *boundedJobs) EnqueueMany(ctx context.Context, specs []job.Spec) ([]job.Enqueued, error) {
	if p := b.full(ctx, specs); p != nil {
		return nil, p
	}
	return b.Jobs.EnqueueMany(ctx, specs)
}

func (b *boundedJobs) full(ctx context.Context, specs []job.Spec) *Problem {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.counted(ctx, countsFor) {
		return nil
	}
	queue, full := b.fullest(specs)
	if full { // which may not be so any more: what came through is worked off meanwhile
		if !b.counted(ctx, fullFor) {
			return nil
		}
		queue, full = b.fullest(specs)
	}
	if full {
		p := newProblem(http.StatusTooManyRequests, CodeQueueFull, "the queue "+cut(queue)+" has as many ready jobs as are taken here; nothing was changed")
		p.retryAfter = 1
		return p
	}
	for i := range specs {
		b.ready[specs[i].Key().Queue]++
	}
	return nil
}

// fullest is a queue of these jobs that is full, if there is one.
func (b *boundedJobs) fullest(specs []job.Spec) (string, bool) {
	for i := range specs {
		if queue := specs[i].Key().Queue; b.ready[queue] >= b.most {
			return queue, true
		}
	}
	return "", false
}

// counted sees to a count that is no older; false if there is none.
func (b *boundedJobs) counted(ctx context.Context, oldest time.Duration) bool {
	if !b.at.IsZero() && time.Since(b.at) < oldest {
		return true
	}
	counts, err := b.count(ctx)
	if err != nil {
		return false
	}
	b.at, b.ready = time.Now(), make(map[string]int, len(counts.Queues))
	for name, q := range counts.Queues {
		b.ready[name] = q.Ready
	}
	return true
}
