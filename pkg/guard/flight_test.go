package guard_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/guard"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

func TestContractE1_OneRunPerKeyInTheFleet(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, client func() kv.Adapter) {
		here, there := guards(t, client()), guards(t, client())
		q := request(derived(t, `{"sum":1}`))
		r := begin(t, here, q)
		refused(t, here, q, job.CodeDuplicate)
		refused(t, there, q, job.CodeDuplicate)
		free(t, there, request(derived(t, `{"sum":2}`)))
		require.NoError(t, r.End())
		require.NoError(t, r.End(), "once more changes nothing")
		require.Error(t, r.Context().Err())
		free(t, there, q)
		require.Empty(t, left(t, client()), "nothing is left behind")
	})
}

func TestContractE1_OfAThousandCallersOneRuns(t *testing.T) {
	t.Parallel()
	callers := int64(1000)
	if testing.Short() {
		callers = 100
	}
	onEachStore(t, func(t *testing.T, client func() kv.Adapter) {
		fleet := []*guard.Guards{guards(t, client()), guards(t, client()), guards(t, client())}
		q := request(derived(t, `{}`))
		var runs, duplicates atomic.Int64
		others := make(chan struct{}) // closed when all others were answered
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				_, _, err := fleet[int(i)%len(fleet)].Do(t.Context(), q, func(context.Context, *guard.Run) (jsontext.Value, error) {
					runs.Add(1)
					<-others
					return nil, nil
				})
				if err == nil {
					return
				}
				var refusal *job.Refusal
				if assert.ErrorAs(t, err, &refusal) {
					assert.Equal(t, job.CodeDuplicate, refusal.Code)
				}
				if duplicates.Add(1) == callers-1 {
					close(others)
				}
			})
		}
		all.Wait()
		require.EqualValues(t, 1, runs.Load())
		require.Equal(t, callers-1, duplicates.Load())
		require.Empty(t, left(t, client()))
	})
}

func TestContractE1_CallersShareNothingButWhatIsShared(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, client func() kv.Adapter) {
		g := guards(t, client())
		ada, eve := named(t, "ada", "k"), named(t, "eve", "k")
		begin(t, g, request(ada))
		refused(t, g, request(ada), job.CodeDuplicate)
		free(t, g, request(eve))

		delivery, err := guard.Shared("acme", "k")
		require.NoError(t, err)
		begin(t, g, request(delivery))
		refused(t, g, guard.Request{Space: "acme", Type: "pay", Caller: "eve", Key: delivery}, job.CodeDuplicate)
		elsewhere, err := guard.Shared("other", "k")
		require.NoError(t, err)
		free(t, g, guard.Request{Space: "other", Type: "pay", Key: elsewhere})
	})
}

func TestContractE1_AKeyIsFreeWhenItsRunHasTimedOut(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, client func() kv.Adapter) {
		here, there := guards(t, client()), guards(t, client())
		q := request(derived(t, `{}`))
		q.Timeout = time.Second
		began := time.Now()
		r := begin(t, here, q)
		deadline, ok := r.Context().Deadline()
		require.True(t, ok)
		var next *guard.Run
		natstest.Eventually(t, soon, func() (err error) {
			next, err = there.Begin(t.Context(), q)
			return err
		})
		defer func() { require.NoError(t, next.End()) }()
		require.GreaterOrEqual(t, time.Since(began), q.Timeout-100*time.Millisecond, "the lifetime is the timeout")
		require.True(t, deadline.Before(time.Now()), "the holder was to have stopped by then")
		require.ErrorIs(t, ends(t, r), job.ErrTimeout)
		require.ErrorIs(t, r.Check(t.Context()), job.ErrTimeout)

		require.NoError(t, r.End(), "what is no longer its own is nothing to release")
		refused(t, here, q, job.CodeDuplicate) // the key is the next one's
	})
}

func TestContractE1_ALaterAttemptOfAJobTakesItsKeyOver(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, client func() kv.Adapter) {
		here, there := guards(t, client()), guards(t, client())
		q := request(derived(t, `{}`))
		q.Job, q.RunID = job.Key{Queue: "q", Space: "acme", ID: "1"}, "run"
		first := begin(t, here, q) // and its process is gone
		other := q
		other.Job.Queue = "another"
		refused(t, there, other, job.CodeDuplicate)
		other.Job = job.Key{}
		refused(t, there, other, job.CodeDuplicate)

		second := begin(t, there, q)
		require.NoError(t, first.End(), "it was not gone, only late")
		refused(t, here, other, job.CodeDuplicate) // its end released nothing
		ok, err := here.Cancel(t.Context(), "acme", "ada", "run")
		require.NoError(t, err)
		require.True(t, ok)
		require.ErrorIs(t, ends(t, second), job.ErrCancelRequested)
		require.NoError(t, second.End())
		require.Empty(t, left(t, client()))
	})
}

func TestContractE5_EndAlwaysReleases(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, client func() kv.Adapter) {
		g := guards(t, client(), func(c *guard.Config) { c.Calls = 1 })
		q := request(derived(t, `{}`))
		failure := errors.New("card declined")
		_, replayed, err := g.Do(t.Context(), q, func(context.Context, *guard.Run) (jsontext.Value, error) { return nil, failure })
		require.Equal(t, failure, err)
		require.False(t, replayed)
		require.PanicsWithValue(t, "oops", func() {
			_, _, _ = g.Do(t.Context(), q, func(context.Context, *guard.Run) (jsontext.Value, error) { panic("oops") })
		})
		ctx, cancel := context.WithCancel(t.Context())
		r, err := g.Begin(ctx, q)
		require.NoError(t, err)
		cancel()
		require.ErrorIs(t, ends(t, r), context.Canceled)
		require.NoError(t, r.End(), "also when the process shuts down")
		free(t, g, q)
		require.Empty(t, g.Active())
		require.Empty(t, left(t, client()))
	})
}
