package guard_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/guard"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

// fault is what goes wrong with one operation.
type fault int

const (
	none    fault = iota
	broken        // it is not done, and fails
	undone        // it is not done, and nobody knows
	unheard       // it is done, and nobody knows
)

var errBroken = errors.New("the store is broken")

// faulty is an adapter whose operations go wrong as a test wants.
type faulty struct {
	kv.Adapter

	mu    sync.Mutex
	asked int
	which func(n int, op, key string) fault // n counts the operations from 0 on; nil: all go well
}

func (f *faulty) set(which func(n int, op, key string) fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked, f.which = 0, which
}

func (f *faulty) next(op, key string) fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	if f.which == nil {
		return none
	}
	return f.which(f.asked-1, op, key)
}

// through does an operation, or not.
func through[T any](f *faulty, op, key string, do func() (T, error)) (T, error) {
	var zero T
	switch f.next(op, key) {
	case broken:
		return zero, fmt.Errorf("%s: %w", op, errBroken)
	case undone:
		return zero, fmt.Errorf("%s: %w", op, kv.ErrUnknown)
	case unheard:
		if _, err := do(); err != nil {
			return zero, err
		}
		return zero, fmt.Errorf("%s: %w", op, kv.ErrUnknown)
	}
	return do()
}

func (f *faulty) Get(ctx context.Context, key string) (string, bool, error) {
	if f.next("get", key) != none { // a read is never unknown
		return "", false, fmt.Errorf("get: %w", errBroken)
	}
	return f.Adapter.Get(ctx, key)
}

func (f *faulty) Swap(ctx context.Context, key string, expected *string, next string, ttl time.Duration) (bool, error) {
	return through(f, "swap", key, func() (bool, error) { return f.Adapter.Swap(ctx, key, expected, next, ttl) })
}

func (f *faulty) DeleteIf(ctx context.Context, key, expected string) (bool, error) {
	return through(f, "deleteIf", key, func() (bool, error) { return f.Adapter.DeleteIf(ctx, key, expected) })
}

func newFaulty() *faulty { return &faulty{Adapter: kv.NewMemory(kv.MemoryOptions{})} }

// life is a run from its begin to its end, with a cancel in the middle and a check that finds it, and the first error.
func life(t *testing.T, g *guard.Guards, q guard.Request, finish bool) error {
	t.Helper()
	r, err := g.Begin(t.Context(), q)
	if err != nil {
		return err
	}
	errs := []error{r.Check(t.Context())}
	ok, err := g.Cancel(t.Context(), q.Space, q.Caller, r.ID())
	require.True(t, ok || err != nil)
	errs = append(errs, err)
	if finish {
		errs = append(errs, r.Finish(jsontext.Value(`1`)))
	} else {
		errs = append(errs, r.End())
	}
	return errors.Join(errs...)
}

// Each operation of a run's life goes wrong, in each way, by itself.
func TestWhateverGoesWrongIsTold(t *testing.T) {
	t.Parallel()
	seldom := func(c *guard.Config) { c.Poll = guard.MaxPoll }
	for _, finish := range []bool{false, true} {
		f := newFaulty()
		f.set(nil)
		require.NoError(t, life(t, guards(t, f, seldom, replaying), request(named(t, "ada", "k")), finish))
		all := f.asked
		require.GreaterOrEqual(t, all, 7)
		for n := range all {
			for _, wrong := range []fault{broken, undone, unheard} {
				what := fmt.Sprintf("finish %v, operation %d, fault %d", finish, n, wrong)
				f := newFaulty()
				g := guards(t, f, seldom, replaying)
				q := request(named(t, "ada", "k"))
				told := wrong // what a test may expect
				f.set(func(asked int, op, _ string) fault {
					if asked != n {
						return none
					}
					if op == "get" {
						told = broken
					}
					return wrong
				})
				err := life(t, g, q, finish)
				f.set(nil)
				require.Empty(t, g.Active(), what)
				if told != broken {
					require.NoError(t, err, "%s: it can be found out", what)
				} else {
					require.ErrorIs(t, err, errBroken, what)
				}
				kept := finish && told != broken
				if kept {
					require.Len(t, left(t, f), 1, "%s: the answer", what)
				} else if !errors.Is(err, guard.ErrNotReleased) && !finish {
					require.Empty(t, left(t, f), what)
				}
				if !kept && !finish && !errors.Is(err, guard.ErrNotReleased) {
					free(t, g, q)
				}
			}
		}
	}
}

func TestAStoreThatNeverAnswersFailsTheCaller(t *testing.T) {
	t.Parallel()
	for name, wrong := range map[string]fault{"nothing is stored": undone, "all is stored": unheard} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFaulty()
			g := guards(t, f)
			q := request(derived(t, `{}`))
			f.set(func(_ int, op, _ string) fault {
				if op == "get" {
					return none
				}
				return wrong
			})
			_, err := g.Begin(t.Context(), q)
			require.ErrorIs(t, err, kv.ErrUnknown)
			require.NotContains(t, err.Error(), "duplicate")
			require.Empty(t, g.Active())

			f.set(func(_ int, op, _ string) fault { // only what is given back is heard of
				if op == "swap" {
					return wrong
				}
				return none
			})
			_, err = g.Begin(t.Context(), request(derived(t, `{"other":1}`)))
			require.ErrorIs(t, err, kv.ErrUnknown)
			require.NotErrorIs(t, err, guard.ErrNotReleased)
			f.set(nil)
			free(t, g, request(derived(t, `{"other":1}`)))
		})
	}
}

func TestWhatIsNotAGuardsIsNotOverwritten(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"", "1", "{}", `{"runId":"x"}`, `"mine"`} {
		memory := kv.NewMemory(kv.MemoryOptions{})
		g := guards(t, memory)
		q := request(derived(t, `{}`))
		r := begin(t, g, q)
		for _, key := range left(t, memory) {
			require.NoError(t, memory.Set(t.Context(), key, value, 0))
		}
		_, err := g.Begin(t.Context(), q)
		require.ErrorIs(t, err, guard.ErrForeign)
		_, err = g.Cancel(t.Context(), "acme", "ada", r.ID())
		require.ErrorIs(t, err, guard.ErrForeign)
		require.ErrorIs(t, r.Check(t.Context()), guard.ErrForeign)
		_, _, err = g.Holder(t.Context(), q.Key)
		require.ErrorIs(t, err, guard.ErrForeign)
		require.NoError(t, r.End())
		require.Len(t, left(t, memory), 2, "it removes only what it wrote")
	}
}

func TestAnOutageOfTheStoreIsLoggedOnceAndEndsNoRun(t *testing.T) {
	t.Parallel()
	f := newFaulty()
	var mu sync.Mutex
	var logged bytes.Buffer
	logs := func() string {
		mu.Lock()
		defer mu.Unlock()
		return logged.String()
	}
	g := guards(t, f, func(c *guard.Config) {
		c.Poll = guard.MinPoll
		c.Logger = zerolog.New(writer(func(b []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			return logged.Write(b)
		}))
	})
	r := begin(t, g, request(derived(t, `{}`)))
	failures := 0
	f.set(func(n int, _, _ string) fault { failures = n; return broken })
	natstest.Eventually(t, soon, func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return failures > 3
	})
	f.set(nil)
	natstest.Eventually(t, soon, func() bool { return strings.Count(logs(), "\n") == 2 })
	require.Equal(t, 1, strings.Count(logs(), "cannot learn"))
	require.Equal(t, 1, strings.Count(logs(), "learn again"))
	require.NoError(t, r.Context().Err())
	require.NoError(t, r.End())
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }
