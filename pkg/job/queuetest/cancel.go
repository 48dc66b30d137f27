package queuetest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

func cancelWaiting(e *env) {
	e.calm(calm)
	w := e.worker("w")
	due := e.spec("due")
	due.Delay = 1200 * time.Millisecond
	second := e.second()
	retried := e.ended(w, e.spec("retried"), job.Fail(1200*time.Millisecond, "boom"))
	for _, key := range []job.Key{e.enqueue(due), e.enqueue(e.spec("ready")), retried} {
		before := e.get(key)
		changed, err := second.Cancel(e.ctx(), key)
		require.NoError(e, err)
		require.Equal(e, job.Changed{Key: key, Done: true, Status: job.Cancelled}, changed)
		j := e.see(key, is(job.Cancelled))
		require.Equal(e, before.History, j.History)
		require.Equal(e, before.Attempts, j.Attempts)
		require.False(e, j.CancelRequested)
		j, err = e.q.Wait(e.ctx(), key)
		require.NoError(e, err)
		require.Equal(e, job.Cancelled, j.Status)
		e.unchanged(job.OpCancel, key)
	}
	e.nothing(w, 1200*time.Millisecond+while)
	e.see(job.Key{Queue: e.queue, ID: "due"}, is(job.Cancelled))
}

// told is what a claim's holder hears.
func (e *env) told(cl job.Claim) func(want error) {
	told := make(chan error, 1)
	cl.Notify(func(err error) { told <- err })
	return func(want error) {
		e.Helper()
		select {
		case err := <-told:
			require.ErrorIs(e, err, want)
			for _, other := range []error{job.ErrCancelRequested, job.ErrLeaseLost, job.ErrTimeout, job.ErrDeadline, job.ErrShutdown} {
				require.Equal(e, errors.Is(want, other), errors.Is(err, other), "%v is not taken for %v", err, other)
			}
		case <-time.After(soon):
			require.Fail(e, "the holder was not told")
		}
	}
}

func cancelRunning(e *env) {
	e.calm(calm)
	w := e.worker("w")
	for i, o := range []job.Operator{e.op(), e.second()} {
		key := e.enqueue(e.spec(fmt.Sprint(i)))
		cl := e.claim(w)
		told := e.told(cl)
		e.seen(key)
		changed, err := o.Cancel(e.ctx(), key)
		require.NoError(e, err)
		require.Equal(e, job.Changed{Key: key, Done: true, Status: job.Running, CancelRequested: true}, changed)
		told(job.ErrCancelRequested)
		j := e.see(key, func(j *job.Job) error {
			if !j.CancelRequested {
				return errNotYet
			}
			return nil
		})
		require.Equal(e, job.Running, j.Status)
		require.Equal(e, 1, j.Attempts)
		again, err := o.Cancel(e.ctx(), key)
		require.NoError(e, err)
		require.Equal(e, job.Changed{Key: key, Status: job.Running, CancelRequested: true}, again)
		require.NoError(e, cl.Heartbeat(e.ctx()), "it is still held")
		require.Equal(e, job.Cancelled, e.settle(cl, job.Outcome{Status: job.Cancelled, Error: "stopped"}).Status)
		j = e.see(key, is(job.Cancelled))
		require.Equal(e, "w", j.WorkerID)
		require.Len(e, j.History, 1)
		require.Equal(e, job.AttemptCancelled, j.History[0].Status)
		e.unchanged(job.OpCancel, key)
	}
	e.nothing(w, while)
}

func cancelYoung(e *env) {
	e.calm(calm)
	w := e.worker("w")
	for i, o := range []job.Operator{e.op(), e.second()} {
		key := e.enqueue(e.spec(fmt.Sprint(i)))
		cl := e.claim(w)
		told := e.told(cl)
		changed, err := o.Cancel(e.ctx(), key) // its claim may not be readable yet
		require.NoError(e, err)
		require.True(e, changed.Done)
		require.True(e, changed.Status == job.Cancelled || changed.Status == job.Running && changed.CancelRequested, "%+v", changed)
		told(job.ErrCancelRequested)
		if _, err := cl.Settle(e.ctx(), job.Outcome{Status: job.Cancelled, Error: "stopped"}); err != nil {
			require.ErrorIs(e, err, job.ErrLeaseLost)
		}
		e.see(key, is(job.Cancelled))
		again, err := o.Cancel(e.ctx(), key)
		require.NoError(e, err)
		require.Equal(e, job.Changed{Key: key, Status: job.Cancelled, CancelRequested: again.CancelRequested}, again)
	}
	e.nothing(w, 2*while)
}

func cancelEnded(e *env) {
	e.calm(calm)
	w := e.worker("w")
	for _, end := range ends {
		key := e.ended(w, e.spec(string(end)), job.Outcome{Status: end})
		e.unchanged(job.OpCancel, key)
	}
	e.nothing(w, while)
}

// cancelAbandoned: a worker that stops reporting does not bring a job back that was to be stopped.
func cancelAbandoned(e *env) {
	w1, w2 := e.worker("w1"), e.worker("w2")
	key := e.enqueue(e.spec("1"))
	cl := e.claim(w1)
	e.seen(key)
	e.changed(job.OpCancel, key, job.Running)
	cl.Abandon()
	e.nothing(w2, 3*e.lease)
	j := e.see(key, is(job.Cancelled))
	require.Len(e, j.History, 1)
	require.Equal(e, job.AttemptLost, j.History[0].Status)
}

func cancelRace(e *env) {
	e.calm(calm)
	const jobs = 40
	w := e.worker("w")
	clients := []job.Operator{e.op(), e.second()}
	var specs []job.Spec
	for i := range jobs {
		specs = append(specs, e.spec(fmt.Sprint(i)))
	}
	_, err := e.q.EnqueueMany(e.ctx(), specs)
	require.NoError(e, err)
	outcomes := e.watch(jobs)
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() { outcomes.run(w, i) })
	}
	together(4, func(n int) {
		for i := n / 2; i < jobs; i += 2 { // each job by two
			if _, err := clients[n%2].Cancel(e.ctx(), job.Key{Queue: e.queue, ID: fmt.Sprint(i)}); err != nil {
				e.Error(err)
			}
		}
	})
	outcomes.rest()
	wg.Wait()
	e.nothing(w, while)
}
