package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// outcomeError is a job that did not succeed, for whoever waited for it.
type outcomeError struct{ job *job.Job }

func (e outcomeError) Error() string {
	text := fmt.Sprintf("job %s is %s", e.job.Key(), e.job.Status)
	if e.job.Error != "" {
		text += ": " + e.job.Error
	}
	return text
}

// code is the exit code that says how the job ended.
func (e outcomeError) code() int {
	switch e.job.Status {
	case job.Failed:
		return exitJobFailed
	case job.Cancelled:
		return exitJobCancelled
	default:
		return exitJobDead
	}
}

// goneError is a job that was there, and whose record is gone: nobody knows how it ended.
type goneError struct {
	key job.Key
	err error
}

func (e goneError) Error() string {
	return fmt.Sprintf("job %s has ended and its queue keeps no record, or it was deleted: how it ended is not known", e.key)
}

func (e goneError) Unwrap() error { return e.err }

// errWaited is the end of a wait's patience.
var errWaited = errors.New("the job has not ended yet")

const waitHelp = `Exits with 0 if the job succeeded, 4 if it failed (it was refused), 5 if it is dead,
6 if it was cancelled, 7 if it has not ended in time, 3 if there is no such job, or if it
has ended and its queue keeps no record that says how.`

func (a *app) newJobWait() *cobra.Command {
	var key job.Key
	var timeout time.Duration
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "wait ID",
		Short: "Wait for a job's end and print its result",
		Long: `Waits until a job has ended and prints its result: text as it is, anything else as
JSON. With --json it prints the whole record.

` + waitHelp,
		Example: `  jetcrew job wait hello
  jetcrew job wait hello --timeout 1m --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			key.ID = args[0]
			if err := validKey(key); err != nil {
				return err
			}
			if timeout < 0 {
				return usagef("--timeout: must not be negative")
			}
			return a.withFleet(cmd, forever, func(ctx context.Context, c fleet) error {
				ctx, cancel := context.WithTimeout(ctx, waitLimit(timeout))
				defer cancel()
				j, err := c.Get(ctx, key)
				switch {
				case err == nil:
					return a.waitFor(ctx, c, j.Key(), true, asJSON)
				case errors.Is(err, job.ErrNotFound), errors.Is(err, job.ErrAmbiguous):
					return err
				default: // it may be back in time
					return a.waitFor(ctx, c, key, false, asJSON)
				}
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&key.Space, "space", job.DefaultSpace, "space of the job")
	f.StringVar(&key.Queue, "queue", "", "queue of the job (needed only if several queues have this id)")
	durationFlag(f, &timeout, "timeout", 0, "how long to wait (0: as long as it takes)")
	f.BoolVar(&asJSON, "json", false, "print the record as JSON")
	return cmd
}

// forever is longer than anybody waits.
const forever time.Duration = 1 << 62

// waitLimit is how long to wait for a job's end once there is a connection and, where one is put in, a job.
func waitLimit(timeout time.Duration) time.Duration {
	if timeout == 0 {
		return forever
	}
	return timeout
}

// waitFor waits for a job's end and prints what came of it. seen says that the job is known to have been there.
func (a *app) waitFor(ctx context.Context, c fleet, key job.Key, seen, asJSON bool) error {
	j, err := c.Wait(ctx, key)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %s", errWaited, a.whyNot(c, key))
	case seen && errors.Is(err, job.ErrNotFound):
		return goneError{key, err}
	case err != nil:
		return err
	}
	if asJSON {
		if err := a.printJob(j); err != nil {
			return err
		}
	} else if err := a.printResult(j); err != nil {
		return err
	}
	if j.Status != job.Succeeded {
		return outcomeError{j}
	}
	return nil
}

// whyNot says what the record knows of a job that has not ended in time.
func (a *app) whyNot(c fleet, key job.Key) string {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	j, err := c.Get(ctx, key)
	if err != nil {
		return key.ID
	}
	text := fmt.Sprintf("%s is %s", j.Key(), j.Status)
	if j.Error != "" {
		text += ": " + j.Error
	}
	return text
}

// printResult prints a result for the next program in a pipe.
func (a *app) printResult(j *job.Job) error {
	if len(j.Result) == 0 {
		return nil
	}
	var text string
	if json.Unmarshal(j.Result, &text) != nil { // no string: as it is
		text = string(j.Result)
	}
	if isTerminal(a.stdout) {
		text = safe(text)
	}
	_, err := fmt.Fprintln(a.stdout, text)
	return err
}
