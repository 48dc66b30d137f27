package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/pkg/job"
)

func (a *app) newQueue() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "Look at queues, and set how they are worked off",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.newQueueList(), a.newQueueInfo(), a.newQueuePause(), a.newQueueResume(), a.newQueueConfigure(),
		a.newQueuePurge(), a.newQueueDelete())
	for _, sub := range cmd.Commands() {
		if strings.HasSuffix(sub.Use, " NAME") {
			sub.ValidArgsFunction = a.completeQueueArg
		}
	}
	return cmd
}

func (a *app) newQueueList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the queues, and how much there is to do",
		Long: `Lists all queues: what may start now, what workers hold, since when the next job waits,
how many jobs the fleet may run at a time, the lease, and the workers that are alive with
the slots that they have. Below stands how many jobs there are in all.`,
		Example: `  jetcrew queue list
  jetcrew queue list --json | jq -r '.queues[] | select(.ready > 1000) | .name'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withFleet(cmd, requestTimeout, func(ctx context.Context, c fleet) error {
				queues, err := c.Queues(ctx)
				if err != nil {
					return err
				}
				n, err := c.Count(ctx)
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(struct {
						Queues []job.QueueInfo `json:"queues"`
						Counts countsOutput    `json:"counts"`
					}{queues, countsOutput{*n, n.Total(), time.Time{}}})
				}
				a.showQueues(queues, c.Now())
				_, err = fmt.Fprintf(a.stdout, "in all: %d ready, %d due, %d running, %d succeeded, %d failed, %d dead, %d cancelled\n",
					n.Ready, n.Due, n.Running, n.Succeeded, n.Failed, n.Dead, n.Cancelled)
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (a *app) showQueues(queues []job.QueueInfo, now time.Time) {
	if len(queues) == 0 {
		return
	}
	t := a.table("NAME", "READY", "RUNNING", "OLDEST", "CONCURRENCY", "LEASE", "WORKERS/SLOTS", "STATE")
	for i := range queues {
		q := &queues[i]
		t.AppendRow(table.Row{
			safe(q.Name), q.Ready, q.Running, age(now, q.OldestReady), concurrency(q.Concurrency), lease(q),
			fmt.Sprintf("%d/%d", q.Workers, q.Slots), queueState(q),
		})
	}
	t.Render()
}

// concurrency is a queue's limit across the fleet, for people.
func concurrency(n int) string {
	if n == 0 {
		return "no limit"
	}
	return fmt.Sprint(n)
}

// lease is a queue's lease, for people, with the one that holds until all workers know of it.
func lease(q *job.QueueInfo) string {
	text := config.FormatDuration(q.Lease)
	if q.LeaseInForce != 0 && q.LeaseInForce != q.Lease {
		text += fmt.Sprintf(" (%s until all workers know)", config.FormatDuration(q.LeaseInForce))
	}
	return text
}

func queueState(q *job.QueueInfo) string {
	switch {
	case !q.Paused:
		return "open"
	case q.PausedUntil.IsZero():
		return "paused"
	default:
		return "paused until " + instant(q.PausedUntil)
	}
}

// queueArg takes the one argument that names a queue.
func queueArg(args []string) (string, error) {
	return args[0], job.ValidateName("queue", args[0], job.MaxName)
}

func (a *app) newQueueInfo() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "info NAME",
		Short: "Show how a queue is set, and how much there is to do",
		Long: `Shows a queue's settings and how many jobs it has. A retention that is "default" is what
the workers are set to (JETCREW_RETENTION_...). Exits with 3 if there is no such queue.`,
		Example: `  jetcrew queue info mail`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := queueArg(args)
			if err != nil {
				return err
			}
			return a.withFleet(cmd, requestTimeout, func(ctx context.Context, c fleet) error {
				return a.printQueue(ctx, c, name, asJSON)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// printQueue reads a queue and shows it.
func (a *app) printQueue(ctx context.Context, c fleet, name string, asJSON bool) error {
	q, err := c.Queue(ctx, name)
	if err != nil {
		return err
	}
	if asJSON {
		return a.printJSON(q)
	}
	t := a.table()
	for _, row := range []table.Row{
		{"queue", safe(q.Name)},
		{"state", queueState(q)},
		{"ready", q.Ready},
		{"oldest ready", oldest(q, c.Now())},
		{"running", q.Running},
		{"workers", fmt.Sprintf("%d with %d slots", q.Workers, q.Slots)},
		{"concurrency", concurrency(q.Concurrency)},
		{"lease", lease(q)},
	} {
		t.AppendRow(row)
	}
	for _, s := range endStatuses {
		t.AppendRow(table.Row{"retention of " + string(s), retention(q, s)})
	}
	t.Render()
	return nil
}

func oldest(q *job.QueueInfo, now time.Time) string {
	if q.OldestReady.IsZero() {
		return "none"
	}
	return fmt.Sprintf("%s, since %s", age(now, q.OldestReady), instant(q.OldestReady))
}

// endStatuses are those that have a retention; read only.
var endStatuses = []job.Status{job.Succeeded, job.Cancelled, job.Dead, job.Failed}

// retention is how long a queue keeps records of a status, for people.
func retention(q *job.QueueInfo, s job.Status) string {
	d, own := q.Retention[s]
	switch {
	case !own:
		return "default"
	case d == 0:
		return "none"
	default:
		return config.FormatDuration(d)
	}
}
