package scheduler

import (
	"fmt"
	"slices"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// Rarely tells of schedules that let more than a year pass, seen from an instant: most likely something else was meant.
func Rarely(specs []Spec, now time.Time) []string {
	var out []string
	for i := range specs {
		if w := rarely(&specs[i], now); w != "" {
			out = append(out, w)
		}
	}
	return out
}

// yearAtMost is more than a year, whatever leap days and clocks do.
const yearAtMost = 367 * 24 * time.Hour

func rarely(spec *Spec, now time.Time) string {
	fires, err := Preview(*spec, now, 2)
	if err != nil { // a put says why
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

// Unserved tells of schedules whose jobs no worker that is alive would run, as far as workers tell: a deployment may be
// about to start them.
func Unserved(specs []Spec, workers []job.Worker) []string {
	var out []string
	for i := range specs {
		if w := unserved(workers, &specs[i]); w != "" && !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

// unserved says what is missing among workers for a schedule's jobs to be run; nothing, if they are or may be.
func unserved(workers []job.Worker, spec *Spec) string {
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
