package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// bulkFlags are those of an operation on one job, or on many.
type bulkFlags struct {
	filter           filterFlags
	all, yes, dryRun bool
	limit            int
	json             bool
}

// manyFlags are the flags that make no sense with an ID.
const manyFlags = "all-spaces type status since until all dry-run limit"

func (f *bulkFlags) add(cmd *cobra.Command, o operation) {
	statuses := o.op.Statuses()
	if o.op != job.OpRunNow { // pending is both ready and due
		for _, s := range statuses {
			if s == job.Ready {
				statuses = append([]job.Status{job.Pending}, statuses...)
				break
			}
		}
	}
	f.filter.add(cmd, statuses)
	fl := cmd.Flags()
	fl.BoolVar(&f.all, "all", false, "all jobs of the space, or with --all-spaces of every space")
	fl.IntVar(&f.limit, "limit", 0, "stop after so many changes (0: none)")
	f.addRun(cmd)
}

// addRun adds what belongs to every change of many jobs.
func (f *bulkFlags) addRun(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.BoolVar(&f.yes, "yes", false, "do not ask")
	fl.BoolVar(&f.dryRun, "dry-run", false, "change nothing, only count")
	fl.BoolVar(&f.json, "json", false, "print JSON")
}

// key is the one job that is meant.
func (f *bulkFlags) key(cmd *cobra.Command, id string) (job.Key, error) {
	for name := range strings.FieldsSeq(manyFlags) {
		if cmd.Flags().Changed(name) {
			return job.Key{}, usagef("--%s is for many jobs: it does not go with an ID", name)
		}
	}
	if len(f.filter.spaces) > 1 {
		return job.Key{}, usagef("--space: a job is in one space")
	}
	filter, err := f.filter.filter(cmd)
	if err != nil {
		return job.Key{}, err
	}
	return job.Key{Queue: filter.Queue, Space: filter.Spaces[0], ID: id}, job.ValidateName("id", id, job.MaxName)
}

// operateMany does an operation to all jobs that the flags mean.
func (a *app) operateMany(cmd *cobra.Command, o operation, f *bulkFlags) error {
	if !f.all && !f.filter.narrows(cmd) {
		return usagef("%s needs an ID, or flags that say which jobs are meant, or --all", o.op)
	}
	filter, err := f.filter.filter(cmd)
	if err != nil {
		return err
	}
	req := job.BulkRequest{Operation: o.op, Filter: filter, Limit: f.limit, DryRun: f.dryRun}
	if len(filter.Statuses) == 0 {
		req.Filter.Statuses = o.statuses
	}
	if err := req.Validate(); err != nil {
		return err
	}
	if err := o.check(req.Filter.Statuses); err != nil {
		return err
	}
	if err := a.mayAsk(f); err != nil {
		return err
	}
	return a.withFleet(cmd, forever, func(ctx context.Context, c fleet) error {
		if err := f.filter.at(&req.Filter, c.Now()); err != nil {
			return err
		}
		return a.bulk(ctx, c, o, req, f)
	})
}

// check refuses statuses of jobs to which nothing would ever be done.
func (o operation) check(statuses []job.Status) error {
	allowed := job.Filter{Statuses: o.op.Statuses()}
	for _, s := range statuses {
		if !allowed.FitsStatus(s, job.Ready) && !allowed.FitsStatus(s, job.Due) {
			return usagef("--status: %s is for jobs that are %s, not for %s ones", o.op, joinStatuses(allowed.Statuses), s)
		}
	}
	return nil
}

// mayAsk refuses to change many jobs where nobody can be asked.
func (a *app) mayAsk(f *bulkFlags) error {
	if !f.yes && !f.dryRun && !a.asks() {
		return usagef("this changes many jobs, and there is no terminal to ask: say --yes, or --dry-run to count them")
	}
	return nil
}

// bulk asks if it has to, and does it.
func (a *app) bulk(ctx context.Context, s job.Steerer, o operation, req job.BulkRequest, f *bulkFlags) error {
	if !f.yes && !req.DryRun {
		count := req
		count.DryRun = true
		r, err := a.runBulk(ctx, s, count, "counting")
		if err != nil {
			return err
		}
		if r.Done == 0 {
			return a.printBulk(o, r, req, f.json)
		}
		question := fmt.Sprintf("%s %s %s", o.verb, jobs(r.Done), describe(&req.Filter))
		if ok, err := a.confirm(ctx, question); !ok {
			return err
		}
	}
	r, err := a.runBulk(ctx, s, req, string(o.op))
	if err != nil && r.Looked == 0 {
		return err
	}
	if err != nil && !req.DryRun { // what was under way just then is not counted
		fmt.Fprintf(a.stderr, "broken off after at least %s had been %s: asking again goes on with what is left\n", jobs(r.Done), o.many())
	}
	if perr := a.printBulk(o, r, req, f.json); perr != nil {
		return perr
	}
	switch {
	case err != nil:
		return err
	case r.Failed > 0:
		return fmt.Errorf("%s could not be changed: asking again does no harm, and helps once the reason is gone", jobs(r.Failed))
	}
	return nil
}

// runBulk does it with a bar.
func (a *app) runBulk(ctx context.Context, s job.Steerer, req job.BulkRequest, name string) (job.BulkResult, error) {
	bar := a.newProgress(0, name)
	defer bar.stop()
	req.Progress = func(r job.BulkResult) {
		bar.expect(r.ToLook)
		bar.set(r.Looked)
	}
	return s.Bulk(ctx, req)
}

// printBulk says what became of many jobs.
func (a *app) printBulk(o operation, r job.BulkResult, req job.BulkRequest, asJSON bool) error {
	if asJSON {
		return a.printJSON(r)
	}
	for _, e := range r.Errors {
		fmt.Fprintf(a.stderr, "%s: %s\n", safe(e.Key.String()), safe(reason(o, e)))
	}
	if n := r.Failed - len(r.Errors); len(r.Errors) > 0 && n > 0 {
		fmt.Fprintf(a.stderr, "and %d more\n", n)
	}
	switch {
	case req.DryRun:
		fmt.Fprintf(a.stdout, "would be %s: %s", o.many(), jobs(r.Done))
	case r.Matched == 0 && r.Done == 0 && r.Failed == 0:
		fmt.Fprintf(a.stdout, "no jobs %s", describe(&req.Filter))
	case o.pastOfMany != "":
		fmt.Fprintf(a.stdout, "%s %s", jobs(r.Done), o.pastOfMany)
	default:
		fmt.Fprintf(a.stdout, "%s %s", o.past, jobs(r.Done))
	}
	if r.Left > 0 {
		fmt.Fprintf(a.stdout, ", left %d that others changed first", r.Left)
	}
	if r.Failed > 0 {
		fmt.Fprintf(a.stdout, ", failed %d", r.Failed)
	}
	_, err := fmt.Fprintln(a.stdout)
	return err
}

// many is what was done to many jobs.
func (o operation) many() string {
	if o.pastOfMany != "" {
		return o.pastOfMany
	}
	return o.past
}

// reason is why a job could not be changed, without its name, which stands before it.
func reason(o operation, e job.BulkError) string {
	return strings.TrimPrefix(e.Error, fmt.Sprintf("%s %s: ", o.op, e.Key))
}

func jobs(n int) string {
	if n == 1 {
		return "1 job"
	}
	return fmt.Sprintf("%d jobs", n)
}
