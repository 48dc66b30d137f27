package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/scheduler"
)

type scheduleListFlags struct {
	space, owner   string
	allSpaces, due bool
	limit          int
	json           bool
}

func (a *app) newScheduleList() *cobra.Command {
	var f scheduleListFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List schedules, the next to fire first",
		Long: `Lists the schedules of the space ` + job.DefaultSpace + `, or of the one that --space names, by when they fire
next. STATE is "on", "off" (disabled), "due" (its fire is being made), "overdue" (nobody has
made it for a while: see "jetcrew scheduler status"), "failing" (its last job was refused:
"schedule get" says why) or "over" (it never fires again).

With --json it prints one object: schedules (whole records), total (before --limit) and
unreadable, what is stored among them that is no schedule.`,
		Example: `  jetcrew schedule list --all-spaces
  jetcrew schedule list --owner billing --json | jq -r '.schedules[].name'
  jetcrew schedule list --due`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := f.filter(cmd)
			if err != nil {
				return err
			}
			return a.withSchedules(cmd, requestTimeout, func(ctx context.Context, c fleet, s scheduleStore) error {
				if f.due {
					filter.DueBy = c.Now()
				}
				return a.listSchedules(ctx, s, filter, &f, c.Now())
			})
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.space, "space", "", "of this space (default "+job.DefaultSpace+")")
	fl.BoolVar(&f.allSpaces, "all-spaces", false, "of every space")
	fl.StringVar(&f.owner, "owner", "", "that this program declares; '' means those that people put")
	fl.BoolVar(&f.due, "due", false, "whose fire is due")
	fl.IntVar(&f.limit, "limit", 0, "so many at most (0: all)")
	fl.BoolVar(&f.json, "json", false, "print JSON")
	return cmd
}

func (f *scheduleListFlags) filter(cmd *cobra.Command) (scheduler.Filter, error) {
	var filter scheduler.Filter
	given := cmd.Flags().Changed
	switch {
	case given("space") && f.allSpaces:
		return filter, usagef("--all-spaces: name a space with --space or ask for all of them, not both")
	case f.limit < 0:
		return filter, usagef("--limit: must not be negative")
	case given("space"):
		filter.Space = f.space
		if err := validSchedule(f.space); err != nil {
			return filter, err
		}
	case !f.allSpaces:
		filter.Space = job.DefaultSpace
	}
	if given("owner") {
		filter.Owner = &f.owner
	}
	return filter, nil
}

func (a *app) listSchedules(ctx context.Context, s scheduleStore, filter scheduler.Filter, f *scheduleListFlags, now time.Time) error {
	l, err := s.List(ctx, filter)
	if err != nil {
		return err
	}
	a.warnUnreadable(l.Unreadable)
	out := l.List(f.limit)
	if f.json {
		return a.printJSON(out)
	}
	a.showSchedules(out.Schedules, now)
	switch shown := len(out.Schedules); {
	case out.Total == 0:
		fmt.Fprintln(a.stderr, "no schedules")
	case shown < out.Total:
		fmt.Fprintf(a.stderr, "%d of %d schedules\n", shown, out.Total)
	}
	return nil
}

func (a *app) showSchedules(schedules []scheduler.Schedule, now time.Time) {
	if len(schedules) == 0 {
		return
	}
	t := a.table("SCHEDULE", "WHEN", "TYPE", "QUEUE", "STATE", "NEXT", "IN", "LAST", "OWNER")
	for i := range schedules {
		s := &schedules[i]
		t.AppendRow(table.Row{
			scheduleName(s.Space, s.Name), shorten(safe(when(&s.Spec)), 60), shorten(safe(s.Type), 40), shorten(safe(s.Queue), 40),
			scheduleState(s, now), instant(s.NextRunAt), away(now, s.NextRunAt), instant(s.LastFireAt), shorten(safe(s.Owner), 40),
		})
	}
	t.Render()
}

// when is a schedule's cron expression, with its zone if it has one.
func when(s *scheduler.Spec) string {
	if s.Timezone == "" {
		return s.Cron
	}
	return s.Cron + " " + s.Timezone
}

// scheduleState is how a schedule stands, in a word.
func scheduleState(s *scheduler.Schedule, now time.Time) string {
	switch {
	case !s.Active():
		return "off"
	case s.NextRunAt.IsZero():
		return "over"
	case s.Overdue(now):
		return "overdue"
	case !s.NextRunAt.After(now):
		return "due"
	case s.Error != "":
		return "failing"
	default:
		return "on"
	}
}

// until is how far away an instant is, for people, as a part of a sentence.
func until(now, t time.Time) string {
	text := away(now, t)
	if t.After(now) && text != "now" {
		return "in " + text
	}
	return text
}

// away is how far away an instant is, for people; one that is past is late.
func away(now, t time.Time) string {
	switch {
	case t.IsZero():
		return ""
	case t.After(now):
		return age(t, now)
	}
	if late := age(now, t); late != "now" {
		return late + " late"
	}
	return "now"
}
