package apiclient

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// maxBulk is how many jobs one request may put in.
const maxBulk = 1000

// Of the bodies of bulk requests, the API takes 8 MiB. What is put in is split well before.
const maxBulkBytes = 6 << 20

// enqueued is what became of a job, as it is written.
type enqueued struct {
	job.Key `json:",inline"`
	Created bool             `json:"created"`
	Error   *problemDocument `json:"error"`
}

// EnqueueSpec puts one job in. It is asked again until it is answered, under the job's id, which makes it one job.
func (c *Client) EnqueueSpec(ctx context.Context, spec job.Spec) (job.Enqueued, error) {
	if err := spec.Normalize(); err != nil {
		return job.Enqueued{}, err
	}
	var out enqueued
	_, err := c.do(ctx, &call{method: http.MethodPost, path: "/v1/jobs", body: &spec, trace: spec.Trace, again: true}, &out)
	if err != nil {
		return job.Enqueued{Key: spec.Key(), Err: err}, err
	}
	return job.Enqueued{Key: out.Key, Created: out.Created}, nil
}

// EnqueueMany puts each job in by itself. The answers stand in the order of specs; the error is that of the first job that
// has one. Nothing is asked unless all of them are in order. Where a whole request failed, the answers end before its jobs:
// asking again does no harm, if the jobs have ids.
func (c *Client) EnqueueMany(ctx context.Context, specs []job.Spec) ([]job.Enqueued, error) {
	specs = slices.Clone(specs)
	for i := range specs {
		if err := specs[i].Normalize(); err != nil {
			return nil, fmt.Errorf("job %d: %w", i, err)
		}
	}
	out := make([]job.Enqueued, 0, len(specs))
	for len(out) < len(specs) {
		some := specs[len(out):]
		done, err := c.enqueueSome(ctx, some[:fitting(some)])
		if err != nil {
			return out, err
		}
		out = append(out, done...)
	}
	for _, e := range out {
		if e.Err != nil {
			return out, e.Err
		}
	}
	return out, nil
}

// fitting is how many of the first jobs one request takes: a trace stands in its headers.
func fitting(specs []job.Spec) int {
	n, size := 0, 0
	for n < len(specs) && n < maxBulk && specs[n].Trace == specs[0].Trace {
		size += len(specs[n].Input) + 1<<10 // about, beside the input
		if n > 0 && size > maxBulkBytes {
			break
		}
		n++
	}
	return n
}

// enqueueSome puts in what one request takes.
func (c *Client) enqueueSome(ctx context.Context, specs []job.Spec) ([]job.Enqueued, error) {
	var got struct {
		Jobs []enqueued `json:"jobs"`
	}
	cl := &call{
		method: http.MethodPost, path: "/v1/jobs/bulk", body: map[string]any{"jobs": specs}, trace: specs[0].Trace, long: true, again: true,
	}
	if _, err := c.do(ctx, cl, &got); err != nil {
		return nil, err
	}
	if len(got.Jobs) != len(specs) {
		return nil, cl.doubt(fmt.Errorf("%w: of %d jobs, %d have an answer", ErrAnswer, len(specs), len(got.Jobs)))
	}
	out := make([]job.Enqueued, len(specs))
	for i, e := range got.Jobs {
		out[i] = job.Enqueued{Key: specs[i].Key(), Created: e.Created}
		if p := e.Error; p != nil {
			out[i].Err = cl.explain(p, &Error{Status: http.StatusMultiStatus, Code: p.Code, Detail: shorten(p.Detail, 300), ErrorID: shorten(p.ErrorID, 64)})
		}
	}
	return out, nil
}

// Get reads a job's record. An empty space is "default"; an empty queue means whichever has the job, and a
// *job.AmbiguousError if several do. job.ErrNotFound if none does, or none that the token is good for.
func (c *Client) Get(ctx context.Context, key job.Key) (*job.Job, error) {
	var j job.Job
	if err := c.onJob(ctx, http.MethodGet, &key, "", &j); err != nil {
		return nil, err
	}
	return &j, nil
}

// onJob asks for something about one job.
func (c *Client) onJob(ctx context.Context, method string, key *job.Key, what string, out any) error {
	if key.Space == "" {
		key.Space = job.DefaultSpace
	}
	query := url.Values{}
	if key.Queue != "" {
		query.Set("queue", key.Queue)
	}
	path := location("v1", "jobs", key.Space, key.ID) + what
	_, err := c.do(ctx, &call{method: method, path: path, query: query, missing: job.ErrNotFound}, out)
	var ambiguous *job.AmbiguousError
	if errors.As(err, &ambiguous) {
		ambiguous.Space, ambiguous.ID = key.Space, key.ID
	}
	if err != nil && errors.Is(err, job.ErrNotFound) {
		return fmt.Errorf("%s: %w", key, err)
	}
	return err
}

// The waits between two looks at a job that has not ended.
const (
	firstLook   = 50 * time.Millisecond
	longestLook = time.Second
)

// Wait waits for a job's end and answers its record, which it reads once a second; while the API cannot be reached it goes
// on. The key is as for Get. Errors to branch on: job.ErrNotFound, job.ErrAmbiguous, ErrUnauthorized, ErrForbidden, and the
// context's.
func (c *Client) Wait(ctx context.Context, key job.Key) (*job.Job, error) {
	for pause := firstLook; ; pause = min(pause*2, longestLook) {
		j, err := c.Get(ctx, key)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err == nil && j.Status.Terminal():
			return j, nil
		case err == nil:
			key = j.Key()
		case !errors.Is(err, ErrUnreachable) && !errors.Is(err, ErrRateLimited):
			return nil, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
	}
}

// List answers a page of the jobs that a filter means, the newest update first: the only order that the API has. All spaces
// are those that the token is good for. See job.Lister.
func (c *Client) List(ctx context.Context, req job.ListRequest) (*job.Page, error) {
	if err := req.Normalize(); err != nil {
		return nil, err
	}
	if req.Order != job.ByUpdated || req.Ascending {
		return nil, fieldError("order", "must be the newest update first: the API has no other")
	}
	if req.Offset != 0 {
		return nil, fieldError("offset", "must be 0: go on with the cursor")
	}
	query := filterQuery(&req.Filter)
	query.Set("limit", strconv.Itoa(req.Limit))
	if req.Cursor != "" {
		query.Set("cursor", req.Cursor)
	}
	var got job.Listing
	if _, err := c.do(ctx, &call{method: http.MethodGet, path: "/v1/jobs", query: query}, &got); err != nil {
		return nil, err
	}
	return got.Page(), nil
}

// filterQuery is a filter as parameters.
func filterQuery(f *job.Filter) url.Values {
	query := url.Values{}
	if !f.AllSpaces {
		query["space"] = f.Spaces
	}
	for _, s := range f.Statuses {
		query.Add("status", string(s))
	}
	maps.DeleteFunc(query, func(_ string, v []string) bool { return len(v) == 0 })
	for name, value := range map[string]string{"queue": f.Queue, "type": f.Type, "since": moment(f.From), "until": moment(f.To)} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return query
}

// moment is an instant as the API reads it; of none, nothing.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(job.TimeFormat)
}
