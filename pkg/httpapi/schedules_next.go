package httpapi

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/scheduler"
)

// Fires are instants at which a schedule fires.
type Fires struct {
	Next []Fire `json:"next"`
}

// Fire is an instant, in UTC and on the clocks of its zone.
type Fire struct {
	At    time.Time `json:"at"`
	Local string    `json:"local"`
}

// FireCount is how many fires are asked for.
type FireCount struct {
	Count int `query:"count" minimum:"1" maximum:"1000" default:"5"`
}

type nextInput struct {
	PathSchedule
	FireCount
}

func (s schedules) next(ctx context.Context, store Schedules, in *nextInput) (any, error) {
	sched, err := store.Get(ctx, in.Space, in.Name)
	if err != nil {
		return nil, err
	}
	fires, err := firesOf(sched, in.Count)
	return Fires{fires}, err
}

func firesOf(s *scheduler.Schedule, n int) ([]Fire, error) {
	at, err := s.Next(n)
	if err != nil {
		return nil, err
	}
	return localFires(at, s.Timezone)
}

func localFires(at []time.Time, timezone string) ([]Fire, error) {
	zone, err := time.LoadLocation(timezone)
	if err != nil {
		return nil, err
	}
	out := make([]Fire, len(at))
	for i, t := range at {
		out[i] = Fire{t, t.In(zone).Format(time.RFC3339)}
	}
	return out, nil
}

type previewInput struct {
	Cron     string `query:"cron" required:"true" doc:"Five fields, @daily and its like, or @every 90s." example:"30 2 * * MON-FRI"`
	Timezone string `query:"timezone" doc:"IANA zone whose clocks the expression means; UTC without." example:"Europe/Paris"`
	FireCount
}

func (s schedules) preview(_ context.Context, in *previewInput) (any, error) {
	at, err := scheduler.Preview(scheduler.Spec{Name: "-", Type: "-", Cron: in.Cron, Timezone: in.Timezone}, time.Now(), in.Count)
	if err != nil {
		return nil, err
	}
	fires, err := localFires(at, in.Timezone)
	return Fires{fires}, err
}

// sortByNextRun puts what fires next first, and what never does last.
func sortByNextRun(all []scheduler.Schedule) {
	slices.SortStableFunc(all, func(a, b scheduler.Schedule) int {
		switch never := a.NextRunAt.IsZero(); {
		case never == b.NextRunAt.IsZero():
			return cmp.Or(a.NextRunAt.Compare(b.NextRunAt), cmp.Compare(a.Space, b.Space), cmp.Compare(a.Name, b.Name))
		case never:
			return 1
		default:
			return -1
		}
	})
}

// overdueAfter is how late a fire is when nobody makes it: for longer than another process needs to take the lead.
const overdueAfter = 15 * time.Second

// SchedulerStatus is how schedules are kept up with.
type SchedulerStatus struct {
	At         time.Time         `json:"at" doc:"By the store's clock."`
	Leader     *scheduler.Leader `json:"leader,omitzero" doc:"Left out: nobody leads."`
	Schedules  int               `json:"schedules"`
	Disabled   int               `json:"disabled"`
	Overdue    int               `json:"overdue" doc:"Due for more than 15s, which a change of the lead explains no more."`
	Failing    int               `json:"failing" doc:"Whose last job was refused."`
	Unreadable int               `json:"unreadable"`
	Next       *NextFire         `json:"next,omitzero" doc:"The fire that is due next, or has been due for the longest."`
}

// NextFire is the next fire of a schedule.
type NextFire struct {
	Space string    `json:"space"`
	Name  string    `json:"name"`
	At    time.Time `json:"at"`
}

func (s schedules) status(ctx context.Context, store Schedules, _ *struct{}) (any, error) {
	st := SchedulerStatus{At: job.Millis(store.Now())}
	switch leader, err := store.Leader(ctx); {
	case err == nil:
		st.Leader = &leader
	case !errors.Is(err, scheduler.ErrNoLeader):
		return nil, err
	}
	l, err := store.List(ctx, scheduler.Filter{})
	if err != nil {
		return nil, err
	}
	st.Schedules, st.Unreadable = len(l.Schedules), len(l.Unreadable)
	for i := range l.Schedules {
		sched := &l.Schedules[i]
		if !sched.Active() {
			st.Disabled++
			continue
		}
		if sched.Error != "" {
			st.Failing++
		}
		if at := sched.NextRunAt; !at.IsZero() {
			if st.At.Sub(at) > overdueAfter {
				st.Overdue++
			}
			if st.Next == nil { // they stand in this order
				st.Next = &NextFire{sched.Space, sched.Name, at}
			}
		}
	}
	return st, nil
}
