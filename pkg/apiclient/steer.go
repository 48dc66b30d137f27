package apiclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// changed is what became of an operation on one job, as it is written.
type changed struct {
	job.Key         `json:",inline"`
	Done            bool       `json:"done"`
	Status          job.Status `json:"status"`
	CancelRequested bool       `json:"cancelRequested"`
}

// Cancel ends a job that waits, and has one that runs stopped. See job.Steerer.
func (c *Client) Cancel(ctx context.Context, key job.Key) (job.Changed, error) {
	return c.steer(ctx, http.MethodPost, key, "/cancel")
}

// Requeue has a job that has ended run again. See job.Steerer.
func (c *Client) Requeue(ctx context.Context, key job.Key) (job.Changed, error) {
	return c.steer(ctx, http.MethodPost, key, "/requeue")
}

// RunNow starts a job that waits for its instant. See job.Steerer.
func (c *Client) RunNow(ctx context.Context, key job.Key) (job.Changed, error) {
	return c.steer(ctx, http.MethodPost, key, "/run-now")
}

// Delete removes the record of a job that waits or has ended. See job.Steerer.
func (c *Client) Delete(ctx context.Context, key job.Key) (job.Changed, error) {
	return c.steer(ctx, http.MethodDelete, key, "")
}

// steer does an operation to one job. It is not asked again once it may have been done: the second answer would be that the
// state of the job does not allow it.
func (c *Client) steer(ctx context.Context, method string, key job.Key, what string) (job.Changed, error) {
	var out changed
	err := c.onJob(ctx, method, &key, what, &out)
	var p *Error
	if errors.As(err, &p) && p.Code == codeUnchanged && p.found != nil {
		out, err = *p.found, nil
	}
	if err != nil {
		return job.Changed{Key: key}, err
	}
	return job.Changed{Key: out.Key, Done: out.Done, Status: out.Status, CancelRequested: out.CancelRequested}, nil
}

// filterDocument is a filter as the API reads it.
type filterDocument struct {
	Spaces    []string     `json:"spaces,omitzero"`
	AllSpaces bool         `json:"allSpaces,omitzero"`
	Queue     string       `json:"queue,omitzero"`
	Type      string       `json:"type,omitzero"`
	Statuses  []job.Status `json:"statuses,omitzero"`
	Since     string       `json:"since,omitzero"`
	Until     string       `json:"until,omitzero"`
}

// bulkDocument asks for an operation on many jobs.
type bulkDocument struct {
	Filter filterDocument `json:"filter"`
	All    bool           `json:"all"`
	Limit  int            `json:"limit,omitzero"`
	DryRun bool           `json:"dryRun,omitzero"`
}

// bulkDone is what became of it.
type bulkDone struct {
	job.BulkResult `json:",inline"`
	BrokenOff      bool `json:"brokenOff"`
}

// Bulk does an operation to all jobs that a filter means, in as many requests as that takes. The result counts each job
// once; at how many records it looked is the sum of all requests. All spaces are those that the token is good for. See
// job.Steerer.
func (c *Client) Bulk(ctx context.Context, req job.BulkRequest) (job.BulkResult, error) {
	if err := req.Validate(); err != nil {
		return job.BulkResult{}, err
	}
	f := &req.Filter
	body := bulkDocument{
		Filter: filterDocument{f.Spaces, f.AllSpaces, f.Queue, f.Type, f.Statuses, moment(f.From), moment(f.To)},
		All:    true, DryRun: req.DryRun,
	}
	return c.rounds(ctx, req, func(limit int) *call {
		body.Limit = limit
		return &call{method: http.MethodPost, path: location("v1", "jobs", string(req.Operation)), body: body, long: true, again: req.DryRun}
	})
}

// errBrokenOff: the API gave up, and asking again would not come further.
var errBrokenOff = errors.New("broken off: it takes longer than the API gives one request")

// rounds asks until nothing is left. ask makes the request that changes so many jobs at most.
func (c *Client) rounds(ctx context.Context, req job.BulkRequest, ask func(limit int) *call) (job.BulkResult, error) {
	var sum job.BulkResult
	for {
		limit := req.Limit
		if limit > 0 {
			limit -= sum.Done
		}
		var got bulkDone
		if _, err := c.do(ctx, ask(limit), &got); err != nil {
			return sum, err
		}
		// Of what could not be changed, the last round has all; what was changed, no later one finds again.
		looked, toLook, done := sum.Looked+got.Looked, sum.Looked+got.ToLook, sum.Done
		sum = got.BulkResult
		sum.Looked, sum.ToLook, sum.Done, sum.Matched = looked, toLook, done+got.Done, done+got.Matched
		if req.Progress != nil {
			req.Progress(sum)
		}
		switch {
		case !got.BrokenOff, req.Limit > 0 && sum.Done >= req.Limit:
			return sum, nil
		case req.DryRun || got.Done == 0:
			return sum, errBrokenOff
		}
	}
}

// Purge deletes the jobs of a queue that wait, in all spaces, or those of the statuses. Errors to branch on: those of Bulk,
// and job.ErrNoQueue.
func (c *Client) Purge(ctx context.Context, queue string, req job.BulkRequest) (job.BulkResult, error) {
	query := url.Values{}
	for _, s := range req.Filter.Statuses {
		query.Add("status", string(s))
	}
	if req.DryRun {
		query.Set("dryRun", "true")
	}
	r, err := c.rounds(ctx, req, func(int) *call {
		return &call{method: http.MethodPost, path: location("v1", "queues", queue, "purge"), query: query, long: true, again: req.DryRun, missing: job.ErrNoQueue}
	})
	return r, aboutQueue(queue, err)
}

// aboutQueue names the queue that is not there.
func aboutQueue(name string, err error) error {
	if errors.Is(err, job.ErrNoQueue) {
		return fmt.Errorf("queue %s: %w", name, err)
	}
	return err
}
