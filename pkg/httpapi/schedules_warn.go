package httpapi

import (
	"context"
	"time"

	"github.com/jetcrew/jetcrew/scheduler"
)

// doubts are what somebody should know of schedules that were put. They are no failures.
func (s schedules) doubts(ctx context.Context, now time.Time, specs []scheduler.Spec) []string {
	out := scheduler.Rarely(specs, now)
	if s.Queues == nil {
		return out
	}
	workers, err := s.Queues.Workers(ctx)
	if err != nil {
		return append(out, "which workers are alive could not be read")
	}
	return append(out, scheduler.Unserved(specs, workers)...)
}
