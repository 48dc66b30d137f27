package client

import (
	"context"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
)

var _ job.Operator = (*Client)(nil)

// operator is the store, for those who run the fleet.
func (c *Client) operator() job.Operator { return c.store }

// List answers a page of the jobs that a filter means. See job.Lister; also *PermissionError.
func (c *Client) List(ctx context.Context, req job.ListRequest) (*job.Page, error) {
	ctx, done := c.events.guard(ctx, c.names.reading)
	defer done()
	p, err := c.operator().List(ctx, req)
	return p, c.events.explain(ctx, err)
}

// Count counts the jobs. See job.Operator; also *PermissionError.
func (c *Client) Count(ctx context.Context) (*job.Counts, error) {
	ctx, done := c.events.guard(ctx, c.names.looking)
	defer done()
	n, err := c.operator().Count(ctx)
	return n, c.events.explain(ctx, err)
}

// Cancel ends a job that waits, and has one that runs stopped. See job.Steerer; also *PermissionError.
func (c *Client) Cancel(ctx context.Context, key job.Key) (job.Changed, error) {
	return c.steer(ctx, job.OpCancel, key, c.operator().Cancel)
}

// Requeue has a job that has ended run again. See job.Steerer; also *PermissionError.
func (c *Client) Requeue(ctx context.Context, key job.Key) (job.Changed, error) {
	return c.steer(ctx, job.OpRequeue, key, c.operator().Requeue)
}

// RunNow starts a job that waits for its instant. See job.Steerer; also *PermissionError.
func (c *Client) RunNow(ctx context.Context, key job.Key) (job.Changed, error) {
	return c.steer(ctx, job.OpRunNow, key, c.operator().RunNow)
}

// Delete removes the record of a job that waits or has ended. See job.Steerer; also *PermissionError.
func (c *Client) Delete(ctx context.Context, key job.Key) (job.Changed, error) {
	return c.steer(ctx, job.OpDelete, key, c.operator().Delete)
}

func (c *Client) steer(ctx context.Context, op job.Operation, key job.Key, do func(context.Context, job.Key) (job.Changed, error)) (job.Changed, error) {
	if key.Space == "" {
		key.Space = job.DefaultSpace
	}
	ctx, done := c.events.guard(ctx, func(p *PermissionError) bool { return c.names.steering(op, p).touches(key) })
	defer done()
	ch, err := do(ctx, key)
	return ch, c.events.explain(ctx, err)
}

// Bulk does an operation to all jobs that a filter means. See job.Steerer; also *PermissionError, as soon as one of
// those jobs may not be changed.
func (c *Client) Bulk(ctx context.Context, req job.BulkRequest) (job.BulkResult, error) {
	ctx, done := c.events.guard(ctx, func(p *PermissionError) bool { return c.names.steering(req.Operation, p).among(&req.Filter) })
	defer done()
	r, err := c.operator().Bulk(ctx, req)
	return r, c.events.explain(ctx, err)
}

// PurgeRequest asks for the end of what waits in a queue.
type PurgeRequest struct {
	Queue    string
	Statuses []job.Status // those of job.OpDelete; default to ready and due
	DryRun   bool         // only count what would be deleted
	Progress func(job.BulkResult)
}

// Bulk is the purge as the bulk operation that it is: a delete of the queue's jobs in all spaces.
func (r PurgeRequest) Bulk() job.BulkRequest {
	statuses := r.Statuses
	if len(statuses) == 0 {
		statuses = []job.Status{job.Ready, job.Due}
	}
	return job.BulkRequest{
		Operation: job.OpDelete,
		Filter:    job.Filter{AllSpaces: true, Queue: r.Queue, Statuses: statuses},
		DryRun:    r.DryRun, Progress: r.Progress,
	}
}

// Purge deletes the jobs of a queue that wait, in all spaces. Errors to branch on: those of Bulk, and job.ErrNoQueue.
func (c *Client) Purge(ctx context.Context, req PurgeRequest) (job.BulkResult, error) {
	if _, err := c.Queue(ctx, req.Queue); err != nil {
		return job.BulkResult{}, err
	}
	return c.Bulk(ctx, req.Bulk())
}

// Queues are all queues, by name. See job.QueueOperator; also *PermissionError.
func (c *Client) Queues(ctx context.Context) ([]job.QueueInfo, error) {
	ctx, done := c.events.guard(ctx, c.names.looking)
	defer done()
	q, err := c.operator().Queues(ctx)
	return q, c.events.explain(ctx, err)
}

// Queue is one queue. See job.QueueOperator; also *PermissionError.
func (c *Client) Queue(ctx context.Context, name string) (*job.QueueInfo, error) {
	ctx, done := c.events.guard(ctx, c.names.managing(name))
	defer done()
	q, err := c.operator().Queue(ctx, name)
	return q, c.events.explain(ctx, err)
}

// Pause has nothing of a queue handed out any more. See job.QueueOperator; also *PermissionError.
func (c *Client) Pause(ctx context.Context, name string, until time.Time) error {
	ctx, done := c.events.guard(ctx, c.names.managing(name))
	defer done()
	return c.events.explain(ctx, c.operator().Pause(ctx, name, until))
}

// Resume ends a pause. See job.QueueOperator; also *PermissionError.
func (c *Client) Resume(ctx context.Context, name string) error {
	ctx, done := c.events.guard(ctx, c.names.managing(name))
	defer done()
	return c.events.explain(ctx, c.operator().Resume(ctx, name))
}

// Configure changes a queue's settings. See job.QueueOperator; also *PermissionError.
func (c *Client) Configure(ctx context.Context, name string, set job.QueueSettings) (*job.QueueInfo, error) {
	ctx, done := c.events.guard(ctx, c.names.managing(name))
	defer done()
	q, err := c.operator().Configure(ctx, name, set)
	return q, c.events.explain(ctx, err)
}

// DeleteQueue removes a queue that has no jobs left but ended ones. See job.QueueOperator; also *PermissionError.
func (c *Client) DeleteQueue(ctx context.Context, name string) error {
	ctx, done := c.events.guard(ctx, c.names.managing(name))
	defer done()
	return c.events.explain(ctx, c.operator().DeleteQueue(ctx, name))
}

// Workers are those that are alive, by id. See job.Operator; also *PermissionError.
func (c *Client) Workers(ctx context.Context) ([]job.Worker, error) {
	ctx, done := c.events.guard(ctx, c.names.looking)
	defer done()
	w, err := c.operator().Workers(ctx)
	return w, c.events.explain(ctx, err)
}
