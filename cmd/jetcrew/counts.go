package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/apiclient"
	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// countEvery is how often counts are watched.
const countEvery = time.Second

func (a *app) newJobCounts() *cobra.Command {
	var asJSON, watch bool
	cmd := &cobra.Command{
		Use:   "counts",
		Short: "Count the jobs of every space, by status",
		Long: `Counts all jobs, by status: ready ones may start now, due ones wait for their instant,
running ones are held by a worker. The numbers are cheap to ask for, and exact when nothing
moves; a job between two writes may count twice. How many each queue has, "jetcrew queue
list" says.

With --watch it counts every second until Ctrl-C, a line each.`,
		Example: `  jetcrew job counts
  jetcrew job counts --json | jq .dead
  jetcrew job counts --watch`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			limit := requestTimeout
			if watch {
				limit = forever
			}
			return a.withFleet(cmd, limit, func(ctx context.Context, c fleet) error {
				if watch {
					return a.watchCounts(ctx, c, asJSON)
				}
				n, err := c.Count(ctx)
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(countsOutput{*n, n.Total(), time.Time{}})
				}
				t := a.table("STATUS", "JOBS")
				for _, s := range countedStatuses {
					t.AppendRow(table.Row{s, n.Of(s)})
				}
				t.AppendRow(table.Row{"all", n.Total()})
				t.Render()
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "count every second, until Ctrl-C")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// countedStatuses are those that are counted by themselves; read only.
var countedStatuses = []job.Status{job.Ready, job.Due, job.Running, job.Succeeded, job.Failed, job.Dead, job.Cancelled}

// countsOutput is the counts as JSON.
type countsOutput struct {
	job.Counts `json:",inline"`
	Total      int       `json:"total"`
	At         time.Time `json:"at,omitzero"`
}

// counter is what counts are asked of.
type counter interface {
	job.Clock
	Count(ctx context.Context) (*job.Counts, error)
}

// watchCounts prints a line a second until ctx ends. What cannot be counted is said once, and counted again.
func (a *app) watchCounts(ctx context.Context, c counter, asJSON bool) error {
	tick := time.NewTicker(countEvery)
	defer tick.Stop()
	for failing, lines := false, 0; ; {
		n, err := countOnce(ctx, c)
		switch {
		case ctx.Err() != nil:
			return a.unlessInterrupted(ctx.Err())
		case err != nil && (lines == 0 || errors.Is(err, nats.ErrConnectionClosed) || errors.As(err, new(*client.PermissionError)) ||
			errors.Is(err, apiclient.ErrUnauthorized) || errors.Is(err, apiclient.ErrForbidden)):
			return err
		case err != nil && !failing:
			fmt.Fprintf(a.stderr, "jetcrew: cannot count at the moment: %s\n", oneLine(err))
		case err != nil:
		case asJSON:
			err = a.printJSONLine(countsOutput{*n, n.Total(), job.Millis(c.Now())})
			lines++
		default:
			err = a.printCounts(n, job.Millis(c.Now()), lines%20 == 0)
			lines++
		}
		if err != nil && n != nil {
			return err // it could not be printed
		}
		failing = err != nil
		select {
		case <-tick.C:
		case <-ctx.Done():
			return a.unlessInterrupted(ctx.Err())
		}
	}
}

func countOnce(ctx context.Context, c counter) (*job.Counts, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return c.Count(ctx)
}

func (a *app) printCounts(n *job.Counts, at time.Time, header bool) error {
	var b strings.Builder
	if header {
		fmt.Fprintf(&b, "%-26s", "AT")
		for _, s := range countedStatuses {
			fmt.Fprintf(&b, "%11s", strings.ToUpper(string(s)))
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%-26s", instant(at))
	for _, s := range countedStatuses {
		fmt.Fprintf(&b, "%11d", n.Of(s))
	}
	_, err := fmt.Fprintln(a.stdout, b.String())
	return err
}

// unlessInterrupted: a signal is how a command ends well that goes on until one comes.
func (a *app) unlessInterrupted(err error) error {
	if a.interrupted.Load() {
		return nil
	}
	return err
}
