package kvbucket

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jetcrew/jetcrew/pkg/kv"
)

// settle makes a write and does not rest until it is known what became of it, or cannot be known. It answers errGuard
// where another write came first: this one is not stored then, and never will be. An error that wraps kv.ErrUnknown leaves
// both open; any other means that it was not stored.
func (b *Bucket) settle(ctx context.Context, w *write) (uint64, error) {
	for try := 0; ; try++ {
		if try == 1 { // not before, since it costs as much as a timer
			var cancel context.CancelFunc
			ctx, cancel = bounded(ctx)
			defer cancel()
		}
		seq, err := b.publish(ctx, w, longer(b.timeout, try))
		switch {
		case err == nil:
			w.stored = seq
			return seq, nil
		case errors.Is(err, errBusy):
		case errors.Is(err, kv.ErrUnknown), w.doubt && errors.Is(err, errGuard):
			w.doubt = true
			seq, settled, jerr := b.resolve(ctx, w)
			if jerr != nil {
				return 0, fmt.Errorf("%w (after: %w)", jerr, err)
			}
			if settled {
				return seq, nil
			}
		case w.doubt:
			return 0, fmt.Errorf("%w: %w", kv.ErrUnknown, err)
		default:
			return 0, err
		}
		if perr := pause(ctx, try); perr != nil {
			if w.doubt {
				return 0, fmt.Errorf("%w: %w (last: %w)", kv.ErrUnknown, perr, err)
			}
			return 0, fmt.Errorf("%w (last: %w)", perr, err)
		}
	}
}

// resolve looks for a write that had no answer: it is stored, or it is not and may be tried once more, or the error is
// errGuard or kv.ErrUnknown.
func (b *Bucket) resolve(ctx context.Context, w *write) (seq uint64, stored bool, err error) {
	e, err := b.leaders(ctx, w.subject)
	if err != nil {
		return 0, false, fmt.Errorf("%w: %w", kv.ErrUnknown, err)
	}
	switch b.judge(w, e, time.Since(w.sent)) {
	case isStored:
		if e.nonce == w.nonce {
			w.stored = e.seq
		}
		return e.seq, true, nil
	case isOpen:
		w.guarded, w.guard = true, e.seq // whatever may still be on its way, only one of the two is taken
		return 0, false, nil
	case isLost:
		return 0, false, errGuard
	default:
		return 0, false, fmt.Errorf("%w: the key was written by others since", kv.ErrUnknown)
	}
}

// verdict is what a key's last message says of a write that had no answer.
type verdict int

const (
	isUnknown verdict = iota
	isStored
	isOpen // not stored so far; a try that is guarded by this message is safe
	isLost // not stored, and what it was guarded by is gone
)

const (
	// slack is how far the instant that a server notes may be from the store's clock as this process knows it, with room
	// to spare: it decides whether others wrote before or after.
	slack = 500 * time.Millisecond
	// skew is the same, as it is on a LAN: within it a lifetime counts as over.
	skew = 100 * time.Millisecond
)

// judge decides by the last message of the write's key, as the leader has it some time after the write was first sent.
//
// Nothing vanishes at once: a delete leaves a marker for MarkerTTL, and what lapses is there for its lifetime. So soon
// after the write, where its own lifetime is not over, a key without a message has had none; and one whose last message
// names the revision that it replaced has had nothing in between. (That overlooks a value that others wrote over ours,
// and that lapsed, all within the doubt.)
func (b *Bucket) judge(w *write, e *entry, elapsed time.Duration) verdict {
	if e.nonce == w.nonce {
		return isStored
	}
	over := !w.expires.IsZero() && !b.clock.Now().Before(w.expires.Add(-skew))
	soon := elapsed < b.cfg.MarkerTTL-slack && !over
	if w.plain {
		return judgePlain(w, e, soon, over)
	}
	switch {
	case e.seq == w.guard && e.seq != 0:
		return isOpen
	case w.follows(e):
		return isLost // the guard had gone before
	case e.seq == 0 && soon && w.guard == 0:
		return isOpen
	case e.seq == 0 && soon:
		return isLost
	case e.seq != 0 && e.guarded && e.guard == w.guard && (w.guard != 0 || soon):
		return isLost // it came right after what ours was to replace
	default:
		return isUnknown // ours may have been there in between
	}
}

// follows reports whether a message was there, for certain, before the write was sent. Where it is still a key's last, the
// write is not stored.
func (w *write) follows(e *entry) bool {
	return e.seq != 0 && (e.seq <= w.floor || e.stored.Before(w.began.Add(-slack)))
}

// judgePlain is judge for a write that is to replace whatever is there. What others stored after it was sent stands: ours
// either was there before, or counts as if it had been.
func judgePlain(w *write, e *entry, soon, over bool) verdict {
	switch {
	case w.marker && (e.seq == 0 || e.marker), over && e.seq == 0:
		return isStored // nothing is there, as it is to be
	case e.seq == 0 && soon:
		return isOpen
	case e.seq == 0:
		return isUnknown
	case w.guarded && e.seq == w.guard, w.follows(e):
		return isOpen
	case !e.guarded && e.again == 0 && e.stored.After(w.began.Add(slack)):
		return isStored
	case e.guarded && (e.guard != 0 && e.guard <= w.floor || w.guarded && e.guard == w.guard && e.guard != 0 || e.guard == 0 && soon):
		return isOpen // it came right after what was there before ours was sent
	default:
		return isUnknown
	}
}
