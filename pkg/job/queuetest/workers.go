package queuetest

import (
	"fmt"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

func workers(e *env) {
	e.calm(calm)
	id, other := e.queue+"-1", e.queue+"-2"
	c, err := e.q.Consume(e.ctx(), job.ConsumerConfig{Queue: e.queue, WorkerID: id, Slots: 3, Lease: e.lease, Version: "v7"})
	require.NoError(e, err)
	e.Cleanup(func() { e.stop(c) })
	c2, err := e.q.Consume(e.ctx(), job.ConsumerConfig{Queue: e.queue + ".b", WorkerID: id, Slots: 2, Lease: e.lease, Version: "v7"})
	require.NoError(e, err)
	e.Cleanup(func() { e.stop(c2) })
	e.workerOf(e.clientQueue(), other)
	key := e.enqueue(e.spec("1"))
	cl := e.claim(c)
	e.seen(key)
	o := e.second()
	find := func(id string) (*job.Worker, error) {
		all, err := o.Workers(e.ctx())
		if err != nil {
			return nil, err
		}
		require.True(e, slices.IsSortedFunc(all, func(a, b job.Worker) int {
			if a.ID < b.ID {
				return -1
			}
			return 1
		}), "by id")
		if i := slices.IndexFunc(all, func(w job.Worker) bool { return w.ID == id }); i >= 0 {
			return &all[i], nil
		}
		return nil, nil
	}
	e.eventually(func() error {
		w, err := find(id)
		if err != nil || w == nil || len(w.Queues) != 2 || w.Queues[0].Running != 1 {
			return fmt.Errorf("%+v, %w", w, err)
		}
		now := e.q.Now()
		require.NotZero(e, w.PID)
		require.Equal(e, "v7", w.Version)
		require.WithinDuration(e, now, w.BeatAt, soon)
		require.WithinDuration(e, now, w.StartedAt, soon)
		q := w.Queues[0]
		require.Equal(e, []any{e.queue, 3, e.lease}, []any{q.Queue, q.Slots, q.Lease})
		require.Len(e, q.Jobs, 1)
		require.Equal(e, "1", q.Jobs[0].ID)
		require.Equal(e, "default", q.Jobs[0].Space)
		require.Equal(e, []any{e.queue + ".b", 2, 0}, []any{w.Queues[1].Queue, w.Queues[1].Slots, w.Queues[1].Running})
		return nil
	})
	e.info(o, func(i *job.QueueInfo) error {
		if i.Workers != 2 || i.Slots != 7 {
			return fmt.Errorf("%d workers with %d slots", i.Workers, i.Slots)
		}
		return nil
	})
	e.settle(cl, job.Succeed(nil))
	require.NoError(e, c.Close(e.ctx()))
	require.NoError(e, c2.Close(e.ctx()))
	e.eventually(func() error {
		if w, err := find(id); err != nil || w != nil {
			return fmt.Errorf("%+v, %w", w, err)
		}
		return nil
	})
	w, err := find(other)
	require.NoError(e, err)
	require.NotNil(e, w)
}
