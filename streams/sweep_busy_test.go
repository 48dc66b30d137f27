package streams

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// busy has workers take what comes: some jobs fail at first, and wait or not, some are handed back, and some run for so
// long that their claims are written.
func (n *node) busy(ctx context.Context, c *consumer) {
	for {
		cl, err := c.Claim(ctx)
		if err != nil {
			return
		}
		o := job.Succeed(nil)
		switch j := cl.Job(); {
		case j.Attempts > 1:
		case rand.IntN(10) == 0:
			o = job.Fail(0, "again")
		case rand.IntN(10) == 0:
			o = job.Fail(100*time.Millisecond, "in a while")
		case rand.IntN(10) == 0 && j.Error == "":
			o = job.HandBack(50*time.Millisecond, "not now")
		case rand.IntN(20) == 0:
			time.Sleep(150 * time.Millisecond) // what the handler takes
		case rand.IntN(200) == 0:
			time.Sleep(time.Second)
		}
		_, _ = cl.Settle(ctx, o) // an operator may have come between
	}
}

// While nothing goes wrong there is nothing to repair, however often it is looked.
func TestSweepRepairsNothingInABusySystem(t *testing.T) {
	t.Parallel()
	p := server(t)
	n := p.open(t)
	calm := 10 * time.Second // a machine that is slow lets leases lapse, and there is something to take over
	_, err := n.Configure(t.Context(), "q", job.QueueSettings{Lease: &calm})
	require.NoError(t, err)
	const jobs = 500
	ctx, stop := context.WithTimeout(t.Context(), 4*soon)
	defer stop()
	var wg sync.WaitGroup
	var asked atomic.Bool
	for w := range 2 {
		c := p.open(t).work("q", fmt.Sprint("w", w))
		for range c.cfg.Slots {
			wg.Go(func() { n.busy(ctx, c) })
		}
	}
	wg.Go(func() {
		for i := range jobs {
			s := spec("q", fmt.Sprint(i))
			if i%5 == 0 {
				s.Delay = time.Duration(rand.IntN(1500)) * time.Millisecond
			}
			if _, err := n.Enqueue(ctx, s); err != nil {
				t.Error(err)
				return
			}
			switch i % 97 { // an operator is at work as well; what is not there any more is none of his
			case 3:
				_, _ = n.Cancel(ctx, keyOf("q", fmt.Sprint(i)))
			case 5:
				_, _ = n.Requeue(ctx, keyOf("q", fmt.Sprint(i-1)))
			}
		}
		asked.Store(true)
	})
	sweeper, rounds := p.open(t), 0
	for over := false; ctx.Err() == nil && !over; rounds++ {
		rep, err := sweeper.Sweep(ctx)
		require.NoError(t, err)
		require.Equal(t, SweepReport{}, rep)
		time.Sleep(5 * time.Millisecond) // the others' turn on a small machine
		over = asked.Load() && rounds%20 == 0 && n.isClean("q", jobs) == nil
	}
	require.NoError(t, ctx.Err())
	stop()
	wg.Wait()
	n.clean("q", jobs)
	sweeper.clock.offset.Add(int64(time.Hour))
	sweeper.sweepNothing()
	t.Logf("%d rounds", rounds)
}
