package kv_test

import (
	"context"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/jetcrew/jetcrew/pkg/kv"
)

// spy is an adapter that tells what it was asked, and lets a test step in between.
type spy struct {
	kv.Adapter
	before func(op, key string) error // may fail the call
	takes  time.Duration              // each way of a call

	mu    sync.Mutex
	calls []string
}

func (s *spy) call(op, key string) error {
	s.mu.Lock()
	s.calls = append(s.calls, op)
	s.mu.Unlock()
	time.Sleep(s.takes)
	if s.before != nil {
		return s.before(op, key)
	}
	return nil
}

// asked is what was asked since it was last asked for.
func (s *spy) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

func (s *spy) Get(ctx context.Context, key string) (string, bool, error) {
	if err := s.call("get", key); err != nil {
		return "", false, err
	}
	defer time.Sleep(s.takes)
	return s.Adapter.Get(ctx, key)
}

func (s *spy) Set(ctx context.Context, key, value string, ttl time.Duration) error {
	if err := s.call("set", key); err != nil {
		return err
	}
	return s.Adapter.Set(ctx, key, value, ttl)
}

func (s *spy) Delete(ctx context.Context, key string) error {
	if err := s.call("delete", key); err != nil {
		return err
	}
	return s.Adapter.Delete(ctx, key)
}

func (s *spy) DeleteIf(ctx context.Context, key, expected string) (bool, error) {
	if err := s.call("deleteIf", key); err != nil {
		return false, err
	}
	return s.Adapter.DeleteIf(ctx, key, expected)
}

func (s *spy) Increment(ctx context.Context, key string, amount int64) (int64, error) {
	if err := s.call("increment", key); err != nil {
		return 0, err
	}
	return s.Adapter.Increment(ctx, key, amount)
}

func (s *spy) Expire(ctx context.Context, key string, ttl time.Duration) (bool, error) {
	if err := s.call("expire", key); err != nil {
		return false, err
	}
	return s.Adapter.Expire(ctx, key, ttl)
}

func (s *spy) Swap(ctx context.Context, key string, expected *string, next string, ttl time.Duration) (bool, error) {
	if err := s.call("swap", key); err != nil {
		return false, err
	}
	defer time.Sleep(s.takes)
	return s.Adapter.Swap(ctx, key, expected, next, ttl)
}

func (s *spy) Keys(ctx context.Context, prefix string) iter.Seq2[string, error] {
	if err := s.call("keys", prefix); err != nil {
		return func(yield func(string, error) bool) { yield("", err) }
	}
	return s.Adapter.Keys(ctx, prefix)
}

func (s *spy) Wipe(ctx context.Context, prefix string) (int, error) {
	if err := s.call("wipe", prefix); err != nil {
		return 0, err
	}
	return s.Adapter.Wipe(ctx, prefix)
}

// newSpace is a space over a spied on store in memory, whose clock is the test's.
func newSpace(*testing.T) (*kv.Space, *spy, clocked) {
	memory := newClocked(kv.MemoryOptions{})
	adapter := &spy{Adapter: memory}
	return kv.New(adapter, kv.Options{}).Space("shop"), adapter, memory
}
