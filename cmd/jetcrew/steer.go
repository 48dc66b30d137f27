package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// operation is a command that does something to one job or to many.
type operation struct {
	op          job.Operation
	short, long string
	verb, past  string       // as people say them
	pastOfMany  string       // where it says more than past
	statuses    []job.Status // of many, where the flags name none
	one         func(job.Steerer) func(context.Context, job.Key) (job.Changed, error)
}

// The operations, as commands; read only.
var operations = []operation{
	{
		op: job.OpCancel, verb: "cancel", past: "cancelled", pastOfMany: "cancelled or told to stop", statuses: job.OpCancel.Statuses(),
		short: "End jobs that wait, and stop those that run",
		long: `A job that waits ends cancelled at once. One that runs is told to stop: its handler's
context ends within a second, and then the job; "jetcrew job wait" waits for that.`,
		one: func(c job.Steerer) func(context.Context, job.Key) (job.Changed, error) { return c.Cancel },
	},
	{
		// What has succeeded is not run again because somebody forgot to say which jobs are meant.
		op: job.OpRequeue, verb: "requeue", past: "requeued", statuses: []job.Status{job.Failed, job.Dead},
		short: "Run jobs again that have ended",
		long: `A job that has ended runs again, with all its attempts; its history stays. Many are
those that failed or are dead, unless --status names others.`,
		one: func(c job.Steerer) func(context.Context, job.Key) (job.Changed, error) { return c.Requeue },
	},
	{
		op: job.OpRunNow, verb: "run now", past: "started", statuses: job.OpRunNow.Statuses(),
		short: "Start jobs now that wait for their instant",
		long: `A job that waits for its instant, or for its next attempt, may start at once. The rest
of its life is as it would have been.`,
		one: func(c job.Steerer) func(context.Context, job.Key) (job.Changed, error) { return c.RunNow },
	},
	{
		op: job.OpDelete, verb: "delete", past: "deleted", statuses: job.OpDelete.Statuses(),
		short: "Delete the records of jobs that wait or have ended",
		long: `The record is gone, and its id may be used anew. A job that waits is never run. One that
runs is left alone: cancel it first.`,
		one: func(c job.Steerer) func(context.Context, job.Key) (job.Changed, error) { return c.Delete },
	},
}

const manyHelp = `Without an ID it is done to all jobs that the flags mean: one at least has to narrow them,
or --all says that all are meant. A terminal is asked first; elsewhere --yes is needed.
--dry-run only counts. Asking again does no harm, and goes on with what is left.

Exits with 0 if it is done (or there was nothing to do), 8 if the state of the one job does
not allow it, 3 if there is no such job, 2 if several queues have its id, 1 if some of many could not be changed.`

func (a *app) newOperation(o operation) *cobra.Command {
	var f bulkFlags
	cmd := &cobra.Command{
		Use:   string(o.op) + " ID | " + string(o.op) + " --queue Q ...",
		Short: o.short,
		Long:  o.long + "\n\n" + manyHelp,
		Example: fmt.Sprintf(`  jetcrew job %[1]s welcome-42 --queue mail
  jetcrew job %[1]s --queue mail --status %[2]s --dry-run
  jetcrew job %[1]s --all-spaces --type email --since 1h --yes`, o.op, o.statuses[0]),
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.operateMany(cmd, o, &f)
			}
			key, err := f.key(cmd, args[0])
			if err != nil {
				return err
			}
			return a.withFleet(cmd, requestTimeout, func(ctx context.Context, c fleet) error {
				return a.operateOne(ctx, o, o.one(c), key, f.json)
			})
		},
	}
	f.add(cmd, o)
	return cmd
}

// changedOutput is what became of one job as JSON.
type changedOutput struct {
	job.Key         `json:",inline"`
	Done            bool       `json:"done"`
	Status          job.Status `json:"status,omitzero"`
	CancelRequested bool       `json:"cancelRequested,omitzero"`
}

// unchangedError: the state of a job does not allow what was asked for.
type unchangedError struct{ text string }

func (e unchangedError) Error() string { return e.text }

func (a *app) operateOne(ctx context.Context, o operation, do func(context.Context, job.Key) (job.Changed, error), key job.Key, asJSON bool) error {
	ch, err := do(ctx, key)
	if err != nil {
		return err
	}
	if asJSON {
		if err := a.printJSONLine(changedOutput{ch.Key, ch.Done, ch.Status, ch.CancelRequested}); err != nil {
			return err
		}
	}
	switch {
	case !ch.Done:
		return unchangedError{o.whyNot(ch)}
	case asJSON:
		return nil
	case ch.CancelRequested:
		_, err = fmt.Fprintf(a.stdout, "%s is running, and is being stopped\n", safe(ch.Key.String()))
	default:
		_, err = fmt.Fprintf(a.stdout, "%s %s\n", safe(ch.Key.String()), o.past)
	}
	return err
}

// whyNot says why a job was left as it is.
func (o operation) whyNot(ch job.Changed) string {
	text := fmt.Sprintf("%s is %s", ch.Key, ch.Status)
	switch o.op {
	case job.OpCancel:
		switch {
		case ch.Status.Terminal():
			return text + ": it has ended"
		case ch.CancelRequested:
			return text + ", and is being stopped already"
		}
		return fmt.Sprintf("%s cannot be read as a job, so there is nothing to cancel: \"jetcrew job delete\" removes it", ch.Key)
	case job.OpRequeue:
		return text + ": only a job that has ended can be requeued"
	case job.OpRunNow:
		if ch.Status == job.Pending || ch.Status == job.Ready {
			return fmt.Sprintf("%s may start already: it waits for a free worker", ch.Key)
		}
		return text + ": only a job that waits for its instant can be started"
	default:
		return text + ": cancel it first"
	}
}

// operationOf is the command of an operation.
func operationOf(op job.Operation) operation {
	for _, o := range operations {
		if o.op == op {
			return o
		}
	}
	panic("no command for " + op) // the callers name their operation literally
}
