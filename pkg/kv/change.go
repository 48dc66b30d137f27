package kv

import (
	"context"
	"math/rand/v2"
	"time"
)

// changeTries is how many races a change loses before it is refused.
const changeTries = 25

// Lifetime works out a lifetime from the value that is written; nil, or an answer of 0, is none.
type Lifetime[T any] func(written T) time.Duration

// Lasting is the lifetime that is the same for every value.
func Lasting[T any](ttl time.Duration) Lifetime[T] {
	return func(T) time.Duration { return ttl }
}

// Change reads a key's value, lets fn answer the next one, and writes that only over what it read, with the lifetime
// given. It answers what it wrote.
//
// fn is given nil where there is no value; where it answers nil, or an error, nothing is written, and Change answers the
// same. Since somebody else may write in between, fn is called again, with the new value, up to 25 times: so it should
// do nothing but work out the next value. After the last of them Change answers a *job.Refusal, which may be shown to a
// visitor (it names no key); its code is over_capacity, so a handler that returns it gets its job back for later.
//
// Changes of a key through one Store take turns, for up to a second each: so only who writes past it, such as another
// process, can make one lose.
func Change[T any](ctx context.Context, s *Space, key string, fn func(current *T) (*T, error), lifetime Lifetime[T]) (*T, error) {
	composed, err := s.compose(s.values, key)
	if err != nil {
		return nil, s.failed("change", key, err)
	}
	var written *T
	err = s.change(ctx, key, composed, func(raw *string) (*next, error) {
		var current *T
		if raw != nil {
			current = new(T)
			if err := decode(*raw, current); err != nil {
				return nil, s.failed("change", key, err)
			}
		}
		var err error
		if written, err = fn(current); err != nil || written == nil {
			return nil, err
		}
		value, err := encode(*written)
		if err != nil {
			return nil, s.failed("change", key, err)
		}
		n := &next{value: &value}
		if lifetime != nil {
			n.ttl = lifetime(*written)
		}
		return n, nil
	})
	if err != nil {
		return nil, err
	}
	return written, nil
}

// next is what a change writes: a value, or, with none, that the key is removed.
type next struct {
	value *string
	ttl   time.Duration
}

// change lets decide answer what is to be written over the very bytes read, nil for nothing, until no race is lost. What
// decide fails with is answered as it is.
func (s *Space) change(ctx context.Context, key, composed string, decide func(raw *string) (*next, error)) error {
	leave, err := s.store.lines.join(ctx, composed)
	if err != nil {
		return s.failed("change", key, err)
	}
	defer leave()
	for n := range changeTries {
		if n > 0 {
			if err := Pause(ctx, n-1); err != nil {
				return s.failed("change", key, err)
			}
		}
		var read *string
		raw, ok, err := s.store.adapter.Get(ctx, composed)
		if err != nil {
			return s.failed("change", key, err)
		}
		if ok {
			read = &raw
		}
		write, err := decide(read)
		if err != nil || write == nil {
			return err
		}
		won, err := s.store.write(ctx, composed, read, write)
		if err != nil {
			return s.failed("change", key, err)
		}
		if won {
			return nil
		}
	}
	return s.store.busy
}

// write writes over what was read, and answers whether that was still there.
func (s *Store) write(ctx context.Context, key string, read *string, write *next) (bool, error) {
	switch {
	case write.value != nil:
		return s.adapter.Swap(ctx, key, read, *write.value, write.ttl)
	case read != nil:
		return s.adapter.DeleteIf(ctx, key, *read)
	}
	return true, nil // there is nothing, and nothing there shall be
}

// Pause waits after so many races for a key that were lost before this one, at random, so that those who met once do not
// meet again: up to 5 ms after the first one, 5 more after each, and never more than 50. Its error is ctx's.
func Pause(ctx context.Context, lost int) error {
	longest := min(5+5*time.Duration(lost), 50) * time.Millisecond
	t := time.NewTimer(rand.N(longest + 1))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
