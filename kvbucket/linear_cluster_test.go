package kvbucket

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

func TestHistoriesAcrossALeadersDeathAreLinearizable(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three processes")
	}
	t.Parallel()
	c := natstest.StartCluster(t, 3)
	cfg := config()
	cfg.Replicas = 3
	const clients, after = 4, 60 // each does so many when the leader is dead, beside what it does before
	start := time.Now()
	all := make([]*client, clients)
	for id := range all {
		all[id] = &client{id: id, b: open(t, c.URLs(), cfg), leader: true, start: start, seen: map[string]string{}}
	}
	c.WaitStreamCurrent(t, all[0].b.stream)
	killed := make(chan struct{})
	var done atomic.Int64
	var work sync.WaitGroup
	for _, cl := range all {
		work.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(cl.id), 11))
			for left := after; left > 0; {
				select {
				case <-killed:
					left--
				default:
				}
				ctx, cancel := context.WithTimeout(t.Context(), 2*soon)
				err := cl.step(ctx, rnd)
				cancel()
				if done.Add(1); !assert.NoError(t, err) {
					return
				}
			}
		})
	}
	natstest.Eventually(t, soon, func() bool { return done.Load() >= 150 })
	leader := c.StreamLeader(t, all[0].b.stream)
	leader.Kill()
	at := time.Since(start).Nanoseconds()
	close(killed)
	before := done.Load()
	natstest.Eventually(t, 2*soon, func() bool { return done.Load() >= before+clients*after/2 })
	require.NotEqual(t, leader.Name(), c.StreamLeader(t, all[0].b.stream).Name())
	leader.Restart(t)
	work.Wait()

	var history []porcupine.Operation
	across := 0
	for _, cl := range all {
		for _, o := range cl.history {
			if o.Call < at && o.Return > at {
				across++
			}
		}
		history = append(history, cl.history...)
	}
	t.Logf("%d were under way when the leader died", across)
	isLinearizable(t, history)
	doctor(t, history)
}
