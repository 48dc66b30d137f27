package jobtest

import (
	"context"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// Count counts the jobs. See job.Operator.
func (q *Queue) Count(ctx context.Context) (*job.Counts, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.now()
	c := &job.Counts{Queues: make(map[string]job.QueueCounts)}
	for name := range q.queues {
		c.Queues[name] = job.QueueCounts{}
	}
	for key, e := range q.jobs {
		of := c.Queues[key.Queue]
		switch s := e.job.Status; {
		case s == job.Running:
			c.Running++
			of.Running++
		case e.due:
			c.Due++
		case s == job.Pending:
			c.Ready++
			of.Ready++
		case s == job.Succeeded:
			c.Succeeded++
		case s == job.Failed:
			c.Failed++
		case s == job.Dead:
			c.Dead++
		case s == job.Cancelled:
			c.Cancelled++
		}
		if of != (job.QueueCounts{}) {
			c.Queues[key.Queue] = of
		}
	}
	return c, nil
}
