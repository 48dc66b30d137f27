package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/scheduler"
)

// scheduleChange is a command that does something to schedules by their names.
type scheduleChange struct {
	name, short, long string
	one               func(context.Context, fleet, scheduleStore, string, string) (changedSchedule, error)
}

// changedSchedule is what became of one schedule. As JSON, it is one line.
type changedSchedule struct {
	Space     string    `json:"space"`
	Name      string    `json:"name"`
	Changed   bool      `json:"changed"`
	Enabled   *bool     `json:"enabled,omitzero"`
	NextRunAt time.Time `json:"nextRunAt,omitzero"`

	text, warning string
}

// The changes, as commands; read only.
var scheduleChanges = []scheduleChange{
	{
		name: "enable", short: "Have schedules fire",
		long: `Has schedules fire again. One that came due while it was disabled owes its fires, and makes
them at once by its policy for missed fires. One that is enabled stays so.`,
		one: setEnabled(true),
	},
	{
		name: "disable", short: "Have schedules fire no more, for now",
		long: `Has schedules fire no more until they are enabled. The jobs that they have made stay. It also
outlives a program that declares them anew, unless that says itself whether they are enabled.`,
		one: setEnabled(false),
	},
	{
		name: "delete", short: "Delete schedules",
		long: `Deletes schedules, whoever declared them. The jobs that they have made stay.`,
		one:  deleteSchedule,
	},
}

func (a *app) newScheduleChange(ch scheduleChange) *cobra.Command {
	var space string
	var asJSON bool
	cmd := &cobra.Command{
		Use:     ch.name + " NAME...",
		Short:   ch.short,
		Long:    ch.long + " Exits with 3 if there is no such\nschedule; what else was named is done all the same.",
		Example: fmt.Sprintf("  jetcrew schedule %[1]s nightly\n  jetcrew schedule %[1]s report invoices --space acme", ch.name),
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			if err := validSchedule(space, names...); err != nil {
				return err
			}
			return a.withSchedules(cmd, requestTimeout, func(ctx context.Context, c fleet, s scheduleStore) error {
				return eachName(names, func(name string) error {
					done, err := ch.one(ctx, c, s, space, name)
					if err != nil {
						return err
					}
					if done.warning != "" {
						a.warn(done.warning)
					}
					if asJSON {
						return a.printJSONLine(done)
					}
					_, err = fmt.Fprintf(a.stdout, "%s %s\n", scheduleName(space, name), done.text)
					return err
				})
			})
		},
	}
	spaceFlag(cmd.Flags(), &space)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one object a line")
	return cmd
}

// eachName does something for each name, whatever becomes of the others.
func eachName(names []string, do func(string) error) error {
	var errs []error
	for _, name := range names {
		errs = append(errs, do(name))
	}
	return errors.Join(errs...)
}

func setEnabled(enabled bool) func(context.Context, fleet, scheduleStore, string, string) (changedSchedule, error) {
	return func(ctx context.Context, c fleet, s scheduleStore, space, name string) (changedSchedule, error) {
		sched, changed, err := s.SetEnabled(ctx, space, name, enabled)
		if err != nil {
			return changedSchedule{}, err
		}
		out := changedSchedule{Space: space, Name: name, Changed: changed, Enabled: &enabled, NextRunAt: sched.NextRunAt}
		out.text = "disabled"
		if enabled {
			out.text = "enabled"
		}
		now := c.Now()
		switch next := sched.NextRunAt; {
		case !changed:
			out.text += " already"
		case enabled && next.IsZero():
			out.text += "; it never fires again"
		case enabled && !next.After(now):
			out.text += fmt.Sprintf("; it owes fires since %s, and makes them by its policy: %s", instant(next), sched.MissedPolicy)
		case enabled:
			out.text += "; next at " + instant(next)
		}
		return out, nil
	}
}

func deleteSchedule(ctx context.Context, _ fleet, s scheduleStore, space, name string) (changedSchedule, error) {
	out := changedSchedule{Space: space, Name: name, Changed: true, text: "deleted"}
	old, err := s.Get(ctx, space, name)
	switch {
	case errors.Is(err, scheduler.ErrUnreadable): // which is how it is got rid of
	case err != nil:
		return out, err
	case old.Owner != "":
		out.warning = fmt.Sprintf("%s/%s is declared by %q, which puts it back when it starts: disable it to keep it from firing", space, name, old.Owner)
	}
	return out, s.Delete(ctx, space, name)
}

func (a *app) newScheduleRun() *cobra.Command {
	var space string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "run NAME...",
		Short: "Put a schedule's job in now",
		Long: `Puts a job of each schedule in at once, besides its fires, and also while it is disabled.
Nothing else about the schedule changes. Prints the job's queue/space/id. Exits with 3 if there
is no such schedule; what else was named is done all the same.`,
		Example: `  jetcrew schedule run nightly
  jetcrew schedule run report --space acme --json | jq -r .id`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, names []string) error {
			if err := validSchedule(space, names...); err != nil {
				return err
			}
			return a.withSchedules(cmd, requestTimeout, func(ctx context.Context, c fleet, s scheduleStore) error {
				return eachName(names, func(name string) error {
					e, err := s.RunNow(ctx, space, name)
					if err != nil {
						return err
					}
					return a.printEnqueued(e, asJSON)
				})
			})
		},
	}
	spaceFlag(cmd.Flags(), &space)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one object a line")
	return cmd
}
