package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

type email struct {
	To    string        `json:"to"`
	Count int           `json:"count"`
	Wait  time.Duration `json:"wait"`
	Tags  []string      `json:"tags"`
}

func TestHandlersGetTheirInputAndTheirJob(t *testing.T) {
	bubble(t, Config{}, func(c *crew) {
		Handle(c.w, "email", func(ctx context.Context, j *job.Job, in email) (any, error) {
			require.Same(t, j, job.FromContext(ctx))
			return map[string]any{"to": in.To, "wait": in.Wait}, nil
		})
		key := c.enqueue(job.Spec{Type: "email", Input: jsontext.Value(`{"to":"ann","wait":"1m","more":1}`)})
		none := c.enqueue(job.Spec{Type: "email"})
		c.run()
		require.JSONEq(t, `{"to":"ann","wait":"1m0s"}`, string(c.ended(key).Result))
		require.JSONEq(t, `{"to":"","wait":"0s"}`, string(c.ended(none).Result))
		c.end()
	})
}

func TestHandlersGetTheSpaceOfTheirJob(t *testing.T) {
	store := kv.New(kv.NewMemory(kv.MemoryOptions{}), kv.Options{})
	bubble(t, Config{KV: store}, func(c *crew) {
		Handle(c.w, "count", func(ctx context.Context, _ *job.Job, _ struct{}) (any, error) {
			space, ok := kv.FromContext(ctx)
			require.True(t, ok)
			return space.Increment(ctx, "seen", 1, 0)
		})
		c.run()
		for _, space := range []string{"a", "b", "a"} {
			require.Equal(t, job.Succeeded, c.ended(c.enqueue(job.Spec{Type: "count", Space: space})).Status)
		}
		n, err := store.Space("a").Increment(t.Context(), "seen", 0, 0)
		require.NoError(t, err)
		require.EqualValues(t, 2, n)
		c.end()
	})
}

func TestAnInputThatDoesNotFitIsDeadAtOnceNamingThePlace(t *testing.T) {
	bubble(t, Config{}, func(c *crew) {
		Handle(c.w, "email", func(context.Context, *job.Job, email) (any, error) {
			t.Error("started")
			return nil, nil
		})
		c.run()
		for input, want := range map[string]string{
			`{"count":"many"}`:  "the input does not fit at /count: a string where int is expected",
			`{"tags":["a",{}]}`: "the input does not fit at /tags/1: an object where string is expected",
			`{"wait":"soon"}`:   `the input does not fit at /wait: time: invalid duration "soon"`,
			`{"wait":{}}`:       `the input does not fit at /wait: a duration is text such as "30s", not {`,
			`{"count":1.5}`:     "the input does not fit at /count: ",
		} {
			j := c.ended(c.enqueue(job.Spec{Type: "email", Input: jsontext.Value(input)}))
			require.Equal(t, job.Dead, j.Status)
			require.Equal(t, 1, j.Attempts)
			require.Contains(t, j.Error, want)
		}
		c.end()
	})
}

func TestResults(t *testing.T) {
	bubble(t, Config{}, func(c *crew) {
		var result any
		c.handle(func(context.Context, *job.Job) (any, error) { return result, nil })
		c.run()
		for _, one := range []struct {
			result any
			want   string
		}{{nil, ""}, {(*email)(nil), ""}, {jsontext.Value(`[1]`), "[1]"}, {"x", `"x"`}} {
			result = one.result
			j := c.ended(c.enqueue(job.Spec{}))
			require.Equal(t, job.Succeeded, j.Status)
			require.Equal(t, one.want, string(j.Result))
		}
		result = make(chan int)
		j := c.ended(c.enqueue(job.Spec{}))
		require.Equal(t, job.Dead, j.Status, "to run it again would do the work again")
		require.Contains(t, j.Error, "the work was done, but its result cannot be written as JSON")
		c.end()
	})
}

func TestAResultTooLargeToKeepIsASuccessWithoutIt(t *testing.T) {
	bubble(t, Config{}, func(c *crew) {
		c.q.onSettle = func(_ context.Context, _ job.Key, o job.Outcome) error {
			if len(o.Result) > 10 {
				return fmt.Errorf("settle: %w", job.ErrTooLarge)
			}
			return nil
		}
		c.handle(func(context.Context, *job.Job) (any, error) { return "0123456789", nil })
		c.run()
		j := c.ended(c.enqueue(job.Spec{}))
		require.Equal(t, job.Succeeded, j.Status)
		require.Equal(t, "the result of 12 bytes was too large to keep", j.Error)
		require.Empty(t, j.Result)
		c.end()
	})
}

func TestContractB12_MiddlewareWrapsInOrder(t *testing.T) {
	bubble(t, Config{}, func(c *crew) {
		var mu sync.Mutex
		var order []string
		named := func(name string) Middleware {
			return func(next Handler) Handler {
				return func(ctx context.Context, j *job.Job) (any, error) {
					mu.Lock()
					order = append(order, name)
					mu.Unlock()
					return next(ctx, j)
				}
			}
		}
		c.handle(func(context.Context, *job.Job) (any, error) { return nil, nil }, WithMiddleware(named("c"), named("d")))
		c.w.Use(named("a"), named("b"))
		c.run()
		c.ended(c.enqueue(job.Spec{}))
		require.Equal(t, []string{"a", "b", "c", "d"}, order)
		c.end()
	})
}

func TestContractB4_InfrastructureOutBeforeTheStartCostsNoAttempt(t *testing.T) {
	bubble(t, Config{}, func(c *crew) {
		up := time.Now().Add(10 * time.Minute)
		c.w.Use(func(next Handler) Handler {
			return func(ctx context.Context, j *job.Job) (any, error) {
				if time.Now().Before(up) {
					return nil, errors.New("database: connection refused")
				}
				return next(ctx, j)
			}
		})
		c.handle(func(context.Context, *job.Job) (any, error) { return nil, nil })
		key := c.enqueue(job.Spec{MaxAttempts: 1})
		c.run()
		waiting := c.until(key, func(j *job.Job) bool { return j.Error != "" })
		require.Equal(t, "not started: database: connection refused", waiting.Error)
		j := c.ended(key)
		require.Equal(t, job.Succeeded, j.Status)
		require.Equal(t, 1, j.Attempts)
		require.Len(t, j.History, 1)
		c.end()
	})
}

func TestWrongRegistrationsPanic(t *testing.T) {
	fn := func(context.Context, *job.Job, struct{}) (any, error) { return nil, nil }
	w, err := New(newFake(), Config{Queues: map[string]int{"q": 0}})
	require.NoError(t, err)
	Handle(w, "b", fn)
	Handle(w, "a", fn)
	require.Equal(t, []string{"a", "b"}, w.Types())
	require.PanicsWithValue(t, `worker: Handle("a"): registered already`, func() { Handle(w, "a", fn) })
	require.PanicsWithValue(t, `worker: Handle(""): type: must not be empty`, func() { Handle(w, "", fn) })
	require.PanicsWithValue(t, `worker: Handle("x"): no function`, func() { Handle[int](w, "x", nil) })
	require.Panics(t, func() { Handle(w, "x", fn, WithTimeout(-1)) })
	require.Panics(t, func() { Handle(w, "x", fn, WithRetry(RetryPolicy{Base: -1})) })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, w.Run(ctx))
	require.PanicsWithValue(t, `worker: Handle("x") after Run`, func() { Handle(w, "x", fn) })
	require.Panics(t, func() { w.Use(func(h Handler) Handler { return h }) })
	require.ErrorContains(t, w.Run(ctx), "before", "an id is for one run")
}
