package chaos

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// vanished is what a worker that was killed while it ran jobs may cause: one start more than a job has attempts.
var vanished = rules{crashes: 1}

func TestWorkerKilledInTheMiddleOfJobs(t *testing.T) {
	t.Parallel()
	c := newCrew(t, natstest.StartServer(t, natstest.ServerConfig{}).URL(), workerConfig{Lease: time.Second})
	steady := c.work("steady")
	victim := c.work("victim-0")
	c.start(2, 20*time.Millisecond)
	for i := 1; i <= 4; i++ {
		c.progress(30)
		c.put(4, fmt.Sprintf("held-%d", i), input{Sleep: 300}) // for it to have something in hand
		victim.busy(1)
		victim.Kill()
		c.faulted()
		victim = c.work(fmt.Sprintf("victim-%d", i))
	}
	c.finish()
	c.check(vanished)
	c.dismiss(steady, victim)
}

// A worker is frozen when its handlers have returned and nothing is settled, for longer than its lease. When it
// goes on, its jobs are somebody else's.
func TestWorkerFrozenPastItsLease(t *testing.T) {
	t.Parallel()
	c := newCrew(t, natstest.StartServer(t, natstest.ServerConfig{}).URL(), workerConfig{Lease: time.Second, Slots: 4})
	for _, v := range []struct {
		name string
		in   input
	}{
		{"with a claim", input{Sleep: 300, Freeze: true}},
		{"before its claim", input{Freeze: true}},
	} {
		name := fmt.Sprintf("zombie-%d", len(c.faults))
		zombie := c.work(name)
		ids := c.put(3, name, v.in)
		c.until(func() error {
			if n := c.account.count(is(eventDone, name, "")); n == 0 {
				return fmt.Errorf("%s: no handler has returned", v.name)
			}
			return nil
		})
		c.faulted()
		heir := c.work("heir-of-" + name) // its own first attempts at these jobs are the second ones
		for _, id := range ids {
			c.until(func() error {
				j, err := c.job(id)
				if err == nil && j.Status != job.Succeeded {
					err = fmt.Errorf("%s: job %s is %s", v.name, id, j.Status)
				}
				return err
			})
		}
		stands := make(map[string]*job.Job, len(ids))
		for _, id := range ids {
			j, err := c.job(id)
			require.NoError(t, err)
			stands[id] = j
		}
		zombie.Resume()
		c.until(func() error {
			if c.account.count(is(eventLost, name, "")) == 0 {
				return fmt.Errorf("%s: no late settlement was refused", v.name)
			}
			return nil
		})
		c.dismiss(zombie, heir)
		require.Zero(t, c.account.count(is(eventSettled, name, "")), "%s: settlements of the frozen worker", v.name)
		for _, id := range ids {
			j, err := c.job(id)
			require.NoError(t, err)
			require.Equal(t, stands[id], j, "%s: the record after the late settlement", v.name)
			require.Equal(t, heir.id, j.WorkerID, v.name)
		}
	}
	last := c.work("last")
	c.check(rules{crashes: vanished.crashes, frozen: []string{"zombie-0", "zombie-1"}})
	c.dismiss(last)
}

func TestWorkerDrains(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	t.Parallel()
	c := newCrew(t, natstest.StartServer(t, natstest.ServerConfig{}).URL(), workerConfig{Lease: 30 * time.Second, Slots: 4})
	leaver := c.work("leaver")
	c.put(60, "short", input{}) // so that it fetches ahead
	c.settled(60)
	ids := c.put(8, "held", input{Until: c.flag("go")})
	leaver.busy(4)
	fetched := func() int { return c.unacked() - 4 }
	c.until(func() error {
		if fetched() == 0 {
			return fmt.Errorf("nothing was fetched ahead")
		}
		return nil
	})
	t.Logf("%d jobs fetched ahead", fetched())
	stayer := c.work("stayer")
	leaver.Signal(syscall.SIGTERM)
	signalled := time.Now()
	stayer.busy(4)
	require.Less(t, time.Since(signalled), 15*time.Second, "unstarted jobs came to another worker only when their leases lapsed")
	require.Equal(t, 4, c.account.running(leaver.id), "what ran goes on")
	require.NoError(t, os.WriteFile(c.flag("go"), nil, 0o600))
	require.Zero(t, leaver.Wait(patience), "exit code after a drain")
	c.check(rules{})
	for _, id := range ids {
		j, err := c.job(id)
		require.NoError(t, err)
		require.Equal(t, 1, j.Attempts, "a stop costs no attempt")
	}
	c.dismiss(stayer)
}

func TestSecondSignalEndsWorkerAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	t.Parallel()
	c := newCrew(t, natstest.StartServer(t, natstest.ServerConfig{}).URL(), workerConfig{Lease: time.Second, Slots: 4})
	leaver := c.work("leaver")
	c.put(4, "held", input{Until: c.flag("go")})
	leaver.busy(4)
	leaver.Signal(syscall.SIGTERM)
	leaver.says("stopping")
	leaver.Signal(syscall.SIGTERM)
	signalled := time.Now()
	require.Equal(t, 1, leaver.Wait(patience), "exit code after a second signal")
	require.Less(t, time.Since(signalled), 10*time.Second)
	require.Zero(t, c.account.count(is(eventSettled, leaver.id, "")))
	c.faulted()
	require.NoError(t, os.WriteFile(c.flag("go"), nil, 0o600))
	stayer := c.work("stayer")
	c.check(vanished)
	c.dismiss(stayer)
}
