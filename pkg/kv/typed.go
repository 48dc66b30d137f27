package kv

import (
	"context"
	"time"
)

// Get is a key's value; false where there is none.
func Get[T any](ctx context.Context, s *Space, key string) (T, bool, error) {
	var value T
	ok, err := s.Get(ctx, key, &value)
	if err != nil || !ok {
		return *new(T), false, err
	}
	return value, true, nil
}

// Set stores a value of a known type; see Space.Set.
func Set[T any](ctx context.Context, s *Space, key string, value T, ttl time.Duration) error {
	return s.Set(ctx, key, value, ttl)
}

// Swap stores next if the key's value is what expected points to, or, expecting nil, if there is none; see Space.Swap.
func Swap[T any](ctx context.Context, s *Space, key string, expected *T, next T, ttl time.Duration) (bool, error) {
	if expected == nil {
		return s.swap(ctx, key, nil, next, ttl)
	}
	raw, err := encode(*expected)
	if err != nil {
		return false, s.failed("swap", key, err)
	}
	return s.swap(ctx, key, &raw, next, ttl)
}
