package chaos

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

// divided is a cluster whose nodes a test cuts off from each other, and a crew whose stream has a leader among them.
type divided struct {
	*crew
	network *natstest.Network
	cluster *natstest.Cluster
	leader  *natstest.Process
	near    *hand // a worker that knows the leader alone
	far     *hand // a worker that knows the other two
}

// divide starts a cluster. The producers know of all nodes but the leader.
func divide(t *testing.T) *divided {
	heavy(t)
	t.Parallel()
	d := &divided{network: natstest.StartNetwork(t, 3)}
	d.cluster = d.network.StartCluster()
	cfg := newCrew(t, d.cluster.URLs(), workerConfig{Replicas: 3, Lease: 2 * time.Second, Ping: 2 * time.Second}).cfg
	d.leader = d.cluster.StreamLeader(t, stream)
	var others []string
	for _, p := range d.followers() {
		others = append(others, p.URL())
	}
	rest := strings.Join(others, ",")
	d.crew = newCrew(t, rest, cfg)
	d.cfg.URL = d.leader.URL()
	d.near = d.work("near")
	d.cfg.URL = rest
	d.far = d.work("far")
	d.start(2, 50*time.Millisecond)
	d.progress(40)
	return d
}

func (d *divided) followers() []*natstest.Process {
	var out []*natstest.Process
	for _, p := range d.cluster.Nodes() {
		if p != d.leader {
			out = append(out, p)
		}
	}
	return out
}

func (d *divided) host(p *natstest.Process) *natstest.Host { return d.network.HostOf(p) }

// close ends the cut, wants everybody back at work, and has the history checked.
func (d *divided) close(r rules) {
	d.t.Helper()
	d.network.Heal()
	d.cluster.WaitReady(d.t)
	d.cluster.WaitStreamCurrent(d.t, stream)
	for _, h := range []*hand{d.near, d.far} {
		before := d.account.count(is(eventSettled, h.id, ""))
		d.until(func() error {
			if d.account.count(is(eventSettled, h.id, "")) < before+10 {
				return fmt.Errorf("worker %s does not work again", h.id)
			}
			return nil
		})
	}
	d.finish()
	d.check(r)
	d.dismiss(d.near, d.far)
}

// The leader is cut off from the other nodes, and not from those who ask it: it takes nothing, the others go on without
// it, and nothing that it was asked for comes to light afterwards.
func TestLeaderInAMinorityThatClientsReach(t *testing.T) {
	d := divide(t)
	inner := newCrew(t, d.leader.URL(), d.cfg)
	d.near.busy(1)
	d.network.Isolate(d.host(d.leader), d.network.Outside())
	d.faulted()
	d.progress(30)
	var asking sync.WaitGroup
	for i := range 8 {
		asking.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			if _, err := inner.store.Enqueue(ctx, mix(d.cfg.Queue, "ghost", i).spec); err == nil {
				t.Errorf("a minority has taken job %d", i) // were it there afterwards, the check would miss who asked for it
			}
		})
	}
	asking.Wait()
	require.NotEqual(t, d.leader, d.cluster.StreamLeader(t, stream), "the stream's leader during the cut")
	d.close(amnesia)
}

// The leader's machine is cut off from all others. A worker that was connected to it hears nothing more of anybody.
func TestLeaderCutOffFromEverybody(t *testing.T) {
	d := divide(t)
	d.near.busy(1)
	d.network.Isolate(d.host(d.leader))
	d.faulted()
	d.progress(60)
	d.close(amnesia)
}

// While one of its followers is away, the leader goes on. What that one led itself, such as the queue's consumer, another
// has to take over.
func TestFollowerCutOff(t *testing.T) {
	d := divide(t)
	away := d.followers()[0]
	d.network.Isolate(d.host(away))
	d.faulted()
	d.progress(200)
	d.close(amnesia)
}

// A follower does not hear the leader, which hears it: it wants to lead, again and again.
func TestLeaderHeardByOneOfTwoFollowers(t *testing.T) {
	d := divide(t)
	d.near.busy(1)
	d.network.Mute(d.host(d.leader), d.host(d.followers()[0]))
	d.faulted()
	d.progress(60)
	time.Sleep(8 * time.Second) // the fault itself: long enough for more than one election
	d.progress(60)
	d.close(amnesia)
}

// The leader comes and goes, whoever it is, for shorter than it takes to elect another one, and for longer.
func TestLeaderCutOffAgainAndAgain(t *testing.T) {
	d := divide(t)
	for _, away := range []time.Duration{500, 1500, 4000, 1000, 5000, 300} {
		d.network.Isolate(d.host(d.cluster.StreamLeader(t, stream)), d.network.Outside())
		d.faulted()
		time.Sleep(away * time.Millisecond) // the fault itself
		d.network.Heal()
		time.Sleep(away * time.Millisecond / 2)
	}
	d.close(amnesia)
}
