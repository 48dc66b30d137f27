package queuetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

func onlyDue(e *env) {
	e.calm(calm)
	w := e.worker("w")
	far, near := e.spec("far"), e.spec("near")
	far.Delay, near.Delay = time.Minute, 1200*time.Millisecond
	e.enqueue(far)
	key := e.enqueue(near)
	e.nothing(w, while)
	cl := e.claim(w)
	require.Equal(e, key, cl.Job().Key())
	require.False(e, e.q.Now().Add(skew).Before(cl.Job().RunAt), "not before its instant")
	require.Equal(e, 1, cl.Job().Attempts)
	e.settle(cl, job.Succeed(nil))
	e.nothing(w, while)
}

func exclusive(e *env) {
	e.calm(calm)
	var workers []job.Consumer
	for i := range 6 {
		workers = append(workers, e.worker(fmt.Sprint(i)))
	}
	for round := range 5 {
		key := e.enqueue(e.spec(fmt.Sprint(round)))
		var mu sync.Mutex
		var got []job.Claim
		ctx, cancel := context.WithTimeout(e.Context(), soon)
		together(len(workers), func(i int) {
			cl, err := workers[i].Claim(ctx)
			if err != nil {
				return
			}
			time.AfterFunc(while, cancel) // a second one would have it by then
			mu.Lock()
			defer mu.Unlock()
			got = append(got, cl)
		})
		cancel()
		require.Len(e, got, 1)
		require.Equal(e, key, got[0].Job().Key())
		e.settle(got[0], job.Succeed(nil))
	}
}

func backlog(e *env) {
	e.calm(calm)
	const jobs, workers, slots = 300, 4, 4
	var consumers []job.Consumer
	for i := range workers {
		consumers = append(consumers, e.worker(fmt.Sprint("w", i)))
	}
	var specs []job.Spec
	for i := range jobs {
		specs = append(specs, e.spec(fmt.Sprint(i)))
	}
	_, err := e.q.EnqueueMany(e.ctx(), specs)
	require.NoError(e, err)
	ctx, cancel := context.WithTimeout(e.Context(), soon)
	defer cancel()
	var mu sync.Mutex
	runs := make(map[string]int)
	together(workers*slots, func(i int) {
		for {
			cl, err := consumers[i%workers].Claim(ctx)
			if err != nil {
				return
			}
			mu.Lock()
			runs[cl.Job().ID]++
			mu.Unlock()
			if _, err := cl.Settle(e.ctx(), job.Succeed(nil)); err != nil {
				e.Error(err)
			}
			mu.Lock()
			done := len(runs) == jobs
			mu.Unlock()
			if done {
				time.AfterFunc(while, cancel) // a job handed out twice would come now
			}
		}
	})
	require.Len(e, runs, jobs)
	for id, n := range runs {
		require.Equal(e, 1, n, id)
	}
	for i := 0; i < jobs; i += 10 {
		j := e.see(job.Key{Queue: e.queue, Space: "default", ID: fmt.Sprint(i)}, is(job.Succeeded))
		require.Equal(e, 1, j.Attempts)
		require.Len(e, j.History, 1)
	}
}

func claimed(e *env) {
	e.calm(calm)
	w := e.worker("w1")
	s := e.spec("1")
	s.RunID, s.Missed, s.Timeout, s.MaxAttempts = "r", 2, time.Minute, 5
	key := e.enqueue(s)
	before := e.q.Now()
	cl := e.claim(w)
	after := e.q.Now()
	j := cl.Job()
	require.Equal(e, key, j.Key())
	require.Equal(e, job.Running, j.Status)
	require.Equal(e, 1, j.Attempts)
	require.Equal(e, "w1", j.WorkerID)
	e.near(j.LeaseUntil, before.Add(e.lease), after.Add(e.lease), "leaseUntil")
	require.Equal(e, []any{"t", "r", 2, time.Minute, 5}, []any{j.Type, j.RunID, j.Missed, j.Timeout, j.MaxAttempts})
	require.Empty(e, j.History)
	j.Type, j.Attempts = "changed", 9
	require.Equal(e, "t", cl.Job().Type, "it is a copy")

	seen := e.seen(key)
	require.Equal(e, 1, seen.Attempts)
	require.Equal(e, "w1", seen.WorkerID)
	require.False(e, seen.StartedAt.IsZero())
	e.near(seen.LeaseUntil, before.Add(e.lease), e.q.Now().Add(e.lease), "leaseUntil as others see it")
	e.settle(cl, job.Succeed(nil))
}

func lapse(e *env) {
	w1, w2 := e.worker("w1"), e.worker("w2")
	s := e.spec("1")
	s.RunID = "r1"
	key := e.enqueue(s)
	cl := e.claim(w1)
	until := e.seen(key).LeaseUntil
	cl.Abandon()
	next := e.claim(w2)
	j := next.Job()
	require.False(e, e.q.Now().Add(skew).Before(until), "a lease that has not lapsed is never taken over")
	require.Equal(e, key, j.Key())
	require.Equal(e, 2, j.Attempts)
	require.Equal(e, "w2", j.WorkerID)
	check := func(j *job.Job) {
		require.Len(e, j.History, 1)
		h := j.History[0]
		require.Equal(e, []any{1, job.AttemptLost, "w1", "r1", job.LostError}, []any{h.Attempt, h.Status, h.WorkerID, h.RunID, h.Error})
		require.False(e, h.StartedAt.IsZero())
		require.False(e, h.EndedAt.Before(h.StartedAt))
	}
	check(j)
	seen := e.see(key, func(j *job.Job) error {
		if j.Attempts != 2 {
			return errNotYet
		}
		return nil
	})
	require.Equal(e, job.Running, seen.Status)
	require.Equal(e, "w2", seen.WorkerID)
	check(seen)
	j = e.settle(next, job.Succeed(nil))
	require.Equal(e, 2, j.Attempts)
	require.Len(e, j.History, 2)
	require.Equal(e, 2, j.History[1].Attempt)
	check(&job.Job{History: j.History[:1]})
}

func lapseYoung(e *env) {
	w1, w2 := e.worker("w1"), e.worker("w2")
	key := e.enqueue(e.spec("1"))
	e.claim(w1).Abandon() // too young for others to know of it
	cl := e.claim(w2)
	j := cl.Job()
	require.Equal(e, key, j.Key())
	require.Len(e, j.History, 1)
	require.Equal(e, job.AttemptLost, j.History[0].Status)
	require.Contains(e, []string{"w1", job.UnknownWorker}, j.History[0].WorkerID)
	require.Equal(e, 2, j.Attempts)
	e.settle(cl, job.Succeed(nil))
}

func lapseLast(e *env) {
	w1, w2 := e.worker("w1"), e.worker("w2")
	s := e.spec("1")
	s.MaxAttempts = 1
	key := e.enqueue(s)
	cl := e.claim(w1)
	e.seen(key)
	cl.Abandon()
	e.nothing(w2, 3*e.lease)
	j := e.see(key, is(job.Dead))
	require.Equal(e, job.LostError, j.Error)
	require.Equal(e, 1, j.Attempts)
	require.Equal(e, "w1", j.WorkerID)
	require.True(e, j.LeaseUntil.IsZero())
	require.Len(e, j.History, 1)
	require.Equal(e, job.AttemptLost, j.History[0].Status)
	e.nothing(w2, while)
}

func heartbeat(e *env) {
	e.calm(3 * time.Second)
	w1, w2 := e.worker("w1"), e.worker("w2")
	key := e.enqueue(e.spec("1"))
	cl := e.claim(w1)
	told := make(chan error, 1)
	cl.Notify(func(err error) { told <- err })
	e.nothing(w2, 3*e.lease+e.lease/2)
	require.NoError(e, cl.Heartbeat(e.ctx()))
	select {
	case err := <-told:
		require.NoError(e, err)
	default:
	}
	j := e.get(key)
	require.Equal(e, job.Running, j.Status)
	require.Equal(e, 1, j.Attempts)
	require.Equal(e, 1, e.settle(cl, job.Succeed(nil)).Attempts)
}

func heartbeatLost(e *env) {
	w1, w2 := e.worker("w1"), e.worker("w2")
	key := e.enqueue(e.spec("1"))
	cl := e.claim(w1)
	told := make(chan error, 1)
	cl.Notify(func(err error) { told <- err })
	e.seen(key)
	cl.Abandon()
	require.ErrorIs(e, cl.Heartbeat(e.ctx()), job.ErrLeaseLost)
	next := e.claim(w2)
	require.ErrorIs(e, cl.Heartbeat(e.ctx()), job.ErrLeaseLost)
	next.Abandon()
	third := e.claim(w1) // the first one's heartbeats did not keep it from coming back
	require.Equal(e, 3, third.Job().Attempts)
	e.settle(third, job.Succeed(nil))
	require.ErrorIs(e, third.Heartbeat(e.ctx()), job.ErrLeaseLost)
}

func late(e *env) {
	w1, w2 := e.worker("w1"), e.worker("w2")
	key := e.enqueue(e.spec("1"))
	old := e.claim(w1)
	e.seen(key)
	old.Abandon()
	cl := e.claim(w2)
	for _, o := range []job.Outcome{job.Succeed(nil), job.Fail(0, "no"), job.HandBack(0, "no"), {Status: job.Cancelled}} {
		_, err := old.Settle(e.ctx(), o)
		require.ErrorIs(e, err, job.ErrLeaseLost)
	}
	j := e.see(key, func(j *job.Job) error {
		if j.WorkerID != "w2" {
			return errNotYet
		}
		return nil
	})
	require.Equal(e, job.Running, j.Status)
	require.Equal(e, "w2", e.settle(cl, job.Succeed(nil)).WorkerID)
	_, err := old.Settle(e.ctx(), job.Fail(0, "no"))
	require.ErrorIs(e, err, job.ErrLeaseLost)
	j = e.see(key, is(job.Succeeded))
	require.Equal(e, 2, j.Attempts)
	require.Len(e, j.History, 2)
}

func cutOff(e *env) {
	l, ok := e.h.(Links)
	if !ok {
		e.Skip("its clients have no link")
	}
	q, cut, mend := l.Link(e.T)
	e.Cleanup(mend)
	w1, w2 := e.workerOf(q, "w1"), e.worker("w2")
	key := e.enqueue(e.spec("1"))
	cl := e.claim(w1)
	told := make(chan error, 1)
	cl.Notify(func(err error) { told <- err })
	e.seen(key)
	cut()
	next := e.claim(w2)
	select {
	case err := <-told:
		require.ErrorIs(e, err, job.ErrLeaseLost, "it stops by its own clock")
	case <-time.After(soon):
		require.Fail(e, "the worker that was cut off was not told")
	}
	mend()
	_, err := cl.Settle(e.ctx(), job.Succeed(nil))
	require.ErrorIs(e, err, job.ErrLeaseLost)
	j := e.settle(next, job.Succeed(nil))
	require.Equal(e, 2, j.Attempts)
	require.Equal(e, "w2", e.see(key, is(job.Succeeded)).WorkerID)
}

func once(e *env) {
	e.calm(calm)
	w := e.worker("w")
	key := e.enqueue(e.spec("1"))
	cl := e.claim(w)
	var mu sync.Mutex
	var won []job.Status
	outcomes := []job.Outcome{job.Succeed(nil), {Status: job.Failed}, {Status: job.Dead}, {Status: job.Cancelled}}
	together(len(outcomes), func(i int) {
		j, err := cl.Settle(e.ctx(), outcomes[i])
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			won = append(won, j.Status)
		} else if !errors.Is(err, job.ErrLeaseLost) {
			e.Error(err)
		}
	})
	require.Len(e, won, 1)
	j := e.see(key, is(won[0]))
	require.Len(e, j.History, 1)
}

func drain(e *env) {
	e.calm(3 * time.Second)
	w1 := e.worker("w1")
	key := e.enqueue(e.spec("held"))
	held := e.claim(w1)
	ctx, cancel := context.WithCancel(e.Context())
	waiting := make(chan error, 3)
	for range 3 {
		go func() {
			_, err := w1.Claim(ctx)
			waiting <- err
		}()
	}
	time.Sleep(100 * time.Millisecond) // let it ask for three; nothing depends on whether it did
	cancel()
	for range 3 {
		<-waiting
	}
	for i := range 3 {
		e.enqueue(e.spec(fmt.Sprint(i)))
	}
	time.Sleep(100 * time.Millisecond) // they may be in the first worker's hands now
	require.NoError(e, w1.Drain(e.ctx()))
	_, err := w1.Claim(e.ctx())
	require.ErrorIs(e, err, job.ErrClosed)
	w2 := e.worker("w2")
	for range 3 {
		cl := e.claim(w2)
		require.Equal(e, 1, cl.Job().Attempts)
		require.Empty(e, cl.Job().History)
		e.settle(cl, job.Succeed(nil))
	}
	e.nothing(w2, 2*e.lease) // what is held goes on, and so do its heartbeats
	require.NoError(e, held.Heartbeat(e.ctx()))
	e.settle(held, job.Succeed(nil))
	require.Equal(e, 1, e.see(key, is(job.Succeeded)).Attempts)
}
