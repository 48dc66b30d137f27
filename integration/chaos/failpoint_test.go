//go:build failpoints

package chaos

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/failpoint"
)

// What can happen at a place.
const (
	dies    = "kill"
	freezes = "stop"
	errs    = "error"
	lags    = "delay"
)

const (
	shortLease = time.Second
	pastLease  = 2*shortLease + shortLease/2
)

// armed is the environment of a process that comes to harm at a place: once, at the n-th passage, but for errors, which
// are had at each n-th.
func armed(place, action string, n int) string {
	what := fmt.Sprintf("%s#%d", action, n)
	switch action {
	case errs:
		what = fmt.Sprintf("%s%%%d", errs, n)
	case lags:
		what = fmt.Sprintf("%s:%s#%d", lags, pastLease, n)
	}
	return "JETCREW_FAILPOINTS=" + place + "=" + what
}

// hit is what a process says when it comes to harm.
func hit(place, action string) string { return fmt.Sprintf("failpoint %s: %s", place, action) }

// inShort are the combinations that belong to every run with the tag.
var inShort = map[string]bool{
	failpoint.AfterSettle + dies:     true,
	failpoint.AfterClaimWrite + errs: true,
	failpoint.BeforeSettle + freezes: true,
	failpoint.AfterEnqueue + dies:    true,
	failpoint.AfterFire + dies:       true,
	failpoint.AfterSweepList + errs:  true,
}

// eachAction runs a scene for every action, each on a server of its own.
func eachAction(t *testing.T, place string, scene func(t *testing.T, action string)) {
	t.Helper()
	for _, action := range []string{dies, freezes, errs, lags} {
		t.Run(place+"/"+action, func(t *testing.T) {
			if !inShort[place+action] {
				heavy(t)
			}
			t.Parallel()
			scene(t, action)
		})
	}
}

func TestFailpointOfWorker(t *testing.T) {
	t.Parallel()
	for place, n := range map[string]int{
		failpoint.AfterClaim:   20,
		failpoint.MidHandler:   2,
		failpoint.BeforeSettle: 20,
		failpoint.AfterSettle:  20,
		failpoint.BeforeAck:    20,
		failpoint.AfterAck:     20,
	} {
		eachAction(t, place, func(t *testing.T, action string) {
			c := failpointCrew(t)
			steady := c.work("steady")
			c.start(2, 20*time.Millisecond)
			victims, r := c.harm(place, action, n, func(int) {})
			c.progress(100)
			c.finish()
			c.check(r)
			c.dismiss(append(victims, steady)...)
		})
	}
}

// Only what comes back is claimed before its handler starts: somebody dies with jobs in hand first, and nobody is there
// to take them but who comes to harm then.
func TestFailpointOfWorkerThatTakesOver(t *testing.T) {
	t.Parallel()
	eachAction(t, failpoint.AfterClaimWrite, func(t *testing.T, action string) {
		c := failpointCrew(t)
		c.start(2, 20*time.Millisecond)
		victims, r := c.harm(failpoint.AfterClaimWrite, action, 1, func(i int) {
			first := c.work(fmt.Sprintf("first-%d", i))
			c.put(4, fmt.Sprintf("held-%d", i), input{Sleep: 300})
			first.busy(4)
			first.Kill()
		})
		r.crashes, r.calm = vanished.crashes, false
		steady := c.work("steady")
		c.progress(100)
		c.finish()
		c.check(r)
		c.dismiss(append(victims, steady)...)
	})
}

func failpointCrew(t *testing.T) *crew {
	t.Helper()
	return newCrew(t, natstest.StartServer(t, natstest.ServerConfig{}).URL(), workerConfig{Lease: shortLease})
}

// harm has workers come to harm at the n-th passage of a place, before is called ahead of each. It answers those that live
// on, and what the fault may excuse.
func (c *crew) harm(place, action string, n int, before func(i int)) (alive []*hand, r rules) {
	c.t.Helper()
	victims := 1
	switch action {
	case dies:
		victims, r.crashes = 3, vanished.crashes
	case freezes:
		r.crashes = vanished.crashes
	case lags:
		r.calm = true // what is held is kept alive for as long as it takes
	}
	for i := range victims {
		before(i)
		id := fmt.Sprintf("victim-%d", i)
		v := c.work(id, armed(place, action, n))
		v.says(hit(place, action))
		c.faulted()
		switch action {
		case dies:
			require.Equal(c.t, -1, v.Wait(patience), "exit code of %s", id)
			continue
		case freezes:
			c.freeze(v.Proc)
			r.frozen = append(r.frozen, id)
		}
		alive = append(alive, v)
	}
	return alive, r
}

// freeze is for a process that has stopped itself: it goes on when its leases are over.
func (c *crew) freeze(p *natstest.Proc) {
	c.t.Helper()
	p.AwaitStop()
	time.Sleep(pastLease) // the fault itself
	p.Resume()
}
