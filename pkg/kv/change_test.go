package kv_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

func add(n int) func(*int) (*int, error) {
	return func(current *int) (*int, error) {
		if current == nil {
			return new(n), nil
		}
		return new(*current + n), nil
	}
}

func TestChangeAnswersWhatItWrote(t *testing.T) {
	space, _, memory := newSpace(t)
	ctx := t.Context()
	for want := 1; want <= 3; want++ {
		got, err := kv.Change(ctx, space, "k", add(1), nil)
		require.NoError(t, err)
		require.Equal(t, want, *got)
	}
	got, err := kv.Change(ctx, space, "k", func(*int) (*int, error) { return nil, nil }, kv.Lasting[int](time.Second))
	require.NoError(t, err)
	require.Nil(t, got)
	memory.Advance(time.Hour)
	n, _, err := kv.Get[int](ctx, space, "k")
	require.NoError(t, err)
	require.Equal(t, 3, n, "nothing was written, no lifetime either")

	refused := job.Refuse("sold_out", "There are none left.")
	got, err = kv.Change(ctx, space, "k", func(*int) (*int, error) { return new(9), refused }, nil)
	require.Nil(t, got)
	require.Equal(t, refused, err, "what fn fails with is the caller's own")
	n, _, err = kv.Get[int](ctx, space, "k")
	require.NoError(t, err)
	require.Equal(t, 3, n)

	require.NoError(t, space.Set(ctx, "text", "no number", 0))
	_, err = kv.Change(ctx, space, "text", add(1), nil)
	require.ErrorContains(t, err, `kv: change "text" in space "shop": `)
	_, err = kv.Change(ctx, space, "new", func(*any) (*any, error) { return new(any(func() {})), nil }, nil)
	require.ErrorContains(t, err, `kv: change "new" in space "shop": `, "no JSON can be made of it")
}

func TestALifetimeMayComeOfTheValueWritten(t *testing.T) {
	space, _, memory := newSpace(t)
	ctx := t.Context()
	seconds := func(n int) time.Duration { return time.Duration(n) * time.Second }
	_, err := kv.Change(ctx, space, "k", add(5), seconds)
	require.NoError(t, err)
	memory.Advance(4 * time.Second)
	_, err = kv.Change(ctx, space, "k", add(1), seconds)
	require.NoError(t, err)
	memory.Advance(5 * time.Second)
	n, ok, err := kv.Get[int](ctx, space, "k")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, 6, n)
	memory.Advance(time.Second)
	got, err := kv.Change(ctx, space, "k", add(1), kv.Lasting[int](time.Minute))
	require.NoError(t, err)
	require.Equal(t, 1, *got, "it had lapsed")
	_, err = kv.Change(ctx, space, "k", add(1), nil)
	require.NoError(t, err)
	memory.Advance(time.Hour)
	n, _, err = kv.Get[int](ctx, space, "k")
	require.NoError(t, err)
	require.Equal(t, 2, n, "none given is none")
	_, err = kv.Change(ctx, space, "k", add(1), kv.Lasting[int](-1))
	require.ErrorIs(t, err, kv.ErrTTL)
}

func TestChangeHandsSwapTheVeryBytesItRead(t *testing.T) {
	space, _, memory := newSpace(t)
	ctx := t.Context()
	for _, raw := range []string{` { "n" : 1.50, "é":"\u00e9" } `, `{"n":1e2}`, "plain text", "", "\xff", `{"a":1,"a":2}`} {
		require.NoError(t, memory.Set(ctx, "v/shop/k", raw, 0))
		_, err := kv.Change(ctx, space, "k", func(current *any) (*any, error) { return current, nil }, nil)
		if raw == "\xff" { // which cannot be written as JSON
			require.Error(t, err)
			continue
		}
		require.NoError(t, err, "%q", raw)
	}
	for _, raw := range []string{` [ {"id":"a","score":1.0,"value":{"x" : 1}}, 5 ] `, "no list", `{"id":"a"}`} {
		require.NoError(t, memory.Set(ctx, "list/shop/l", raw, 0))
		stored, _, err := space.List("l").Put(ctx, "b", 2, nil)
		require.NoError(t, err, "%q", raw)
		require.True(t, stored)
	}
}

func TestALostRaceIsRunAgain(t *testing.T) {
	space, adapter, memory := newSpace(t)
	ctx := t.Context()
	lost := 0
	adapter.before = func(op, key string) error {
		if op == "swap" && lost < 3 {
			lost++
			return memory.Set(ctx, key, fmt.Sprint(100*lost), 0)
		}
		return nil
	}
	var saw []any
	got, err := kv.Change(ctx, space, "k", func(current *int) (*int, error) {
		if current == nil {
			saw = append(saw, nil)
		} else {
			saw = append(saw, *current)
		}
		return add(1)(current)
	}, nil)
	require.NoError(t, err)
	require.Equal(t, 301, *got)
	require.Equal(t, []any{nil, 100, 200, 300}, saw)
	require.Equal(t, []string{"get", "swap", "get", "swap", "get", "swap", "get", "swap"}, adapter.asked())
}

func TestAfter25LostRacesAVisitorIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := kv.NewMemory(kv.MemoryOptions{})
		adapter := &spy{Adapter: memory}
		space := kv.New(adapter, kv.Options{}).Space("secret space")
		var at []time.Time
		adapter.before = func(op, key string) error {
			switch op {
			case "get":
				at = append(at, time.Now())
			case "swap":
				return memory.Set(t.Context(), key, fmt.Sprint(len(at)), 0)
			}
			return nil
		}
		for name, op := range map[string]func() error{
			"change": func() error { _, err := kv.Change(t.Context(), space, "secret key", add(0), nil); return err },
			"put":    func() error { _, _, err := space.List("secret key").Put(t.Context(), "a", 1, nil); return err },
		} {
			at = nil
			err := op()
			var refusal *job.Refusal
			require.ErrorAs(t, err, &refusal, name)
			require.Equal(t, job.CodeOverCapacity, refusal.Code)
			require.True(t, refusal.Code.NotNow(), "a job that returns it comes back")
			require.Equal(t, "Too much is going on at once. Please try again in a moment.", err.Error())
			require.Len(t, at, 25, "tries of %s", name)
			distinct := map[time.Duration]bool{}
			for n := range at[1:] {
				waited := at[n+1].Sub(at[n])
				require.LessOrEqual(t, waited, min(5+5*time.Duration(n), 50)*time.Millisecond, "wait %d", n)
				require.GreaterOrEqual(t, waited, time.Duration(0))
				distinct[waited] = true
			}
			require.Greater(t, len(distinct), 12, "waits are random")
			require.Equal(t, at[24], time.Now(), "there is no wait after the last try")
		}
		busy := kv.New(adapter, kv.Options{Busy: "Einen Moment."}).Space("s")
		_, err := kv.Change(t.Context(), busy, "k", add(0), nil)
		require.EqualError(t, err, "Einen Moment.")
	})
}

func TestAChangeEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := kv.NewMemory(kv.MemoryOptions{})
		adapter := &spy{Adapter: memory}
		store := kv.New(adapter, kv.Options{})
		space := store.Space("s")
		ctx, cancel := context.WithCancel(t.Context())
		tries := 0
		adapter.before = func(op, key string) error {
			if op != "swap" {
				return nil
			}
			if tries++; tries == 20 {
				cancel()
			}
			return memory.Set(t.Context(), key, fmt.Sprint(tries), 0)
		}
		_, err := kv.Change(ctx, space, "k", add(0), nil)
		require.ErrorIs(t, err, context.Canceled)
		var refusal *job.Refusal
		require.False(t, errors.As(err, &refusal))
		require.Equal(t, 20, tries)

		// Nor does it wait for its turn any longer.
		adapter.before = nil
		holds, release := make(chan struct{}), make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() {
			_, err := kv.Change(t.Context(), space, "k", func(*int) (*int, error) {
				close(holds)
				<-release
				return nil, nil
			}, nil)
			if err != nil {
				t.Error(err)
			}
		})
		<-holds
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err = kv.Change(short, space, "k", add(1), nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		close(release)
		all.Wait()
		require.Zero(t, store.Lines(), "nobody is left in a line")
	})
}

func TestAHundredWritersOfOneKeyAllSucceed(t *testing.T) {
	for _, latency := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond} {
		t.Run(fmt.Sprint(latency), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				adapter := &spy{Adapter: kv.NewMemory(kv.MemoryOptions{}), takes: latency}
				store := kv.New(adapter, kv.Options{})
				space := store.Space("s")
				var all sync.WaitGroup
				for i := range 50 {
					all.Go(func() {
						if _, err := kv.Change(t.Context(), space, "k", add(1), nil); err != nil {
							t.Error(err)
						}
					})
					all.Go(func() {
						if _, _, err := space.List("k").Put(t.Context(), fmt.Sprint(i), float64(i), nil); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
				n, _, err := kv.Get[int](t.Context(), space, "k")
				require.NoError(t, err)
				require.Equal(t, 50, n)
				entries, err := space.List("k").Range(t.Context(), 0, 500, kv.Descending)
				require.NoError(t, err)
				require.Len(t, entries, 50)
				require.Len(t, adapter.asked(), 50*2*2+2, "nobody lost a race")
				require.Zero(t, store.Lines())
			})
		})
	}
}

// Stores that know nothing of each other, as those of several processes, race; and lose nothing.
func TestWritersOfSeveralStoresAllSucceed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		adapter := &spy{Adapter: kv.NewMemory(kv.MemoryOptions{}), takes: time.Millisecond}
		var all sync.WaitGroup
		for range 5 {
			space := kv.New(adapter, kv.Options{}).Space("s")
			for range 10 {
				all.Go(func() {
					if _, err := kv.Change(t.Context(), space, "k", add(1), nil); err != nil {
						t.Error(err)
					}
				})
			}
		}
		all.Wait()
		require.Greater(t, len(adapter.asked()), 100, "some lost a race")
		n, _, err := kv.Get[int](t.Context(), kv.New(adapter, kv.Options{}).Space("s"), "k")
		require.NoError(t, err)
		require.Equal(t, 50, n)
	})
}

func TestChangesTakeTurnsInTheOrderInWhichTheyCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		space := kv.New(&spy{Adapter: kv.NewMemory(kv.MemoryOptions{}), takes: time.Millisecond}, kv.Options{}).Space("s")
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				_, err := kv.Change(t.Context(), space, "k", func(seen *[]int) (*[]int, error) {
					if seen == nil {
						seen = new([]int)
					}
					return new(append(*seen, i)), nil
				}, nil)
				if err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		all.Wait()
		seen, _, err := kv.Get[[]int](t.Context(), space, "k")
		require.NoError(t, err)
		require.Len(t, seen, 20)
		for i, got := range seen {
			require.Equal(t, i, got)
		}
	})
}

// Changes that wait for each other would never end if a turn did.
func TestNobodyWaitsForATurnForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.New(kv.NewMemory(kv.MemoryOptions{}), kv.Options{})
		space := store.Space("s")
		var inside atomic.Int32
		within := func(outer, inner string) error {
			_, err := kv.Change(t.Context(), space, outer, func(current *int) (*int, error) {
				inside.Add(1)
				for inside.Load() < 2 {
					time.Sleep(time.Millisecond)
				}
				if _, err := kv.Change(t.Context(), space, inner, add(1), nil); err != nil {
					return nil, err
				}
				return add(10)(current)
			}, nil)
			return err
		}
		started := time.Now()
		var all sync.WaitGroup
		for _, pair := range [][2]string{{"a", "b"}, {"b", "a"}} {
			all.Go(func() {
				if err := within(pair[0], pair[1]); err != nil {
					var refusal *job.Refusal // each disturbs the other: one may lose all of its races
					if !errors.As(err, &refusal) {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		require.Less(t, time.Since(started), 30*time.Second)
		require.Zero(t, store.Lines())
	})
}

func TestASlowChangeIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.New(kv.NewMemory(kv.MemoryOptions{}), kv.Options{})
		space := store.Space("s")
		tries := 0
		var all sync.WaitGroup
		all.Go(func() {
			got, err := kv.Change(t.Context(), space, "k", func(current *int) (*int, error) {
				if tries++; tries == 1 {
					time.Sleep(time.Minute)
				}
				return add(1)(current)
			}, nil)
			if err != nil {
				t.Error(err)
			} else if *got != 12 {
				t.Errorf("it wrote %d over what came meanwhile", *got)
			}
		})
		synctest.Wait()
		started := time.Now()
		got, err := kv.Change(t.Context(), space, "k", add(11), nil)
		require.NoError(t, err)
		require.Equal(t, 11, *got)
		require.Equal(t, time.Second, time.Since(started))
		all.Wait()
		require.Equal(t, 2, tries)
		require.Zero(t, store.Lines())
	})
}

func TestChangeOfAnyDocument(t *testing.T) {
	space, _, _ := newSpace(t)
	ctx := t.Context()
	require.NoError(t, space.Set(ctx, "k", jsontext.Value(`{"n":12345678901234567890}`), 0))
	got, err := kv.Change(ctx, space, "k", func(current *jsontext.Value) (*jsontext.Value, error) { return current, nil }, nil)
	require.NoError(t, err)
	require.Equal(t, `{"n":12345678901234567890}`, string(*got), "a document passes through as it is")
}
