package schedules

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/scheduler"
)

// With the lease that processes have who say nothing of it: how long nobody leads when the leader's process is killed,
// and when it is asked to stop.
func TestTakeover(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a lease of ten seconds")
	}
	t.Parallel()
	f := newFleet(t, natstest.StartServer(t, natstest.ServerConfig{}).URL(), 0)
	promised := f.declare(10)
	for range 3 {
		f.start("")
	}
	for name, sig := range map[string]syscall.Signal{"SIGTERM": syscall.SIGTERM, "SIGKILL": syscall.SIGKILL} {
		f.newer(promised)
		leader := f.leader()
		signalled := time.Now()
		f.procs[leader.ID].Signal(sig)
		next := f.leader(leader.ID)
		took := next.Since.Sub(signalled)
		f.newer(promised)
		t.Logf("%s: another leads after %s", name, took.Round(time.Millisecond))
		require.Less(t, took, 3*scheduler.DefaultTTL, name)
		f.procs[leader.ID].Wait(patience)
		delete(f.procs, leader.ID)
		f.start("")
	}
	sum := f.check(promised)
	t.Logf("%d jobs, %d instants folded into them; the latest %s after its instant", sum.jobs, sum.folded, sum.latest.Round(time.Millisecond))
	f.dismiss(f.ids()...)
}
