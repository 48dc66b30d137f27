package worker

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/guard"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

// newGuards are of a process of their own; change may be nil.
func newGuards(t *testing.T, store kv.Adapter, change func(*guard.Config)) *guard.Guards {
	t.Helper()
	cfg := guard.Config{Store: store}
	if change != nil {
		change(&cfg)
	}
	g, err := guard.New(cfg)
	require.NoError(t, err)
	return g
}

// guardedBubble is bubble with guards of a store in memory, within the bubble's time.
func guardedBubble(t *testing.T, cfg Config, fn func(c *crew, store *kv.Memory)) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.NewMemory(kv.MemoryOptions{})
		if cfg.Guards == nil {
			cfg.Guards = newGuards(t, store, nil)
		}
		c := &crew{t: t, q: newFake(), logs: &safeBuffer{}, err: make(chan error, 1)}
		cfg.Logger = zerolog.New(c.logs)
		var err error
		c.w, err = New(c.q, cfg)
		require.NoError(t, err)
		c.ctx, c.stop = context.WithCancel(t.Context())
		fn(c, store)
		c.stop()
	})
}

func keysLeft(t *testing.T, store kv.Adapter) (n int) {
	t.Helper()
	for _, err := range store.Keys(t.Context(), "") {
		require.NoError(t, err)
		n++
	}
	return n
}

func TestContractB4_OfTwoJobsOfOneKeyOneRunsAndTheOtherIsRunLater(t *testing.T) {
	guardedBubble(t, Config{Queues: map[string]int{"default": 1}}, func(c *crew, store *kv.Memory) {
		other, err := New(c.q, Config{Queues: map[string]int{"default": 1}, Guards: newGuards(t, store, nil)})
		require.NoError(t, err)
		var running, ran atomic.Int64
		release := make(chan struct{})
		for _, w := range []*Worker{c.w, other} {
			Handle(w, "t", func(context.Context, *job.Job, map[string]any) (any, error) {
				if running.Add(1) > 1 {
					t.Error("two at a time")
				}
				defer running.Add(-1)
				ran.Add(1)
				<-release
				return "done", nil
			}, WithSingleFlight(nil), WithTimeout(time.Hour))
		}
		first := c.enqueue(job.Spec{ID: "1", Input: jsontext.Value(`{"a":1,"b":2}`)})
		second := c.enqueue(job.Spec{ID: "2", Input: jsontext.Value(`{"b":2,"a":1}`)})
		c.run()
		ended := make(chan error, 1)
		go func() { ended <- other.Run(c.ctx) }()
		back := func(j *job.Job) bool { return j.Status == job.Pending && j.Error != "" }
		synctest.Wait()
		refused := second
		if j, err := c.q.Get(t.Context(), first); err != nil || back(j) {
			refused = first
		}
		j := c.until(refused, back)
		require.Contains(t, j.Error, "not started: duplicate")
		require.Zero(t, j.Attempts, "refunded")
		require.Empty(t, j.History)
		require.EqualValues(t, 1, ran.Load())

		close(release)
		for _, key := range []job.Key{first, second} {
			j := c.ended(key)
			require.Equal(t, job.Succeeded, j.Status)
			require.Equal(t, 1, j.Attempts)
		}
		require.EqualValues(t, 2, ran.Load())
		c.end()
		require.NoError(t, <-ended)
		require.Zero(t, keysLeft(t, store))
	})
}

func TestContractB4_OverCapacityIsNotNow(t *testing.T) {
	g := newGuards(t, kv.NewMemory(kv.MemoryOptions{}), func(c *guard.Config) { c.Renders = 1 })
	guardedBubble(t, Config{Guards: g}, func(c *crew, _ *kv.Memory) {
		release := make(chan struct{})
		c.handle(func(context.Context, *job.Job) (any, error) {
			<-release
			return nil, nil
		}, WithBudget(guard.KindRender))
		c.enqueue(job.Spec{ID: "1"})
		c.enqueue(job.Spec{ID: "2"})
		c.run()
		synctest.Wait()
		outcomes := append(c.q.outcomes("1"), c.q.outcomes("2")...)
		require.Len(t, outcomes, 1)
		require.True(t, outcomes[0].Refund)
		require.Contains(t, outcomes[0].Error, "not started: over_capacity")
		require.Len(t, g.Active(), 1)
		close(release)
		for _, id := range []string{"1", "2"} {
			require.Equal(t, job.Succeeded, c.ended(job.Key{Queue: "default", Space: "default", ID: id}).Status)
		}
		c.end()
		require.Empty(t, g.Active())
	})
}

func TestContractE5_AHandlersEndAlwaysReleasesItsKey(t *testing.T) {
	for name, end := range map[string]func(ctx context.Context) (any, error){
		"success": func(context.Context) (any, error) { return map[string]int{"a": 1}, nil },
		"failure": func(context.Context) (any, error) { return nil, errors.New("card declined") },
		"panic":   func(context.Context) (any, error) { panic("oops") },
		"timeout": func(ctx context.Context) (any, error) { <-ctx.Done(); return nil, ctx.Err() },
		"no JSON": func(context.Context) (any, error) { return make(chan int), nil },
	} {
		t.Run(name, func(t *testing.T) {
			guardedBubble(t, Config{}, func(c *crew, store *kv.Memory) {
				held := 0
				c.handle(func(ctx context.Context, _ *job.Job) (any, error) {
					held = keysLeft(t, store)
					return end(ctx)
				}, WithSingleFlight(nil), WithTimeout(time.Minute))
				key := c.enqueue(job.Spec{MaxAttempts: 1})
				c.run()
				j := c.ended(key)
				require.Equal(t, name == "success", j.Status == job.Succeeded)
				if name == "timeout" {
					require.Equal(t, "timed out after 1m0s", j.Error)
				}
				require.Equal(t, 2, held)
				require.Zero(t, keysLeft(t, store))
				c.end()
			})
		})
	}
	t.Run("shutdown", func(t *testing.T) {
		guardedBubble(t, Config{DrainTimeout: time.Second}, func(c *crew, store *kv.Memory) {
			c.handle(func(ctx context.Context, _ *job.Job) (any, error) { <-ctx.Done(); return nil, ctx.Err() }, WithSingleFlight(nil))
			key := c.enqueue(job.Spec{ID: "1"})
			c.run()
			synctest.Wait()
			require.Equal(t, 2, keysLeft(t, store))
			c.end()
			require.Zero(t, keysLeft(t, store))
			require.Equal(t, []job.Outcome{job.HandBack(0, "interrupted: "+job.ErrShutdown.Error())}, c.q.outcomes(key.ID))
		})
	})
}

func TestAJobWithoutATimeoutGetsThatOfTheGuards(t *testing.T) {
	guardedBubble(t, Config{}, func(c *crew, _ *kv.Memory) {
		c.handle(func(ctx context.Context, _ *job.Job) (any, error) { <-ctx.Done(); return nil, ctx.Err() }, WithSingleFlight(nil))
		key := c.enqueue(job.Spec{MaxAttempts: 1})
		c.run()
		require.Equal(t, "timed out after 15m0s", c.ended(key).Error)
		c.end()
	})
}

func TestContractE3_ACancelOfARunCancelsItsJob(t *testing.T) {
	guardedBubble(t, Config{}, func(c *crew, store *kv.Memory) {
		elsewhere := newGuards(t, store, nil)
		c.handle(func(ctx context.Context, _ *job.Job) (any, error) { <-ctx.Done(); return nil, ctx.Err() }, WithSingleFlight(nil))
		key := c.enqueue(job.Spec{RunID: "run"})
		c.run()
		synctest.Wait()
		ok, err := elsewhere.Cancel(t.Context(), "default", "", "run")
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, job.Cancelled, c.ended(key).Status)
		c.end()
		require.Zero(t, keysLeft(t, store))
	})
}

// deaf is a store that cannot be reached.
type deaf struct{ kv.Adapter }

func (deaf) Swap(context.Context, string, *string, string, time.Duration) (bool, error) {
	return false, errors.New("no servers available")
}

func TestContractB4_AStoreThatIsDownCostsNoAttempt(t *testing.T) {
	g := newGuards(t, deaf{kv.NewMemory(kv.MemoryOptions{})}, nil)
	guardedBubble(t, Config{Guards: g}, func(c *crew, _ *kv.Memory) {
		c.handle(func(context.Context, *job.Job) (any, error) {
			t.Error("it began")
			return nil, nil
		}, WithSingleFlight(nil))
		key := c.enqueue(job.Spec{MaxAttempts: 1})
		c.run()
		j := c.until(key, func(j *job.Job) bool { return j.Error != "" })
		require.Equal(t, job.Pending, j.Status)
		require.Zero(t, j.Attempts)
		require.Contains(t, j.Error, "not started: ")
		require.Contains(t, j.Error, "no servers available")
		c.end()
	})
}

func TestARunThatWasFinishedIsNotRunAgain(t *testing.T) {
	g := newGuards(t, kv.NewMemory(kv.MemoryOptions{}), func(c *guard.Config) { c.ReplayWindow = time.Hour })
	guardedBubble(t, Config{Guards: g, Queues: map[string]int{"default": 1}}, func(c *crew, _ *kv.Memory) {
		calls := 0
		c.handle(func(context.Context, *job.Job) (any, error) {
			calls++
			return map[string]int{"call": calls}, nil
		}, WithSingleFlight(func(j *job.Job) (guard.Key, error) {
			return guard.Named(j.Space, "ada", "k", j.Type, j.Input)
		}))
		first, second := c.enqueue(job.Spec{}), c.enqueue(job.Spec{})
		c.run()
		for _, key := range []job.Key{first, second} {
			j := c.ended(key)
			require.Equal(t, job.Succeeded, j.Status)
			require.JSONEq(t, `{"call":1}`, string(j.Result))
		}
		require.Equal(t, 1, calls)
		c.end()
	})
}

func TestAJobWithoutARunKeyEndsDead(t *testing.T) {
	guardedBubble(t, Config{}, func(c *crew, _ *kv.Memory) {
		c.handle(func(context.Context, *job.Job) (any, error) { return nil, nil }, WithSingleFlight(func(*job.Job) (guard.Key, error) {
			return guard.Key{}, errors.New("no order in the input")
		}))
		key := c.enqueue(job.Spec{})
		c.run()
		j := c.ended(key)
		require.Equal(t, job.Dead, j.Status)
		require.Equal(t, "the job has no run key: no order in the input", j.Error)
		c.end()
	})
}

func TestGuardsHaveToBeThere(t *testing.T) {
	register := func(cfg Config, opts ...HandleOption) func() {
		w, err := New(newFake(), cfg)
		require.NoError(t, err)
		return func() {
			Handle(w, "t", func(context.Context, *job.Job, map[string]any) (any, error) { return nil, nil }, opts...)
		}
	}
	const need = `worker: Handle("t"): WithSingleFlight, WithBudget: need Config.Guards`
	require.PanicsWithValue(t, need, register(Config{}, WithSingleFlight(nil)))
	require.PanicsWithValue(t, need, register(Config{}, WithBudget(guard.KindCall)))
	g := newGuards(t, kv.NewMemory(kv.MemoryOptions{}), nil)
	require.PanicsWithValue(t, `worker: Handle("t"): WithBudget: must be call or render, not "other"`, register(Config{Guards: g}, WithBudget("other")))
	require.NotPanics(t, register(Config{Guards: g}, WithBudget(guard.KindRender), WithSingleFlight(nil)))
}
