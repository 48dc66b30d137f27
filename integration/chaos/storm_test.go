package chaos

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

// storm is a random order of things that can be repeated.
func storm(t testing.TB) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("JETCREW_CHAOS_SEED"); text != "" {
		_, err := fmt.Sscan(text, &seed)
		require.NoError(t, err, "JETCREW_CHAOS_SEED is a number")
	}
	t.Logf("JETCREW_CHAOS_SEED=%d repeats the order of what is done", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

const (
	stormLasts = 10 * time.Second
	stormEvery = 500 * time.Millisecond
)

// fleet is five workers, of which a storm makes others.
func (c *crew) fleet() []*hand {
	c.t.Helper()
	hands := make([]*hand, 5)
	for i := range hands {
		hands[i] = c.work(fmt.Sprintf("w%d", i))
	}
	return hands
}

// every calls do again and again for as long as a storm lasts.
func every(do func(n int)) int {
	tick := time.NewTicker(stormEvery)
	defer tick.Stop()
	n := 0
	for end := time.Now().Add(stormLasts); time.Now().Before(end); n++ {
		do(n)
		<-tick.C
	}
	return n
}

func TestStormOfKilledWorkers(t *testing.T) {
	heavy(t)
	t.Parallel()
	r := storm(t)
	c := newCrew(t, natstest.StartServer(t, natstest.ServerConfig{}).URL(), workerConfig{Lease: time.Second})
	hands := c.fleet()
	c.start(2, 10*time.Millisecond)
	c.progress(60)
	killed := every(func(n int) {
		i := r.IntN(len(hands))
		hands[i].Kill()
		c.faulted()
		hands[i] = c.work(fmt.Sprintf("w%d-%d", i, n))
	})
	t.Logf("%d workers were killed", killed)
	c.progress(60)
	c.finish()
	c.check(vanished)
	c.dismiss(hands...)
}

// Some are stopped for less than a lease, some for longer: these find that their jobs are somebody else's.
func TestStormOfFrozenWorkers(t *testing.T) {
	heavy(t)
	t.Parallel()
	r := storm(t)
	c := newCrew(t, natstest.StartServer(t, natstest.ServerConfig{}).URL(), workerConfig{Lease: time.Second})
	hands := c.fleet()
	excused := vanished
	for _, h := range hands {
		excused.frozen = append(excused.frozen, h.id)
	}
	c.start(2, 10*time.Millisecond)
	c.progress(60)
	wakes := make(map[*hand]time.Time)
	frozen := 0
	every(func(int) {
		for h, at := range wakes {
			if time.Now().After(at) {
				h.Resume()
				delete(wakes, h)
			}
		}
		h := hands[r.IntN(len(hands))]
		if _, asleep := wakes[h]; asleep {
			return
		}
		h.Pause()
		c.faulted()
		frozen++
		wakes[h] = time.Now().Add(time.Duration(r.IntN(3000)) * time.Millisecond)
	})
	for h := range wakes {
		h.Resume()
	}
	t.Logf("workers were frozen %d times; %d settlements came too late", frozen, c.account.count(is(eventLost, "", "")))
	c.progress(60)
	c.finish()
	c.check(excused)
	c.dismiss(hands...)
}
