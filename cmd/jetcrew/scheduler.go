package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/apiclient"
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
			show := func(st *scheduler.Status, err error) error {
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
			}
			return a.withEither(cmd, requestTimeout, func(ctx context.Context, c *client.Client) error {
				cfg, err := a.load(cmd)
				if err != nil {
					return err
				}
				cfg.Manage = string(streams.ManageVerify)
				return show(schedulerStatusOf(ctx, c, cfg, a.quietLogger(cfg)))
			}, func(ctx context.Context, c *apiclient.Client) error {
				return show(c.Schedules().Status(ctx))
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func schedulerStatusOf(ctx context.Context, c *client.Client, cfg *config.Config, log zerolog.Logger) (*scheduler.Status, error) {
	st := &scheduler.Status{At: c.Now()}
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
	st.Count(l)
	return st, nil
}

func (a *app) showSchedulerStatus(st *scheduler.Status) {
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
