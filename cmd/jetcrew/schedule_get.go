package main

import (
	"context"
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/scheduler"
)

// firesShown is how many of the next fires are shown where nobody says.
const firesShown = 5

func (a *app) newScheduleGet() *cobra.Command {
	var space string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "get NAME",
		Short: "Show a schedule's record, and its next fires",
		Long: `Shows a schedule's record, how it stands, and its next fires. "last fire" is the promised
instant of the last one, not when it was made; "missed" counts fires that got no job of their
own since nobody made them when they were due, "skipped" those that made none since the last
one's job had not ended. --json prints the record exactly as it is. Exits with 3 if there is no
such schedule.`,
		Example: `  jetcrew schedule get nightly
  jetcrew schedule get report --space acme --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := validSchedule(space, args[0]); err != nil {
				return err
			}
			return a.withSchedules(cmd, requestTimeout, func(ctx context.Context, c fleet, s scheduleStore) error {
				sched, err := s.Get(ctx, space, args[0])
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(sched)
				}
				a.showSchedule(sched, c)
				return a.showNext(sched, c.Now(), firesShown)
			})
		},
	}
	spaceFlag(cmd.Flags(), &space)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the record as JSON")
	return cmd
}

func (a *app) showSchedule(s *scheduler.Schedule, c fleet) {
	t := a.table()
	row := func(name, value string) {
		if value != "" {
			t.AppendRow(table.Row{name, shorten(safe(value), 2000)})
		}
	}
	row("schedule", s.Space+"/"+s.Name)
	row("state", scheduleState(s, c.Now()))
	row("error", s.Error)
	row("cron", s.Cron)
	row("timezone", s.Timezone)
	if s.Jitter > 0 {
		row("jitter", config.FormatDuration(s.Jitter))
	}
	row("type", s.Type)
	row("queue", s.Queue)
	row("input", string(s.Input))
	row("environment", s.Environment)
	row("attempts", fmt.Sprint(s.MaxAttempts))
	if s.Timeout > 0 {
		row("timeout", config.FormatDuration(s.Timeout))
	}
	policy := string(s.MissedPolicy)
	if s.MissedPolicy == scheduler.MissedEach {
		policy += fmt.Sprintf(", %d at most", s.MissedLimit)
	}
	row("missed fires", policy)
	row("overlap", string(s.Overlap))
	row("owner", s.Owner)
	row("last fire", instant(s.LastFireAt))
	if s.LastJob != nil {
		row("last job", s.LastJob.String())
	}
	row("missed", fmt.Sprint(s.Missed))
	row("skipped", fmt.Sprint(s.Skipped))
	row("created", instant(s.CreatedAt))
	row("updated", instant(s.UpdatedAt))
	t.Render()
}
