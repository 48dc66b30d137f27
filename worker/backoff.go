package worker

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// maxSpread is the longest random part of a wait.
const maxSpread = 30 * time.Second

var defaultRetry = RetryPolicy{Base: 30 * time.Second, Max: 15 * time.Minute}

// RetryPolicy says how long a failed attempt waits for the next one: Base, doubled per attempt, at most
// Max, plus a random part of up to the same again (30 s at most), so that what failed together does not
// come back together. Fields left zero are inherited: a job's from its type's, those from the worker's.
type RetryPolicy struct {
	Base time.Duration
	Max  time.Duration
	// Next, if given, decides instead: the attempt that failed counts from 1. What it answers is waited as
	// it is; less than nothing is nothing.
	Next func(attempt int, err error) time.Duration
}

func (p RetryPolicy) validate() error {
	switch {
	case p.Base < 0:
		return &job.FieldError{Field: "Retry.Base", Reason: fmt.Sprintf("must not be negative, not %s", p.Base)}
	case p.Max < 0:
		return &job.FieldError{Field: "Retry.Max", Reason: fmt.Sprintf("must not be negative, not %s", p.Max)}
	case p.Max > 0 && p.Base > p.Max:
		return &job.FieldError{Field: "Retry.Base", Reason: fmt.Sprintf("must not exceed Retry.Max (%s), not %s", p.Max, p.Base)}
	}
	return nil
}

// over is p, with what it leaves open taken from under.
func (p RetryPolicy) over(under RetryPolicy) RetryPolicy {
	switch {
	case p.Next != nil:
		return p
	case p.Base == 0 && p.Max == 0:
		return under
	case p.Max == 0:
		p.Max = max(under.Max, p.Base)
	case p.Base == 0:
		p.Base = min(under.Base, p.Max)
	}
	return p
}

// of is the policy of one job.
func (p RetryPolicy) of(j *job.Job) RetryPolicy {
	if j.Retry == nil {
		return p
	}
	return RetryPolicy{Base: max(j.Retry.Base, 0), Max: max(j.Retry.Max, 0)}.over(p)
}

// wait is how long to wait after the given attempt failed.
func (p RetryPolicy) wait(attempt int, err error) time.Duration {
	if p.Next != nil {
		return max(p.Next(attempt, err), 0)
	}
	return spread(p.step(attempt))
}

// step is the wait without its random part. It cannot overflow, however many attempts there were.
func (p RetryPolicy) step(attempt int) time.Duration {
	step := min(p.Base, p.Max)
	for ; attempt > 1 && step > 0 && step < p.Max; attempt-- {
		if step > p.Max/2 {
			return p.Max
		}
		step *= 2
	}
	return step
}

// spread adds the random part to a wait.
func spread(step time.Duration) time.Duration {
	if step <= 0 {
		return 0
	}
	part := time.Duration(rand.Int64N(int64(min(step, maxSpread)) + 1))
	return step + min(part, math.MaxInt64-step)
}
