package kvbucket

import (
	"context"
	"errors"
	"time"
)

func (b *Bucket) subject(key string) string { return b.prefix + encode(key) }

// Get implements kv.Adapter.
func (b *Bucket) Get(ctx context.Context, key string) (string, bool, error) {
	if err := b.begin(ctx, key, 0); err != nil {
		return "", false, failed("get", key, err)
	}
	e, err := b.nearest(ctx, b.subject(key))
	if err != nil {
		return "", false, failed("get", key, err)
	}
	if !e.there(b.clock.Now()) {
		return "", false, nil
	}
	return string(e.value), true, nil
}

// Set implements kv.Adapter. It is one plain publish: a guard would need a read before, and twice the time. Only a second
// try, after an answer that was lost, is guarded.
func (b *Bucket) Set(ctx context.Context, key, value string, ttl time.Duration) error {
	if err := b.begin(ctx, key, ttl); err != nil {
		return failed("set", key, err)
	}
	if err := b.fits(value); err != nil {
		return failed("set", key, err)
	}
	w := newWrite(b.subject(key))
	w.value, w.ttl = []byte(value), ttl
	if err := b.overwrite(ctx, w); err != nil {
		return failed("set", key, err)
	}
	return nil
}

// Delete implements kv.Adapter.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	if err := b.begin(ctx, key, 0); err != nil {
		return failed("delete", key, err)
	}
	w := newWrite(b.subject(key))
	w.marker = true
	if err := b.overwrite(ctx, w); err != nil {
		return failed("delete", key, err)
	}
	return nil
}

// DeleteIf implements kv.Adapter.
func (b *Bucket) DeleteIf(ctx context.Context, key, expected string) (bool, error) {
	if err := b.begin(ctx, key, 0); err != nil {
		return false, failed("delete", key, err)
	}
	ok, err := b.change(ctx, b.subject(key), func(w *write, e *entry, now time.Time) bool {
		w.marker = true
		return e.there(now) && string(e.value) == expected
	})
	if err != nil {
		return false, failed("delete", key, err)
	}
	return ok, nil
}

// Expire implements kv.Adapter.
func (b *Bucket) Expire(ctx context.Context, key string, ttl time.Duration) (bool, error) {
	if err := b.begin(ctx, key, ttl); err != nil {
		return false, failed("expire", key, err)
	}
	ok, err := b.change(ctx, b.subject(key), func(w *write, e *entry, now time.Time) bool {
		w.value, w.ttl = e.value, ttl
		return e.there(now)
	})
	if err != nil {
		return false, failed("expire", key, err)
	}
	return ok, nil
}

// Swap implements kv.Adapter.
func (b *Bucket) Swap(ctx context.Context, key string, expected *string, next string, ttl time.Duration) (bool, error) {
	if err := b.begin(ctx, key, ttl); err != nil {
		return false, failed("swap", key, err)
	}
	if err := b.fits(next); err != nil {
		return false, failed("swap", key, err)
	}
	ok, err := b.change(ctx, b.subject(key), func(w *write, e *entry, now time.Time) bool {
		w.value, w.ttl = []byte(next), ttl
		if !e.there(now) {
			return expected == nil
		}
		return expected != nil && string(e.value) == *expected
	})
	if err != nil {
		return false, failed("swap", key, err)
	}
	return ok, nil
}

// change reads a key from the leader and writes what decide makes of it at the revision that was read, or nothing where it
// answers false; again whenever somebody else wrote meanwhile. That includes the server, which removes what has lapsed.
func (b *Bucket) change(ctx context.Context, subject string, decide func(w *write, e *entry, now time.Time) bool) (bool, error) {
	for try := 0; ; try++ {
		if try == 1 {
			var cancel context.CancelFunc
			ctx, cancel = bounded(ctx)
			defer cancel()
		}
		e, err := b.leaders(ctx, subject)
		if err != nil {
			return false, err
		}
		w := over(subject, e)
		if !decide(w, e, b.clock.Now()) {
			return false, nil
		}
		_, err = b.commit(ctx, w)
		if !errors.Is(err, errGuard) {
			return err == nil, err
		}
	}
}

// overwrite makes a write that is to replace whatever is there.
func (b *Bucket) overwrite(ctx context.Context, w *write) error {
	w.plain = true
	_, err := b.commit(ctx, w)
	return err
}
