package kv

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// expireTimeout is how long an increment tries to give a counter that it made its lifetime, also when its caller has left.
const expireTimeout = 5 * time.Second

// Increment adds to a counter, absent counting as zero, and answers the sum. Whoever makes the counter gives it its
// lifetime, and nobody extends it: a window that every hit refreshed would never close.
//
// With a lifetime the counter is made by one write that has it, so that a process that dies meanwhile leaves none that
// never lapses; only where there is a counter already is it a second call that adds. Should the counter lapse between
// the two, the second one makes it, which shows in its answering its own amount, and a third gives it the lifetime. (So
// a counter that has come back to exactly zero gets a new lifetime from the increment after that.) Where that third one
// fails the error is ErrUnknown: the amount is in, so who does it again adds it twice.
func (s *Space) Increment(ctx context.Context, key string, amount int64, ttl time.Duration) (int64, error) {
	composed, err := s.compose(s.values, key)
	if err != nil {
		return 0, s.failed("increment", key, err)
	}
	total, err := s.store.increment(ctx, composed, amount, ttl)
	if err != nil {
		return 0, s.failed("increment", key, err)
	}
	return total, nil
}

func (s *Store) increment(ctx context.Context, key string, amount int64, ttl time.Duration) (int64, error) {
	if ttl == 0 {
		return s.adapter.Increment(ctx, key, amount)
	}
	made, err := s.adapter.Swap(ctx, key, nil, strconv.FormatInt(amount, 10), ttl)
	if err != nil {
		return 0, err
	}
	if made {
		return amount, nil
	}
	total, err := s.adapter.Increment(ctx, key, amount)
	if err != nil {
		return 0, err
	}
	// An amount of 0 answers itself whenever it looks at a zero, and one that it made gets its lifetime from the next.
	if total != amount || amount == 0 {
		return total, nil
	}
	// A caller who leaves now is no reason for a window that never closes.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), expireTimeout)
	defer cancel()
	if _, err := s.adapter.Expire(ctx, key, ttl); err != nil {
		return 0, fmt.Errorf("%w: it was added, and the sum is %d, but the counter may be without its lifetime: %w", ErrUnknown, total, err)
	}
	return total, nil
}
