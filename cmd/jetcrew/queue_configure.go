package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// Bounds of what a queue can be set to.
const (
	maxFleet = 1_000_000
	minLease = time.Second
	maxLease = 7 * 24 * time.Hour
)

type configureFlags struct {
	concurrency int
	lease       time.Duration
	retention   map[job.Status]*string
	json        bool
}

func (a *app) newQueueConfigure() *cobra.Command {
	f := configureFlags{retention: make(map[job.Status]*string)}
	cmd := &cobra.Command{
		Use:   "configure NAME",
		Short: "Set how a queue is worked off, in the whole fleet",
		Long: `Changes the settings that are given and shows what they were before. A queue that is not
there is made.

A shorter lease waits until all workers know of it, for as long as the old one. The
retention is how long records of ended jobs are kept: 10m at least, "none" for no record
(such a job may run again if its worker dies at the wrong instant, and its id is protected
for two minutes only), or "default" for what the workers are set to.`,
		Example: `  jetcrew queue configure mail --concurrency 20
  jetcrew queue configure mail --lease 2m --retention-succeeded 1h --retention-dead 90d
  jetcrew queue configure mail --concurrency 0 --retention-succeeded default`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := queueArg(args)
			if err != nil {
				return err
			}
			set, err := f.settings(cmd)
			if err != nil {
				return err
			}
			return a.withFleet(cmd, forever, func(ctx context.Context, c fleet) error {
				return a.configure(ctx, c, name, set, f.json)
			})
		},
	}
	fl := cmd.Flags()
	fl.IntVar(&f.concurrency, "concurrency", 0, "jobs at a time in the whole fleet (0: no limit)")
	durationFlag(fl, &f.lease, "lease", 0, "how long a worker may be silent before its jobs are taken over, 1s to 7d")
	for _, s := range endStatuses {
		name := "retention-" + string(s)
		f.retention[s] = fl.String(name, "", "how long records of "+string(s)+" jobs are kept, or none, or default")
		offer(cmd, name, []string{"none", "default"})
	}
	fl.BoolVar(&f.json, "json", false, "print JSON: before and after, as \"queue info\" does")
	return cmd
}

// settings are the changes that the flags ask for.
func (f *configureFlags) settings(cmd *cobra.Command) (job.QueueSettings, error) {
	var set job.QueueSettings
	given := cmd.Flags().Changed
	if given("concurrency") {
		if f.concurrency < 0 || f.concurrency > maxFleet {
			return set, usagef("--concurrency: must be 0 (no limit) to %d, not %d", maxFleet, f.concurrency)
		}
		set.Concurrency = &f.concurrency
	}
	if given("lease") {
		if f.lease < minLease || f.lease > maxLease {
			return set, usagef("--lease: must be 1s to 7d, not %s", config.FormatDuration(f.lease))
		}
		set.Lease = &f.lease
	}
	for _, s := range endStatuses {
		flag := "retention-" + string(s)
		if !given(flag) {
			continue
		}
		if set.Retention == nil {
			set.Retention = make(map[job.Status]time.Duration)
		}
		if *f.retention[s] == "default" {
			set.Retention[s] = job.KeepDefault
			continue
		}
		r, err := config.ParseRetention(*f.retention[s])
		if err != nil {
			return set, usagef("--%s: must be %s to %s, none or default, not %q", flag,
				config.FormatDuration(config.MinRetention), config.FormatDuration(config.MaxRetention), shorten(*f.retention[s], 80))
		}
		set.Retention[s] = max(time.Duration(r), 0)
	}
	if set.Concurrency == nil && set.Lease == nil && set.Retention == nil {
		return set, usagef("say what to change: --concurrency, --lease or --retention-...")
	}
	return set, nil
}

func (a *app) configure(ctx context.Context, c fleet, name string, set job.QueueSettings, asJSON bool) error {
	before, err := c.Queue(ctx, name)
	switch {
	case errors.Is(err, job.ErrNoQueue):
		before = nil
	case err != nil:
		return err
	case set.Lease != nil && *set.Lease < before.Lease:
		fmt.Fprintf(a.stderr, "the lease gets shorter: waiting until all workers know, which may take %s\n", config.FormatDuration(max(before.Lease, before.LeaseInForce)))
	}
	after, err := c.Configure(ctx, name, set)
	if err != nil {
		return err
	}
	if asJSON {
		return a.printJSON(struct {
			Before *job.QueueInfo `json:"before,omitzero"`
			After  *job.QueueInfo `json:"after"`
		}{before, after})
	}
	if before == nil {
		fmt.Fprintf(a.stderr, "the queue %s is new\n", safe(name))
		before = &job.QueueInfo{}
	}
	t := a.table("SETTING", "BEFORE", "AFTER")
	row := func(name, was, is string) {
		if before.Name == "" {
			was = ""
		}
		t.AppendRow(table.Row{name, was, is})
	}
	row("concurrency", concurrency(before.Concurrency), concurrency(after.Concurrency))
	row("lease", lease(before), lease(after))
	for _, s := range endStatuses {
		row("retention of "+string(s), retention(before, s), retention(after, s))
	}
	t.Render()
	return nil
}
