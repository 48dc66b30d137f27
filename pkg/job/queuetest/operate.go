package queuetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

var (
	operations = []job.Operation{job.OpCancel, job.OpRequeue, job.OpRunNow, job.OpDelete}
	ends       = []job.Status{job.Succeeded, job.Failed, job.Dead, job.Cancelled}
)

// emoji is a name of n characters, each of four bytes.
func emoji(n int) string { return strings.Repeat("🐌", n) }

// op is the queue as an operator sees it.
func (e *env) op() job.Operator { return e.operator(e.q) }

// second is the same store as another client sees it, where there can be one.
func (e *env) second() job.Operator {
	if c, ok := e.h.(Clients); ok {
		return e.operator(c.Client(e.T))
	}
	return e.op()
}

func (e *env) operator(q job.Queue) job.Operator {
	e.Helper()
	o, ok := q.(job.Operator)
	require.True(e, ok, "%T is no job.Operator", q)
	return o
}

// operate does one of the operations.
func (e *env) operate(o job.Operator, op job.Operation, key job.Key) (job.Changed, error) {
	switch op {
	case job.OpCancel:
		return o.Cancel(e.ctx(), key)
	case job.OpRequeue:
		return o.Requeue(e.ctx(), key)
	case job.OpRunNow:
		return o.RunNow(e.ctx(), key)
	case job.OpDelete:
		return o.Delete(e.ctx(), key)
	}
	return job.Changed{}, fmt.Errorf("no operation %q", op)
}

// changed does an operation that changes the job.
func (e *env) changed(op job.Operation, key job.Key, want job.Status) job.Changed {
	e.Helper()
	got, err := e.operate(e.op(), op, key)
	require.NoError(e, err)
	require.True(e, got.Done, "%s %s: it is %s", op, key, got.Status)
	require.Equal(e, want, got.Status)
	require.Equal(e, key.ID, got.Key.ID)
	require.Equal(e, e.queue, got.Key.Queue)
	return got
}

// unchanged does an operation that leaves the job as it is.
func (e *env) unchanged(op job.Operation, key job.Key) job.Changed {
	e.Helper()
	before := e.get(key)
	got, err := e.operate(e.op(), op, key)
	require.NoError(e, err)
	require.False(e, got.Done, "%s of a job that is %s", op, before.Status)
	require.Equal(e, before.Status, got.Status)
	require.Equal(e, before.CancelRequested, got.CancelRequested)
	require.Equal(e, before, e.get(key))
	return got
}

// idle is a job of a queue that has no worker: nobody takes it ahead, and hands it back.
func (e *env) idle(id string) job.Spec { return job.Spec{Queue: e.queue + ".idle", ID: id, Type: "t"} }

// ended makes a job that came to an end.
func (e *env) ended(w job.Consumer, s job.Spec, o job.Outcome) job.Key {
	e.Helper()
	key := e.enqueue(s)
	cl := e.claim(w)
	require.Equal(e, key, cl.Job().Key())
	e.settle(cl, o)
	e.see(key, is(o.Status))
	return key
}

// gone waits until there is no record of a job.
func (e *env) gone(key job.Key) {
	e.Helper()
	e.eventually(func() error {
		_, err := e.q.Get(e.ctx(), key)
		if err == nil {
			return errNotYet
		}
		require.ErrorIs(e, err, job.ErrNotFound)
		return nil
	})
}

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
	r, err := e.op().Bulk(e.ctx(), job.BulkRequest{Operation: job.OpRequeue, Filter: job.Filter{AllSpaces: true, Queue: e.queue}})
	require.NoError(e, err)
	require.Equal(e, 0, r.Done)
	require.Equal(e, 1, r.Failed)
	require.Len(e, r.Errors, 1)
	require.Equal(e, key, r.Errors[0].Key)
	require.Contains(e, r.Errors[0].Error, "deadline")
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

func whichJob(e *env) {
	id := uuid.NewString()
	for _, q := range []string{e.queue, e.queue + ".b"} {
		e.get(e.enqueue(job.Spec{Queue: q, ID: id, Type: "t"}))
	}
	e.eventually(func() error {
		if _, err := e.q.Get(e.ctx(), job.Key{ID: id}); !errors.Is(err, job.ErrAmbiguous) {
			return errNotYet
		}
		return nil
	})
	for _, op := range operations {
		_, err := e.operate(e.op(), op, job.Key{ID: id})
		require.ErrorIs(e, err, job.ErrAmbiguous, op)
		_, err = e.operate(e.op(), op, job.Key{ID: id + "x"})
		require.ErrorIs(e, err, job.ErrNotFound, op)
		_, err = e.operate(e.op(), op, job.Key{Queue: e.queue, ID: id + "x"})
		require.ErrorIs(e, err, job.ErrNotFound, op)
		_, err = e.operate(e.op(), op, job.Key{Queue: e.queue})
		e.fieldError(err, "id")
	}
	alone := e.enqueue(e.spec(""))
	e.get(alone)
	changed := e.changed(job.OpCancel, job.Key{ID: alone.ID}, job.Cancelled) // by its id alone
	require.Equal(e, alone, changed.Key)
}

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

func runNow(e *env) {
	e.calm(calm)
	w := e.worker("w")
	second := e.second()
	due := e.spec("due")
	due.Delay = 4 * time.Second
	key := e.enqueue(due)
	before := e.get(key)
	from := e.q.Now()
	changed, err := second.RunNow(e.ctx(), key)
	require.NoError(e, err)
	require.Equal(e, job.Changed{Key: key, Done: true, Status: job.Pending}, changed)
	cl := e.claim(w)
	j := cl.Job()
	require.Equal(e, key, j.Key())
	require.Equal(e, before.DueAt, j.DueAt, "it goes on saying what it was due for")
	e.near(j.RunAt, from, e.q.Now(), "runAt")
	require.Equal(e, 1, j.Attempts)
	e.seen(key)
	e.unchanged(job.OpRunNow, key) // it runs

	e.settle(cl, job.Fail(time.Hour, "boom"))
	e.see(key, is(job.Pending))
	e.changed(job.OpRunNow, key, job.Pending)
	cl = e.claim(w)
	require.Equal(e, 2, cl.Job().Attempts)
	require.Len(e, cl.Job().History, 1)
	e.settle(cl, job.Succeed(nil))
	e.see(key, is(job.Succeeded))
	e.unchanged(job.OpRunNow, key)
	e.nothing(w, max(before.DueAt.Sub(e.q.Now()), 0)+while) // its instant comes, and nothing does

	e.unchanged(job.OpRunNow, e.enqueue(e.idle("ready")))
}

func deleteRecord(e *env) {
	e.calm(calm)
	w := e.worker("w")
	due := e.spec("due")
	due.Delay = 1200 * time.Millisecond
	keys := make([]job.Key, 0, len(ends)+2)
	for _, end := range ends {
		keys = append(keys, e.ended(w, e.spec(string(end)), job.Outcome{Status: end}))
	}
	keys = append(keys, e.enqueue(due), e.enqueue(e.spec("ready")))
	second := e.second()
	for _, key := range keys {
		e.get(key)
		changed, err := second.Delete(e.ctx(), key)
		require.NoError(e, err)
		require.Equal(e, job.Changed{Key: key, Done: true}, changed)
		e.gone(key)
		for _, op := range operations {
			_, err := e.operate(second, op, key)
			require.ErrorIs(e, err, job.ErrNotFound, op)
		}
		_, err = e.q.Wait(e.ctx(), key)
		require.ErrorIs(e, err, job.ErrNotFound)
	}
	e.lists(job.Filter{AllSpaces: true, Queue: e.queue})
	e.nothing(w, 1200*time.Millisecond+while)

	for _, key := range keys { // enqueue wants a job that is new
		e.enqueue(e.spec(key.ID))
		e.changed(job.OpDelete, key, "")
		s := e.spec(key.ID)
		s.Type = "again"
		e.enqueue(s)
		j := e.see(key, is(job.Pending))
		require.Equal(e, []any{"again", 0, 0}, []any{j.Type, j.Attempts, len(j.History)})
	}
	for range keys {
		e.settle(e.claim(w), job.Succeed(nil))
	}
	for _, key := range keys {
		e.see(key, is(job.Succeeded))
	}
	e.nothing(w, while)
}

func deleteRunning(e *env) {
	e.calm(calm)
	w := e.worker("w")
	key := e.enqueue(e.spec("1"))
	cl := e.claim(w)
	e.seen(key)
	e.unchanged(job.OpDelete, key)
	e.settle(cl, job.Succeed(nil))
	e.see(key, is(job.Succeeded))
}
