package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/scheduler"
)

// doubts are what somebody should know of schedules that were put. They are no failures.
func doubts(ctx context.Context, c *client.Client, specs []scheduler.Spec) []string {
	var out []string
	for i := range specs {
		if w := rarely(&specs[i], c.Now()); w != "" {
			out = append(out, w)
		}
	}
	return append(out, unserved(ctx, c, specs)...)
}

// yearAtMost is more than a year, whatever leap days and clocks do.
const yearAtMost = 367 * 24 * time.Hour

// rarely tells of a schedule that lets more than a year pass: most likely something else was meant.
func rarely(spec *scheduler.Spec, now time.Time) string {
	fires, err := scheduler.Preview(*spec, now, 2)
	if err != nil { // a put says why
		return ""
	}
	last := now
	for _, at := range fires {
		if at.Sub(last) > yearAtMost+spec.Jitter {
			return fmt.Sprintf("%s/%s does not fire every year: next at %s", spec.Space, spec.Name, instant(fires[0]))
		}
		last = at
	}
	return ""
}

// typesTold is how many types a worker tells of at most: of one that tells so many, nobody knows the others.
const typesTold = 100

// unserved warns of schedules whose jobs no worker that is alive would run, as far as workers tell: a deployment may
// be about to start them.
func unserved(ctx context.Context, c *client.Client, specs []scheduler.Spec) []string {
	workers, err := c.Workers(ctx)
	if err != nil {
		return []string{fmt.Sprintf("which workers are alive could not be read: %s", err)}
	}
	var out []string
	for i := range specs {
		if w := unservedBy(workers, &specs[i]); w != "" && !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

// unservedBy says what is missing among workers for a schedule's jobs to be run; nothing, if they are or may be.
func unservedBy(workers []job.Worker, spec *scheduler.Spec) string {
	served := false
	for _, w := range workers {
		for _, q := range w.Queues {
			if q.Queue != spec.Queue {
				continue
			}
			served = true
			if len(q.Types) == 0 || len(q.Types) >= typesTold || slices.Contains(q.Types, spec.Type) {
				return ""
			}
		}
	}
	if !served {
		return fmt.Sprintf("no worker that is alive takes jobs from the queue %s", spec.Queue)
	}
	return fmt.Sprintf("no worker that is alive on the queue %s handles the type %s", spec.Queue, spec.Type)
}

// ownerHint says what to do about a schedule of another owner.
func ownerHint(err error) error {
	if errors.Is(err, scheduler.ErrOwned) {
		return fmt.Errorf("%w: --owner says whose it is", err)
	}
	return err
}
