package guard_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/guard"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

func TestContractE3_ARunIsCancelledFromAnyReplica(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, client func() kv.Adapter) {
		here, there := guards(t, client()), guards(t, client())
		cancel := func(g *guard.Guards, space, caller, runID string) bool {
			ok, err := g.Cancel(t.Context(), space, caller, runID)
			require.NoError(t, err)
			return ok
		}
		q := request(derived(t, `{}`))
		r := begin(t, here, q)
		other := begin(t, here, request(derived(t, `{"other":1}`)))
		require.False(t, cancel(there, "acme", "eve", r.ID()), "somebody else")
		require.False(t, cancel(there, "acme", "", r.ID()), "nobody")
		require.False(t, cancel(there, "b", "ada", r.ID()), "another space")
		require.False(t, cancel(there, "acme", "ada", "unknown"))
		require.False(t, cancel(here, "acme", "eve", r.ID()))
		require.NoError(t, r.Check(t.Context()))
		require.NoError(t, r.Context().Err())

		require.True(t, cancel(there, "acme", "ada", r.ID()))
		require.ErrorIs(t, ends(t, r), job.ErrCancelRequested)
		require.ErrorIs(t, r.Check(t.Context()), job.ErrCancelRequested)
		require.NoError(t, other.Check(t.Context()))
		refused(t, there, q, job.CodeDuplicate) // it has not ended yet
		require.True(t, cancel(here, "acme", "ada", r.ID()), "it was asked to, and goes on")

		require.NoError(t, r.End())
		require.False(t, cancel(there, "acme", "ada", r.ID()), "it has ended")
		free(t, there, q)
		require.NoError(t, other.End())
		require.Empty(t, left(t, client()))
	})
}

func TestContractE3_ACancelIsReadAtTheNextStep(t *testing.T) {
	t.Parallel()
	memory := kv.NewMemory(kv.MemoryOptions{})
	seldom := func(c *guard.Config) { c.Poll = guard.MaxPoll }
	here, there := guards(t, memory, seldom), guards(t, memory, seldom)
	r, near := begin(t, here, request(guard.Key{})), begin(t, here, request(guard.Key{}))
	for _, one := range []struct {
		by *guard.Guards
		r  *guard.Run
	}{{there, r}, {here, near}} {
		ok, err := one.by.Cancel(t.Context(), "acme", "ada", one.r.ID())
		require.NoError(t, err)
		require.True(t, ok)
	}
	require.ErrorIs(t, context.Cause(near.Context()), job.ErrCancelRequested, "in the same process it is told at once")
	require.NoError(t, r.Context().Err())
	require.ErrorIs(t, r.Check(t.Context()), job.ErrCancelRequested)
	require.ErrorIs(t, context.Cause(r.Context()), job.ErrCancelRequested)
}

func TestContractE3_RunsOfOneIDAreCancelledTogether(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, client func() kv.Adapter) {
		here, there := guards(t, client()), guards(t, client())
		q := request(guard.Key{})
		q.RunID = "both"
		first := begin(t, here, q)
		q.Caller = "eve" // she is not its owner
		second := begin(t, there, q)
		ok, err := there.Cancel(t.Context(), "acme", "eve", "both")
		require.NoError(t, err)
		require.False(t, ok)
		ok, err = there.Cancel(t.Context(), "acme", "ada", "both")
		require.NoError(t, err)
		require.True(t, ok)
		require.ErrorIs(t, ends(t, first), job.ErrCancelRequested)
		require.ErrorIs(t, ends(t, second), job.ErrCancelRequested)
		third := begin(t, there, q)
		require.ErrorIs(t, ends(t, third), job.ErrCancelRequested, "it belongs to what was cancelled")
		require.NoError(t, third.End())
		require.NoError(t, second.End())
		require.NoError(t, first.End())
		require.Empty(t, left(t, client()))
	})
}

// Whoever waits for a job makes its run known before a worker does, which knows no caller.
func TestContractE3_AJobsRunStaysItsCallers(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, client func() kv.Adapter) {
		waiting, working := guards(t, client()), guards(t, client())
		q := request(guard.Key{})
		q.RunID, q.Job = "run", job.Key{Queue: "q", Space: "acme", ID: "1"}
		wait := begin(t, waiting, q)
		q.Caller = ""
		work := begin(t, working, q)
		require.NoError(t, wait.End(), "it waits no longer")
		ok, err := waiting.Cancel(t.Context(), "acme", "", "run")
		require.NoError(t, err)
		require.False(t, ok)
		ok, err = waiting.Cancel(t.Context(), "acme", "ada", "run")
		require.NoError(t, err)
		require.True(t, ok)
		require.ErrorIs(t, ends(t, work), job.ErrCancelRequested)
		require.NoError(t, work.End())
		require.Empty(t, left(t, client()))
	})
}

func TestACancelledJobStaysCancelledWhenItsHolderDies(t *testing.T) {
	t.Parallel()
	memory := kv.NewMemory(kv.MemoryOptions{})
	here, there := guards(t, memory), guards(t, memory)
	q := request(derived(t, `{}`))
	q.RunID, q.Job = "run", job.Key{Queue: "q", Space: "acme", ID: "1"}
	begin(t, here, q)
	ok, err := there.Cancel(t.Context(), "acme", "ada", "run")
	require.NoError(t, err)
	require.True(t, ok)
	next := begin(t, there, q)
	require.ErrorIs(t, ends(t, next), job.ErrCancelRequested)
	require.NoError(t, next.End())
	require.Empty(t, left(t, memory))
	require.NoError(t, begin(t, there, q).Check(t.Context()), "and that was that")
}

func TestWhatIsNoRunCannotBeCancelled(t *testing.T) {
	t.Parallel()
	g := guards(t, kv.NewMemory(kv.MemoryOptions{}))
	for field, ask := range map[string][3]string{
		"space": {"", "ada", "run"}, "caller": {"acme", "\xff", "run"}, "runId": {"acme", "ada", ""},
	} {
		_, err := g.Cancel(t.Context(), ask[0], ask[1], ask[2])
		var wrong *job.FieldError
		require.ErrorAs(t, err, &wrong)
		require.Equal(t, field, wrong.Field)
	}
}
