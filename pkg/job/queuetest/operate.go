package queuetest

import (
	"errors"
	"fmt"
	"strings"
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
