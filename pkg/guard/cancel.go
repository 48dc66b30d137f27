package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

// Cancel asks a run to stop, wherever in the fleet it goes on: its context ends within Config.Poll, or at the next Check.
// It answers true if the run goes on and is the caller's, also where it was asked before; to anyone else, as if there were
// no such run, false.
func (g *Guards) Cancel(ctx context.Context, space, caller, runID string) (bool, error) {
	if err := job.ValidateName("space", space, job.MaxName); err != nil {
		return false, err
	}
	if err := checkCaller(caller); err != nil {
		return false, err
	}
	if err := job.ValidateName("runId", runID, job.MaxName); err != nil {
		return false, err
	}
	ok, err := g.flag(ctx, space, caller, runID)
	if err != nil {
		return false, fmt.Errorf("guard: cancel run %q: %w", runID, err)
	}
	if ok {
		for _, r := range g.named(space, runID) {
			r.cancel(job.ErrCancelRequested) // at once, where it is near
		}
	}
	return ok, nil
}

// flag writes over what is known of a run that it is cancelled. Where it was not stored, or that is unknown, it is read
// again: the run may have ended, or have the flag.
func (g *Guards) flag(ctx context.Context, space, caller, runID string) (bool, error) {
	key := place(space, runID)
	last := errTurns
	for try := range claimTries {
		if try > 0 {
			if err := kv.Pause(ctx, try-1); err != nil {
				return false, fmt.Errorf("%w (last: %w)", err, last)
			}
		}
		raw, ok, err := g.cfg.Store.Get(ctx, key)
		if err != nil || !ok {
			return false, err
		}
		rec, err := decodeRecord(raw)
		if err != nil {
			return false, err
		}
		if rec.Caller != caller || rec.Space != space {
			return false, nil
		}
		if rec.Cancelled {
			return true, nil
		}
		lifetime, err := time.ParseDuration(rec.Lifetime)
		if err != nil || kv.CheckTTL(lifetime) != nil || lifetime == 0 {
			return false, fmt.Errorf("%w: lifetime %q", ErrForeign, rec.Lifetime)
		}
		rec.Cancelled = true
		flagged, err := rec.encode()
		if err != nil {
			return false, err
		}
		// The whole lifetime once more, since what is left of it is not known: the run removes it when it ends.
		ok, err = g.cfg.Store.Swap(ctx, key, &raw, flagged, lifetime)
		switch {
		case errors.Is(err, kv.ErrUnknown):
			last = err
		case err != nil:
			return false, err
		case ok:
			return true, nil
		}
	}
	return false, last
}

// named lists the runs of this process that go by an id and have begun.
func (g *Guards) named(space, runID string) []*Run {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []*Run
	for r := range g.runs {
		if r.info.Space == space && r.info.RunID == runID && r.begun {
			all = append(all, r)
		}
	}
	return all
}
