package main

import (
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/scheduler"
	"github.com/jetcrew/jetcrew/streams"
)

const (
	// sweepEvery is how often whoever leads repairs what crashes left.
	sweepEvery = 5 * time.Second
	// sweepTimeout bounds one round, well under the time after which a leader counts as hung.
	sweepTimeout = 40 * time.Second
)

// housekeeping is this process's part in the repairs that one process of the fleet is enough for.
type housekeeping struct {
	election *scheduler.Election
	store    *streams.Store
	log      zerolog.Logger
}

// newHousekeeping prepares to take part as the worker of the given id.
func newHousekeeping(ctx context.Context, c *client.Client, cfg *config.Config, id string, log zerolog.Logger) (*housekeeping, error) {
	e, err := scheduler.NewElection(ctx, c.Conn(), scheduler.Config{
		ID: id, Namespace: cfg.Namespace, Replicas: cfg.Replicas, Verify: cfg.Manage == string(streams.ManageVerify), Logger: log,
	})
	if err != nil {
		return nil, fmt.Errorf("housekeeping: %w", err)
	}
	return &housekeeping{e, c.Store(), log}, nil
}

// run takes part until ctx ends.
func (h *housekeeping) run(ctx context.Context) { h.election.Run(ctx, h.lead) }

// lead does rounds of housekeeping. An error is logged when it begins, and when rounds work again.
func (h *housekeeping) lead(ctx context.Context, alive func()) {
	failing := false
	for {
		alive()
		report, err := h.sweep(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			h.log.Warn().Err(err).Msg("housekeeping does not work")
		case err == nil && failing:
			h.log.Info().Msg("housekeeping works again")
		}
		failing = err != nil
		if report.Repaired() > 0 {
			h.log.Warn().Int("lostReady", report.LostReady).Int("lateDue", report.LateDue).Int("older", report.Older).
				Msg("housekeeping repaired what a crash or a fault had left")
		}
		if wait(ctx, sweepEvery) != nil {
			return
		}
	}
}

func (h *housekeeping) sweep(ctx context.Context) (streams.SweepReport, error) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	return h.store.Sweep(ctx)
}
