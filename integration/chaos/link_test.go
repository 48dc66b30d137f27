package chaos

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

// linked is a crew whose producers and workers each have a way of their own to one server, and two such workers.
func linked(t *testing.T, cfg workerConfig) (c *crew, producers *natstest.Link, workers []*natstest.Link, hands []*hand) {
	t.Helper()
	server := natstest.StartServer(t, natstest.ServerConfig{})
	producers = natstest.StartLink(t, server.URL())
	c = newCrew(t, producers.URL(), cfg)
	for i := range 2 {
		l := natstest.StartLink(t, server.URL())
		c.cfg.URL = l.URL()
		workers = append(workers, l)
		hands = append(hands, c.work(fmt.Sprintf("w%d", i+1)))
	}
	return c, producers, workers, hands
}

// One in twenty answers to a write is lost, to producers and to workers. Whoever asked finds out what became of it.
func TestAnswersToWritesLost(t *testing.T) {
	heavy(t)
	t.Parallel()
	var mu sync.Mutex
	r := storm(t)
	c, producers, workers, hands := linked(t, workerConfig{Lease: 2 * time.Second})
	links := append(workers, producers)
	for _, l := range links {
		l.DropFromServer(-1, func(frame []byte) bool {
			if !natstest.IsPubAck(frame) {
				return false
			}
			mu.Lock()
			defer mu.Unlock()
			return r.Float64() < 0.05
		})
	}
	c.faulted()
	c.start(4, 20*time.Millisecond)
	c.progress(800)
	for _, l := range links {
		from, _ := l.Dropped()
		require.NotZero(t, from, "no answer was lost")
		t.Logf("%d answers lost", from)
		l.Heal()
	}
	c.finish()
	c.check(rules{crashes: 1})
	c.dismiss(hands...)
}

// What one side says is lost, for longer than a lease, and the connection stands: first what a worker says, then what
// it hears; the same with producers.
func TestOneWaySilence(t *testing.T) {
	heavy(t)
	t.Parallel()
	c, producers, workers, hands := linked(t, workerConfig{Lease: 2 * time.Second})
	c.start(2, 20*time.Millisecond)
	for _, fault := range []struct {
		who     *natstest.Link
		silence func(*natstest.Link)
	}{
		{workers[0], (*natstest.Link).BlackholeToServer},
		{workers[1], (*natstest.Link).BlackholeFromServer},
		{producers, (*natstest.Link).BlackholeToServer},
		{producers, (*natstest.Link).BlackholeFromServer},
	} {
		c.progress(60)
		hands[len(c.faults)%2].busy(1)
		fault.silence(fault.who)
		c.faulted()
		time.Sleep(5 * time.Second) // the fault itself
		fault.who.Heal()
	}
	c.progress(60)
	c.finish()
	c.check(vanished)
	c.dismiss(hands...)
}

// Everything takes 100 to 500 ms, either way: a claim takes a good part of the lease.
func TestSlowConnections(t *testing.T) {
	heavy(t)
	t.Parallel()
	c, producers, workers, hands := linked(t, workerConfig{Lease: 4 * time.Second})
	c.start(8, 50*time.Millisecond)
	c.progress(60)
	links := append(workers, producers)
	for _, l := range links {
		l.Slow(100*time.Millisecond, 500*time.Millisecond)
	}
	c.faulted()
	c.progress(150)
	for _, l := range links {
		l.Slow(0, 0)
	}
	c.finish()
	c.check(rules{crashes: 1})
	c.dismiss(hands...)
}

// Connections are reset in the middle of whatever is being said.
func TestConnectionsResetInTheMiddle(t *testing.T) {
	heavy(t)
	t.Parallel()
	r := storm(t)
	c, producers, workers, hands := linked(t, workerConfig{Lease: 2 * time.Second})
	c.start(2, 10*time.Millisecond)
	c.progress(60)
	links := append(workers, producers)
	every(func(int) {
		l := links[r.IntN(len(links))]
		reset := l.ResetToServer
		if r.IntN(2) == 0 {
			reset = l.ResetFromServer
		}
		reset(1 + r.IntN(20_000))
		c.faulted()
	})
	met := 0
	for _, l := range links {
		l.Heal()
		met += l.Accepted() - 1
	}
	require.NotZero(t, met, "no connection was reset")
	t.Logf("%d resets", met)
	c.progress(60)
	c.finish()
	c.check(vanished)
	c.dismiss(hands...)
}

// A worker's way to the node that it is connected to is cut off without a word, and its other ways are not: it moves
// on when a sign of life is overdue, and so do producers.
func TestCutOffFromOneNode(t *testing.T) {
	heavy(t)
	t.Parallel()
	cluster := natstest.StartCluster(t, 3)
	producers, urls := natstest.StartLinks(t, cluster)
	c := newCrew(t, urls, workerConfig{Replicas: 3, Lease: 2 * time.Second, Ping: 2 * time.Second})
	workers, urls := natstest.StartLinks(t, cluster)
	c.cfg.URL = urls
	w := c.work("w1")
	c.start(2, 20*time.Millisecond)
	for _, links := range [][]*natstest.Link{workers, producers, workers} {
		c.progress(60)
		w.busy(1)
		var cut *natstest.Link
		for _, l := range links {
			if l.Connections() > 0 {
				cut = l
			}
		}
		require.NotNil(t, cut)
		cut.Silence()
		c.faulted()
		c.until(func() error {
			for _, l := range links {
				if l != cut && l.Connections() > 0 {
					return nil
				}
			}
			return fmt.Errorf("nobody has moved to another node")
		})
		c.progress(20)
		cut.Heal()
	}
	c.finish()
	c.check(vanished)
	c.dismiss(w)
}
