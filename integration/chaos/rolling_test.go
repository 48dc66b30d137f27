package chaos

import (
	"testing"
	"time"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

func TestLeaderOfTheStreamFrozen(t *testing.T) {
	heavy(t)
	t.Parallel()
	cluster := natstest.StartCluster(t, 3)
	c := newCrew(t, cluster.URLs(), workerConfig{Replicas: 3, Lease: 2 * time.Second})
	hands := []*hand{c.work("w1"), c.work("w2")}
	c.start(2, 10*time.Millisecond)
	c.progress(60)
	hands[0].busy(1)
	leader := cluster.StreamLeader(t, stream)
	leader.Pause()
	c.faulted()
	time.Sleep(6 * time.Second) // the fault itself: long enough for the others to elect another one
	leader.Resume()
	c.progress(60)
	cluster.WaitStreamCurrent(t, stream)
	c.finish()
	c.check(amnesia)
	c.dismiss(hands...)
}

// roll takes each node of a cluster away and brings it back, one after the other, under load.
func roll(t *testing.T, rounds int, away func(*natstest.Process)) {
	heavy(t)
	t.Parallel()
	cluster := natstest.StartCluster(t, 3, func(cfg *natstest.ServerConfig) { cfg.Extra = `lame_duck_grace_period: "100ms"` })
	c := newCrew(t, cluster.URLs(), workerConfig{Replicas: 3, Lease: 2 * time.Second})
	hands := []*hand{c.work("w1"), c.work("w2")}
	c.start(2, 20*time.Millisecond)
	for range rounds {
		for _, node := range cluster.Nodes() {
			c.progress(20)
			hands[len(c.faults)%2].busy(1)
			c.faulted()
			away(node)
			node.Restart(t)
			cluster.WaitReady(t)
			cluster.WaitStreamCurrent(t, stream)
		}
	}
	c.progress(60)
	c.finish()
	r := amnesia
	r.within = 4 * time.Minute // an alarm that was left behind is seen by housekeeping in rounds that are a minute apart
	c.check(r)
	c.dismiss(hands...)
}

func TestNodesRestartedInTurn(t *testing.T) { roll(t, 2, (*natstest.Process).Stop) }
func TestNodesRetiredInTurn(t *testing.T)   { roll(t, 1, (*natstest.Process).Retire) }
func TestNodesKilledInTurn(t *testing.T)    { roll(t, 1, (*natstest.Process).Kill) }
