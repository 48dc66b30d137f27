package main

import (
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/pkg/metrics"
	"github.com/jetcrew/jetcrew/scheduler"
	"github.com/jetcrew/jetcrew/streams"
)

const (
	// sweepEvery is how often whoever leads repairs what crashes left.
	sweepEvery = 5 * time.Second
	// sweepTimeout bounds one round, well under the time after which a leader counts as hung.
	sweepTimeout = 40 * time.Second
)

// housekeeping is this process's part in what one process of the fleet is enough for: the repairs, and beside them the
// firing of schedules.
type housekeeping struct {
	election *scheduler.Election
	store    *streams.Store
	firer    *scheduler.Firer
	metrics  *metrics.Metrics
	log      zerolog.Logger
}

// newHousekeeping prepares to take part as the worker of the given id. What it does is measured.
func (a *app) newHousekeeping(ctx context.Context, c *client.Client, cfg *config.Config, id string, m *metrics.Metrics, log zerolog.Logger) (*housekeeping, error) {
	e, err := newElection(ctx, c, cfg, id, log)
	if err != nil {
		return nil, fmt.Errorf("housekeeping: %w", err)
	}
	schedules, err := openSchedules(ctx, c, cfg, log)
	if err != nil {
		return nil, fmt.Errorf("housekeeping: %w", err)
	}
	firer := scheduler.NewFirer(schedules, a.spans.fires(c.Store()), scheduler.FirerConfig{Observe: m.Fired, Logger: log})
	return &housekeeping{e, c.Store(), firer, m, log}, nil
}

func newElection(ctx context.Context, c *client.Client, cfg *config.Config, id string, log zerolog.Logger) (*scheduler.Election, error) {
	return scheduler.NewElection(ctx, c.Conn(), scheduler.Config{
		ID: id, Namespace: cfg.Namespace, Replicas: cfg.Replicas, Verify: cfg.Manage == string(streams.ManageVerify), Logger: log,
	})
}

// run takes part until ctx ends.
func (h *housekeeping) run(ctx context.Context) { h.election.Run(ctx, h.lead, h.fire) }

// fire makes the fires that are due. As one of the two tasks of who leads, it also says that this process does.
func (h *housekeeping) fire(ctx context.Context, alive func()) {
	h.metrics.Leading(true)
	defer h.metrics.Leading(false)
	h.firer.Run(ctx, alive)
}

// lead does rounds of housekeeping. An outage is logged when it begins, and when rounds work again.
func (h *housekeeping) lead(ctx context.Context, alive func()) {
	failed := 0
	for {
		alive()
		report, err := h.sweep(ctx)
		h.tell(report)
		if ctx.Err() != nil {
			return
		}
		failed = h.tellOutage(err, failed)
		if wait(ctx, sweepEvery) != nil {
			return
		}
	}
}

// tell says what a round has repaired. What it only found was told of by itself.
func (h *housekeeping) tell(report streams.SweepReport) {
	if report.Repaired() == 0 {
		return
	}
	line := h.log.Warn()
	for kind, n := range report.Kinds() {
		if n > 0 {
			line = line.Int(kind, n)
		}
	}
	line.Msg("housekeeping repaired what a crash or a fault had left")
}

// tellOutage says that rounds fail when they begin to, and how many did when they work again. It answers how many have
// failed so far.
func (h *housekeeping) tellOutage(err error, failed int) int {
	switch {
	case err != nil:
		if failed == 0 {
			h.log.Warn().Err(err).Msg("housekeeping does not work")
		}
		return failed + 1
	case failed > 0:
		h.log.Info().Int("failed", failed).Msg("housekeeping works again")
	}
	return 0
}

func (h *housekeeping) sweep(ctx context.Context) (streams.SweepReport, error) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	return h.store.Sweep(ctx)
}
