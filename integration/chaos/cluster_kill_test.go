package chaos

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

// The stream has one replica. The node that has it is killed, and nobody's connection breaks: the clients are
// with another node, and only miss answers.
func TestHostOfTheStreamKilledBehindTheClients(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three servers")
	}
	t.Parallel()
	cluster := natstest.StartCluster(t, 3)
	maker := newCrew(t, cluster.URLs(), workerConfig{Replicas: 1, Lease: 2 * time.Second}) // makes the stream
	host := cluster.StreamLeader(t, stream)
	c := newCrew(t, otherThan(cluster, host).URL(), maker.cfg)
	hands := []*hand{c.work("w1"), c.work("w2")}
	c.start(2, 10*time.Millisecond)
	for range 3 {
		c.progress(60)
		hands[len(c.faults)%2].busy(1)
		host.Kill()
		c.faulted()
		host.Restart(t)
	}
	c.progress(60)
	c.finish()
	c.check(amnesia)
	c.dismiss(hands...)
}

func TestLeaderOfTheStreamKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three servers")
	}
	t.Parallel()
	cluster := natstest.StartCluster(t, 3)
	c := newCrew(t, cluster.URLs(), workerConfig{Replicas: 3, Lease: 2 * time.Second})
	hands := []*hand{c.work("w1"), c.work("w2")}
	c.start(2, 10*time.Millisecond)
	for range 2 {
		c.progress(60)
		hands[len(c.faults)%2].busy(1)
		leader := cluster.StreamLeader(t, stream)
		leader.Kill()
		c.faulted()
		c.progress(30) // the others go on without it
		leader.Restart(t)
		cluster.WaitStreamCurrent(t, stream)
	}
	c.progress(60)
	c.finish()
	c.check(amnesia)
	c.dismiss(hands...)
}

// Two of three nodes are gone: nothing can be written. What handlers come to meanwhile is kept, and settled
// when the nodes are back; their leases are long enough for that.
func TestQuorumLostAndBack(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three servers")
	}
	t.Parallel()
	cluster := natstest.StartCluster(t, 3)
	c := newCrew(t, cluster.URLs(), workerConfig{Replicas: 3, Lease: 15 * time.Second})
	w := c.work("w1")
	ids := c.put(6, "held", input{Until: c.flag("go")})
	c.claimed(ids, w.id)
	left := otherThan(cluster, cluster.StreamLeader(t, stream))
	for _, p := range cluster.Nodes() {
		if p != left {
			p.Kill()
			c.faulted()
		}
	}
	down := monotonic()
	require.NoError(t, os.WriteFile(c.flag("go"), nil, 0o600))
	c.until(func() error {
		if n := c.account.count(is(eventDone, "", "")); n < len(ids) {
			return fmt.Errorf("%d of %d handlers have returned", n, len(ids))
		}
		return nil
	})
	c.start(1, 50*time.Millisecond) // its jobs are asked for while nobody can take them
	c.until(func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, a := range c.jobs {
			if a.unknown+a.refused > 0 {
				return nil
			}
		}
		return fmt.Errorf("no producer has asked in vain")
	})
	require.Zero(t, c.account.count(is(eventSettled, "", "")), "settled without a quorum")
	up := monotonic()
	for _, p := range cluster.Nodes() {
		if p != left {
			p.Restart(t)
		}
	}
	c.until(func() error {
		if n := c.account.count(is(eventSettled, w.id, "")); n < len(ids) {
			return fmt.Errorf("%d of %d outcomes were written after the outage", n, len(ids))
		}
		return nil
	})
	t.Logf("down for %s, all outcomes written %s after the first node was started again",
		(up - down).Round(time.Millisecond), (monotonic() - up).Round(time.Millisecond))
	c.progress(20)
	c.finish()
	c.check(rules{overlap: amnesia.overlap})
	for _, id := range ids {
		require.Equal(t, 1, c.account.count(is(eventStart, "", id)), "starts of %s: its result was kept", id)
	}
	c.dismiss(w)
}

// otherThan is a node that is not p.
func otherThan(c *natstest.Cluster, p *natstest.Process) *natstest.Process {
	for _, n := range c.Nodes() {
		if n != p {
			return n
		}
	}
	return nil
}
