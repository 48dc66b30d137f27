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

func (a *app) newJob() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "job",
		Short: "Look at jobs, and steer them",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.newJobList(), a.newJobGet(), a.newJobCounts(), a.newJobWait(), a.newJobWatch())
	for _, o := range operations {
		cmd.AddCommand(a.newOperation(o))
	}
	return cmd
}

func (a *app) newJobGet() *cobra.Command {
	var key job.Key
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "get ID",
		Short: "Show a job's record",
		Long: `Shows a job's record: where it is in its life, its input and result, and its
attempts. Control characters in job data are shown as escapes; --json prints the
record exactly as it is. Exits with 3 if there is no such job, 2 if several queues have it.

The lease is shown as it was written: heartbeats renew it without writing, so it may be
past for a job that runs well. "jetcrew worker list --jobs" tells what really runs.`,
		Example: `  jetcrew job get hello
  jetcrew job get hello --space acme --queue mail --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			key.ID = args[0]
			if err := validKey(key); err != nil {
				return err
			}
			return a.withFleet(cmd, requestTimeout, func(ctx context.Context, c fleet) error {
				j, err := c.Get(ctx, key)
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJob(j)
				}
				a.showJob(j)
				return nil
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&key.Space, "space", job.DefaultSpace, "space of the job")
	f.StringVar(&key.Queue, "queue", "", "queue of the job (needed only if several queues have this id)")
	f.BoolVar(&asJSON, "json", false, "print the record as JSON")
	return cmd
}

// validKey refuses names that no job can have. A queue need not be named.
func validKey(key job.Key) error {
	for _, n := range []struct{ name, value string }{{"id", key.ID}, {"space", key.Space}, {"queue", key.Queue}} {
		if n.name == "queue" && n.value == "" {
			continue
		}
		if err := job.ValidateName(n.name, n.value, job.MaxName); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) printJob(j *job.Job) error {
	if err := a.printJSON(j); err != nil {
		return fmt.Errorf("%s: %w", j.Key(), err)
	}
	return nil
}

// showJob prints a record for a person.
func (a *app) showJob(j *job.Job) {
	t := a.table()
	row := func(name, value string) {
		if value != "" {
			t.AppendRow(table.Row{name, shorten(safe(value), 2000)})
		}
	}
	row("job", j.Key().String())
	row("type", j.Type)
	status := string(j.Status)
	if j.CancelRequested && !j.Status.Terminal() {
		status += " (cancel requested)"
	}
	row("status", status)
	row("attempts", fmt.Sprintf("%d of %d", j.Attempts, j.MaxAttempts))
	row("error", j.Error)
	row("input", string(j.Input))
	row("result", string(j.Result))
	if len(j.Raw) > 0 {
		row("message", fmt.Sprintf("%q", j.Raw))
	}
	row("environment", j.Environment)
	row("trigger", string(j.Trigger))
	if m := j.Progress; m != nil {
		row("progress", strings.TrimSpace(fmt.Sprintf("%.6g %s", m.Done, m.Note)))
	}
	row("created", instant(j.CreatedAt))
	row("due", instant(j.DueAt))
	if !j.Status.Terminal() {
		row("next run", instant(j.RunAt))
	}
	row("started", instant(j.StartedAt))
	row("lease written until", instant(j.LeaseUntil))
	row("deadline", instant(j.Deadline))
	if j.Timeout > 0 {
		row("timeout", j.Timeout.String())
	}
	row("worker", j.WorkerID)
	row("run", j.RunID)
	row("updated", instant(j.UpdatedAt))
	t.Render()
	a.showHistory(j)
	a.showLog(j)
}

func (a *app) showLog(j *job.Job) {
	if len(j.Log) == 0 {
		return
	}
	fmt.Fprintln(a.stdout)
	t := a.table("AT", "LOG")
	for _, line := range j.Log {
		t.AppendRow(table.Row{instant(line.At), shorten(safe(line.Text), 200)})
	}
	t.Render()
}

func (a *app) showHistory(j *job.Job) {
	if len(j.History) == 0 {
		return
	}
	fmt.Fprintln(a.stdout)
	h := a.table("ATTEMPT", "STATUS", "STARTED", "TOOK", "WORKER", "ERROR")
	for _, x := range j.History {
		took := ""
		if !x.StartedAt.IsZero() && !x.EndedAt.IsZero() {
			took = x.EndedAt.Sub(x.StartedAt).String()
		}
		h.AppendRow(table.Row{x.Attempt, safe(string(x.Status)), instant(x.StartedAt), took, safe(x.WorkerID), shorten(safe(x.Error), 200)})
	}
	h.Render()
}

func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(job.TimeFormat)
}
