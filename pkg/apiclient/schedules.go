package apiclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/scheduler"
)

// Schedules are the fleet's, over HTTP: what a scheduler.Store does.
type Schedules struct{ c *Client }

// Schedules are the fleet's.
func (c *Client) Schedules() *Schedules { return &Schedules{c} }

// one asks for something about one schedule.
func (s *Schedules) one(ctx context.Context, cl *call, space, name, what string, out any) error {
	cl.path, cl.missing = location("v1", "schedules", space, name)+what, scheduler.ErrNotFound
	_, err := s.c.do(ctx, cl, out)
	if err != nil && errors.Is(err, scheduler.ErrNotFound) {
		return fmt.Errorf("schedule %s/%s: %w", space, name, err)
	}
	return err
}

// Get reads a schedule. Errors to branch on: scheduler.ErrNotFound, scheduler.ErrUnreadable.
func (s *Schedules) Get(ctx context.Context, space, name string) (*scheduler.Schedule, error) {
	var out scheduler.Schedule
	if err := s.one(ctx, &call{method: http.MethodGet}, space, name, "", &out); err != nil {
		return nil, err
	}
	return &out, nil
}

// unreadable says what is stored that is no schedule, as the API does.
type unreadable string

func (u unreadable) Error() string { return string(u) }
func (unreadable) Unwrap() error   { return scheduler.ErrUnreadable }

// List lists schedules, the next to fire first. Every space are those that the token is good for.
func (s *Schedules) List(ctx context.Context, f scheduler.Filter) (scheduler.Listing, error) {
	query := url.Values{}
	if f.Space != "" {
		query.Set("space", f.Space)
	}
	if f.Owner != nil {
		query.Set("owner", *f.Owner)
	}
	if !f.DueBy.IsZero() && !f.DueBy.After(s.c.Now()) {
		query.Set("due", "true") // by the API's clock: what is not due by DueBy is left out below
	}
	var got struct {
		Schedules  []scheduler.Schedule `json:"schedules"`
		Unreadable []string             `json:"unreadable"`
	}
	if _, err := s.c.do(ctx, &call{method: http.MethodGet, path: "/v1/schedules", query: query}, &got); err != nil {
		return scheduler.Listing{}, err
	}
	out := scheduler.Listing{Schedules: got.Schedules}
	for _, text := range got.Unreadable {
		out.Unreadable = append(out.Unreadable, unreadable(text))
	}
	if !f.DueBy.IsZero() {
		out.Schedules = slices.DeleteFunc(out.Schedules, func(x scheduler.Schedule) bool {
			return !x.Active() || x.NextRunAt.IsZero() || x.NextRunAt.After(f.DueBy)
		})
	}
	if f.Limit > 0 {
		out.Schedules = out.Schedules[:min(f.Limit, len(out.Schedules))]
	}
	return out, nil
}

// Put adds a schedule, or changes the one of its name. Errors to branch on: scheduler.ErrOwned, *job.FieldError.
func (s *Schedules) Put(ctx context.Context, owner string, spec scheduler.Spec) (*scheduler.Schedule, scheduler.Change, error) {
	if err := spec.Normalize(); err != nil {
		return nil, "", err
	}
	query := url.Values{}
	if owner != "" {
		query.Set("owner", owner)
	}
	var out struct {
		Change   scheduler.Change    `json:"change"`
		Schedule *scheduler.Schedule `json:"schedule"`
	}
	// Asked again it would be "unchanged", which is not what was done.
	cl := &call{method: http.MethodPut, path: location("v1", "schedules", spec.Space, spec.Name), query: query, body: &spec}
	if _, err := s.c.do(ctx, cl, &out); err != nil {
		return nil, "", err
	}
	if out.Schedule == nil {
		return nil, "", cl.doubt(fmt.Errorf("%w: there is no schedule in it", ErrAnswer))
	}
	return out.Schedule, out.Change, nil
}

// Reconcile makes an owner's schedules in a space those that are given. Errors to branch on: scheduler.ErrOwned,
// *job.FieldError.
func (s *Schedules) Reconcile(ctx context.Context, space, owner string, specs []scheduler.Spec) (scheduler.Report, error) {
	body := struct {
		Owner     string           `json:"owner"`
		Schedules []scheduler.Spec `json:"schedules"`
	}{owner, specs}
	var got struct {
		Schedules []struct {
			Name   string           `json:"name"`
			Change scheduler.Change `json:"change"`
		} `json:"schedules"`
	}
	var r scheduler.Report
	if _, err := s.c.do(ctx, &call{method: http.MethodPut, path: location("v1", "schedules", space), body: body, long: true}, &got); err != nil {
		return r, err
	}
	for _, x := range got.Schedules {
		for change, to := range map[scheduler.Change]*[]string{
			scheduler.Created: &r.Created, scheduler.Updated: &r.Updated, scheduler.Unchanged: &r.Unchanged, scheduler.Deleted: &r.Deleted,
		} {
			if x.Change == change {
				*to = append(*to, x.Name)
			}
		}
	}
	return r, nil
}

// SetEnabled has a schedule fire, or fire no more, and answers whether that was otherwise before. Errors to branch on:
// scheduler.ErrNotFound.
func (s *Schedules) SetEnabled(ctx context.Context, space, name string, enabled bool) (*scheduler.Schedule, bool, error) {
	what := "/disable"
	if enabled {
		what = "/enable"
	}
	var out struct {
		Changed   bool      `json:"changed"`
		NextRunAt time.Time `json:"nextRunAt"`
	}
	if err := s.one(ctx, &call{method: http.MethodPost}, space, name, what, &out); err != nil {
		return nil, false, err
	}
	sched, err := s.Get(ctx, space, name)
	if err != nil {
		return nil, false, fmt.Errorf("it was done, but cannot be read: %w", err)
	}
	sched.NextRunAt = out.NextRunAt
	return sched, out.Changed, nil
}

// Delete removes a schedule. Errors to branch on: scheduler.ErrNotFound.
func (s *Schedules) Delete(ctx context.Context, space, name string) error {
	return s.one(ctx, &call{method: http.MethodDelete}, space, name, "", nil)
}

// RunNow puts a job of the schedule in. Errors to branch on: scheduler.ErrNotFound.
func (s *Schedules) RunNow(ctx context.Context, space, name string) (job.Enqueued, error) {
	var out enqueued
	err := s.one(ctx, &call{method: http.MethodPost}, space, name, "/run", &out)
	return job.Enqueued{Key: out.Key, Created: out.Created}, err
}

// Status is who fires the schedules, and how they are kept up with.
func (s *Schedules) Status(ctx context.Context) (*scheduler.Status, error) {
	var st scheduler.Status
	if _, err := s.c.do(ctx, &call{method: http.MethodGet, path: "/v1/scheduler"}, &st); err != nil {
		return nil, err
	}
	return &st, nil
}
