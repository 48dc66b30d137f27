package jobtest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/jobtest"
	"github.com/jetcrew/jetcrew/worker"
)

const day = 24 * time.Hour

// end enqueues a job and ends it.
func end(t *testing.T, q *jobtest.Queue, s job.Spec, as job.Status) job.Key {
	t.Helper()
	s.Queue = string(as) // a queue for each, so that it is the next
	got, err := q.Enqueue(t.Context(), s)
	require.NoError(t, err)
	require.True(t, got.Created)
	c, err := q.Consume(t.Context(), job.ConsumerConfig{Queue: s.Queue, WorkerID: "w", Slots: 1})
	require.NoError(t, err)
	cl, err := c.Claim(t.Context())
	require.NoError(t, err)
	_, err = cl.Settle(t.Context(), job.Outcome{Status: as})
	require.NoError(t, err)
	require.NoError(t, c.Close(t.Context()))
	return got.Key
}

// there reports whether there is a record of a job, and that everything says so.
func there(t *testing.T, q *jobtest.Queue, key job.Key) bool {
	t.Helper()
	_, err := q.Get(t.Context(), key)
	if err != nil {
		require.ErrorIs(t, err, job.ErrNotFound)
	}
	p, lerr := q.List(t.Context(), job.ListRequest{Filter: job.Filter{AllSpaces: true, Queue: key.Queue}})
	require.NoError(t, lerr)
	listed := false
	for _, j := range p.Jobs {
		listed = listed || j.Key() == key
	}
	require.Equal(t, err == nil, listed)
	return err == nil
}

func TestContractA15_RecordsGoWhenTheirTimeIsOver(t *testing.T) {
	q := jobtest.New(jobtest.Retention(job.Failed, 90*day), jobtest.Retention(job.Cancelled, 0))
	keep := map[job.Status]time.Duration{job.Succeeded: day, job.Failed: 90 * day, job.Dead: 7 * day}
	for status, d := range keep {
		key := end(t, q, job.Spec{Type: "t"}, status)
		requeued := end(t, q, job.Spec{Type: "t"}, status)
		q.Advance(d - time.Minute)
		require.True(t, there(t, q, key), status)
		_, err := q.Requeue(t.Context(), requeued)
		require.NoError(t, err)
		q.Advance(2 * time.Minute)
		require.False(t, there(t, q, key), status)
		require.True(t, there(t, q, requeued), "what waits never expires")
		_, err = q.Delete(t.Context(), requeued)
		require.NoError(t, err)
	}
	require.False(t, there(t, q, end(t, q, job.Spec{Type: "t"}, job.Cancelled)), "0 keeps none")

	key := end(t, q, job.Spec{Type: "t", Trigger: job.TriggerSchedule}, job.Cancelled)
	q.Advance(9 * time.Minute)
	require.True(t, there(t, q, key), "a fire is kept for ten minutes")
	q.Advance(2 * time.Minute)
	require.False(t, there(t, q, key))
	require.Empty(t, q.Jobs())
	c, err := q.Count(t.Context())
	require.NoError(t, err)
	require.Zero(t, c.Total())
}

func TestContractA15_WaitingAndRunningJobsNeverExpire(t *testing.T) {
	q := jobtest.New()
	for i := range 3 {
		_, err := q.Enqueue(t.Context(), job.Spec{ID: fmt.Sprint(i), Type: "t", Delay: time.Duration(i) * 400 * day})
		require.NoError(t, err)
	}
	c, err := q.Consume(t.Context(), job.ConsumerConfig{WorkerID: "w", Slots: 1})
	require.NoError(t, err)
	cl, err := c.Claim(t.Context())
	require.NoError(t, err)
	q.Advance(500 * day)
	counts, err := q.Count(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int{1, 1, 1}, []int{counts.Ready, counts.Due, counts.Running})
	_, err = cl.Settle(t.Context(), job.Succeed(nil))
	require.NoError(t, err)
	require.NoError(t, c.Close(t.Context()))
}

func TestAQueuesOwnRetentionGoesFirst(t *testing.T) {
	q := jobtest.New(jobtest.Retention(job.Dead, 0))
	ctx := t.Context()
	_, err := q.Configure(ctx, "dead", job.QueueSettings{Retention: map[job.Status]time.Duration{job.Dead: time.Hour}})
	require.NoError(t, err)
	key := end(t, q, job.Spec{Type: "t"}, job.Dead)
	require.True(t, there(t, q, key))
	q.Advance(time.Hour)
	require.False(t, there(t, q, key))
	_, err = q.Configure(ctx, "dead", job.QueueSettings{Retention: map[job.Status]time.Duration{job.Dead: job.KeepDefault}})
	require.NoError(t, err)
	require.False(t, there(t, q, end(t, q, job.Spec{Type: "t"}, job.Dead)))
}

func TestWrongRetentionsPanic(t *testing.T) {
	require.Panics(t, func() { jobtest.Retention(job.Running, time.Hour) })
	require.Panics(t, func() { jobtest.Retention(job.Dead, -1) })
}

func TestAListingHasAllOrdersAndExactTotals(t *testing.T) {
	q := jobtest.New()
	for i := range 7 {
		_, err := q.Enqueue(t.Context(), job.Spec{ID: fmt.Sprint(i), Type: "t", Delay: time.Duration(10-i) * time.Hour})
		require.NoError(t, err)
	}
	_, err := q.Cancel(t.Context(), job.Key{ID: "3"})
	require.NoError(t, err)
	for _, c := range []struct {
		order     job.Order
		ascending bool
		want      string
	}{
		{job.ByUpdated, false, "3654210"},
		{job.ByUpdated, true, "0124563"},
		{job.ByCreated, false, "6543210"},
		{job.ByCreated, true, "0123456"},
		{job.ByRun, false, "0123456"},
		{job.ByRun, true, "6543210"},
	} {
		for limit := 1; limit <= 8; limit++ {
			req := job.ListRequest{Filter: job.Filter{Spaces: []string{"default"}}, Limit: limit, Order: c.order, Ascending: c.ascending}
			got := ""
			for more := true; more; more = req.Cursor != "" {
				p, err := q.List(t.Context(), req)
				require.NoError(t, err)
				require.Equal(t, 7, p.Total)
				for _, j := range p.Jobs {
					got += j.ID
				}
				req.Cursor = p.Next
			}
			require.Equal(t, c.want, got, "%s, ascending: %t, by %d", c.order, c.ascending, limit)
		}
	}
	other, err := jobtest.New().List(t.Context(), job.ListRequest{Cursor: "e30"})
	require.Nil(t, other)
	require.ErrorAs(t, err, new(*job.FieldError))
}

func TestWhatFallsDueJoinsTheLineAtItsInstant(t *testing.T) {
	q := jobtest.New()
	ctx := t.Context()
	for i, delay := range []time.Duration{2 * time.Hour, time.Hour, 0} {
		_, err := q.Enqueue(ctx, job.Spec{ID: fmt.Sprint(i), Type: "t", Delay: delay})
		require.NoError(t, err)
	}
	q.Advance(3 * time.Hour)
	c, err := q.Consume(ctx, job.ConsumerConfig{WorkerID: "w", Slots: 1})
	require.NoError(t, err)
	for _, want := range []string{"2", "1", "0"} {
		cl, err := c.Claim(ctx)
		require.NoError(t, err)
		require.Equal(t, want, cl.Job().ID)
		_, err = cl.Settle(ctx, job.Succeed(nil))
		require.NoError(t, err)
	}
	require.NoError(t, c.Close(ctx))
}

func TestContractA13_ARequeuedJobGoesToTheEndOfTheLine(t *testing.T) {
	q := jobtest.New()
	ctx := t.Context()
	for i := range 3 {
		_, err := q.Enqueue(ctx, job.Spec{ID: fmt.Sprint(i), Type: "t"})
		require.NoError(t, err)
	}
	for _, id := range []string{"1", "0"} {
		_, err := q.Cancel(ctx, job.Key{ID: id})
		require.NoError(t, err)
		_, err = q.Requeue(ctx, job.Key{ID: id})
		require.NoError(t, err)
	}
	c, err := q.Consume(ctx, job.ConsumerConfig{WorkerID: "w", Slots: 1})
	require.NoError(t, err)
	for _, want := range []string{"2", "1", "0"} {
		cl, err := c.Claim(ctx)
		require.NoError(t, err)
		require.Equal(t, want, cl.Job().ID)
		_, err = cl.Settle(ctx, job.Succeed(nil))
		require.NoError(t, err)
	}
	require.NoError(t, c.Close(ctx))
}

func TestRunDueLeavesPausedQueuesAlone(t *testing.T) {
	q := jobtest.New()
	ctx := t.Context()
	for _, queue := range []string{"a", "b"} {
		_, err := q.Enqueue(ctx, job.Spec{Queue: queue, ID: queue, Type: "t"})
		require.NoError(t, err)
	}
	require.NoError(t, q.Pause(ctx, "a", q.Now().Add(time.Hour)))
	run := func() (ids []string) {
		ran, err := q.RunDue(ctx, func(w *worker.Worker) {
			worker.Handle(w, "t", func(context.Context, *job.Job, struct{}) (any, error) { return nil, nil })
		})
		require.NoError(t, err)
		for _, j := range ran {
			ids = append(ids, j.ID)
		}
		return ids
	}
	require.Equal(t, []string{"b"}, run())
	require.Empty(t, run())
	q.Advance(time.Hour)
	require.Equal(t, []string{"a"}, run(), "the pause is over")
}

func TestContractB7_ACancelledHandlerEndsCancelled(t *testing.T) {
	q := jobtest.New()
	got, err := q.Enqueue(t.Context(), job.Spec{Type: "t", Timeout: time.Hour})
	require.NoError(t, err)
	_, err = q.RunDue(t.Context(), func(w *worker.Worker) {
		worker.Handle(w, "t", func(ctx context.Context, _ *job.Job, _ struct{}) (any, error) {
			changed, err := q.Cancel(context.WithoutCancel(ctx), got.Key)
			require.NoError(t, err)
			require.True(t, changed.Done && changed.CancelRequested)
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), job.ErrCancelRequested)
			return nil, ctx.Err()
		})
	})
	require.NoError(t, err)
	j, err := q.Get(t.Context(), got.Key)
	require.NoError(t, err)
	require.Equal(t, job.Cancelled, j.Status)
	require.Equal(t, job.AttemptCancelled, j.History[0].Status)
}
