package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// How long to wait between tries to write an outcome that the store refused for no lasting reason. (While
// it cannot be reached, Claim.Settle tries on by itself.)
const (
	settleRetry    = 100 * time.Millisecond
	maxSettleRetry = 5 * time.Second
)

// settle has an attempt's outcome written beside the slot, as soon as fewer than two slots' worth of the
// queue are being written. It answers false if the worker has ended.
func (q *queueRun) settle(a *attempt, o job.Outcome) bool {
	select {
	case q.writes <- struct{}{}:
	case <-q.w.live.Done():
		a.claim.Abandon()
		return false
	}
	q.w.tally.add(0, 0, 0, +1)
	go func() {
		defer q.w.tally.add(0, 0, 0, -1)
		defer func() { <-q.writes }()
		defer a.cancel(nil)
		q.write(q.w.live, a, o)
	}()
	return true
}

// write settles until it is settled, the claim is lost, or ctx ends, which is not the handler's: what a
// cancelled handler came to is to be written as well.
func (r *run) write(ctx context.Context, a *attempt, o job.Outcome) {
	a.writing = time.Now()
	pause := settleRetry
	for {
		rec, err := a.claim.Settle(ctx, o)
		switch {
		case err == nil:
			r.outage.ended()
			logOutcome(a, o)
			r.observed(a, resultOf(o, rec))
			return
		case errors.Is(err, job.ErrLeaseLost):
			r.outage.ended()
			a.event(zerolog.WarnLevel).Str("outcome", string(o.Status)).Msg("the job went to somebody else; its outcome is not kept")
			r.observed(a, ResultLost)
			a.claim.Abandon()
			return
		case errors.Is(err, job.ErrTooLarge) && o.Result != nil:
			// The work is done. To run it again would do it again, and its result would be no smaller.
			o.Error = fmt.Sprintf("the result of %d bytes was too large to keep", len(o.Result))
			o.Result = nil
			continue
		case errors.Is(err, job.ErrTooLarge), errors.As(err, new(*job.FieldError)):
			a.event(zerolog.ErrorLevel).Err(err).Msg("outcome cannot be written")
			r.observed(a, ResultUnwritten)
			a.claim.Abandon()
			return
		}
		text := r.cfg.redacted(err)
		r.outage.failed(text)
		select {
		case <-time.After(pause):
			pause = min(2*pause, maxSettleRetry)
			continue
		case <-a.lost:
		case <-ctx.Done():
		}
		a.event(zerolog.ErrorLevel).Str("error", text).Str("outcome", string(o.Status)).Msg("outcome was not written; the job will be redelivered")
		r.observed(a, ResultUnwritten)
		a.claim.Abandon()
		return
	}
}

func (a *attempt) event(level zerolog.Level) *zerolog.Event {
	return a.log.WithLevel(level).Stringer("job", a.key).Str("type", a.typ).Int("attempt", a.number)
}

func logOutcome(a *attempt, o job.Outcome) {
	switch {
	case o.Status == job.Succeeded && o.Error == "":
		a.event(zerolog.DebugLevel).Msg("succeeded")
	case o.Status == job.Succeeded:
		a.event(zerolog.WarnLevel).Str("error", o.Error).Msg("succeeded")
	case o.Status == job.Dead:
		a.event(zerolog.ErrorLevel).Str("error", o.Error).Msg("dead")
	case o.Status != job.Pending:
		a.event(zerolog.InfoLevel).Str("error", o.Error).Msg(string(o.Status))
	case o.Refund:
		a.event(zerolog.DebugLevel).Str("error", o.Error).Dur("delayMs", o.Delay).Msg("handed back")
	default:
		a.event(zerolog.WarnLevel).Str("error", o.Error).Dur("delayMs", o.Delay).Msg("attempt failed")
	}
}
