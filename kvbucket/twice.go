package kvbucket

import (
	"context"
	"errors"
	"time"
)

// patience is how long a marker stays at most to outlast what it replaced.
const patience = 5 * time.Minute

// commit makes a write, and makes it twice where that keeps what it replaced from coming back. See settle for its errors.
//
// A server forgets that a message was replaced by another if that one has lapsed when it is killed: it reads all that is
// on its disk anew, and what was replaced is the newest then. So what lapses must not replace what would outlast it: a
// delete of a lasting value would be undone, and a lock that lapsed would be held again by whoever held it before. Written
// twice, the first of the two is what comes back, and lapses as well.
//
// It is no cure. The old value is still on the disk, and is what remains where the server was killed before, or has tidied
// away the first of the two and not the old one. To purge the old value while it is there would hold better, but a purge
// leaves no nonce to find it by, and for a moment nothing in place of a value that is to be replaced.
func (b *Bucket) commit(ctx context.Context, w *write) (uint64, error) {
	seq, err := b.settle(ctx, w)
	if err == nil && b.outlasted(w) {
		b.repeat(ctx, w)
	}
	return seq, err
}

// outlasted reports whether what a stored write replaced would be there longer than it, or may be.
func (b *Bucket) outlasted(w *write) bool {
	switch end := b.end(w); {
	case w.stored == 0, end.IsZero():
		return false
	case w.replaced == nil:
		return true
	case w.replaced.seq == 0, w.replaced.marker:
		return false
	default:
		return w.replaced.expires.IsZero() || w.replaced.expires.After(end)
	}
}

// end is when the server may remove a write that was sent, at the earliest; zero for never.
func (b *Bucket) end(w *write) time.Time {
	if w.marker {
		return w.began.Add(b.markerTTL(w, w.began))
	}
	return w.expires
}

// markerTTL is how long a marker is to stay. One that replaces what is over soon anyway stays until then, which saves it
// from being written twice.
func (b *Bucket) markerTTL(w *write, now time.Time) time.Duration {
	if w.replaced == nil || w.replaced.marker || w.replaced.expires.IsZero() {
		return b.cfg.MarkerTTL
	}
	left := w.replaced.expires.Sub(now)
	if left > max(patience, b.cfg.MarkerTTL) {
		return b.cfg.MarkerTTL
	}
	return max(left, b.cfg.MarkerTTL)
}

// repeat makes a write again over itself. That somebody else has written since is as good; and what was done stays done if
// this fails.
func (b *Bucket) repeat(ctx context.Context, w *write) {
	ctx, cancel := context.WithTimeout(ctx, maxTimeout)
	defer cancel()
	second := newWrite(w.subject)
	second.first = w
	second.value, second.marker, second.expires, second.replaced = w.value, w.marker, w.expires, w.replaced
	second.guarded, second.guard = true, w.stored
	if _, err := b.settle(ctx, second); err != nil && !errors.Is(err, errGuard) {
		b.log.Debug().Err(err).Str("subject", w.subject).Msg("what was replaced may come back if the server is killed: it was replaced once only")
	}
}
