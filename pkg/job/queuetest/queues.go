package queuetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// info is how the test's queue is, as a client sees it.
func (e *env) info(o job.Operator, want func(*job.QueueInfo) error) *job.QueueInfo {
	e.Helper()
	var info *job.QueueInfo
	e.eventually(func() (err error) {
		if info, err = o.Queue(e.ctx(), e.queue); err != nil {
			return err
		}
		return want(info)
	})
	require.Equal(e, e.queue, info.Name)
	return info
}

func pauseQueue(e *env) {
	e.calm(calm)
	w := e.worker("w")
	o, second := e.op(), e.second()
	paused := func(want bool) {
		e.Helper()
		e.info(second, func(i *job.QueueInfo) error {
			if i.Paused != want || !i.PausedUntil.IsZero() {
				return fmt.Errorf("paused: %t until %s", i.Paused, i.PausedUntil)
			}
			return nil
		})
	}
	held := e.enqueue(e.spec("held"))
	cl := e.claim(w)
	e.seen(held)
	paused(false)
	require.NoError(e, o.Resume(e.ctx(), e.queue), "what is not paused stays so")
	require.NoError(e, o.Pause(e.ctx(), e.queue, time.Time{}))
	paused(true)
	due := e.spec("due")
	due.Delay = 200 * time.Millisecond
	e.enqueue(e.spec("ready"))
	e.enqueue(due)
	e.nothing(w, 2*while)
	later := e.workerOf(e.clientQueue(), "later") // a worker that starts only now
	e.nothing(later, while)
	require.NoError(e, later.Close(e.ctx()))
	require.NoError(e, cl.Heartbeat(e.ctx()))
	require.Equal(e, 1, e.settle(cl, job.Succeed(nil)).Attempts, "what workers hold goes on")
	require.NoError(e, o.Pause(e.ctx(), e.queue, time.Time{}), "it is paused already")
	require.NoError(e, second.Resume(e.ctx(), e.queue))
	paused(false)
	for range 2 {
		e.settle(e.claim(w), job.Succeed(nil))
	}
	for _, id := range []string{"ready", "due"} {
		e.see(job.Key{Queue: e.queue, ID: id}, is(job.Succeeded))
	}
}

// clientQueue is a second client as workers use it.
func (e *env) clientQueue() job.Queue {
	if c, ok := e.h.(Clients); ok {
		return c.Client(e.T)
	}
	return e.q
}

func pauseUntil(e *env) {
	e.calm(calm)
	w := e.worker("w")
	second := e.second()
	until := e.q.Now().Add(3 * time.Second)
	require.NoError(e, e.op().Pause(e.ctx(), e.queue, until))
	key := e.enqueue(e.spec("1"))
	e.info(second, func(i *job.QueueInfo) error {
		switch {
		case i.Paused:
			require.WithinDuration(e, until, i.PausedUntil, time.Second)
		case e.q.Now().Before(until):
			return errNotYet
		}
		return nil
	})
	cl := e.claim(w)
	require.False(e, e.q.Now().Add(skew).Before(until), "not before the pause is over")
	require.Equal(e, key, cl.Job().Key())
	e.settle(cl, job.Succeed(nil))
	e.info(e.op(), func(i *job.QueueInfo) error {
		if i.Paused {
			return errNotYet
		}
		return nil
	})
}

func concurrency(e *env) {
	e.calm(6 * time.Second)
	w1, w2 := e.worker("w1"), e.workerOf(e.clientQueue(), "w2")
	set := func(n int) {
		e.Helper()
		i, err := e.op().Configure(e.ctx(), e.queue, job.QueueSettings{Concurrency: &n})
		require.NoError(e, err)
		require.Equal(e, n, i.Concurrency)
	}
	set(2)
	for i := range 6 {
		e.enqueue(e.spec(fmt.Sprint(i)))
	}
	held := []job.Claim{e.claim(w1), e.claim(w1)}
	e.nothing(w2, while)
	e.nothing(w1, 2*while)
	e.settle(held[0], job.Succeed(nil))
	held[0] = e.claim(w2)
	e.nothing(w1, while)
	set(3)
	held = append(held, e.claim(w2))
	e.nothing(w1, while)
	set(0)
	held = append(held, e.claim(w1), e.claim(w1))
	for _, cl := range held {
		require.Equal(e, 1, e.settle(cl, job.Succeed(nil)).Attempts)
	}
	require.Zero(e, e.info(e.second(), func(i *job.QueueInfo) error {
		if i.Concurrency != 0 {
			return errNotYet
		}
		return nil
	}).Concurrency)
}

func configure(e *env) {
	o, second := e.op(), e.second()
	_, err := o.Queue(e.ctx(), e.queue)
	require.ErrorIs(e, err, job.ErrNoQueue)
	lease, limit := 3*time.Second, 7
	keep := map[job.Status]time.Duration{job.Succeeded: time.Hour, job.Dead: 0}
	i, err := o.Configure(e.ctx(), e.queue, job.QueueSettings{Lease: &lease, Concurrency: &limit, Retention: keep})
	require.NoError(e, err)
	require.Equal(e, job.QueueInfo{Name: e.queue, Lease: lease, Concurrency: limit, Retention: keep}, *i, "it makes a queue that is not there")
	check := func() {
		e.Helper()
		e.info(second, func(i *job.QueueInfo) error {
			if i.Lease != lease || i.Concurrency != limit || fmt.Sprint(i.Retention) != fmt.Sprint(keep) {
				return fmt.Errorf("%+v", i)
			}
			return nil
		})
	}
	check()
	c, err := e.clientQueue().Consume(e.ctx(), job.ConsumerConfig{Queue: e.queue, WorkerID: "w", Slots: 1, Lease: time.Minute})
	require.NoError(e, err)
	e.Cleanup(func() { e.stop(c) })
	require.Equal(e, lease, c.Lease(), "a queue keeps its lease")
	e.enqueue(e.spec("1"))
	cl := e.claim(c)
	j := cl.Job()
	e.near(j.LeaseUntil, j.StartedAt.Add(lease), j.StartedAt.Add(lease), "leaseUntil")
	e.settle(cl, job.Succeed(nil))

	limit = 9
	keep = map[job.Status]time.Duration{job.Succeeded: time.Hour}
	i, err = second.Configure(e.ctx(), e.queue, job.QueueSettings{Concurrency: &limit, Retention: map[job.Status]time.Duration{job.Dead: job.KeepDefault}})
	require.NoError(e, err)
	require.Equal(e, []any{lease, limit, keep}, []any{i.Lease, i.Concurrency, i.Retention}, "what is not given stays")
	check()

	less := -1
	short := 10 * time.Millisecond
	for field, set := range map[string]job.QueueSettings{
		"concurrency": {Concurrency: &less},
		"lease":       {Lease: &short},
	} {
		_, err := o.Configure(e.ctx(), e.queue, set)
		require.Error(e, err, field)
		e.fieldError(err, field)
	}
	check()
}

func longerLease(e *env) {
	w := e.worker("w1")
	lease := 4 * e.lease
	i, err := e.op().Configure(e.ctx(), e.queue, job.QueueSettings{Lease: &lease})
	require.NoError(e, err)
	require.Equal(e, lease, i.Lease)
	key := e.enqueue(e.spec("1"))
	cl := e.claim(w)
	e.nothing(e.workerLeased(lease, "w2"), 2*e.lease) // its heartbeats go on
	require.Equal(e, job.Running, e.get(key).Status)
	require.Equal(e, 1, e.settle(cl, job.Succeed(nil)).Attempts)
}

// workerLeased makes a consumer of the test's queue whose lease is as it was configured.
func (e *env) workerLeased(lease time.Duration, id string) job.Consumer {
	e.Helper()
	c, err := e.q.Consume(e.ctx(), job.ConsumerConfig{Queue: e.queue, WorkerID: id, Slots: 4})
	require.NoError(e, err)
	e.Cleanup(func() { e.stop(c) })
	require.Equal(e, lease, c.Lease())
	return c
}

func noQueue(e *env) {
	o := e.op()
	_, err := o.Queue(e.ctx(), e.queue)
	require.ErrorIs(e, err, job.ErrNoQueue)
	require.ErrorIs(e, o.Pause(e.ctx(), e.queue, time.Time{}), job.ErrNoQueue)
	require.ErrorIs(e, o.Resume(e.ctx(), e.queue), job.ErrNoQueue)
	require.ErrorIs(e, o.DeleteQueue(e.ctx(), e.queue), job.ErrNoQueue)
}

func queueNames(e *env) {
	o := e.op()
	for _, name := range []string{emoji(191), emoji(48), "", "\xff", "a\x00b"} {
		_, err := o.Queue(e.ctx(), name)
		e.fieldError(err, "queue")
		_, err = o.Configure(e.ctx(), name, job.QueueSettings{})
		e.fieldError(err, "queue")
		e.fieldError(o.Pause(e.ctx(), name, time.Time{}), "queue")
		e.fieldError(o.Resume(e.ctx(), name), "queue")
		e.fieldError(o.DeleteQueue(e.ctx(), name), "queue")
	}
	_, err := e.q.Enqueue(e.ctx(), job.Spec{Queue: emoji(191), Type: "t"})
	e.fieldError(err, "queue")
	_, err = e.q.Consume(e.ctx(), job.ConsumerConfig{Queue: emoji(191), WorkerID: "w", Slots: 1})
	e.fieldError(err, "queue")

	e.queue = emoji(47-36/4) + uuid.NewString() // 188 bytes, as 47 emoji have
	require.Len(e, e.queue, len(emoji(47)))
	w := e.worker("w")
	key := e.enqueue(e.spec("1"))
	e.see(key, is(job.Pending))
	e.lists(job.Filter{AllSpaces: true, Queue: e.queue}, "1")
	require.NoError(e, o.Pause(e.ctx(), e.queue, time.Time{}))
	require.True(e, e.info(o, func(*job.QueueInfo) error { return nil }).Paused)
	require.NoError(e, o.Resume(e.ctx(), e.queue))
	e.settle(e.claim(w), job.Succeed(nil))
	e.changed(job.OpRequeue, key, job.Pending)
	e.changed(job.OpCancel, key, job.Cancelled)
	e.eventually(func() error {
		all, err := o.Queues(e.ctx())
		if err == nil && !slices.ContainsFunc(all, func(i job.QueueInfo) bool { return i.Name == e.queue }) {
			err = errNotYet
		}
		return err
	})
}

func deleteQueue(e *env) {
	o, second := e.op(), e.second()
	e.calm(e.lease)
	e.enqueue(e.spec("1"))
	require.ErrorIs(e, o.DeleteQueue(e.ctx(), e.queue), job.ErrQueueInUse, "a job waits")
	w := e.worker("w")
	key := e.settle(e.claim(w), job.Succeed(nil)).Key()
	e.see(key, is(job.Succeeded))
	require.ErrorIs(e, o.DeleteQueue(e.ctx(), e.queue), job.ErrQueueInUse, "it has a worker")
	due := e.spec("due")
	due.Delay = time.Hour
	e.get(e.enqueue(due))
	require.NoError(e, w.Close(e.ctx()))
	e.info(o, func(i *job.QueueInfo) error {
		if i.Workers > 0 {
			return errNotYet
		}
		return nil
	})
	require.ErrorIs(e, o.DeleteQueue(e.ctx(), e.queue), job.ErrQueueInUse, "a job is due")
	e.changed(job.OpDelete, job.Key{Queue: e.queue, ID: "due"}, "")
	e.eventually(func() error { return o.DeleteQueue(e.ctx(), e.queue) })
	e.eventually(func() error {
		_, err := second.Queue(e.ctx(), e.queue)
		if err == nil {
			return errNotYet
		}
		require.ErrorIs(e, err, job.ErrNoQueue)
		return nil
	})
	require.Equal(e, job.Succeeded, e.get(key).Status, "records of ended jobs stay")
	e.enqueue(e.spec("2")) // and the queue may come back
	e.calm(e.lease)
	w = e.worker("w")
	e.settle(e.claim(w), job.Succeed(nil))
}
