package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
)

const (
	drainReport = 10 * time.Second // how often a drain says what it waits for
	settleTime  = 10 * time.Second // for the last outcomes, once a drain is past its timeout
)

// drain takes nothing new and waits for what runs and what is being settled. Past limit (0: none) the
// handlers are cancelled; those that ignore it for the grace are left behind, as are outcomes that cannot be
// written then.
func (r *run) drain(limit time.Duration) error {
	r.draining.Store(true)
	for _, q := range r.queues {
		r.w.tally.add(0, 0, 0, +1)
		go q.stopTaking()
	}
	idle := r.w.tally.awaitIdle()
	log := &r.cfg.Logger
	log.Info().Int("running", r.waitsFor()).Msg("stopping: nothing new is taken, what runs is waited for")

	report := time.NewTicker(drainReport)
	defer report.Stop()
	var tooLong, tooLate <-chan time.Time
	if limit > 0 {
		tooLong = time.After(limit)
	}
	for {
		select {
		case <-idle:
			if r.w.live.Err() != nil {
				return ErrKilled
			}
			if n := r.w.tally.stats().Stuck; n > 0 {
				return fmt.Errorf("%w: %d left behind", ErrStuck, n)
			}
			log.Info().Msg("stopped: nothing runs any more")
			return nil
		case <-r.w.live.Done():
			log.Warn().Int("running", r.w.tally.stats().Running).Msg("killed: what runs will be redelivered")
			return ErrKilled
		case <-report.C:
			log.Info().Int("running", r.waitsFor()).Int("settling", r.w.tally.stats().Settling).Msg("stopping: waiting")
		case <-tooLong:
			log.Warn().Int("running", r.waitsFor()).Dur("afterMs", limit).Msg("stopping took too long: handlers are cancelled")
			r.interrupt(job.ErrShutdown)
			tooLate = time.After(r.cfg.Grace + settleTime)
		case <-tooLate:
			return fmt.Errorf("worker: %d outcomes could not be written before it ended", r.w.tally.stats().Settling)
		}
	}
}

// waitsFor is how many handlers a drain waits for.
func (r *run) waitsFor() int {
	s := r.w.tally.stats()
	return s.Running - s.Stuck
}

// stopTaking drains the consumer. What cannot be handed back within a lease is redelivered anyway.
func (q *queueRun) stopTaking() {
	defer q.w.tally.add(0, 0, 0, -1)
	defer q.stopClaims()
	ctx, cancel := context.WithTimeout(q.w.live, q.lease())
	defer cancel()
	if err := q.consumer.Drain(ctx); err != nil {
		q.cfg.Logger.Warn().Str("error", q.cfg.redacted(err)).Str("queue", q.name).Msg("not all of what was not started could be handed back")
	}
}
