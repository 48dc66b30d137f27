package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jetcrew/jetcrew/scheduler"
)

// doubts are what somebody should know of schedules that were put. They are no failures.
func doubts(ctx context.Context, c fleet, specs []scheduler.Spec) []string {
	out := scheduler.Rarely(specs, c.Now())
	workers, err := c.Workers(ctx)
	if err != nil {
		return append(out, fmt.Sprintf("which workers are alive could not be read: %s", err))
	}
	return append(out, scheduler.Unserved(specs, workers)...)
}

// ownerHint says what to do about a schedule of another owner.
func ownerHint(err error) error {
	if errors.Is(err, scheduler.ErrOwned) {
		return fmt.Errorf("%w: --owner says whose it is", err)
	}
	return err
}
