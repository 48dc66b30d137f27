package kv_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/kv"
)

func TestACountersLifetimeIsSetOnce(t *testing.T) {
	space, _, memory := newSpace(t)
	ctx := t.Context()
	hit := func(amount int64) int64 {
		n, err := space.Increment(ctx, "hits", amount, time.Minute)
		require.NoError(t, err)
		return n
	}
	require.EqualValues(t, 1, hit(1))
	for i := range 5 {
		memory.Advance(10 * time.Second)
		require.EqualValues(t, i+2, hit(1))
	}
	memory.Advance(10 * time.Second)
	require.EqualValues(t, 3, hit(3), "the window closed a minute after the first hit")
	memory.Advance(59 * time.Second)
	require.EqualValues(t, 4, hit(1))
	memory.Advance(time.Second)
	_, ok, err := kv.Get[int64](ctx, space, "hits")
	require.NoError(t, err)
	require.False(t, ok)

	_, err = space.Increment(ctx, "stays", 1, 0)
	require.NoError(t, err)
	n, err := space.Increment(ctx, "stays", 1, time.Second)
	require.NoError(t, err)
	require.EqualValues(t, 2, n)
	memory.Advance(time.Hour)
	n, err = space.Increment(ctx, "stays", 0, 0)
	require.NoError(t, err)
	require.EqualValues(t, 2, n, "who did not make it gives it none")

	_, err = space.Increment(ctx, "hits", 1, -time.Second)
	require.ErrorIs(t, err, kv.ErrTTL)
	require.NoError(t, space.Set(ctx, "text", "no number", 0))
	_, err = space.Increment(ctx, "text", 1, time.Second)
	require.ErrorIs(t, err, kv.ErrNotInteger)
	require.EqualError(t, err, `kv: increment "text" in space "shop": increment "v/shop/text": not an integer: the value is none of 64 bits`)
}

// A process that dies after any of its calls leaves no counter that never lapses.
func TestACounterIsMadeWithItsLifetime(t *testing.T) {
	space, adapter, memory := newSpace(t)
	ctx := t.Context()
	dead := errors.New("died here")
	adapter.before = func(op, _ string) error {
		if op != "swap" {
			return dead
		}
		return nil
	}
	n, err := space.Increment(ctx, "hits", 5, time.Minute)
	require.NoError(t, err, "one call makes it")
	require.EqualValues(t, 5, n)
	memory.Advance(time.Minute)
	_, ok, err := memory.Get(ctx, "v/shop/hits")
	require.NoError(t, err)
	require.False(t, ok)
}

func TestACounterThatLapsesMeanwhileIsMadeAgain(t *testing.T) {
	space, adapter, memory := newSpace(t)
	ctx := t.Context()
	_, err := space.Increment(ctx, "hits", 7, time.Minute)
	require.NoError(t, err)
	adapter.asked()
	adapter.before = func(op, _ string) error {
		if op == "increment" {
			memory.Advance(time.Minute)
		}
		return nil
	}
	n, err := space.Increment(ctx, "hits", 2, time.Minute)
	require.NoError(t, err)
	require.EqualValues(t, 2, n)
	require.Equal(t, []string{"swap", "increment", "expire"}, adapter.asked())
	adapter.before = nil
	memory.Advance(59 * time.Second)
	n, err = space.Increment(ctx, "hits", 1, time.Minute)
	require.NoError(t, err)
	require.EqualValues(t, 3, n)
	memory.Advance(time.Second)
	n, err = space.Increment(ctx, "hits", 1, time.Minute)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
}

func TestLookingAtACounterDoesNotExtendIt(t *testing.T) {
	space, _, memory := newSpace(t)
	ctx := t.Context()
	for range 3 {
		n, err := space.Increment(ctx, "hits", 0, time.Minute)
		require.NoError(t, err)
		require.Zero(t, n)
		memory.Advance(20 * time.Second)
	}
	_, ok, err := kv.Get[int64](ctx, space, "hits")
	require.NoError(t, err)
	require.False(t, ok, "a minute has passed")
}

func TestConcurrentHitsAreCountedOnce(t *testing.T) {
	space, _, _ := newSpace(t)
	var all sync.WaitGroup
	var mu sync.Mutex
	seen := map[int64]bool{}
	for range 20 {
		all.Go(func() {
			for range 20 {
				n, err := space.Increment(t.Context(), "hits", 1, time.Minute)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if seen[n] {
					t.Errorf("%d was answered twice", n)
				}
				seen[n] = true
				mu.Unlock()
			}
		})
	}
	all.Wait()
	require.Len(t, seen, 400)
	require.True(t, seen[1] && seen[400])
}

// What was added is not to be added again, and what has a window is not to stay for ever.
func TestAnIncrementWhoseLifetimeCannotBeSetIsOfUnknownOutcome(t *testing.T) {
	t.Parallel()
	space, adapter, memory := newSpace(t)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	lapsing := func(fail error) func(op, key string) error { // between the two calls
		return func(op, _ string) error {
			switch op {
			case "increment":
				memory.Advance(2 * time.Minute)
			case "expire":
				return fail
			}
			return nil
		}
	}
	_, err := space.Increment(ctx, "hits", 1, time.Minute)
	require.NoError(t, err)
	adapter.before = lapsing(errors.New("no answer"))
	_, err = space.Increment(ctx, "hits", 7, time.Minute)
	require.ErrorIs(t, err, kv.ErrUnknown)
	require.ErrorContains(t, err, "the sum is 7")
	require.ErrorContains(t, err, "no answer")

	adapter.before = nil
	require.NoError(t, space.Delete(ctx, "hits"))
	_, err = space.Increment(ctx, "hits", 1, time.Minute)
	require.NoError(t, err)
	adapter.before = func(op, key string) error {
		if op == "expire" {
			leave()
		}
		return lapsing(nil)(op, key)
	}
	n, err := space.Increment(ctx, "hits", 7, time.Minute)
	require.NoError(t, err, "it is set though the caller leaves meanwhile")
	require.EqualValues(t, 7, n)
	memory.Advance(2 * time.Minute)
	there, err := space.Get(t.Context(), "hits", new(int))
	require.NoError(t, err)
	require.False(t, there)
}
