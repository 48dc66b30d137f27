package chaos

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

// A server that syncs each write has all that it acknowledged when the power comes back.
func TestPowerCutWhereWritesAreSynced(t *testing.T) {
	powerCut(t, "sync_interval: always", amnesia)
}

// A server as it is by default has what it synced last. What it forgets that it had acknowledged is lost or runs again;
// what it has left is sound, and work goes on from there.
func TestPowerCutWhereWritesAreNotSynced(t *testing.T) {
	powerCut(t, "", rules{
		overlap: amnesia.overlap, crashes: 20,
		excuse: "written since the last sync, of which there is one every two minutes",
	})
}

// powerCut has the server's machine lose its power under load, while its workers and producers go on.
func powerCut(t *testing.T, sync string, r rules) {
	heavy(t)
	t.Parallel()
	disk := natstest.Disk(t, 128)
	server := natstest.StartServer(t, natstest.ServerConfig{Dir: filepath.Join(disk.Dir(), "store"), JetStream: sync})
	c := newCrew(t, server.URL(), workerConfig{Lease: 2 * time.Second})
	hands := []*hand{c.work("w1"), c.work("w2")}
	c.start(2, 10*time.Millisecond)
	c.progress(60)
	disk.Sync() // as the server does from time to time: a stream of which nothing was ever synced is no more
	c.progress(200)
	hands[0].busy(1)
	server.Pause()
	c.faulted()
	after := disk.AfterPowerCut()
	server.Kill()
	server.Change(t, func(cfg *natstest.ServerConfig) { cfg.Dir = filepath.Join(after.Dir(), "store") })
	server.Restart(t)
	c.progress(60)
	c.finish()
	c.check(r)
	c.dismiss(hands...)
}
