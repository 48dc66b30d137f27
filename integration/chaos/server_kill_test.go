package chaos

import (
	"testing"
	"time"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

// amnesia is what a server that was killed may cause: it hands out once more, as if for the first time, what it
// had handed out before.
var amnesia = rules{overlap: 500 * time.Millisecond, crashes: 8}

func TestServerKilledUnderLoad(t *testing.T) {
	t.Parallel()
	server := natstest.StartServer(t, natstest.ServerConfig{})
	c := newCrew(t, server.URL(), workerConfig{Lease: 2 * time.Second})
	hands := []*hand{c.work("w1"), c.work("w2")}
	c.start(2, 10*time.Millisecond)
	for range 4 {
		c.progress(60)
		hands[len(c.faults)%2].busy(1)
		server.Kill()
		c.faulted()
		server.Restart(t)
	}
	c.progress(60)
	c.finish()
	c.check(amnesia)
	c.dismiss(hands...)
}

func TestServerFrozenUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	t.Parallel()
	server := natstest.StartServer(t, natstest.ServerConfig{})
	c := newCrew(t, server.URL(), workerConfig{Lease: 2 * time.Second})
	hands := []*hand{c.work("w1"), c.work("w2")}
	c.start(2, 10*time.Millisecond)
	for range 2 {
		c.progress(60)
		hands[len(c.faults)%2].busy(1)
		server.Pause()
		c.faulted()
		time.Sleep(4 * time.Second) // the fault itself: longer than a lease, and than a producer waits
		server.Resume()
	}
	c.progress(60)
	c.finish()
	c.check(rules{})
	c.dismiss(hands...)
}
