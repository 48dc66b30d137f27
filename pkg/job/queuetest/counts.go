package queuetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

func counts(e *env) {
	e.calm(calm)
	w := e.worker("w")
	o := e.second()
	for i := range 5 {
		e.enqueue(e.spec(fmt.Sprint(i)))
	}
	due := e.spec("due")
	due.Delay = time.Hour
	dueKey := e.enqueue(due)
	is := func(ready, running int) {
		e.Helper()
		want := job.QueueCounts{Ready: ready, Running: running}
		e.eventually(func() error {
			c, err := o.Count(e.ctx())
			if err != nil {
				return err
			}
			if got := c.Queues[e.queue]; got != want {
				return fmt.Errorf("%+v, not %+v", got, want)
			}
			if c.Ready < ready || c.Running < running || c.Due < 1 {
				return fmt.Errorf("%+v", c)
			}
			return nil
		})
		e.info(o, func(i *job.QueueInfo) error {
			if i.Ready != ready || i.Running != running {
				return fmt.Errorf("%d ready and %d running, not %+v", i.Ready, i.Running, want)
			}
			if i.OldestReady.IsZero() != (ready == 0) {
				return fmt.Errorf("the oldest of %d is of %s", ready, i.OldestReady)
			}
			return nil
		})
	}
	is(5, 0)
	cl := e.claim(w)
	e.seen(cl.Job().Key())
	is(4, 1)
	e.settle(cl, job.Fail(time.Hour, "no"))
	is(4, 0)
	e.changed(job.OpCancel, job.Key{Queue: e.queue, ID: "4"}, job.Cancelled)
	is(3, 0)
	e.changed(job.OpRequeue, job.Key{Queue: e.queue, ID: "4"}, job.Pending)
	is(4, 0)
	e.changed(job.OpDelete, job.Key{Queue: e.queue, ID: "4"}, "")
	is(3, 0)
	e.changed(job.OpRunNow, job.Key{Queue: e.queue, ID: "0"}, job.Pending)
	is(4, 0)
	for range 4 {
		e.settle(e.claim(w), job.Succeed(nil))
	}
	is(0, 0)
	c, err := o.Count(e.ctx())
	require.NoError(e, err)
	require.GreaterOrEqual(e, c.Of(job.Succeeded), 4)
	require.Positive(e, c.Of(job.Due))
	e.get(dueKey)
}
