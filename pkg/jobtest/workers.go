package jobtest

import (
	"cmp"
	"context"
	"maps"
	"os"
	"slices"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// Workers are those whose consumers are not closed, by id. See job.Operator.
func (q *Queue) Workers(ctx context.Context) ([]job.Worker, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	host, _ := os.Hostname() // only for people to read
	q.mu.Lock()
	defer q.mu.Unlock()
	now := job.Millis(q.now())
	found := make(map[string]*job.Worker)
	for c := range q.consumers {
		w := found[c.cfg.WorkerID]
		if w == nil {
			w = &job.Worker{ID: c.cfg.WorkerID, Host: host, PID: os.Getpid(), Version: c.cfg.Version, StartedAt: c.started, BeatAt: now}
			found[w.ID] = w
		}
		if c.started.Before(w.StartedAt) {
			w.StartedAt = c.started
		}
		w.Queues = append(w.Queues, q.part(c))
	}
	var out []job.Worker
	for _, id := range slices.Sorted(maps.Keys(found)) {
		w := found[id]
		slices.SortFunc(w.Queues, func(a, b job.WorkerQueue) int { return cmp.Compare(a.Queue, b.Queue) })
		out = append(out, *w)
	}
	return out, nil
}

// part is a worker's part in one queue. Called with mu held.
func (q *Queue) part(c *consumer) job.WorkerQueue {
	p := job.WorkerQueue{Queue: c.cfg.Queue, Slots: c.cfg.Slots, Lease: c.lease(), Types: c.cfg.Types}
	c.mu.Lock()
	defer c.mu.Unlock()
	for cl := range c.held {
		p.Jobs = append(p.Jobs, job.WorkerJob{Space: cl.key.Space, ID: cl.key.ID, Type: cl.job.Type, Since: cl.job.StartedAt})
	}
	slices.SortFunc(p.Jobs, func(a, b job.WorkerJob) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Space, b.Space), cmp.Compare(a.ID, b.ID))
	})
	p.Running = len(p.Jobs)
	return p
}
