package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

const (
	claimTries   = 25
	claimTime    = 15 * time.Second // for a run to begin; whoever cannot by then is told so
	releaseTries = 5
	releaseTime  = 5 * time.Second // for what is to be done whether or not a run was cancelled
)

// errTurns: the key changed hands each time that it was looked at.
var errTurns = errors.New("lost every race")

// claim writes mine under a key where nothing is, or over what there is what over makes of it; over's error is answered as
// it is. It answers what stands there now, and from when on, by this process's monotonic clock: never later than by the
// store's.
//
// Where no answer came, the key is asked whether it has the very bytes, by swapping them for themselves, which the store
// decides as it decides all swaps. A key that may be held and is not wanted any more is given back.
func (g *Guards) claim(ctx context.Context, key, mine string, ttl time.Duration, over func(raw string) (string, error)) (string, time.Time, error) {
	var expected *string
	var unknown error // mine may stand there
	fail := func(err error) (string, time.Time, error) {
		if unknown == nil {
			return "", time.Time{}, err
		}
		cleaning, cancel := lasting(ctx)
		defer cancel()
		left := g.release(cleaning, key, mine)
		if !forCaller(err) {
			err = fmt.Errorf("%w (after: %w)", err, unknown)
		}
		return "", time.Time{}, errors.Join(err, left)
	}
	for try := range claimTries {
		if try > 0 {
			if err := kv.Pause(ctx, try-1); err != nil {
				return fail(err)
			}
		}
		since := time.Now()
		ok, err := g.cfg.Store.Swap(ctx, key, expected, mine, ttl)
		switch {
		case errors.Is(err, kv.ErrUnknown):
			unknown, expected = err, &mine
			continue
		case err != nil:
			return fail(err)
		case ok:
			return mine, since, nil
		}
		raw, there, err := g.cfg.Store.Get(ctx, key)
		if err != nil {
			return fail(err)
		}
		expected = nil
		if !there {
			continue
		}
		if raw != mine {
			next, err := over(raw)
			if err != nil {
				return fail(err)
			}
			mine = next
		}
		expected = &raw
	}
	return fail(errTurns)
}

// release removes the first of the values that stands under a key, and nothing else. Not to find one is no error: it has
// lapsed, or was taken over.
func (g *Guards) release(ctx context.Context, key string, values ...string) error {
	for _, value := range values {
		ok, err := retried(ctx, func() (bool, error) { return g.cfg.Store.DeleteIf(ctx, key, value) })
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNotReleased, err)
		}
		if ok {
			return nil
		}
	}
	return nil
}

// lasting goes on where ctx has ended, for a while.
func lasting(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
}

// retried does what may be done twice until its outcome is known: done the second time, it finds that it was done.
func retried(ctx context.Context, do func() (bool, error)) (bool, error) {
	for try := 0; ; try++ {
		ok, err := do()
		if !errors.Is(err, kv.ErrUnknown) || try == releaseTries {
			return ok, err
		}
		if perr := kv.Pause(ctx, try); perr != nil {
			return false, err
		}
	}
}

func duplicate() error {
	return job.Refuse(job.CodeDuplicate, "duplicate: the same is running already")
}
