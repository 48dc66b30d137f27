package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/job"
)

func (a *app) newWorker() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Look at the workers that are alive",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.newWorkerList())
	return cmd
}

func (a *app) newWorkerList() *cobra.Command {
	var withJobs, asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the workers that are alive",
		Long: `Lists the workers that are alive, with the queues that each takes jobs from, its slots,
since when it works, when it was last heard of, and how many jobs it ran then, not counting
those that had run for less than a tenth of a second. A worker is heard of each third of the
lease; one that vanishes is listed until its lease is over.`,
		Example: `  jetcrew worker list
  jetcrew worker list --jobs
  jetcrew worker list --json | jq -r '.workers[].host' | sort | uniq -c`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withFleet(cmd, requestTimeout, func(ctx context.Context, c fleet) error {
				workers, err := c.Workers(ctx)
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(struct {
						Workers []job.Worker `json:"workers"`
					}{strip(workers, withJobs)})
				}
				a.showWorkers(workers, c.Now())
				if withJobs {
					a.showWorkerJobs(workers, c.Now())
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&withJobs, "jobs", false, "also the jobs that they run")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// strip leaves out the jobs unless they were asked for.
func strip(workers []job.Worker, withJobs bool) []job.Worker {
	for i := range workers {
		for k := range workers[i].Queues {
			if !withJobs {
				workers[i].Queues[k].Jobs = nil
			}
		}
	}
	return workers
}

func (a *app) showWorkers(workers []job.Worker, now time.Time) {
	if len(workers) == 0 {
		fmt.Fprintln(a.stderr, "no workers")
		return
	}
	t := a.table("WORKER", "HOST", "PID", "VERSION", "QUEUES", "SLOTS", "RUNNING", "SINCE", "BEAT")
	for _, w := range workers {
		slots, running := 0, 0
		names := make([]string, len(w.Queues))
		for i, q := range w.Queues {
			names[i] = safe(q.Queue)
			slots += q.Slots
			running += q.Running
		}
		t.AppendRow(table.Row{
			safe(w.ID), safe(w.Host), w.PID, safe(w.Version), shorten(strings.Join(names, ","), 80), slots, running,
			instant(w.StartedAt), beat(now, w.BeatAt),
		})
	}
	t.Render()
}

func beat(now, at time.Time) string {
	if s := age(now, at); s != "now" && s != "" {
		return s + " ago"
	}
	return "now"
}

func (a *app) showWorkerJobs(workers []job.Worker, now time.Time) {
	t := a.table("WORKER", "JOB", "TYPE", "RUNS FOR")
	for _, w := range workers {
		for _, q := range w.Queues {
			for _, j := range q.Jobs {
				key := job.Key{Queue: q.Queue, Space: j.Space, ID: j.ID}
				t.AppendRow(table.Row{safe(w.ID), safe(key.String()), shorten(safe(j.Type), 40), age(now, j.Since)})
			}
			if n := q.Running - len(q.Jobs); n > 0 {
				t.AppendRow(table.Row{safe(w.ID), fmt.Sprintf("%s: %d more", safe(q.Queue), n), "", ""})
			}
		}
	}
	if t.Length() > 0 {
		fmt.Fprintln(a.stdout)
		t.Render()
	}
}
