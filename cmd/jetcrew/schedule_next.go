package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/scheduler"
)

// maxNext is how many fires are worked out at a time.
const maxNext = 1000

type scheduleNextFlags struct {
	space, cron, timezone string
	n                     int
	json                  bool
}

func (a *app) newScheduleNext() *cobra.Command {
	var f scheduleNextFlags
	cmd := &cobra.Command{
		Use:   "next NAME | next --cron EXPR",
		Short: "Show when a schedule fires next",
		Long: `Shows the next fires of a schedule, or of a cron expression before there is a schedule of it:
the time on the clocks of its zone, the same instant in UTC, and how far away it is. With
--cron nothing is asked of a server, and it counts from this machine's clock.

An expression has five fields (minute, hour, day of month, month, day of week), or is @hourly,
@daily, @midnight, @weekly, @monthly, @yearly, @annually, or @every with an interval of whole
seconds such as 90s, 12h or 7d, which is counted from when the schedule is put. Exits with 2 if
it is none or can never fire, with 3 if there is no such schedule.`,
		Example: `  jetcrew schedule next nightly
  jetcrew schedule next --cron '30 2 * * MON-FRI' --timezone Europe/Paris -n 10`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			given := cmd.Flags().Changed
			switch {
			case f.n < 1 || f.n > maxNext:
				return usagef("--count: must be 1 to %d, not %d", maxNext, f.n)
			case len(args) == 0 && !given("cron"):
				return usagef("next needs a schedule's NAME, or --cron")
			case len(args) == 0:
				return a.nextOfCron(&f)
			case given("cron") || given("timezone"):
				return usagef("--cron and --timezone are for an expression: they do not go with a NAME")
			}
			if err := validSchedule(f.space, args[0]); err != nil {
				return err
			}
			return a.withSchedules(cmd, requestTimeout, func(ctx context.Context, c fleet, s scheduleStore) error {
				sched, err := s.Get(ctx, f.space, args[0])
				if err != nil {
					return err
				}
				if !sched.Active() {
					fmt.Fprintf(a.stderr, "%s is disabled: it fires at none of these\n", scheduleName(f.space, args[0]))
				}
				if !f.json {
					return a.showNext(sched, c.Now(), f.n)
				}
				fires, err := sched.Next(f.n)
				if err != nil {
					return err
				}
				return a.printFires(fires, sched.Timezone)
			})
		},
	}
	fl := cmd.Flags()
	spaceFlag(fl, &f.space)
	fl.StringVar(&f.cron, "cron", "", "an expression instead of a schedule")
	fl.StringVar(&f.timezone, "timezone", "", "with --cron: an IANA zone such as Europe/Paris (default UTC)")
	fl.IntVarP(&f.n, "count", "n", firesShown, fmt.Sprintf("how many, 1 to %d", maxNext))
	fl.BoolVar(&f.json, "json", false, "print JSON")
	return cmd
}

func (a *app) nextOfCron(f *scheduleNextFlags) error {
	now := time.Now()
	fires, err := scheduler.Preview(scheduler.Spec{Name: "-", Type: "-", Cron: f.cron, Timezone: f.timezone}, now, f.n)
	if err != nil {
		return usageError{err}
	}
	if f.json {
		return a.printFires(fires, f.timezone)
	}
	return a.showFires(fires, f.timezone, now)
}

// showNext prints a schedule's next fires, a table of their own.
func (a *app) showNext(s *scheduler.Schedule, now time.Time, n int) error {
	fires, err := s.Next(n)
	if err != nil {
		return err
	}
	fmt.Fprintln(a.stdout)
	return a.showFires(fires, s.Timezone, now)
}

func (a *app) showFires(fires []time.Time, timezone string, now time.Time) error {
	if len(fires) == 0 {
		_, err := fmt.Fprintln(a.stdout, "it never fires again")
		return err
	}
	zone, err := time.LoadLocation(timezone)
	if err != nil {
		return fmt.Errorf("timezone: %w", err)
	}
	t := a.table("FIRES AT", "UTC", "IN")
	for _, at := range fires {
		t.AppendRow(table.Row{at.In(zone).Format("Mon 2006-01-02 15:04:05 MST"), instant(at), away(now, at)})
	}
	t.Render()
	return nil
}

func (a *app) printFires(fires []time.Time, timezone string) error {
	out, err := scheduler.LocalFires(fires, timezone)
	if err != nil {
		return err
	}
	return a.printJSON(scheduler.Fires{Next: out})
}
