package kvbucket

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

func TestIncrementsOfOneKeyGoTogether(t *testing.T) {
	t.Parallel()
	b := open(t, server(t), config())
	const callers, each = 200, 20
	var all sync.WaitGroup
	var mu sync.Mutex
	var sums []int64
	for range callers {
		all.Go(func() {
			for range each {
				sum, err := b.Increment(t.Context(), "k", 1)
				assertNoError(t, err)
				mu.Lock()
				sums = append(sums, sum)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	slices.Sort(sums)
	for i, sum := range sums {
		require.EqualValues(t, i+1, sum, "each sum is answered once")
	}
	require.Len(t, sums, callers*each)
	writes := b.last.Load()
	require.Less(t, writes, uint64(callers*each/4), "a write carries many")
	b.counters.mu.Lock()
	defer b.counters.mu.Unlock()
	require.Empty(t, b.counters.keys)
	require.Len(t, b.counters.known, 1)
}

// hold makes the write that the next increment of "k" makes wait, until release is called.
func hold(t *testing.T, d *natstest.FaultDialer) (sent func() bool) {
	t.Helper()
	_, before := d.Dropped()
	d.DropToServer(-1, func(frame []byte) bool { return isPublish(frame, "$KV.JETCREW_KV.k") })
	return func() bool { _, n := d.Dropped(); return n > before }
}

func (cs *counters) waiting(subject string) int {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if c := cs.keys[subject]; c != nil {
		return len(c.waiting)
	}
	return 0
}

func TestThoseThatGoTogetherAnswerAsIfOneByOne(t *testing.T) {
	t.Parallel()
	d := &natstest.FaultDialer{}
	b := open(t, server(t), config(), d.Option())
	set(t, b, "k", "9223372036854775800", 0)
	sent := hold(t, d)
	var all sync.WaitGroup
	amounts := []int64{0, 5, 100, -1, math.MaxInt64, 3} // the first goes alone, the others meanwhile wait in this order
	sums, errs := make([]int64, len(amounts)), make([]error, len(amounts))
	for i, amount := range amounts {
		all.Go(func() { sums[i], errs[i] = b.Increment(t.Context(), "k", amount) })
		if i == 0 {
			natstest.Eventually(t, soon, sent)
		} else {
			natstest.Eventually(t, soon, func() bool { return b.counters.waiting(b.subject("k")) == i })
		}
	}
	d.Heal()
	all.Wait()
	require.Equal(t, []int64{9223372036854775800, 9223372036854775805, 0, 9223372036854775804, 0, 9223372036854775807}, sums)
	for i, err := range errs {
		if i == 2 || i == 4 {
			require.ErrorIs(t, err, kv.ErrNotInteger, "the sum would leave 64 bits; the others are none the worse")
		} else {
			require.NoError(t, err)
		}
	}
	has(t, b, "k", "9223372036854775807")
}

func TestACallerWhoLeavesIsCountedOnceAtMost(t *testing.T) {
	t.Parallel()
	d := &natstest.FaultDialer{}
	b := open(t, server(t), config(), d.Option())
	_, err := b.Increment(t.Context(), "k", 1)
	require.NoError(t, err)
	sent := hold(t, d)
	var all sync.WaitGroup
	var flying, waiting error
	var stays int64
	away, leave := context.WithCancel(t.Context())
	first, leaveFirst := context.WithCancel(t.Context())
	defer leave()
	gone := make(chan struct{})
	all.Go(func() { _, flying = b.Increment(away, "k", 10) })
	natstest.Eventually(t, soon, sent)
	all.Go(func() {
		defer close(gone)
		_, waiting = b.Increment(first, "k", 100)
	})
	natstest.Eventually(t, soon, func() bool { return b.counters.waiting(b.subject("k")) == 1 })
	var staysErr error
	all.Go(func() { stays, staysErr = b.Increment(t.Context(), "k", 1000) })
	natstest.Eventually(t, soon, func() bool { return b.counters.waiting(b.subject("k")) == 2 })
	leaveFirst()
	<-gone // at once, though nothing has been answered
	leave()
	natstest.Eventually(t, soon, func() bool { return b.counters.waiting(b.subject("k")) == 0 }, "the flight that nobody waits for is given up")
	d.Heal()
	all.Wait()
	require.ErrorIs(t, flying, kv.ErrUnknown)
	require.ErrorIs(t, flying, context.Canceled)
	require.ErrorIs(t, waiting, context.Canceled)
	require.NotErrorIs(t, waiting, kv.ErrUnknown, "its part was not under way")
	require.NoError(t, staysErr)
	require.EqualValues(t, 1001, stays)
}

func TestCloseEndsIncrements(t *testing.T) {
	t.Parallel()
	d := &natstest.FaultDialer{}
	b := open(t, server(t), config(), d.Option())
	set(t, b, "k", "1", 0)
	sent := hold(t, d)
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err = b.Increment(t.Context(), "k", 1)
	}()
	natstest.Eventually(t, soon, sent)
	b.Close()
	<-done
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, err, kv.ErrUnknown)
}

// count has several clients add to one key while something is done to the servers, and answers how much was acknowledged,
// and how much may have been.
func count(t *testing.T, clients []*Bucket, each int, disturb func(acknowledged func() int64)) (sure, open int64) {
	t.Helper()
	var added, unknown atomic.Int64
	var all sync.WaitGroup
	for _, b := range clients {
		for range 5 {
			all.Go(func() {
				for range each {
					_, err := b.Increment(t.Context(), "k", 1)
					if err != nil {
						assert.ErrorIs(t, err, kv.ErrUnknown)
						unknown.Add(1)
						continue
					}
					added.Add(1)
				}
			})
		}
	}
	disturb(added.Load)
	all.Wait()
	return added.Load(), unknown.Load()
}

func counted(t *testing.T, b *Bucket) (n int64) {
	t.Helper()
	natstest.Eventually(t, soon, func() error {
		e, err := b.leaderGet(t.Context(), b.subject("k"))
		if err == nil {
			_, err = fmt.Sscan(string(e.value), &n)
		}
		return err
	})
	return n
}

func TestAThousandIncrementsAcrossAServersRestart(t *testing.T) {
	t.Parallel()
	p := natstest.StartServer(t, natstest.ServerConfig{})
	clients := []*Bucket{open(t, p.URL(), config()), open(t, p.URL(), config())}
	set(t, clients[0], "k", "0", 0)
	sure, unknown := count(t, clients, 100, func(acknowledged func() int64) {
		natstest.Eventually(t, soon, func() bool { return acknowledged() > 100 })
		p.Kill()
		p.Restart(t)
	})
	n := counted(t, clients[0])
	t.Logf("%d acknowledged, %d unknown, %d counted", sure, unknown, n)
	require.EqualValues(t, 1000, sure+unknown)
	require.GreaterOrEqual(t, n, sure)
	require.LessOrEqual(t, n, sure+unknown)
}

func TestAThousandIncrementsAcrossALeadersDeath(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three processes")
	}
	t.Parallel()
	c := natstest.StartCluster(t, 3)
	cfg := config()
	cfg.Replicas = 3
	clients := []*Bucket{open(t, c.URLs(), cfg), open(t, c.URLs(), cfg)}
	set(t, clients[0], "k", "0", 0)
	sure, unknown := count(t, clients, 100, func(acknowledged func() int64) {
		natstest.Eventually(t, soon, func() bool { return acknowledged() > 100 })
		c.StreamLeader(t, clients[0].stream).Kill()
	})
	n := counted(t, clients[0])
	t.Logf("%d acknowledged, %d unknown, %d counted", sure, unknown, n)
	require.EqualValues(t, 1000, sure+unknown)
	require.GreaterOrEqual(t, n, sure)
	require.LessOrEqual(t, n, sure+unknown)
}

// One process alone knows what became of each of its writes: nothing is left open.
func TestOneProcessCountsExactly(t *testing.T) {
	t.Parallel()
	p := natstest.StartServer(t, natstest.ServerConfig{})
	b := open(t, p.URL(), config())
	set(t, b, "k", "0", 0)
	sure, unknown := count(t, []*Bucket{b}, 200, func(acknowledged func() int64) {
		for _, at := range []int64{100, 400, 700} {
			natstest.Eventually(t, soon, func() bool { return acknowledged() > at })
			p.Kill()
			p.Restart(t)
		}
	})
	require.Zero(t, unknown)
	require.EqualValues(t, 1000, sure)
	require.EqualValues(t, 1000, counted(t, b))
}

func TestManyCountersAreNotKept(t *testing.T) {
	t.Parallel()
	b := open(t, server(t), config())
	var all sync.WaitGroup
	for w := range 16 {
		all.Go(func() {
			for i := w; i < knownCounters+200; i += 16 {
				_, err := b.Increment(t.Context(), fmt.Sprint("k", i), 1)
				assertNoError(t, err)
			}
		})
	}
	all.Wait()
	natstest.Eventually(t, 10*time.Second, func() bool {
		b.counters.mu.Lock()
		defer b.counters.mu.Unlock()
		return len(b.counters.keys) == 0
	})
	require.Len(t, b.counters.known, knownCounters)
}
