package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/jetcrew/jetcrew/pkg/apiclient"
	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/scheduler"
	"github.com/jetcrew/jetcrew/streams"
)

// openSchedules opens the schedules. They are due by the clock of the jobs' store.
func openSchedules(ctx context.Context, c *client.Client, cfg *config.Config, log zerolog.Logger) (*scheduler.Store, error) {
	s, err := scheduler.OpenStore(ctx, c.Conn(), scheduler.StoreConfig{
		Namespace: cfg.Namespace, Replicas: cfg.Replicas, Verify: cfg.Manage == string(streams.ManageVerify),
		Clock: c.Store(), Logger: log,
	})
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, fmt.Errorf("%w: \"jetcrew setup\" makes it", err)
	}
	return s, err
}

// scheduleStore is what commands ask for schedules.
type scheduleStore interface {
	Get(ctx context.Context, space, name string) (*scheduler.Schedule, error)
	List(ctx context.Context, f scheduler.Filter) (scheduler.Listing, error)
	Put(ctx context.Context, owner string, spec scheduler.Spec) (*scheduler.Schedule, scheduler.Change, error)
	Reconcile(ctx context.Context, space, owner string, specs []scheduler.Spec) (scheduler.Report, error)
	SetEnabled(ctx context.Context, space, name string, enabled bool) (*scheduler.Schedule, bool, error)
	Delete(ctx context.Context, space, name string) error
	RunNow(ctx context.Context, space, name string) (job.Enqueued, error)
}

// storedSchedules are the schedules over NATS.
type storedSchedules struct {
	*scheduler.Store
	jobs job.Producer
}

// RunNow puts a job of a schedule in.
func (s storedSchedules) RunNow(ctx context.Context, space, name string) (job.Enqueued, error) {
	return s.Store.RunNow(ctx, s.jobs, space, name)
}

// withSchedules runs fn of a one-shot command with the fleet and its schedules, as withFleet does.
func (a *app) withSchedules(cmd *cobra.Command, timeout time.Duration, fn func(context.Context, fleet, scheduleStore) error) error {
	return a.withEither(cmd, timeout, func(ctx context.Context, c *client.Client) error {
		cfg, err := a.load(cmd)
		if err != nil {
			return err
		}
		s, err := openSchedules(ctx, c, cfg, a.quietLogger(cfg))
		if err != nil {
			return err
		}
		return fn(ctx, c, storedSchedules{s, c.Producer()})
	}, func(ctx context.Context, c *apiclient.Client) error {
		return fn(ctx, apiFleet{c}, c.Schedules())
	})
}

func spaceFlag(f *pflag.FlagSet, to *string) {
	f.StringVar(to, "space", job.DefaultSpace, "space of the schedule")
}

// validSchedule refuses what can be no schedule's name, or no space's.
func validSchedule(space string, names ...string) error {
	if err := job.ValidateName("space", space, job.MaxName); err != nil {
		return err
	}
	for _, name := range names {
		if err := job.ValidateName("name", name, scheduler.MaxName); err != nil {
			return err
		}
	}
	return nil
}

// warn says on stderr what somebody should know. It is no failure.
func (a *app) warn(text string) { fmt.Fprintf(a.stderr, "warning: %s\n", safe(text)) }

// warnUnreadable names what is stored among the schedules that is none.
func (a *app) warnUnreadable(unreadable []error) {
	for _, err := range unreadable {
		a.warn(oneLine(err) + ": it does not fire")
	}
}

// scheduleName is a schedule as people write it: space/name.
func scheduleName(space, name string) string { return safe(space + "/" + name) }
