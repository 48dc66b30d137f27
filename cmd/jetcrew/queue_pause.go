package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// maxPause is the longest time for which a queue is paused at once; without an end, it is paused until it is resumed.
const maxPause = 3650 * 24 * time.Hour

func (a *app) newQueuePause() *cobra.Command {
	var length time.Duration
	var until string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "pause NAME",
		Short: "Hand out no more jobs of a queue",
		Long: `Nothing of the queue is handed out any more, in the whole fleet, until "jetcrew queue
resume", or until the pause ends by itself. What workers hold goes on to its end. New jobs,
and jobs that fall due, wait.`,
		Example: `  jetcrew queue pause mail
  jetcrew queue pause mail --for 1h
  jetcrew queue pause mail --until 2030-01-31T09:00:00Z`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := queueArg(args)
			if err != nil {
				return err
			}
			end, err := pauseEnd(cmd, length, until)
			if err != nil {
				return err
			}
			return a.withFleet(cmd, requestTimeout, func(ctx context.Context, c fleet) error {
				now := c.Now()
				if length > 0 {
					end = now.Add(length)
				}
				if !end.IsZero() && !end.After(now) {
					return usagef("--until: %s is over: it is %s", instant(end), instant(now))
				}
				if err := c.Pause(ctx, name, end); err != nil {
					return err
				}
				return a.sayPaused(ctx, c, name, asJSON)
			})
		},
	}
	durationFlag(cmd.Flags(), &length, "for", 0, "how long, such as 90s, 12h or 7d (default until it is resumed)")
	cmd.Flags().StringVar(&until, "until", "", "until this instant, such as 2030-01-31T09:00:00Z")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: the queue, as \"queue info\" does")
	return cmd
}

// pauseEnd is the instant that --until names, if it does.
func pauseEnd(cmd *cobra.Command, length time.Duration, until string) (time.Time, error) {
	byLength, byEnd := cmd.Flags().Changed("for"), cmd.Flags().Changed("until")
	switch {
	case byLength && byEnd:
		return time.Time{}, usagef("give --for or --until, not both")
	case byLength && (length <= 0 || length > maxPause):
		return time.Time{}, usagef("--for: must be more than 0s and at most 3650d; without it, the pause lasts until it is ended")
	case !byEnd:
		return time.Time{}, nil
	}
	end, err := time.Parse(time.RFC3339, until)
	if err != nil {
		return end, usagef("--until: %q is no instant such as 2030-01-31T09:00:00Z", shorten(until, 80))
	}
	return end, nil
}

func (a *app) sayPaused(ctx context.Context, c fleet, name string, asJSON bool) error {
	if asJSON {
		return a.printQueue(ctx, c, name, true)
	}
	q, err := c.Queue(ctx, name)
	if err != nil {
		return fmt.Errorf("%s is paused, but how it stands could not be read: %w", name, err)
	}
	text := fmt.Sprintf("%s is %s; %d ready", safe(name), queueState(q), q.Ready)
	if q.Running > 0 {
		text += fmt.Sprintf(", %d that workers hold go on", q.Running)
	}
	_, err = fmt.Fprintln(a.stdout, text)
	return err
}

func (a *app) newQueueResume() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "resume NAME",
		Short:   "End a queue's pause",
		Long:    `Ends a queue's pause. One that is not paused stays so.`,
		Example: `  jetcrew queue resume mail`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := queueArg(args)
			if err != nil {
				return err
			}
			return a.withFleet(cmd, requestTimeout, func(ctx context.Context, c fleet) error {
				if err := c.Resume(ctx, name); err != nil {
					return err
				}
				if asJSON {
					return a.printQueue(ctx, c, name, true)
				}
				_, err := fmt.Fprintf(a.stdout, "%s is open\n", safe(name))
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON: the queue, as \"queue info\" does")
	return cmd
}

func (a *app) newQueuePurge() *cobra.Command {
	var f bulkFlags
	var statuses []string
	o := operationOf(job.OpDelete)
	cmd := &cobra.Command{
		Use:   "purge NAME",
		Short: "Delete the jobs that wait in a queue",
		Long: `Deletes the jobs of a queue that wait, those that may start now and those that wait for
their instant, in every space; or those that --status names. A terminal is asked first;
elsewhere --yes is needed. Pause the queue first if nothing more of it is to run.`,
		Example: `  jetcrew queue purge mail --dry-run
  jetcrew queue purge mail --status ready --yes`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := queueArg(args)
			if err != nil {
				return err
			}
			req := client.PurgeRequest{Queue: name, DryRun: f.dryRun}
			for _, s := range statuses {
				req.Statuses = append(req.Statuses, job.Status(s))
			}
			if cmd.Flags().Changed("status") && len(statuses) == 0 {
				return usagef("--status: must not be empty")
			}
			all := req.Bulk()
			if err := all.Validate(); err != nil {
				return err
			}
			if err := o.check(all.Filter.Statuses); err != nil {
				return err
			}
			if err := a.mayAsk(&f); err != nil {
				return err
			}
			return a.withFleet(cmd, forever, func(ctx context.Context, c fleet) error {
				return a.bulk(ctx, purger{c, name}, o, all, &f)
			})
		},
	}
	cmd.Flags().StringSliceVar(&statuses, "status", []string{string(job.Ready), string(job.Due)}, "of these statuses: "+joinStatuses(o.statuses))
	offer(cmd, "status", statusNames(o.statuses))
	f.addRun(cmd)
	return cmd
}

// purger is a fleet whose bulk operation is a purge of a queue.
type purger struct {
	fleet
	queue string
}

func (p purger) Bulk(ctx context.Context, req job.BulkRequest) (job.BulkResult, error) {
	return p.Purge(ctx, client.PurgeRequest{Queue: p.queue, Statuses: req.Filter.Statuses, DryRun: req.DryRun, Progress: req.Progress})
}

func (a *app) newQueueDelete() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "delete NAME",
		Short: "Remove a queue that nobody uses any more",
		Long: `Removes a queue that has no jobs left but ended ones, and no workers. Their records stay
until they expire. Exits with 8 if it is in use, with 3 if there is no such queue.`,
		Example: `  jetcrew queue purge mail
  jetcrew queue delete mail`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := queueArg(args)
			if err != nil {
				return err
			}
			return a.withFleet(cmd, requestTimeout, func(ctx context.Context, c fleet) error {
				if err := c.DeleteQueue(ctx, name); err != nil {
					return err
				}
				_, err := fmt.Fprintf(a.stdout, "%s deleted\n", safe(name))
				return err
			})
		},
	}
	return cmd
}
