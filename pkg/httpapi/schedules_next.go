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
	return scheduler.Fires{Next: fires}, err
}

func firesOf(s *scheduler.Schedule, n int) ([]scheduler.LocalFire, error) {
	at, err := s.Next(n)
	if err != nil {
		return nil, err
	}
	return scheduler.LocalFires(at, s.Timezone)
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
	fires, err := scheduler.LocalFires(at, in.Timezone)
	return scheduler.Fires{Next: fires}, err
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

func (s schedules) status(ctx context.Context, store Schedules, _ *struct{}) (any, error) {
	st := scheduler.Status{At: job.Millis(store.Now())}
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
	st.Count(l)
	return st, nil
}
