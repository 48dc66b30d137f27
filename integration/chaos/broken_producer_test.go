//go:build failpoints

package chaos

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
)

func (c *crew) bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}

// cancel has an operator cancel a job. Where he is told that it is cancelled, that is as what it has to end; where it is
// being stopped, it is its worker's to say.
func (c *crew) cancel(a *asked) error {
	ctx, done := c.bounded()
	defer done()
	got, err := c.store.Cancel(ctx, job.Key{Queue: a.spec.Queue, Space: job.DefaultSpace, ID: a.spec.ID})
	if err != nil {
		return err
	}
	if got.Done && got.Status == job.Cancelled {
		a.ends = job.Cancelled
	}
	return nil
}

// Jobs are cancelled right when their handlers return, in a cluster, where a write takes its time.
func cancelledAtItsEnd(t *testing.T) *verdict {
	cluster := natstest.StartCluster(t, 3)
	c := newCrew(t, cluster.URLs(), workerConfig{Lease: 5 * time.Second, Slots: 16, Replicas: 3})
	w := c.work("w1")
	const jobs = 400
	var all sync.WaitGroup
	failed := make([]error, jobs)
	for i := range jobs {
		a := &asked{ends: job.Succeeded, spec: job.Spec{
			ID: fmt.Sprintf("raced-%d", i), Queue: c.cfg.Queue, Type: jobType, MaxAttempts: 20, Input: input{}.json(),
		}}
		all.Go(func() {
			c.enqueue(a, false)
			failed[i] = c.cancel(a)
		})
		if i%8 == 7 {
			all.Wait()
		}
	}
	all.Wait()
	for _, err := range failed {
		require.NoError(t, err)
	}
	v := c.judge(rules{within: stuck})
	c.dismiss(w)
	return v
}

// A producer asks again for jobs that have come to their ends, to run a little later. That he is told that they are there
// is all that comes of it, though alarms have been set for them.
func askedAgain(t *testing.T) *verdict {
	c := newCrew(t, natstest.StartServer(t, natstest.ServerConfig{}).URL(), workerConfig{Lease: 5 * time.Second})
	w := c.work("w1")
	ids := c.put(20, "once", input{})
	c.settled(len(ids))
	ctx, done := c.bounded()
	defer done()
	for _, id := range ids {
		spec := c.jobs[id].spec
		spec.Delay = 300 * time.Millisecond
		got, err := c.store.Enqueue(ctx, spec)
		require.NoError(t, err)
		require.False(t, got.Created, "a job that is there was made again")
	}
	v := c.judge(rules{calm: true, within: soon})
	c.dismiss(w)
	return v
}
