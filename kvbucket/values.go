package kvbucket

import (
	"context"
	"errors"
	"time"
)

func (b *Bucket) subject(key string) string { return b.prefix + encode(key) }

// Get implements kv.Adapter.
func (b *Bucket) Get(ctx context.Context, key string) (string, bool, error) {
	ctx, cancel, err := b.begin(ctx, key, 0)
	if err != nil {
		return "", false, failed("get", key, err)
	}
	defer cancel()
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
	ctx, cancel, err := b.begin(ctx, key, ttl)
	if err != nil {
		return failed("set", key, err)
	}
	defer cancel()
	if err := b.fits(value); err != nil {
		return failed("set", key, err)
	}
	w := newWrite(b.subject(key))
	w.value, w.expires = []byte(value), until(b.clock.Now(), ttl)
	if err := b.overwrite(ctx, w); err != nil {
		return failed("set", key, err)
	}
	return nil
}

// Delete implements kv.Adapter.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	ctx, cancel, err := b.begin(ctx, key, 0)
	if err != nil {
		return failed("delete", key, err)
	}
	defer cancel()
	w := newWrite(b.subject(key))
	w.marker = true
	if err := b.overwrite(ctx, w); err != nil {
		return failed("delete", key, err)
	}
	return nil
}

// DeleteIf implements kv.Adapter.
func (b *Bucket) DeleteIf(ctx context.Context, key, expected string) (bool, error) {
	ctx, cancel, err := b.begin(ctx, key, 0)
	if err != nil {
		return false, failed("delete", key, err)
	}
	defer cancel()
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
	ctx, cancel, err := b.begin(ctx, key, ttl)
	if err != nil {
		return false, failed("expire", key, err)
	}
	defer cancel()
	ok, err := b.change(ctx, b.subject(key), func(w *write, e *entry, now time.Time) bool {
		w.value, w.expires = e.value, until(now, ttl)
		return e.there(now)
	})
	if err != nil {
		return false, failed("expire", key, err)
	}
	return ok, nil
}

// Swap implements kv.Adapter.
func (b *Bucket) Swap(ctx context.Context, key string, expected *string, next string, ttl time.Duration) (bool, error) {
	ctx, cancel, err := b.begin(ctx, key, ttl)
	if err != nil {
		return false, failed("swap", key, err)
	}
	defer cancel()
	if err := b.fits(next); err != nil {
		return false, failed("swap", key, err)
	}
	ok, err := b.change(ctx, b.subject(key), func(w *write, e *entry, now time.Time) bool {
		w.value, w.expires = []byte(next), until(now, ttl)
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
	for {
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
