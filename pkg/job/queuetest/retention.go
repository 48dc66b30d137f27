package queuetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// kept waits until the record of a job is kept for so long.
func (e *env) kept(x Expiring, key job.Key, want time.Duration) {
	e.Helper()
	e.eventually(func() error {
		if got := x.Retention(e.T, key); got != want {
			return fmt.Errorf("the record of %s is kept for %s, not %s", key, got, want)
		}
		return nil
	})
}

func retention(e *env) {
	e.calm(calm)
	x, ok := e.h.(Expiring)
	if !ok {
		e.Skip("it does not tell how long it keeps a record")
	}
	set := map[job.Status]time.Duration{
		job.Succeeded: 90 * 24 * time.Hour, job.Failed: 10 * time.Minute, job.Dead: 11 * time.Minute, job.Cancelled: 12 * time.Minute,
	}
	_, err := e.op().Configure(e.ctx(), e.queue, job.QueueSettings{Retention: set})
	require.NoError(e, err)
	w := e.worker("w")
	for _, end := range ends {
		key := e.ended(w, e.spec(string(end)), job.Outcome{Status: end})
		e.kept(x, key, set[end])
		require.Equal(e, end, e.get(key).Status)
	}
	waits := e.enqueue(e.spec("ready"))
	e.kept(x, waits, 0)
	e.changed(job.OpCancel, waits, job.Cancelled)
	e.kept(x, waits, set[job.Cancelled])
	e.changed(job.OpRequeue, waits, job.Pending)
	e.kept(x, waits, 0)
	cl := e.claim(w)
	e.seen(waits)
	e.kept(x, waits, 0)
	e.changed(job.OpCancel, waits, job.Running)
	e.kept(x, waits, 0)
	e.settle(cl, job.Fail(0, "no"))
	e.see(waits, is(job.Cancelled))
	e.kept(x, waits, set[job.Cancelled])
	due := e.spec("due")
	due.Delay = time.Hour
	e.kept(x, e.enqueue(due), 0)

	_, err = e.op().Configure(e.ctx(), e.queue, job.QueueSettings{Retention: map[job.Status]time.Duration{job.Failed: time.Hour}})
	require.NoError(e, err)
	e.kept(x, e.ended(w, e.spec("later"), job.Outcome{Status: job.Failed}), time.Hour)
}

func retentionNone(e *env) {
	e.calm(calm)
	set := map[job.Status]time.Duration{job.Succeeded: 0, job.Cancelled: 0}
	_, err := e.op().Configure(e.ctx(), e.queue, job.QueueSettings{Retention: set})
	require.NoError(e, err)
	w := e.worker("w")
	key := e.enqueue(e.spec("succeeds"))
	require.Equal(e, job.Succeeded, e.settle(e.claim(w), job.Succeed(nil)).Status)
	e.gone(key)
	key = e.enqueue(e.spec("waits"))
	require.Equal(e, job.Cancelled, e.changed(job.OpCancel, key, job.Cancelled).Status)
	e.gone(key)
	key = e.enqueue(e.spec("runs"))
	cl := e.claim(w)
	e.seen(key)
	e.changed(job.OpCancel, key, job.Running)
	require.Equal(e, job.Cancelled, e.settle(cl, job.Fail(0, "no")).Status)
	e.gone(key)
	e.lists(job.Filter{AllSpaces: true, Queue: e.queue})

	key = e.ended(w, e.spec("dies"), job.Outcome{Status: job.Dead})
	require.Equal(e, job.Dead, e.get(key).Status, "the others are kept")
	for _, trigger := range []job.Trigger{job.TriggerSchedule, job.TriggerWebhook} {
		s := e.spec(string(trigger))
		s.Trigger = trigger
		key := e.ended(w, s, job.Succeed(nil))
		got, err := e.q.Enqueue(e.ctx(), s)
		require.NoError(e, err)
		require.False(e, got.Created, "one that comes a second time finds the first")
		if x, ok := e.h.(Expiring); ok {
			e.kept(x, key, 10*time.Minute)
		}
	}
	e.nothing(w, while)
}

func retentionRefusals(e *env) {
	for status, d := range map[job.Status]time.Duration{
		job.Succeeded: 9 * time.Minute, job.Dead: -2, job.Pending: time.Hour, job.Running: 0, "lost": time.Hour,
	} {
		_, err := e.op().Configure(e.ctx(), e.queue, job.QueueSettings{Retention: map[job.Status]time.Duration{status: d}})
		require.Error(e, err, "%s of %s", d, status)
		e.fieldError(err, "retention."+string(status))
	}
	_, err := e.op().Queue(e.ctx(), e.queue)
	require.ErrorIs(e, err, job.ErrNoQueue, "what is refused makes no queue")
}
