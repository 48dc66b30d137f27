package apiclient

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// Count counts the jobs of all spaces. See job.Operator.
func (c *Client) Count(ctx context.Context) (*job.Counts, error) {
	var n job.Counts
	_, err := c.do(ctx, &call{method: http.MethodGet, path: "/v1/counts"}, &n)
	if err != nil {
		return nil, err
	}
	return &n, nil
}

// Workers are those that are alive, by id, with the jobs that they run. See job.Operator.
func (c *Client) Workers(ctx context.Context) ([]job.Worker, error) {
	var got struct {
		Workers []job.Worker `json:"workers"`
	}
	_, err := c.do(ctx, &call{method: http.MethodGet, path: "/v1/workers", query: url.Values{"jobs": {"true"}}}, &got)
	return got.Workers, err
}

// Queues are all queues, by name. See job.QueueOperator.
func (c *Client) Queues(ctx context.Context) ([]job.QueueInfo, error) {
	var got struct {
		Queues []job.QueueInfo `json:"queues"`
	}
	_, err := c.do(ctx, &call{method: http.MethodGet, path: "/v1/queues"}, &got)
	return got.Queues, err
}

// Queue is one queue. See job.QueueOperator.
func (c *Client) Queue(ctx context.Context, name string) (*job.QueueInfo, error) {
	var q job.QueueInfo
	if err := c.onQueue(ctx, &call{method: http.MethodGet}, name, "", &q); err != nil {
		return nil, err
	}
	return &q, nil
}

func (c *Client) onQueue(ctx context.Context, cl *call, name, what string, out any) error {
	cl.path, cl.missing = location("v1", "queues", name)+what, job.ErrNoQueue
	_, err := c.do(ctx, cl, out)
	return aboutQueue(name, err)
}

// Pause has nothing of a queue handed out any more. See job.QueueOperator.
func (c *Client) Pause(ctx context.Context, name string, until time.Time) error {
	query := url.Values{}
	if !until.IsZero() {
		query.Set("until", moment(until))
	}
	return c.onQueue(ctx, &call{method: http.MethodPost, query: query, again: true}, name, "/pause", nil)
}

// Resume ends a pause. See job.QueueOperator.
func (c *Client) Resume(ctx context.Context, name string) error {
	return c.onQueue(ctx, &call{method: http.MethodPost, again: true}, name, "/resume", nil)
}

// settingsDocument are changes to a queue's settings as the API reads them.
type settingsDocument struct {
	Concurrency *int                  `json:"concurrency,omitzero"`
	Lease       *time.Duration        `json:"lease,omitzero"`
	Retention   map[job.Status]string `json:"retention,omitzero"`
}

// configureEvery is how often it is asked whether all workers know of a shorter lease, beyond what the API waits itself.
const configureEvery = time.Second

// Configure changes a queue's settings, and waits until all workers know of a shorter lease. See job.QueueOperator.
func (c *Client) Configure(ctx context.Context, name string, set job.QueueSettings) (*job.QueueInfo, error) {
	body := settingsDocument{Concurrency: set.Concurrency, Lease: set.Lease}
	for status, d := range set.Retention {
		if body.Retention == nil {
			body.Retention = make(map[job.Status]string)
		}
		switch d {
		case job.KeepDefault:
			body.Retention[status] = "default"
		case 0:
			body.Retention[status] = "none"
		default:
			body.Retention[status] = config.FormatDuration(d)
		}
	}
	for {
		var got struct {
			After *job.QueueInfo `json:"after"`
		}
		cl := &call{method: http.MethodPatch, path: location("v1", "queues", name), body: body, long: true, again: true, missing: job.ErrNoQueue}
		status, err := c.do(ctx, cl, &got)
		if err != nil {
			return nil, aboutQueue(name, err)
		}
		if status != http.StatusAccepted {
			return got.After, nil
		}
		timer := time.NewTimer(configureEvery)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
	}
}

// DeleteQueue removes a queue that has no jobs left but ended ones. See job.QueueOperator.
func (c *Client) DeleteQueue(ctx context.Context, name string) error {
	return c.onQueue(ctx, &call{method: http.MethodDelete}, name, "", nil)
}
