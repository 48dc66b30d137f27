package guard

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

// Run is one that goes on. It is safe for concurrent use.
type Run struct {
	g       *Guards
	info    Info
	key     Key
	held    string          // what stands under the key while it is the run's
	place   string          // where the run is known
	known   []string        // what may stand there that is the run's to remove
	flagged bool            // it was cancelled before it began
	base    context.Context // that of Begin

	begun  bool // guarded by g.mu; from then on these do not change
	ctx    context.Context
	cancel context.CancelCauseFunc
	lapse  context.CancelFunc
	polled sync.WaitGroup

	ended sync.Once
	err   error // of its end
}

// Info says what the run is.
func (r *Run) Info() Info { return r.info }

// ID is the run's id.
func (r *Run) ID() string { return r.info.RunID }

// Context is that of Begin, and ends also when the run is cancelled (context.Cause is job.ErrCancelRequested), when it
// has taken too long (job.ErrTimeout), which is before others can have its key, and with the run.
func (r *Run) Context() context.Context { return r.ctx }

// margin is how long before its key lapses a run's context ends: those who judge lifetimes differ about the store's clock
// by a tenth of a second, and what has to stop takes time, too.
func margin(timeout time.Duration) time.Duration {
	return min(max(timeout/10, 250*time.Millisecond), 2*time.Second)
}

// start begins the run's context; its hold on the key counts from since on.
func (r *Run) start(ctx context.Context, since time.Time) {
	t := r.info.Timeout
	r.g.mu.Lock()
	ctx, r.cancel = context.WithCancelCause(ctx)
	r.ctx, r.lapse = context.WithDeadlineCause(ctx, since.Add(t-margin(t)), job.ErrTimeout)
	r.begun = true
	r.g.mu.Unlock()
	if r.flagged {
		r.cancel(job.ErrCancelRequested)
		return
	}
	r.polled.Go(r.poll)
}

// poll looks now and then whether the run was cancelled. A store that does not answer ends no run: it has its timeout.
func (r *Run) poll() {
	tick := time.NewTicker(r.g.cfg.Poll)
	defer tick.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-tick.C:
		}
		err := r.Check(r.ctx)
		switch {
		case r.ctx.Err() != nil:
			return
		case err != nil:
			r.g.outage.failed(err)
		default:
			r.g.outage.over()
		}
	}
}

// Check asks the store whether the run was cancelled: it is for a run to call between two steps, where it does not want to
// rely on its context, which learns of it within Config.Poll. It answers why the run's context has ended, if it has, or
// what the store could not answer.
func (r *Run) Check(ctx context.Context) error {
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	raw, ok, err := r.g.cfg.Store.Get(ctx, r.place)
	if err != nil {
		return fmt.Errorf("guard: check run %q: %w", r.info.RunID, err)
	}
	if !ok {
		return nil
	}
	there, err := decodeRecord(raw)
	if err != nil {
		return fmt.Errorf("guard: check run %q: %w", r.info.RunID, err)
	}
	if there.Cancelled {
		r.cancel(job.ErrCancelRequested)
		return context.Cause(r.ctx)
	}
	return nil
}

// End ends the run: its context ends, others may have its key, and its place among the caps is free. It does so also where
// the context has ended before. Only the first End or Finish counts; the others answer the same. The error, which wraps
// ErrNotReleased, means that the key is taken until the run's timeout; all else is done.
func (r *Run) End() error { return r.end(nil, false) }

// Finish is End for a run that has an answer: where its caller named its key and there is a replay window, it is kept, and
// whoever asks again within the window gets it. An answer that does not fit the store is not kept.
func (r *Run) Finish(result jsontext.Value) error { return r.end(result, true) }

func (r *Run) end(result jsontext.Value, finished bool) error {
	r.ended.Do(func() {
		defer r.g.dismiss(r)
		r.cancel(nil)
		r.lapse()
		r.polled.Wait()
		ctx, cancel := lasting(r.base)
		defer cancel()
		var errs []error
		if r.held != "" {
			errs = append(errs, r.letGo(ctx, result, finished))
		}
		errs = append(errs, r.g.release(ctx, r.place, r.known...))
		if err := errors.Join(errs...); err != nil {
			r.err = fmt.Errorf("guard: end run %q: %w", r.info.RunID, err)
		}
	})
	return r.err
}

// letGo gives up the key, and keeps the answer there if it is to be.
func (r *Run) letGo(ctx context.Context, result jsontext.Value, finished bool) error {
	if !finished || !r.key.named || r.g.cfg.ReplayWindow == 0 {
		return r.g.release(ctx, r.key.place, r.held)
	}
	rec, err := decodeRecord(r.held)
	if err != nil {
		return errors.Join(err, r.g.release(ctx, r.key.place, r.held))
	}
	rec.Ended, rec.Result = true, result
	kept, err := rec.encode()
	if err != nil {
		return errors.Join(fmt.Errorf("keep the result: %w", err), r.g.release(ctx, r.key.place, r.held))
	}
	_, err = retried(ctx, func() (bool, error) {
		return r.g.cfg.Store.Swap(ctx, r.key.place, &r.held, kept, r.g.cfg.ReplayWindow)
	})
	if errors.Is(err, kv.ErrTooLarge) {
		return r.g.release(ctx, r.key.place, r.held)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("keep the result: %w", err), r.g.release(ctx, r.key.place, r.held))
	}
	return nil
}
