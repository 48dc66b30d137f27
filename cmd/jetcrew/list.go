package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/job"
)

type listFlags struct {
	filter filterFlags
	limit  int
	cursor string
	all    bool
	json   bool
}

func (a *app) newJobList() *cobra.Command {
	var f listFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List jobs, the newest update first",
		Long: `Lists the jobs of the space ` + job.DefaultSpace + `, or of those that --space names, the newest update
first. Several flags narrow it together. "ready" may start now, "due" waits for its
instant; their records say "pending".

It lists a page, and says on stderr how to get the next one; --all lists all pages. A
listing that has looked at many jobs in vain stops, and says how far it has come.

With --json it prints one object: jobs (whole records), next (the cursor to go on from),
total (where it is known), looked and lookedTo (at how many records it looked, and back to
which update), and stopped where it gave up looking. With --all
--json it prints one record a line, as they come. A cursor belongs to its filter: where
--since or --until said how long ago, go on with the instants that the page was listed
with ("since" and "until").`,
		Example: `  jetcrew job list --status failed,dead --since 1d
  jetcrew job list --all-spaces --queue mail --type email --limit 200
  jetcrew job list --status dead --all --json | jq -r '.id + "\t" + .error'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			req, err := f.request(cmd)
			if err != nil {
				return err
			}
			limit := requestTimeout
			if f.all {
				limit = forever
			}
			return a.withFleet(cmd, limit, func(ctx context.Context, c fleet) error {
				if err := f.filter.at(&req.Filter, c.Now()); err != nil {
					return err
				}
				if f.all {
					return a.listAll(ctx, c, req, f.json)
				}
				return a.list(ctx, c, req, &f)
			})
		},
	}
	f.filter.add(cmd, job.FilterStatuses)
	fl := cmd.Flags()
	fl.IntVar(&f.limit, "limit", job.DefaultPage, fmt.Sprintf("jobs of a page, 1 to %d", job.MaxPage))
	fl.StringVar(&f.cursor, "cursor", "", "go on from here, as an earlier page said, with the same filter")
	fl.BoolVar(&f.all, "all", false, "all pages")
	fl.BoolVar(&f.json, "json", false, "print JSON")
	return cmd
}

// request is what the flags ask for, as far as it can be said without the store.
func (f *listFlags) request(cmd *cobra.Command) (job.ListRequest, error) {
	filter, err := f.filter.filter(cmd)
	if err != nil {
		return job.ListRequest{}, err
	}
	if f.limit == 0 { // not the default that it would stand for
		return job.ListRequest{}, usagef("--limit: must be 1 to %d, not 0", job.MaxPage)
	}
	if f.all && !cmd.Flags().Changed("limit") {
		f.limit = job.MaxPage
	}
	req := job.ListRequest{Filter: filter, Limit: f.limit, Cursor: f.cursor}
	return req, req.Normalize()
}

// list prints one page.
func (a *app) list(ctx context.Context, l job.Lister, req job.ListRequest, f *listFlags) error {
	p, err := l.List(ctx, req)
	if err != nil {
		return err
	}
	if f.json {
		return a.printJSON(p.Listing(&req.Filter))
	}
	a.showPage(p, true)
	fmt.Fprint(a.stderr, pageNote(p, f.filter.fixed(&req.Filter)))
	return nil
}

// listAll prints all pages, each as it comes.
func (a *app) listAll(ctx context.Context, l job.Lister, req job.ListRequest, asJSON bool) error {
	for jobs, header := 0, true; ; {
		p, err := l.List(ctx, req)
		if err != nil {
			return err
		}
		jobs += len(p.Jobs)
		if asJSON {
			if err := a.printLines(p.Jobs); err != nil {
				return err
			}
		} else if len(p.Jobs) > 0 {
			a.showPage(p, header)
			header = false
		}
		if p.Next == "" {
			if jobs == 0 && !asJSON {
				fmt.Fprintln(a.stderr, "no jobs")
			}
			return nil
		}
		req.Cursor = p.Next
	}
}

// printLines prints records, one a line.
func (a *app) printLines(jobs []*job.Job) error {
	for _, j := range jobs {
		if err := a.printJSONLine(j); err != nil {
			return fmt.Errorf("%s: %w", j.Key(), err)
		}
	}
	return nil
}

func (a *app) showPage(p *job.Page, header bool) {
	if len(p.Jobs) == 0 {
		return
	}
	t := a.table()
	if header {
		t = a.table("JOB", "TYPE", "STATUS", "ATTEMPTS", "UPDATED", "NEXT RUN / ERROR")
	}
	for _, j := range p.Jobs {
		status := string(j.Status)
		if j.CancelRequested && !j.Status.Terminal() {
			status += ", cancelling"
		}
		t.AppendRow(table.Row{
			safe(j.Key().String()), shorten(safe(j.Type), 40), safe(status), fmt.Sprintf("%d/%d", j.Attempts, j.MaxAttempts),
			instant(j.UpdatedAt), shorten(safe(whatNext(j, p.At)), 80),
		})
	}
	t.Render()
}

// whatNext is when a job that waits runs, and the error of its last attempt.
func whatNext(j *job.Job, now time.Time) string {
	if j.Status != job.Pending || !j.RunAt.After(now) {
		return j.Error
	}
	if j.Error == "" {
		return instant(j.RunAt)
	}
	return instant(j.RunAt) + " " + j.Error
}

// pageNote says what else there is. The flags are those that have to change beside the cursor.
func pageNote(p *job.Page, flags string) string {
	note := ""
	switch n := len(p.Jobs); {
	case p.Total != job.Uncounted && p.Total > n:
		note = fmt.Sprintf("%d of %d jobs", n, p.Total)
	case n == 0:
		note = "no jobs"
	case p.Next != "":
		note = jobs(n)
	default:
		return ""
	}
	if p.Stopped {
		note += fmt.Sprintf(" among the %d that were looked at", p.Looked)
		if !p.LookedTo.IsZero() {
			note += ", back to " + instant(p.LookedTo)
		}
	}
	if p.Next != "" {
		note += "; to go on: " + flags + "--cursor " + safe(p.Next)
	}
	return note + "\n"
}
