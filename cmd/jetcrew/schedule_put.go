package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/scheduler"
)

type putFlags struct {
	spec            scheduler.Spec
	input           string
	missed, overlap string
	disabled        bool
	owner           string
	json            bool

	file               string
	prune, dryRun, yes bool
}

// The flags that belong to one schedule, and those that belong to a file of them.
const (
	onePutFlags  = "space type cron timezone queue input max-attempts timeout jitter missed missed-limit overlap disabled environment"
	filePutFlags = "prune yes"
)

func (a *app) newSchedulePut() *cobra.Command {
	var f putFlags
	cmd := &cobra.Command{
		Use:   "put NAME --type T --cron EXPR | put --file schedules.yaml",
		Short: "Add or change a schedule, or all of a file",
		Long: `Adds a schedule, or changes the one of its name, and shows its next fires. All of it is
declared anew: what no flag says gets its default, but one that was disabled stays so until
"schedule enable". Its next fire stays as it was promised unless its cron expression, zone
or environment changes; another jitter moves it. A schedule that another owner declares is left alone (exit
code 8). stderr says if no worker that is alive would run its jobs.

With --file, the schedules are the members of a YAML list:

  owner: billing               # who declares them (or --owner); optional
  space: acme                  # of those that do not say; default ` + job.DefaultSpace + `
  schedules:
    - name: invoices
      type: invoice
      cron: "30 2 1 * *"       # in quotes, since YAML has other uses for * and @
      timezone: Europe/Paris
      input: {format: pdf}

and their other members are space, queue, environment, maxAttempts, timeout, jitter,
missedPolicy, missedLimit, overlap and enabled. All of the file is checked before anything is
written, and every mistake is named with its line.

--prune also deletes what the owner has in the spaces of the file and the file does not name:
schedules that it has no more. It needs an owner, and asks first; without a terminal it needs
--yes. --dry-run shows what would be done.`,
		Example: `  jetcrew schedule put nightly --type report --cron '30 2 * * *' --timezone Europe/Paris
  jetcrew schedule put poll --type fetch --cron '@every 90s' --queue io --overlap skip --missed skip
  jetcrew schedule put --file schedules.yaml --prune --dry-run`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			given := cmd.Flags().Changed
			if given("file") {
				return a.putFile(cmd, args, &f)
			}
			if len(args) != 1 {
				return usagef("put needs the schedule's NAME, or --file")
			}
			for name := range strings.FieldsSeq(filePutFlags) {
				if given(name) {
					return usagef("--%s goes with --file", name)
				}
			}
			f.spec.Name = args[0]
			spec, err := a.specOfFlags(cmd, &f)
			if err != nil {
				return err
			}
			return a.withSchedules(cmd, requestTimeout, func(ctx context.Context, c fleet, s scheduleStore) error {
				return a.putOne(ctx, c, s, spec, &f)
			})
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.spec.Type, "type", "", "type of its jobs")
	fl.StringVar(&f.spec.Cron, "cron", "", "when it fires: five fields, @daily and its like, or @every 90s")
	fl.StringVar(&f.spec.Timezone, "timezone", "", "IANA zone whose clocks the expression means, such as Europe/Paris (default UTC)")
	spaceFlag(fl, &f.spec.Space)
	fl.StringVar(&f.spec.Queue, "queue", job.DefaultQueue, "queue of its jobs")
	fl.StringVar(&f.input, "input", "", "input of its jobs: a JSON object, @file, or - for stdin")
	fl.IntVar(&f.spec.MaxAttempts, "max-attempts", job.DefaultMaxAttempts, "how often each of its jobs is tried")
	durationFlag(fl, &f.spec.Timeout, "timeout", 0, "how long one attempt may take (0: no limit)")
	durationFlag(fl, &f.spec.Jitter, "jitter", 0, "fire up to so much later, always by the same amount")
	fl.StringVar(&f.missed, "missed", string(scheduler.MissedOne), "what becomes of missed fires: one job of them all, skip, or each")
	fl.IntVar(&f.spec.MissedLimit, "missed-limit", scheduler.DefaultMissedLimit, "with --missed each: the newest so many")
	fl.StringVar(&f.overlap, "overlap", string(scheduler.OverlapAllow), "what a fire does while the last one's job has not ended: allow, skip or replace")
	fl.BoolVar(&f.disabled, "disabled", false, "it does not fire until it is enabled")
	fl.StringVar(&f.spec.Environment, "environment", job.DefaultEnvironment, "environment of its jobs")
	fl.StringVar(&f.owner, "owner", "", "the program that declares it (default none: people do)")
	fl.StringVar(&f.file, "file", "", "YAML file of schedules (- for stdin)")
	fl.BoolVar(&f.prune, "prune", false, "with --file: delete the owner's other schedules of the file's spaces")
	fl.BoolVar(&f.dryRun, "dry-run", false, "change nothing, only say what would be done")
	fl.BoolVar(&f.yes, "yes", false, "with --prune: do not ask")
	fl.BoolVar(&f.json, "json", false, "print JSON")
	offer(cmd, "missed", []string{string(scheduler.MissedOne), string(scheduler.MissedSkip), string(scheduler.MissedEach)})
	offer(cmd, "overlap", []string{string(scheduler.OverlapAllow), string(scheduler.OverlapSkip), string(scheduler.OverlapReplace)})
	return cmd
}

// specOfFlags is the one schedule that the flags describe, checked.
func (a *app) specOfFlags(cmd *cobra.Command, f *putFlags) (scheduler.Spec, error) {
	spec := f.spec
	given := cmd.Flags().Changed
	for name := range strings.FieldsSeq("type cron") {
		if !given(name) {
			return spec, usagef("put needs --type and --cron, or --file")
		}
	}
	switch {
	case f.spec.MaxAttempts == 0:
		return spec, usagef("--max-attempts: must be 1 to %d, not 0", job.MaxMaxAttempts)
	case f.spec.MissedLimit == 0:
		return spec, usagef("--missed-limit: must be 1 to %d, not 0", scheduler.MaxMissedLimit)
	case !given("missed-limit"):
		spec.MissedLimit = 0
	}
	for name := range strings.FieldsSeq("space queue environment missed overlap") { // not the defaults that they would stand for
		if fl := cmd.Flags().Lookup(name); fl.Value.String() == "" {
			return spec, usagef("--%s: must not be empty", name)
		}
	}
	spec.MissedPolicy, spec.Overlap = scheduler.MissedPolicy(f.missed), scheduler.Overlap(f.overlap)
	if f.disabled {
		enabled := false
		spec.Enabled = &enabled
	}
	input, err := a.readInput(f.input)
	if err != nil {
		return spec, usageError{fmt.Errorf("--input: %w", err)}
	}
	spec.Input = input
	if err := checkOwner(f.owner); err != nil {
		return spec, err
	}
	return spec, spec.Normalize()
}

func checkOwner(owner string) error {
	if owner == "" {
		return nil
	}
	return job.ValidateName("owner", owner, job.MaxName)
}

func (a *app) putOne(ctx context.Context, c fleet, s scheduleStore, spec scheduler.Spec, f *putFlags) error {
	sched, change, err := putOrSay(ctx, c, s, spec, f)
	if err != nil {
		return ownerHint(err)
	}
	fires, err := sched.Next(firesShown)
	if err != nil {
		return err
	}
	warnings := doubts(ctx, c, []scheduler.Spec{sched.Spec})
	for _, w := range warnings {
		a.warn(w)
	}
	if f.json {
		next, err := scheduler.LocalFires(fires, sched.Timezone)
		if err != nil {
			return err
		}
		return a.printJSON(scheduler.PutDone{Change: change, Schedule: sched, Next: next, Warnings: warnings})
	}
	state := ""
	if !sched.Active() {
		state = ", and disabled: it does not fire until \"jetcrew schedule enable\""
	}
	would := ""
	if f.dryRun {
		would = "would be "
	}
	fmt.Fprintf(a.stdout, "%s %s%s%s\n", scheduleName(sched.Space, sched.Name), would, change, state)
	return a.showFires(fires, sched.Timezone, c.Now())
}

// putOrSay puts a schedule, or answers what it would be.
func putOrSay(ctx context.Context, c fleet, s scheduleStore, spec scheduler.Spec, f *putFlags) (*scheduler.Schedule, scheduler.Change, error) {
	if !f.dryRun {
		return s.Put(ctx, f.owner, spec)
	}
	old, err := s.Get(ctx, spec.Space, spec.Name)
	if err != nil && !errors.Is(err, scheduler.ErrNotFound) && !errors.Is(err, scheduler.ErrUnreadable) {
		return nil, "", err
	}
	return scheduler.Changed(old, f.owner, spec, c.Now())
}
