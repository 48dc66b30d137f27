package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/scheduler"
)

// Schedules keeps schedules, fires them, and tells who does; a ScheduleStore is one.
type Schedules interface {
	job.Clock
	Get(ctx context.Context, space, name string) (*scheduler.Schedule, error)
	List(ctx context.Context, f scheduler.Filter) (scheduler.Listing, error)
	Put(ctx context.Context, owner string, spec scheduler.Spec) (*scheduler.Schedule, scheduler.Change, error)
	Reconcile(ctx context.Context, space, owner string, specs []scheduler.Spec) (scheduler.Report, error)
	SetEnabled(ctx context.Context, space, name string, enabled bool) (*scheduler.Schedule, bool, error)
	Delete(ctx context.Context, space, name string) error
	RunNow(ctx context.Context, space, name string) (job.Enqueued, error)
	Leader(ctx context.Context) (scheduler.Leader, error)
}

// ScheduleStore is the Schedules of a scheduler.Store. All its fields are required.
type ScheduleStore struct {
	*scheduler.Store
	// Jobs takes the jobs of schedules that are run by hand, and has the clock that schedules go by.
	Jobs job.Producer
	// LeaderOf answers who leads, or scheduler.ErrNoLeader.
	LeaderOf func(context.Context) (scheduler.Leader, error)
}

var _ Schedules = ScheduleStore{}

// Now is the jobs' clock.
func (s ScheduleStore) Now() time.Time { return s.Jobs.Now() }

// RunNow puts a schedule's job in now.
func (s ScheduleStore) RunNow(ctx context.Context, space, name string) (job.Enqueued, error) {
	return s.Store.RunNow(ctx, s.Jobs, space, name)
}

// Leader answers who leads.
func (s ScheduleStore) Leader(ctx context.Context) (scheduler.Leader, error) { return s.LeaderOf(ctx) }

// schedules serves the routes under /v1/schedules.
type schedules struct{ *Config }

// onSchedules is a handler with the schedules that it needs.
func onSchedules[I any](s schedules, do func(context.Context, Schedules, *I) (any, error)) func(context.Context, *I) (any, error) {
	return func(ctx context.Context, in *I) (any, error) {
		store, err := s.Schedules(ctx)
		if err != nil {
			return nil, err
		}
		return do(ctx, store, in)
	}
}

func registerSchedules(r *routes) {
	s := schedules{r.cfg}
	const one = "/v1/schedules/{space}/{name}"
	conflict := []int{http.StatusConflict}
	add[ScheduleList](r, route{
		id: "listSchedules", method: http.MethodGet, path: "/v1/schedules", scope: ScopeRead, place: inRequest,
		summary: "List schedules, the next to fire first",
		says:    "Without a space, those of all spaces that the token is good for.",
	}, onSchedules(s, s.list))
	add[Schedule](r, route{
		id: "getSchedule", method: http.MethodGet, path: one, scope: ScopeRead, also: conflict,
		summary: "Read a schedule's record",
	}, onSchedules(s, s.get))
	add[ScheduleChanged](r, route{
		id: "deleteSchedule", method: http.MethodDelete, path: one, scope: ScopeConfigure,
		summary: "Delete a schedule, whoever declared it", says: "The jobs that it has made stay.",
	}, onSchedules(s, s.remove))
	add[ScheduleChanged](r, route{
		id: "enableSchedule", method: http.MethodPost, path: one + "/enable", scope: ScopeConfigure, also: conflict,
		summary: "Have a schedule fire", says: "One that came due while it was disabled owes its fires, and makes them at once by its policy for missed fires.",
	}, onSchedules(s, s.set(true)))
	add[ScheduleChanged](r, route{
		id: "disableSchedule", method: http.MethodPost, path: one + "/disable", scope: ScopeConfigure, also: conflict,
		summary: "Have a schedule fire no more, for now", says: "The jobs that it has made stay.",
	}, onSchedules(s, s.set(false)))
	add[Enqueued](r, route{
		id: "runSchedule", method: http.MethodPost, path: one + "/run", scope: ScopeOperate, also: conflict,
		good: []int{http.StatusCreated}, summary: "Put a schedule's job in now", says: "Besides its fires, and also while it is disabled.",
	}, onSchedules(s, s.run))
	add[scheduler.Fires](r, route{
		id: "nextFires", method: http.MethodGet, path: one + "/next", scope: ScopeRead, also: conflict,
		summary: "Work out a schedule's next fires",
	}, onSchedules(s, s.next))
	add[scheduler.Fires](r, route{
		id: "previewCron", method: http.MethodGet, path: "/v1/cron/next", scope: ScopeRead, place: nowhere,
		summary: "Work out the fires of a cron expression before there is a schedule of it",
	}, s.preview)
	registerPutSchedules(r, s)
	add[scheduler.Status](r, route{
		id: "schedulerStatus", method: http.MethodGet, path: "/v1/scheduler", scope: ScopeRead, place: inFleet,
		summary: "Read who leads, and how schedules are kept up with", says: "Without a leader, nothing fires.",
	}, onSchedules(s, s.status))
}

type schedulesInput struct {
	Space string `query:"space" doc:"Of this space."`
	Owner string `query:"owner" doc:"That this program declares; owner= means those that people put."`
	Due   bool   `query:"due" doc:"Whose fire is due."`
	Limit int    `query:"limit" minimum:"1" doc:"So many at most."`
}

func (s schedules) list(ctx context.Context, store Schedules, in *schedulesInput) (any, error) {
	spaces := callerOf(ctx).spaces
	if in.Space != "" {
		if err := job.ValidateName("space", in.Space, job.MaxName); err != nil {
			return nil, badParameter("space", err)
		}
		if p := authorized(ctx, in.Space); p != nil {
			return nil, p
		}
		spaces = []string{in.Space}
	}
	var filter scheduler.Filter
	if infoOf(ctx).request.URL.Query().Has("owner") {
		filter.Owner = &in.Owner
	}
	if in.Due {
		filter.DueBy = store.Now()
	}
	l, err := listSpaces(ctx, store, filter, spaces)
	if err != nil {
		return nil, err
	}
	return l.List(in.Limit), nil
}

// listSpaces lists the schedules of spaces, the next to fire first; of every one, where none is named.
func listSpaces(ctx context.Context, store Schedules, filter scheduler.Filter, spaces []string) (scheduler.Listing, error) {
	if len(spaces) == 0 {
		spaces = []string{""}
	}
	var all scheduler.Listing
	for _, space := range spaces {
		filter.Space = space
		l, err := store.List(ctx, filter)
		if err != nil {
			return scheduler.Listing{}, err
		}
		all.Schedules = append(all.Schedules, l.Schedules...)
		all.Unreadable = append(all.Unreadable, l.Unreadable...)
	}
	if len(spaces) > 1 {
		sortByNextRun(all.Schedules)
	}
	return all, nil
}

// PathSchedule names a schedule.
type PathSchedule struct {
	Space string `path:"space"`
	Name  string `path:"name"`
}

func (s schedules) get(ctx context.Context, store Schedules, in *PathSchedule) (any, error) {
	return answered(store.Get(ctx, in.Space, in.Name))
}

// ScheduleChanged is what became of a schedule.
type ScheduleChanged struct {
	Space     string    `json:"space"`
	Name      string    `json:"name"`
	Changed   bool      `json:"changed" doc:"It was otherwise before."`
	Enabled   *bool     `json:"enabled,omitzero"`
	NextRunAt time.Time `json:"nextRunAt,omitzero" doc:"The promised instant of its next fire; past ones are owed."`
	Warnings  []string  `json:"warnings,omitzero"`
}

func (s schedules) set(enabled bool) func(context.Context, Schedules, *PathSchedule) (any, error) {
	return func(ctx context.Context, store Schedules, in *PathSchedule) (any, error) {
		sched, changed, err := store.SetEnabled(ctx, in.Space, in.Name, enabled)
		if err != nil {
			return nil, err
		}
		return ScheduleChanged{Space: in.Space, Name: in.Name, Changed: changed, Enabled: &enabled, NextRunAt: sched.NextRunAt}, nil
	}
}

func (s schedules) remove(ctx context.Context, store Schedules, in *PathSchedule) (any, error) {
	out := ScheduleChanged{Space: in.Space, Name: in.Name, Changed: true}
	old, err := store.Get(ctx, in.Space, in.Name)
	switch {
	case errors.Is(err, scheduler.ErrUnreadable): // which is how it is got rid of
	case err != nil:
		return nil, err
	case old.Owner != "":
		out.Warnings = []string{fmt.Sprintf("%s/%s is declared by %q, which puts it back when it starts: disable it to keep it from firing", in.Space, in.Name, old.Owner)}
	}
	return out, store.Delete(ctx, in.Space, in.Name)
}

func (s schedules) run(ctx context.Context, store Schedules, in *PathSchedule) (any, error) {
	e, err := store.RunNow(ctx, in.Space, in.Name)
	if err != nil {
		return nil, err
	}
	return enqueued(e.Key, e.Created), nil
}
