package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/scheduler"
	"github.com/jetcrew/jetcrew/streams"
)

func (a *app) newScheduler() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "scheduler",
		Short: "Look at who fires the schedules",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.newSchedulerStatus())
	return cmd
}

func (a *app) newSchedulerStatus() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show who leads, and how schedules are kept up with",
		Long: `Shows which process leads (it does the housekeeping and fires the schedules), since when, on
which host, and its process id; how many schedules there are in all spaces, how many of them
are disabled, overdue (due for more than 15s, which a change of the lead explains no more) or
cannot be read; and which fires next. It makes nothing.

Exits with 9 if nobody leads. A leader that dies is seen to be gone within about ten seconds.`,
		Example: `  jetcrew scheduler status
  jetcrew scheduler status --json | jq .overdue`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.load(cmd)
			if err != nil {
				return err
			}
			cfg.Manage = string(streams.ManageVerify)
			return a.withClient(cmd, requestTimeout, func(ctx context.Context, c *client.Client) error {
				st, err := schedulerStatusOf(ctx, c, cfg, a.quietLogger(cfg))
				if err != nil {
					return err
				}
				if asJSON {
					err = a.printJSON(st)
				} else {
					a.showSchedulerStatus(st)
				}
				if err == nil && st.Leader == nil {
					return scheduler.ErrNoLeader
				}
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// schedulerStatus is how schedules are kept up with, as JSON.
type schedulerStatus struct {
	At         time.Time         `json:"at"` // by the store's clock
	Leader     *scheduler.Leader `json:"leader,omitzero"`
	Schedules  int               `json:"schedules"`
	Disabled   int               `json:"disabled"`
	Overdue    int               `json:"overdue"`
	Failing    int               `json:"failing"`
	Unreadable int               `json:"unreadable"`
	Next       *nextFire         `json:"next,omitzero"`
}

// nextFire is the fire that is due next, or has been due for the longest.
type nextFire struct {
	Space string    `json:"space"`
	Name  string    `json:"name"`
	At    time.Time `json:"at"`
}

func schedulerStatusOf(ctx context.Context, c *client.Client, cfg *config.Config, log zerolog.Logger) (*schedulerStatus, error) {
	st := &schedulerStatus{At: c.Now()}
	e, err := newElection(ctx, c, cfg, newProcessID("status"), log)
	var leader scheduler.Leader
	if err == nil {
		leader, err = e.Leader(ctx)
	}
	switch {
	case err == nil:
		st.Leader = &leader
	case errors.Is(err, scheduler.ErrNoLeader), errors.Is(err, jetstream.ErrBucketNotFound): // nobody has ever led
	default:
		return nil, err
	}
	s, err := openSchedules(ctx, c, cfg, log)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return st, nil
	}
	if err != nil {
		return nil, err
	}
	l, err := s.List(ctx, scheduler.Filter{})
	if err != nil {
		return nil, err
	}
	st.count(l)
	return st, nil
}

func (st *schedulerStatus) count(l scheduler.Listing) {
	st.Schedules, st.Unreadable = len(l.Schedules), len(l.Unreadable)
	for i := range l.Schedules {
		s := &l.Schedules[i]
		if !s.Active() {
			st.Disabled++
			continue
		}
		if s.Error != "" {
			st.Failing++
		}
		if overdue(s, st.At) {
			st.Overdue++
		}
		if st.Next == nil && !s.NextRunAt.IsZero() { // they stand in this order
			st.Next = &nextFire{s.Space, s.Name, s.NextRunAt}
		}
	}
}

func (a *app) showSchedulerStatus(st *schedulerStatus) {
	t := a.table()
	if l := st.Leader; l != nil {
		t.AppendRow(table.Row{"leader", safe(l.ID)})
		t.AppendRow(table.Row{"host", safe(l.Host)})
		t.AppendRow(table.Row{"pid", l.PID})
		t.AppendRow(table.Row{"leads since", fmt.Sprintf("%s, for %s", instant(l.Since), age(st.At, l.Since))})
	} else {
		t.AppendRow(table.Row{"leader", "nobody"})
	}
	t.AppendRow(table.Row{"schedules", st.Schedules})
	t.AppendRow(table.Row{"disabled", st.Disabled})
	t.AppendRow(table.Row{"overdue", st.Overdue})
	t.AppendRow(table.Row{"failing", st.Failing})
	t.AppendRow(table.Row{"unreadable", st.Unreadable})
	if n := st.Next; n != nil {
		t.AppendRow(table.Row{"next fire", fmt.Sprintf("%s at %s (%s)", scheduleName(n.Space, n.Name), instant(n.At), until(st.At, n.At))})
	}
	t.Render()
}
