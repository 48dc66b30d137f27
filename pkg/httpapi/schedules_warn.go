package httpapi

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/scheduler"
)

// doubts are what somebody should know of schedules that were put. They are no failures.
func (s schedules) doubts(ctx context.Context, now time.Time, specs []scheduler.Spec) []string {
	var out []string
	for i := range specs {
		if w := rarely(&specs[i], now); w != "" {
			out = append(out, w)
		}
	}
	if s.Queues == nil {
		return out
	}
	workers, err := s.Queues.Workers(ctx)
	if err != nil {
		return append(out, "which workers are alive could not be read")
	}
	for i := range specs {
		if w := unserved(workers, &specs[i]); w != "" && !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

// yearAtMost is more than a year, whatever leap days and clocks do.
const yearAtMost = 367 * 24 * time.Hour

// rarely tells of a schedule that lets more than a year pass: most likely something else was meant.
func rarely(spec *scheduler.Spec, now time.Time) string {
	fires, err := scheduler.Preview(*spec, now, 2)
	if err != nil { // the put has said why
		return ""
	}
	last := now
	for _, at := range fires {
		if at.Sub(last) > yearAtMost+spec.Jitter {
			return fmt.Sprintf("%s/%s does not fire every year: next at %s", spec.Space, spec.Name, fires[0].UTC().Format(job.TimeFormat))
		}
		last = at
	}
	return ""
}

// typesTold is how many types a worker tells of at most: of one that tells so many, nobody knows the others.
const typesTold = 100

// unserved says what is missing among the workers that are alive for a schedule's jobs to be run; nothing, if they are or
// may be. A deployment may be about to start them.
func unserved(workers []job.Worker, spec *scheduler.Spec) string {
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
		return "no worker that is alive takes jobs from the queue " + spec.Queue
	}
	return fmt.Sprintf("no worker that is alive on the queue %s handles the type %s", spec.Queue, spec.Type)
}
