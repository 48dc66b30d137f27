package guard_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/guard"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

// counting answers what fn makes of it, and how often it was called.
func counting(calls *int, result string, err error) func(context.Context, *guard.Run) (jsontext.Value, error) {
	return func(context.Context, *guard.Run) (jsontext.Value, error) {
		*calls++
		return jsontext.Value(result), err
	}
}

func TestContractE4_AFinishedRunIsAnsweredAgain(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, client func() kv.Adapter) {
		here, there := guards(t, client(), replaying), guards(t, client(), replaying)
		q := request(named(t, "ada", "k"))
		q.Job = job.Key{Queue: "q", Space: "acme", ID: "1"}
		calls := 0
		result, replayed, err := here.Do(t.Context(), q, counting(&calls, `{"paid":true}`, nil))
		require.NoError(t, err)
		require.False(t, replayed)
		require.JSONEq(t, `{"paid":true}`, string(result))
		for range 2 {
			result, replayed, err = there.Do(t.Context(), q, counting(&calls, `"not this"`, nil))
			require.NoError(t, err)
			require.True(t, replayed)
			require.JSONEq(t, `{"paid":true}`, string(result))
		}
		require.Equal(t, 1, calls)
		require.Empty(t, there.Active())

		_, err = there.Begin(t.Context(), q)
		var kept *guard.Replay
		require.ErrorAs(t, err, &kept)
		require.Equal(t, q.Job, kept.Job)

		_, replayed, err = there.Do(t.Context(), request(named(t, "ada", "k2")), counting(&calls, `1`, nil))
		require.NoError(t, err)
		require.False(t, replayed, "another key")
		eves := request(named(t, "eve", "k"))
		eves.Caller = "eve"
		_, replayed, err = there.Do(t.Context(), eves, counting(&calls, `2`, nil))
		require.NoError(t, err)
		require.False(t, replayed, "another caller's")
		require.Equal(t, 3, calls)
	})
}

func TestContractE4_OnlyWhatMayBeIsAnsweredAgain(t *testing.T) {
	t.Parallel()
	derived := derived(t, `{}`)
	shared, err := guard.Shared("acme", "k")
	require.NoError(t, err)
	named := named(t, "ada", "k")
	for name, c := range map[string]struct {
		key    guard.Key
		change func(*guard.Config)
		err    error
	}{
		"no window":     {named, func(*guard.Config) {}, nil},
		"a derived key": {derived, replaying, nil},
		"a shared key":  {shared, replaying, nil},
		"no key":        {guard.Key{}, replaying, nil},
		"a failed run":  {named, replaying, errors.New("card declined")},
		"a refused run": {named, replaying, job.Refuse("declined", "Your card was declined.")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEachStore(t, func(t *testing.T, client func() kv.Adapter) {
				g := guards(t, client(), c.change)
				calls := 0
				for range 2 {
					_, replayed, err := g.Do(t.Context(), request(c.key), counting(&calls, `1`, c.err))
					require.False(t, replayed)
					if c.err == nil {
						require.NoError(t, err)
					} else {
						require.ErrorIs(t, err, c.err)
					}
				}
				require.Equal(t, 2, calls)
				require.Empty(t, left(t, client()))
			})
		})
	}
}

func TestContractE4_TheWindowCloses(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, client func() kv.Adapter) {
		g := guards(t, client(), func(c *guard.Config) { c.ReplayWindow = time.Second })
		q := request(named(t, "ada", "k"))
		calls := 0
		_, _, err := g.Do(t.Context(), q, counting(&calls, `1`, nil))
		require.NoError(t, err)
		natstest.Eventually(t, soon, func() bool {
			_, replayed, err := g.Do(t.Context(), q, counting(&calls, `2`, nil))
			require.NoError(t, err)
			return !replayed
		})
		require.Equal(t, 2, calls)
	})
}

func TestContractE4_WhileItRunsItIsADuplicate(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, client func() kv.Adapter) {
		g := guards(t, client(), replaying)
		q := request(named(t, "ada", "k"))
		r := begin(t, g, q)
		refused(t, g, q, job.CodeDuplicate)
		holder, ok, err := g.Holder(t.Context(), q.Key)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, guard.Holder{RunID: r.ID(), Type: "pay"}, holder)

		require.NoError(t, r.Finish(jsontext.Value(`1`)))
		require.NoError(t, r.End())
		holder, ok, err = g.Holder(t.Context(), q.Key)
		require.NoError(t, err)
		require.True(t, ok)
		require.True(t, holder.Ended)
		_, ok, err = g.Holder(t.Context(), named(t, "eve", "k"))
		require.NoError(t, err)
		require.False(t, ok)
		_, _, err = g.Holder(t.Context(), guard.Key{})
		require.ErrorAs(t, err, new(*job.FieldError))
	})
}

func TestAKeyIsNotUsedForSomethingElse(t *testing.T) {
	t.Parallel()
	g := guards(t, kv.NewMemory(kv.MemoryOptions{}), replaying)
	calls := 0
	_, _, err := g.Do(t.Context(), request(named(t, "ada", "k")), counting(&calls, `1`, nil))
	require.NoError(t, err)
	input, err := guard.Named("acme", "ada", "k", "pay", jsontext.Value(`{"sum":2}`))
	require.NoError(t, err)
	refused(t, g, request(input), guard.CodeKeyReused)
	typ, err := guard.Named("acme", "ada", "k", "refund", jsontext.Value(`{"sum":1}`))
	require.NoError(t, err)
	refused(t, g, request(typ), guard.CodeKeyReused)
	same, err := guard.Named("acme", "ada", "k", "pay", jsontext.Value(` { "sum" : 1 } `))
	require.NoError(t, err)
	_, replayed, err := g.Do(t.Context(), request(same), counting(&calls, `1`, nil))
	require.NoError(t, err)
	require.True(t, replayed)
}

func TestAReplicaWithoutAWindowAnswersNothingAgain(t *testing.T) {
	t.Parallel()
	memory := kv.NewMemory(kv.MemoryOptions{})
	with, without := guards(t, memory, replaying), guards(t, memory)
	q := request(named(t, "ada", "k"))
	calls := 0
	_, _, err := with.Do(t.Context(), q, counting(&calls, `1`, nil))
	require.NoError(t, err)
	_, replayed, err := without.Do(t.Context(), q, counting(&calls, `2`, nil))
	require.NoError(t, err)
	require.False(t, replayed)
	require.Equal(t, 2, calls)
}

func TestAnAnswerThatDoesNotFitIsNotKept(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, client func() kv.Adapter) {
		g := guards(t, client(), replaying)
		q := request(named(t, "ada", "k"))
		calls, large := 0, `"`+strings.Repeat("x", 2<<20)+`"`
		for range 2 {
			result, replayed, err := g.Do(t.Context(), q, counting(&calls, large, nil))
			require.NoError(t, err)
			require.False(t, replayed)
			require.Len(t, result, len(large))
		}
		require.Equal(t, 2, calls)
		require.Empty(t, left(t, client()))
	})
}

func TestAnAnswerThatIsNoJSONIsAnError(t *testing.T) {
	t.Parallel()
	memory := kv.NewMemory(kv.MemoryOptions{})
	g := guards(t, memory, replaying)
	calls := 0
	_, _, err := g.Do(t.Context(), request(named(t, "ada", "k")), counting(&calls, `{"a":`, nil))
	require.ErrorContains(t, err, "keep the result")
	require.Empty(t, left(t, memory), "none the less the key is released")
}
