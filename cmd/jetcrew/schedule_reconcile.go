package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/scheduler"
)

// putFile puts the schedules of a file, and deletes the owner's others if that was asked for.
func (a *app) putFile(cmd *cobra.Command, args []string, f *putFlags) error {
	if len(args) > 0 {
		return usagef("give a NAME or --file, not both")
	}
	for name := range strings.FieldsSeq(onePutFlags) {
		if cmd.Flags().Changed(name) {
			return usagef("--%s is for one schedule: with --file, say it in the file", name)
		}
	}
	if f.yes && !f.prune {
		return usagef("--yes goes with --prune: nothing else is asked")
	}
	if err := checkOwner(f.owner); err != nil {
		return err
	}
	file, err := a.openScheduleFile(f.file)
	if err != nil {
		return err
	}
	if cmd.Flags().Changed("owner") {
		file.owner = f.owner
	}
	switch {
	case f.prune && file.owner == "":
		return usagef("--prune deletes what the owner has no more: name the owner with --owner, or in the file")
	case f.prune && !f.yes && !f.dryRun && !a.asks():
		return usagef("--prune deletes schedules, and there is no terminal to ask: say --yes, or --dry-run to see which")
	}
	return a.withSchedules(cmd, forever, func(ctx context.Context, c fleet, s scheduleStore) error {
		plan, err := a.planFile(ctx, s, file, f.prune, c.Now())
		if err != nil {
			return err
		}
		if gone := deletions(plan); len(gone) > 0 && !f.yes && !f.dryRun {
			if ok, err := a.confirm(ctx, fmt.Sprintf("delete %s of %s: %s", schedules(len(gone)), safe(file.owner), shorten(strings.Join(gone, ", "), 400))); !ok {
				return err
			}
		}
		if !f.dryRun {
			if plan, err = a.carryOut(ctx, s, file, f.prune, plan); err != nil {
				return err
			}
		}
		return a.sayPlan(ctx, c, file, plan, f)
	})
}

// planFile is what a file comes to, by what is stored now. Another owner's schedule has nothing done at all.
func (a *app) planFile(ctx context.Context, s scheduleStore, file *scheduleFile, prune bool, now time.Time) ([]scheduler.Planned, error) {
	have := make(map[string]*scheduler.Schedule)
	var others []scheduler.Planned
	declared := file.names()
	for _, space := range file.spaces {
		l, err := s.List(ctx, scheduler.Filter{Space: space})
		if err != nil {
			return nil, err
		}
		a.warnUnreadable(l.Unreadable)
		for i := range l.Schedules {
			old := &l.Schedules[i]
			have[space+"\x00"+old.Name] = old
			if prune && old.Owner == file.owner && !declared[space+"\x00"+old.Name] {
				others = append(others, scheduler.Planned{Space: space, Name: old.Name, Change: scheduler.Deleted})
			}
		}
	}
	var plan []scheduler.Planned
	var taken []string
	for _, e := range file.entries {
		old := have[e.spec.Space+"\x00"+e.spec.Name]
		if old != nil && old.Owner != file.owner {
			taken = append(taken, fmt.Sprintf("%s/%s (%s)", e.spec.Space, e.spec.Name, ownerName(old.Owner)))
			continue
		}
		next, change, err := scheduler.Changed(old, file.owner, e.spec, now)
		if err != nil {
			return nil, err
		}
		plan = append(plan, scheduler.Planned{Space: next.Space, Name: next.Name, Change: change, NextRunAt: next.NextRunAt})
	}
	if len(taken) > 0 {
		return nil, fmt.Errorf("%w, and nothing was changed: %s; --owner says whose they are", scheduler.ErrOwned, strings.Join(taken, ", "))
	}
	return append(plan, others...), nil
}

// names are the schedules of a file, each as its space, a NUL and its name.
func (f *scheduleFile) names() map[string]bool {
	out := make(map[string]bool, len(f.entries))
	for _, e := range f.entries {
		out[e.spec.Space+"\x00"+e.spec.Name] = true
	}
	return out
}

func ownerName(owner string) string {
	if owner == "" {
		return "put by people"
	}
	return fmt.Sprintf("of %q", owner)
}

func schedules(n int) string {
	if n == 1 {
		return "1 schedule"
	}
	return fmt.Sprintf("%d schedules", n)
}

func deletions(plan []scheduler.Planned) []string {
	var out []string
	for _, ch := range plan {
		if ch.Change == scheduler.Deleted {
			out = append(out, scheduleName(ch.Space, ch.Name))
		}
	}
	return out
}

// carryOut does it, and answers what was really done: others may have been at it at the same time.
func (a *app) carryOut(ctx context.Context, s scheduleStore, file *scheduleFile, prune bool, plan []scheduler.Planned) ([]scheduler.Planned, error) {
	if !prune {
		for i, e := range file.entries {
			sched, change, err := s.Put(ctx, file.owner, e.spec)
			if err != nil {
				return nil, brokenOff(err, i)
			}
			plan[i].Change, plan[i].NextRunAt = change, sched.NextRunAt
		}
		return plan, nil
	}
	done := make(map[string]scheduler.Change)
	for i, space := range file.spaces {
		var specs []scheduler.Spec
		for _, e := range file.entries {
			if e.spec.Space == space {
				specs = append(specs, e.spec)
			}
		}
		r, err := s.Reconcile(ctx, space, file.owner, specs)
		if err != nil {
			return nil, brokenOff(err, i+len(r.Created)+len(r.Updated)+len(r.Deleted))
		}
		for change, names := range map[scheduler.Change][]string{
			scheduler.Created: r.Created, scheduler.Updated: r.Updated, scheduler.Unchanged: r.Unchanged, scheduler.Deleted: r.Deleted,
		} {
			for _, name := range names {
				done[space+"\x00"+name] = change
			}
		}
	}
	out := plan[:0]
	for _, ch := range plan {
		if change, ok := done[ch.Space+"\x00"+ch.Name]; ok {
			ch.Change = change
			out = append(out, ch)
		}
	}
	return out, nil // what was put after the plan was made, and is deleted with the rest, is left out
}

// brokenOff says that some of a file has been put, if it has.
func brokenOff(err error, changed int) error {
	if changed == 0 {
		return err
	}
	return fmt.Errorf("%w; a part of the file has been put: putting it again goes on with the rest", err)
}

// sayPlan prints what was done, or would be.
func (a *app) sayPlan(ctx context.Context, c fleet, file *scheduleFile, plan []scheduler.Planned, f *putFlags) error {
	specs := make([]scheduler.Spec, len(file.entries))
	for i, e := range file.entries {
		specs[i] = e.spec
	}
	warnings := doubts(ctx, c, specs)
	for _, w := range warnings {
		a.warn(w)
	}
	if f.json {
		return a.printJSON(scheduler.Plan{DryRun: f.dryRun, Schedules: plan, Warnings: warnings})
	}
	t := a.table("SCHEDULE", "CHANGE", "NEXT", "IN")
	n := make(map[scheduler.Change]int)
	for _, ch := range plan {
		n[ch.Change]++
		t.AppendRow(table.Row{scheduleName(ch.Space, ch.Name), ch.Change, instant(ch.NextRunAt), away(c.Now(), ch.NextRunAt)})
	}
	if len(plan) > 0 {
		t.Render()
	}
	would := ""
	if f.dryRun {
		would = "would be "
	}
	_, err := fmt.Fprintf(a.stdout, "%screated %d, updated %d, unchanged %d, deleted %d\n", would,
		n[scheduler.Created], n[scheduler.Updated], n[scheduler.Unchanged], n[scheduler.Deleted])
	return err
}
