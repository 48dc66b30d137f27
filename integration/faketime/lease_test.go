package faketime

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/worker"
)

// A worker dies. Its job is another's when the lease is over that it renewed last, at a third of a lease's pace: not before,
// and not another lease later.
func TestALeaseOfAnHourLapsesAfterAnHour(t *testing.T) {
	long(t)
	for _, c := range []struct{ dies, renewed time.Duration }{
		{10 * time.Minute, 0},
		{39 * time.Minute, 20 * time.Minute},
		{50 * time.Minute, 40 * time.Minute},
	} {
		t.Run(fmt.Sprintf("renewed after %s", c.renewed), func(t *testing.T) {
			bubble(t, func(w *world) {
				t := w.t
				w.lease(time.Hour)
				a := w.hire("a", handConfig{handler: takes(6 * time.Hour)})
				key := w.enqueue(job.Spec{})
				w.until(c.dies)
				b := w.hire("b", handConfig{handler: ok})
				held := w.get(key)
				require.Equal(t, job.Running, held.Status)
				require.Equal(t, "a", held.WorkerID)
				within(t, w.begin.Add(time.Hour), held.LeaseUntil, time.Second)
				a.die()

				j := w.ended(key)
				require.Equal(t, job.Succeeded, j.Status)
				require.Equal(t, 2, j.Attempts)
				require.Len(t, j.History, 2)
				lost, done := j.History[0], j.History[1]
				require.Equal(t, job.AttemptLost, lost.Status)
				require.Equal(t, job.LostError, lost.Error)
				require.Equal(t, "a", lost.WorkerID)
				require.Equal(t, job.AttemptSucceeded, done.Status)
				require.Equal(t, "b", done.WorkerID)
				runs := b.ran()
				require.Len(t, runs, 1)
				require.Equal(t, 2, runs[0].attempt)
				within(t, w.begin.Add(c.renewed+time.Hour), runs[0].began, time.Second)
			})
		})
	}
}

// The last attempt's worker dies: the job ends dead when the lease is over, and nobody runs it any more.
func TestALapseOfTheLastAttemptEndsTheJob(t *testing.T) {
	long(t)
	bubble(t, func(w *world) {
		t := w.t
		w.lease(time.Hour)
		cfg := handConfig{handler: takes(6 * time.Hour)}
		a := w.hire("a", cfg)
		key := w.enqueue(job.Spec{MaxAttempts: 2})
		w.until(time.Minute)
		a.die()
		b := w.hire("b", cfg)
		w.until(time.Hour + 2*time.Minute)
		require.Equal(t, "b", w.get(key).WorkerID)
		b.die()
		c := w.hire("c", cfg)
		j := w.ended(key)
		require.Equal(t, job.Dead, j.Status)
		require.Equal(t, 2, j.Attempts)
		require.Equal(t, job.LostError, j.Error)
		require.Len(t, j.History, 2)
		for i, who := range []string{"a", "b"} {
			require.Equal(t, job.AttemptLost, j.History[i].Status)
			require.Equal(t, who, j.History[i].WorkerID)
		}
		within(t, w.begin.Add(2*time.Hour+time.Minute), j.UpdatedAt, time.Second) // b renewed it a minute before it died
		require.Empty(t, c.ran())
	})
}

func TestHeartbeatsKeepALongHandlersClaim(t *testing.T) {
	long(t)
	length := spare(time.Hour, 6*time.Hour)
	bubble(t, func(w *world) {
		t := w.t
		w.lease(time.Minute)
		a := w.hire("a", handConfig{handler: takes(length)})
		key := w.enqueue(job.Spec{})
		w.until(time.Second)
		b := w.hire("b", handConfig{handler: ok}) // idle for all this time
		for h := length / 6; h < length; h += length / 6 {
			w.until(h)
			j := w.get(key)
			require.Equal(t, job.Running, j.Status)
			require.Equal(t, "a", j.WorkerID)
		}
		j := w.ended(key)
		require.Equal(t, job.Succeeded, j.Status)
		require.Equal(t, 1, j.Attempts)
		require.Len(t, j.History, 1)
		require.Equal(t, length, j.History[0].EndedAt.Sub(j.History[0].StartedAt).Round(moment))
		require.Len(t, a.ran(), 1)
		require.NoError(t, a.ran()[0].cause)
		require.Empty(t, b.ran())
	})
}

// A worker is cut off while its handler runs, and does not know it. The handler's context ends by the worker's own clock
// before anybody else begins; the handler does not heed it, and returns when another has the job; when all that the worker
// said arrives, hours late, nothing of it counts.
func TestAZombieCannotSettle(t *testing.T) {
	long(t)
	bubble(t, func(w *world) {
		t := w.t
		w.lease(time.Minute)
		l := w.link()
		var mu sync.Mutex
		var told time.Time
		a := w.hire("a", handConfig{link: l, worker: worker.Config{Grace: 4 * time.Hour}, handler: func(ctx context.Context, _ *job.Job) (any, error) {
			<-ctx.Done()
			mu.Lock()
			told = time.Now()
			mu.Unlock()
			time.Sleep(time.Hour)
			return "a's", nil
		}})
		key := w.enqueue(job.Spec{})
		w.until(10*time.Minute + 5*time.Second)
		b := w.hire("b", handConfig{handler: func(ctx context.Context, j *job.Job) (any, error) {
			_, err := takes(90*time.Minute)(ctx, j)
			return "b's", err
		}})
		l.freeze()
		w.until(80 * time.Minute)
		held := w.get(key)
		require.Equal(t, "b", held.WorkerID)
		require.Len(t, a.ran(), 1)
		require.ErrorIs(t, a.ran()[0].cause, job.ErrLeaseLost)
		l.thaw()
		w.until(81 * time.Minute)
		require.Equal(t, held, w.get(key), "what a said late changed nothing")

		j := w.ended(key)
		require.Equal(t, job.Succeeded, j.Status)
		require.Equal(t, 2, j.Attempts)
		require.JSONEq(t, `"b's"`, string(j.Result))
		require.Len(t, j.History, 2)
		require.Equal(t, job.AttemptLost, j.History[0].Status)
		require.Equal(t, "a", j.History[0].WorkerID)
		require.Len(t, b.ran(), 1)
		require.NoError(t, b.ran()[0].cause)
		mu.Lock()
		defer mu.Unlock()
		require.LessOrEqual(t, told, b.ran()[0].began, "a's handler was told before b's began")
		require.Equal(t, []worker.Result{worker.ResultLost}, a.results())
	})
}

// A worker is cut off in the middle of its settlement. What it wrote arrives hours late, when another has the job: it is
// refused, and the other's attempt stands.
func TestASettlementThatArrivesLateChangesNothing(t *testing.T) {
	long(t)
	bubble(t, func(w *world) {
		t := w.t
		w.lease(time.Minute)
		l := w.link()
		a := w.hire("a", handConfig{link: l, handler: func(context.Context, *job.Job) (any, error) {
			time.Sleep(10*time.Minute + 5*time.Second)
			l.freeze()
			return "a's", nil
		}})
		key := w.enqueue(job.Spec{})
		w.until(time.Minute)
		b := w.hire("b", handConfig{handler: func(ctx context.Context, j *job.Job) (any, error) {
			_, err := takes(90*time.Minute)(ctx, j)
			return "b's", err
		}})
		w.until(80 * time.Minute)
		require.Empty(t, a.results(), "a still tries")
		held := w.get(key)
		require.Equal(t, "b", held.WorkerID)
		l.thaw()
		w.until(81 * time.Minute)
		require.Equal(t, held, w.get(key), "what a said late changed nothing")
		require.Equal(t, []worker.Result{worker.ResultLost}, a.results())

		j := w.ended(key)
		require.Equal(t, job.Succeeded, j.Status)
		require.Equal(t, 2, j.Attempts)
		require.JSONEq(t, `"b's"`, string(j.Result))
		require.Len(t, b.ran(), 1)
		require.NoError(t, b.ran()[0].cause)
	})
}

// A stop waits for what runs, with heartbeats, however long past the lease; what comes meanwhile is another's.
func TestADrainPastTheLease(t *testing.T) {
	long(t)
	bubble(t, func(w *world) {
		t := w.t
		w.lease(time.Minute)
		a := w.hire("a", handConfig{handler: takes(time.Hour)})
		key := w.enqueue(job.Spec{})
		w.until(time.Minute)
		b := w.hire("b", handConfig{handler: ok})
		took := make(chan time.Duration, 1)
		go func() { took <- a.retire() }()
		w.until(2 * time.Minute)
		other := w.enqueue(job.Spec{})
		require.Equal(t, job.Succeeded, w.ended(other).Status)
		within(t, w.begin.Add(time.Hour), w.begin.Add(time.Minute+<-took), 2*time.Second)
		j := w.get(key)
		require.Equal(t, job.Succeeded, j.Status)
		require.Equal(t, 1, j.Attempts)
		require.Equal(t, "a", j.WorkerID)
		require.Len(t, a.ran(), 1)
		require.NoError(t, a.ran()[0].cause)
		require.Len(t, b.ran(), 1)
		require.Equal(t, other.ID, b.ran()[0].id)
	})
}

// An attempt's timeout and a job's deadline are hours away, and hold to the moment.
func TestATimeoutAndADeadline(t *testing.T) {
	long(t)
	bubble(t, func(w *world) {
		t := w.t
		a := w.hire("a", handConfig{handler: takes(24 * time.Hour)})
		timeout := w.enqueue(job.Spec{ID: "timeout", Timeout: time.Hour, MaxAttempts: 1})
		deadline := w.enqueue(job.Spec{ID: "deadline", Deadline: w.begin.Add(2 * time.Hour), MaxAttempts: 9})
		require.Equal(t, job.Dead, w.ended(timeout).Status)
		require.Equal(t, job.Dead, w.ended(deadline).Status)
		runs := a.ran()
		require.Len(t, runs, 2)
		require.ErrorIs(t, runs[0].cause, job.ErrTimeout)
		within(t, runs[0].began.Add(time.Hour), runs[0].done, moment)
		require.ErrorIs(t, runs[1].cause, job.ErrDeadline)
		within(t, w.begin.Add(2*time.Hour), runs[1].done, moment)
	})
}
