package faketime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/worker"
)

// alarmRests is how late a due job may begin on an idle machine: the server looks at its timers a few times a second.
const alarmRests = time.Second

// What failed together comes back by its backoff: from 30 s doubling to 15 min, never early, with up to 30 s more that is
// not the same for all; and ends dead when its attempts are used up.
func TestRetriesWaitOutTheirBackoff(t *testing.T) {
	long(t)
	bubble(t, func(w *world) {
		t := w.t
		const jobs, attempts = 20, 8
		a := w.hire("a", handConfig{worker: worker.Config{Queues: map[string]int{"default": jobs}}, handler: func(context.Context, *job.Job) (any, error) {
			return nil, errors.New("card declined")
		}})
		var keys []job.Key
		for i := range jobs {
			keys = append(keys, w.enqueue(job.Spec{ID: fmt.Sprint(i), MaxAttempts: attempts}))
		}
		for _, key := range keys {
			j := w.ended(key)
			require.Equal(t, job.Dead, j.Status)
			require.Equal(t, attempts, j.Attempts)
			require.Len(t, j.History, attempts)
			require.Contains(t, j.Error, "card declined")
		}
		byJob := make(map[string][]ran)
		for _, r := range a.ran() {
			byJob[r.id] = append(byJob[r.id], r)
		}
		spread := make([][]time.Duration, attempts)
		for _, runs := range byJob {
			require.Len(t, runs, attempts)
			for i := 1; i < attempts; i++ {
				step := min(30*time.Second<<(i-1), 15*time.Minute)
				waited := runs[i].began.Sub(runs[i-1].done)
				require.GreaterOrEqual(t, waited, step, "after attempt %d", i)
				require.LessOrEqual(t, waited, step+30*time.Second+alarmRests, "after attempt %d", i)
				spread[i] = append(spread[i], waited-step)
			}
		}
		for i := 1; i < attempts; i++ { // 20 draws of 30 s within 10 s of each other are one in a hundred million
			require.Greater(t, slices.Max(spread[i])-slices.Min(spread[i]), 10*time.Second, "after attempt %d", i)
		}
	})
}

// A handler says for itself when to come back: with the attempt counted, or given back.
func TestAHandlerNamesItsWait(t *testing.T) {
	long(t)
	bubble(t, func(w *world) {
		t := w.t
		waits := []error{job.RetryAfter(2*time.Hour, errors.New("closed")), job.Snooze(time.Hour, "too early")}
		n := 0
		a := w.hire("a", handConfig{handler: func(context.Context, *job.Job) (any, error) {
			if n++; n <= len(waits) {
				return nil, waits[n-1]
			}
			return nil, nil
		}})
		j := w.ended(w.enqueue(job.Spec{}))
		require.Equal(t, job.Succeeded, j.Status)
		require.Equal(t, 2, j.Attempts, "the snoozed one was given back")
		require.Len(t, j.History, 2)
		runs := a.ran()
		require.Len(t, runs, 3)
		within(t, runs[0].done.Add(2*time.Hour), runs[1].began, alarmRests)
		within(t, runs[1].done.Add(time.Hour), runs[2].began, alarmRests)
	})
}

func TestAJobDueInTwentyHoursRunsThen(t *testing.T) {
	long(t)
	bubble(t, func(w *world) {
		t := w.t
		delayed := w.enqueue(job.Spec{ID: "delayed", Delay: 20 * time.Hour})
		at := w.enqueue(job.Spec{ID: "at", DueAt: w.begin.Add(20 * time.Hour)})
		unattended := w.enqueue(job.Spec{ID: "unattended", Delay: 30 * time.Hour})
		far := w.enqueue(job.Spec{ID: "far", Delay: 50 * time.Hour})
		w.away(19*time.Hour + 30*time.Minute)
		a := w.hire("a", handConfig{handler: ok})
		w.until(20*time.Hour - time.Millisecond)
		require.Empty(t, a.ran())
		for _, key := range []job.Key{delayed, at} {
			require.Equal(t, job.Pending, w.get(key).Status)
		}
		w.ended(delayed)
		w.ended(at)
		require.Len(t, a.ran(), 2)
		for _, r := range a.ran() {
			within(t, w.begin.Add(20*time.Hour), r.began, alarmRests)
		}
		a.retire()

		// What falls due while nobody works is taken as soon as somebody does; what is not due by then still waits.
		w.away(49 * time.Hour)
		b := w.hire("b", handConfig{handler: ok})
		within(t, w.begin.Add(49*time.Hour), b.first(unattended), alarmRests)
		w.until(50*time.Hour - time.Millisecond)
		require.Len(t, b.ran(), 1)
		w.ended(far)
		within(t, w.begin.Add(50*time.Hour), b.first(far), alarmRests)
	})
}

// A pause holds what is new, what falls due and what was handed back, and leaves alone what runs; it ends by itself at its
// instant, or when it is taken back.
func TestAPauseOverHours(t *testing.T) {
	long(t)
	bubble(t, func(w *world) {
		t := w.t
		ctx := t.Context()
		a := w.hire("a", handConfig{handler: func(ctx context.Context, j *job.Job) (any, error) {
			if j.ID == "running" {
				return takes(time.Hour)(ctx, j)
			}
			return nil, nil
		}})
		running := w.enqueue(job.Spec{ID: "running"})
		w.until(time.Minute)
		until := w.begin.Add(3 * time.Hour)
		require.NoError(t, w.store.Pause(ctx, job.DefaultQueue, until))
		fresh := w.enqueue(job.Spec{ID: "fresh"})
		due := w.enqueue(job.Spec{ID: "due", Delay: time.Hour})
		require.Equal(t, job.Succeeded, w.ended(running).Status)
		w.until(3*time.Hour - time.Millisecond)
		require.Len(t, a.ran(), 1, "only what ran already")
		for _, key := range []job.Key{fresh, due} {
			require.Equal(t, job.Succeeded, w.ended(key).Status)
			within(t, until, a.first(key), 5*time.Second)
		}

		require.NoError(t, w.store.Pause(ctx, job.DefaultQueue, time.Time{}))
		held := w.enqueue(job.Spec{ID: "held"})
		w.until(5 * time.Hour)
		require.Len(t, a.ran(), 3)
		require.NoError(t, w.store.Resume(ctx, job.DefaultQueue))
		resumed := time.Now()
		require.Equal(t, job.Succeeded, w.ended(held).Status)
		within(t, resumed.Add(-time.Second), a.first(held), 6*time.Second)
	})
}
