package jobtest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/job/queuetest"
	"github.com/jetcrew/jetcrew/pkg/jobtest"
	"github.com/jetcrew/jetcrew/worker"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Most tests of the contract wait: far more of them than there are processors can do so at a time.
	if err := flag.Set("test.parallel", "32"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

type harness struct{ q *jobtest.Queue }

func (h harness) Queue() job.Queue                                  { return h.q }
func (h harness) Client(*testing.T) job.Queue                       { return h.q }
func (h harness) TooLarge() int                                     { return 2 << 20 }
func (h harness) SetAside(_ *testing.T, key job.Key, body []byte)   { h.q.SetAside(key, body) }
func (h harness) Retention(_ *testing.T, key job.Key) time.Duration { return h.q.Kept(key) }

func TestContract(t *testing.T) {
	queuetest.Run(t, func(*testing.T) queuetest.Harness { return harness{jobtest.New()} })
}

type email struct{ To string }

func TestRunDue(t *testing.T) {
	q := jobtest.New()
	ctx := t.Context()
	for i := range 3 {
		_, err := q.Enqueue(ctx, job.Spec{ID: fmt.Sprint(i), Type: "email", Input: []byte(`{"To":"a"}`), Delay: time.Duration(i) * time.Hour})
		require.NoError(t, err)
	}
	fail := true
	var mu sync.Mutex // handlers run side by side
	var sent []string
	register := func(w *worker.Worker) {
		worker.Handle(w, "email", func(_ context.Context, j *job.Job, in email) (any, error) {
			if fail {
				return nil, errors.New("no connection")
			}
			mu.Lock()
			defer mu.Unlock()
			sent = append(sent, j.ID+in.To)
			return map[string]string{"sent": in.To}, nil
		})
	}
	ran, err := q.RunDue(ctx, register)
	require.NoError(t, err)
	require.Len(t, ran, 1)
	require.Equal(t, job.Pending, ran[0].Status)
	require.Equal(t, "no connection", ran[0].Error)

	ran, err = q.RunDue(ctx, register)
	require.NoError(t, err)
	require.Empty(t, ran, "a retry waits")

	fail = false
	q.Advance(90 * time.Minute)
	ran, err = q.RunDue(ctx, register)
	require.NoError(t, err)
	require.Len(t, ran, 2)
	require.ElementsMatch(t, []string{"0a", "1a"}, sent)
	require.JSONEq(t, `{"sent":"a"}`, string(ran[0].Result))
	require.Len(t, q.Jobs("email"), 3)
	require.Empty(t, q.Jobs("other"))
}

func TestRunDueRunsWhatHandlersEnqueue(t *testing.T) {
	q := jobtest.New()
	_, err := q.Enqueue(t.Context(), job.Spec{ID: "parent", Type: "parent"})
	require.NoError(t, err)
	ran, err := q.RunDue(t.Context(), func(w *worker.Worker) {
		worker.Handle(w, "parent", func(ctx context.Context, _ *job.Job, _ struct{}) (any, error) {
			_, err := q.Enqueue(ctx, job.Spec{ID: "child", Type: "child"})
			return nil, err
		})
		worker.Handle(w, "child", func(context.Context, *job.Job, struct{}) (any, error) { return nil, nil })
	})
	require.NoError(t, err)
	require.Len(t, ran, 2)
	for _, j := range ran {
		require.Equal(t, job.Succeeded, j.Status, j.ID)
	}
}

func TestAbandonedLeasesLapseWithTheClock(t *testing.T) {
	q := jobtest.New()
	ctx := t.Context()
	_, err := q.Enqueue(ctx, job.Spec{ID: "a", Type: "x"})
	require.NoError(t, err)
	c, err := q.Consume(ctx, job.ConsumerConfig{WorkerID: "w1", Slots: 1, Lease: time.Hour})
	require.NoError(t, err)
	cl, err := c.Claim(ctx)
	require.NoError(t, err)
	q.Advance(3 * time.Hour) // held: it does not lapse
	j, err := q.Get(ctx, job.Key{ID: "a"})
	require.NoError(t, err)
	require.Equal(t, job.Running, j.Status)
	cl.Abandon()
	q.Advance(2 * time.Hour)
	cl, err = c.Claim(ctx)
	require.NoError(t, err)
	require.Equal(t, 2, cl.Job().Attempts)
	require.Equal(t, job.AttemptLost, cl.Job().History[0].Status)
	require.NoError(t, c.Close(ctx))
}

func TestReportsStandOnTheRecord(t *testing.T) {
	q := jobtest.New()
	_, err := q.Enqueue(t.Context(), job.Spec{ID: "a", Type: "x"})
	require.NoError(t, err)
	ran, err := q.RunDue(t.Context(), func(w *worker.Worker) {
		worker.Handle(w, "x", func(ctx context.Context, _ *job.Job, _ struct{}) (any, error) {
			job.Progress(ctx, 40, "pages")
			job.Logf(ctx, "page %d", 40)
			return nil, nil
		})
	})
	require.NoError(t, err)
	require.Len(t, ran, 1)
	require.InDelta(t, 40, ran[0].Progress.Done, 0)
	require.Equal(t, "page 40", ran[0].Log[0].Text)
}

func TestWhatWaitsIsDueWhenTheClockWasPutForwardByThat(t *testing.T) {
	q := jobtest.New()
	for i := range 200 {
		_, err := q.Enqueue(t.Context(), job.Spec{ID: fmt.Sprint(i), Type: "x", Delay: time.Hour})
		require.NoError(t, err)
	}
	q.Advance(time.Hour)
	ran, err := q.RunDue(t.Context(), func(w *worker.Worker) {
		worker.Handle(w, "x", func(context.Context, *job.Job, struct{}) (any, error) { return nil, nil })
	})
	require.NoError(t, err)
	require.Len(t, ran, 200)
}

func TestRunDueEndsWithItsContext(t *testing.T) {
	q := jobtest.New()
	_, err := q.Enqueue(t.Context(), job.Spec{ID: "a", Type: "x"})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	_, err = q.RunDue(ctx, func(w *worker.Worker) {
		worker.Handle(w, "x", func(ctx context.Context, _ *job.Job, _ struct{}) (any, error) {
			cancel()
			<-ctx.Done()
			return nil, ctx.Err()
		})
	})
	require.ErrorIs(t, err, context.Canceled)
}

func TestRunDueWantsAHandler(t *testing.T) {
	q := jobtest.New()
	_, err := q.Enqueue(t.Context(), job.Spec{ID: "a", Type: "emial"})
	require.NoError(t, err)
	_, err = q.RunDue(t.Context(), func(*worker.Worker) {})
	require.ErrorContains(t, err, `no handler for type "emial"`)
}
