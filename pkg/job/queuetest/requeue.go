package queuetest

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

func requeueRecord(e *env) {
	e.calm(calm)
	second := e.second()
	for _, end := range ends {
		w := e.worker("w")
		s := e.spec(string(end))
		s.DueAt, s.Missed, s.RunID = e.q.Now().Add(-time.Hour), 3, "asked"
		key := e.enqueue(s)
		e.settle(e.claim(w), job.Fail(0, "first"))
		cl := e.claim(w)
		if r, ok := cl.(job.Reporter); ok {
			r.ReportLog("a line")
			r.ReportProgress(50, "pages")
		}
		e.settle(cl, job.Outcome{Status: end, Error: "why", Result: []byte(`1`), RunID: "run"})
		before := e.see(key, is(end))
		require.Len(e, before.History, 2)
		require.NoError(e, w.Close(e.ctx())) // it might take the job ahead, and hand it back

		from := e.q.Now()
		changed, err := second.Requeue(e.ctx(), job.Key{Queue: e.queue, ID: s.ID})
		require.NoError(e, err)
		require.Equal(e, job.Changed{Key: key, Done: true, Status: job.Pending}, changed)
		j := e.see(key, is(job.Pending))
		e.near(j.RunAt, from, e.q.Now(), "runAt")
		e.near(j.UpdatedAt, from, e.q.Now(), "updatedAt")
		want := *before
		want.Status, want.Attempts, want.Error, want.WorkerID, want.Result, want.Progress = job.Pending, 0, "", "", nil, nil
		want.RunAt, want.UpdatedAt = j.RunAt, j.UpdatedAt
		require.Equal(e, want, *j, "history, runId, dueAt, missed and the log are kept")

		w = e.worker("w")
		cl = e.claim(w)
		require.Equal(e, key, cl.Job().Key())
		require.Equal(e, 1, cl.Job().Attempts)
		require.Equal(e, "run", cl.Job().RunID)
		j = e.settle(cl, job.Succeed(nil))
		require.Equal(e, 1, j.Attempts)
		require.Len(e, j.History, 3)
		require.Equal(e, 3, j.History[2].Attempt, "the history goes on counting")
		e.see(key, is(job.Succeeded))
		e.nothing(w, while)
		require.NoError(e, w.Close(e.ctx()))
	}
}

func requeueCancelled(e *env) {
	e.calm(calm)
	w := e.worker("w")
	key := e.enqueue(e.spec("1"))
	cl := e.claim(w)
	e.seen(key)
	e.changed(job.OpCancel, key, job.Running)
	require.Equal(e, job.Cancelled, e.settle(cl, job.Fail(0, "no")).Status)
	e.see(key, is(job.Cancelled))
	e.changed(job.OpRequeue, key, job.Pending)
	cl = e.claim(w)
	require.False(e, cl.Job().CancelRequested)
	require.Equal(e, job.Pending, e.settle(cl, job.HandBack(0, "not now")).Status, "it is not cancelled a second time")
	e.settle(e.claim(w), job.Succeed(nil))
}

func requeueLine(e *env) {
	e.calm(calm)
	w := e.worker("w")
	key := e.ended(w, e.spec("first"), job.Succeed(nil))
	require.NoError(e, w.Close(e.ctx()))
	e.enqueue(e.spec("second"))
	e.changed(job.OpRequeue, key, job.Pending)
	w = e.worker("w")
	for _, id := range []string{"second", "first"} {
		require.Equal(e, id, e.settle(e.claim(w), job.Succeed(nil)).ID)
	}
}

func requeueUnended(e *env) {
	e.calm(calm)
	w := e.worker("w")
	running := e.enqueue(e.spec("running"))
	cl := e.claim(w)
	e.seen(running)
	ready, due := e.idle("ready"), e.idle("due")
	due.Delay = time.Hour
	for _, key := range []job.Key{running, e.enqueue(ready), e.enqueue(due)} {
		e.get(key)
		e.unchanged(job.OpRequeue, key)
	}
	e.settle(cl, job.Succeed(nil))
}

func requeueRace(e *env) {
	e.calm(calm)
	w := e.worker("w")
	clients := []job.Operator{e.op(), e.second()}
	for i := range 3 {
		key := e.ended(w, e.spec(fmt.Sprint(i)), job.Outcome{Status: job.Dead, Error: "no"})
		var done atomic.Int32
		together(8, func(i int) {
			changed, err := clients[i%2].Requeue(e.ctx(), key)
			if err != nil {
				e.Error(err)
			} else if changed.Done {
				done.Add(1)
			}
		})
		require.EqualValues(e, 1, done.Load())
		e.settle(e.claim(w), job.Succeed(nil))
		e.see(key, is(job.Succeeded))
	}
	e.nothing(w, while)
}

func requeueImpossible(e *env) {
	e.calm(calm)
	w := e.worker("w")
	late := e.spec("late")
	late.Deadline = e.q.Now().Add(-time.Minute)
	key := e.ended(w, late, job.Outcome{Status: job.Dead, Error: "deadline passed"})
	before := e.get(key)
	changed, err := e.op().Requeue(e.ctx(), key)
	require.ErrorIs(e, err, job.ErrNotRequeuable)
	require.ErrorContains(e, err, "deadline")
	require.False(e, changed.Done)
	require.Equal(e, before, e.get(key))
	for _, dry := range []bool{true, false} { // in bulk, it is not meant
		r, err := e.op().Bulk(e.ctx(), job.BulkRequest{
			Operation: job.OpRequeue, Filter: job.Filter{AllSpaces: true, Queue: e.queue}, DryRun: dry,
		})
		require.NoError(e, err)
		require.Zero(e, r.Matched+r.Done+r.Failed)
	}
	require.Equal(e, before, e.get(key))
}

func requeueRaw(e *env) {
	a, ok := e.h.(SetAside)
	if !ok {
		e.Skip("it sets no messages aside")
	}
	key := job.Key{Queue: e.queue, Space: "default", ID: "1"}
	a.SetAside(e.T, key, []byte(`{"type":`))
	e.nothing(e.worker("w"), while)
	j := e.see(key, is(job.Dead))
	require.Equal(e, `{"type":`, string(j.Raw))
	changed, err := e.op().Requeue(e.ctx(), key)
	require.ErrorIs(e, err, job.ErrNotRequeuable)
	require.ErrorContains(e, err, "could not be read")
	require.False(e, changed.Done)
	e.unchanged(job.OpCancel, key)
	e.changed(job.OpDelete, key, "")
	e.gone(key)
}
