package schedules

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

// Every half second something befalls one of five processes, whether it leads or not: it is killed and another one comes,
// or it is stopped for up to two of its leases. Each promised instant is accounted for all the same.
func TestEachInstantIsAccountedForInAStorm(t *testing.T) {
	if os.Getenv("JETCREW_CHAOS") == "" {
		t.Skip("part of the full suite: make chaos")
	}
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("JETCREW_CHAOS_SEED"); text != "" {
		_, err := fmt.Sscan(text, &seed)
		require.NoError(t, err, "JETCREW_CHAOS_SEED is a number")
	}
	t.Logf("JETCREW_CHAOS_SEED=%d repeats the order of what is done", seed)
	r := rand.New(rand.NewPCG(seed, 0))

	const ttl = 2 * time.Second
	f := newFleet(t, natstest.StartServer(t, natstest.ServerConfig{}).URL(), ttl)
	promised := f.declare(20)
	for range 5 {
		f.start("")
	}
	f.newer(promised)
	asleep := make(map[string]time.Time) // until when
	killed := 0
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); <-tick.C {
		for id, until := range asleep {
			if time.Now().After(until) {
				f.procs[id].Resume()
				delete(asleep, id)
			}
		}
		ids := f.ids()
		slices.Sort(ids)
		id := ids[r.IntN(len(ids))]
		_, sleeps := asleep[id]
		switch {
		case r.IntN(2) == 0:
			f.procs[id].Kill()
			delete(f.procs, id)
			delete(asleep, id)
			killed++
			f.start("")
		case !sleeps:
			f.procs[id].Pause()
			f.frozen++
			asleep[id] = time.Now().Add(time.Duration(r.Int64N(int64(2 * ttl))))
		}
	}
	for id := range asleep {
		f.procs[id].Resume()
	}
	healed := time.Now()
	f.newer(promised)
	recovered := time.Since(healed)
	t.Logf("%d killed, %d frozen", killed, f.frozen)
	sum := f.check(promised)
	fmt.Printf("fault: %-62s acknowledged %6d  lost 0  doubled 0  re-run 0  recovered in %7.2f s\n",
		"each instant is accounted for in a storm", sum.jobs, recovered.Seconds())
	t.Logf("%d jobs, %d instants folded into them, %d counted as missed, the latest %s after its instant",
		sum.jobs, sum.folded, sum.missed, sum.latest.Round(time.Millisecond))
	f.dismiss(f.ids()...)
}
