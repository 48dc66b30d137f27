package kvbucket

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

// fill writes n keys, pipelined.
func fill(t testing.TB, b *Bucket, n int, name func(i int) string, value string) {
	t.Helper()
	work := make(chan int)
	errs := make(chan error, n)
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for i := range work {
				if err := b.Set(t.Context(), name(i), value, 0); err != nil {
					errs <- err
				}
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	all.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
}

// It is alone in the process, and its server in another, so that what is held can be told.
func TestListingHoldsAPageAtATime(t *testing.T) {
	b := open(t, natstest.StartServer(t, natstest.ServerConfig{}).URL(), config())
	const n = 12_500
	fill(t, b, n, func(i int) string { return fmt.Sprintf("s/%d/%d", i%5, i) }, strings.Repeat("x", 1000))
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	count := 0
	for _, err := range b.Keys(t.Context(), "s/") {
		require.NoError(t, err)
		if count++; count == n/2 {
			runtime.GC()
			runtime.ReadMemStats(&after)
		}
	}
	require.Equal(t, n, count)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(4<<20), "12 MB of values are not held")
}

func TestListingLeavesNoConsumer(t *testing.T) {
	t.Parallel()
	b := open(t, server(t), config())
	const n = 5000
	fill(t, b, n, func(i int) string { return fmt.Sprintf("s/%d/%d", i%5, i) }, "v")
	consumers := func() int { _, c := left(t, b); return c }

	seen := make(map[string]bool, n)
	for key, err := range b.Keys(t.Context(), "s/") {
		require.NoError(t, err)
		seen[key] = true
		if len(seen) == n/2 {
			require.LessOrEqual(t, consumers(), 1)
		}
	}
	require.Len(t, seen, n)
	require.Zero(t, consumers())
	require.Len(t, keysOf(t, b, "s/3/"), n/5)

	for range b.Keys(t.Context(), "s/") { // left at once
		break
	}
	require.Zero(t, consumers())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, err := range b.Keys(ctx, "s/") {
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
			break
		}
		cancel()
	}
	require.Zero(t, consumers())

	wiped, err := b.Wipe(t.Context(), "s/3/")
	require.NoError(t, err)
	require.Equal(t, n/5, wiped)
	require.Len(t, keysOf(t, b, ""), n-n/5)
	require.Zero(t, consumers())
}

// A space's keys are told from others by the server: what a listing or a wipe of it has delivered are its own, however many
// there are beside.
func TestASpaceIsReadWithoutTheOthers(t *testing.T) {
	t.Parallel()
	b := open(t, server(t), config())
	beside := []string{"v/acme2/", "v/acm/", "w/acme/", "v//acme/", "/v/acme/", "v/acme"} // the last makes v/acme5 and the like
	const others = 20_000
	fill(t, b, others, func(i int) string { return beside[i%len(beside)] + strconv.Itoa(i) }, "v")
	set(t, b, "v/acme", "no key of the space", 0)
	own := []string{"v/acme/", "v/acme//", "v/acme//x", "v/acme/x", "v/acme/x/", "v/acme/x/y", "v/acme/=", "v/acme/ "}
	for _, key := range own {
		set(t, b, key, "v", 0)
	}
	delivered := func(do func()) uint64 {
		before := b.nc.Stats().InMsgs
		do()
		return b.nc.Stats().InMsgs - before
	}
	for prefix, want := range map[string][]string{
		"v/acme/": own, "v/acme//": {"v/acme//", "v/acme//x"}, "v/acme/x/": {"v/acme/x/", "v/acme/x/y"}, "v/acme/ ": {"v/acme/ "},
		"v/acme/x": {"v/acme/x", "v/acme/x/", "v/acme/x/y"}, "v/acme/x/y": {"v/acme/x/y"}, "v/nobody/": {},
	} {
		n := delivered(func() { require.ElementsMatch(t, want, keysOf(t, b, prefix), prefix) })
		require.Less(t, n, uint64(100), "%q: the space's own, and the answers of the API", prefix)
	}
	n := delivered(func() {
		wiped, err := b.Wipe(t.Context(), "v/acme/")
		require.NoError(t, err)
		require.Equal(t, len(own), wiped)
	})
	require.Less(t, n, uint64(100))
	require.Empty(t, keysOf(t, b, "v/acme/"))
	has(t, b, "v/acme", "no key of the space")
	require.Len(t, keysOf(t, b, ""), others+1)
}

func TestAListingGoesOnWhereItsConsumerWasLost(t *testing.T) {
	t.Parallel()
	b := open(t, server(t), config())
	const n = 3 * pageKeys
	fill(t, b, n, func(i int) string { return "k" + strconv.Itoa(i) }, "v")
	seen := make(map[string]int, n)
	for key, err := range b.Keys(t.Context(), "k") {
		require.NoError(t, err)
		if seen[key]++; len(seen) == pageKeys/2 {
			s, err := b.js.Stream(t.Context(), b.stream)
			require.NoError(t, err)
			for name := range s.ConsumerNames(t.Context()).Name() {
				require.NoError(t, s.DeleteConsumer(t.Context(), name))
			}
		}
	}
	require.Len(t, seen, n)
	for key, times := range seen {
		require.Equal(t, 1, times, key)
	}
	_, consumers := left(t, b)
	require.Zero(t, consumers)
}

func TestAListingEndsThoughAllThatItWasToListIsGone(t *testing.T) {
	t.Parallel()
	d := &natstest.FaultDialer{}
	url := server(t)
	b, other := open(t, url, config(), d.Option()), open(t, url, config())
	b.timeout = 200 * time.Millisecond
	set(t, b, "a", "v", 0)
	set(t, b, "b", "v", 0)
	d.DropToServer(-1, func(frame []byte) bool { return bytes.Contains(frame, []byte(".CONSUMER.CREATE.")) })
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		var last error
		for _, last = range b.Keys(ctx, "") {
		}
		done <- last
	}()
	natstest.Eventually(t, soon, func() bool { _, to := d.Dropped(); return to > 0 })
	s, err := other.js.Stream(ctx, other.stream)
	require.NoError(t, err)
	require.NoError(t, s.Purge(ctx))
	d.Heal()
	require.NoError(t, <-done)
}

func TestAListingEndsWhileOthersWrite(t *testing.T) {
	t.Parallel()
	url := server(t)
	b, other := open(t, url, config()), open(t, url, config())
	const n = 2000
	name := func(i int) string { return "k" + strconv.Itoa(i) }
	fill(t, b, n, name, "v")
	set(t, b, "zz", "the last", 0)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := w; ctx.Err() == nil; i += 4 {
				_ = other.Set(ctx, name(i%(n/2)), "again", 0) // the test ends in the middle of one
			}
		})
	}
	for range 5 {
		seen := map[string]int{}
		for _, key := range keysOf(t, b, "") {
			seen[key]++
			require.Equal(t, 1, seen[key], key)
		}
		for i := n / 2; i < n; i++ {
			require.Equal(t, 1, seen[name(i)], "nobody touched it")
		}
		require.Equal(t, 1, seen["zz"])
		require.NoError(t, other.Delete(t.Context(), "zz")) // the last one goes, and comes
		set(t, b, "zz", "again", 0)
	}
	cancel()
	all.Wait()
}

func TestAWipeLeavesWhatWasWrittenMeanwhile(t *testing.T) {
	t.Parallel()
	d := &natstest.FaultDialer{}
	url := server(t)
	b, other := open(t, url, config(), d.Option()), open(t, url, config())
	set(t, b, "a", "1", 0)
	set(t, b, "b", "1", 0)
	// The delete is lost on its way until somebody has written the key.
	d.DropToServer(-1, func(frame []byte) bool { return isPublish(frame, "$KV.JETCREW_KV.a") })
	done := make(chan struct{})
	go func() {
		defer close(done)
		for to := 0; to == 0 && t.Context().Err() == nil; _, to = d.Dropped() {
			time.Sleep(time.Millisecond)
		}
		assertNoError(t, other.Set(t.Context(), "a", "2", 0))
		d.Heal()
	}()
	n, err := b.Wipe(t.Context(), "")
	<-done
	require.ErrorIs(t, err, kv.ErrUnknown, "a set hides whether ours was there before it")
	require.Equal(t, 1, n)
	has(t, other, "a", "2")
}

func TestAListThatCannotBeReadSaysSo(t *testing.T) {
	t.Parallel()
	b := open(t, server(t), config())
	set(t, b, "k", "v", 0)
	require.NoError(t, b.js.DeleteStream(t.Context(), b.stream))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var last error
	for _, err := range b.Keys(ctx, "") {
		require.NoError(t, last)
		last = err
	}
	require.Error(t, last)
	_, err := b.Wipe(ctx, "")
	require.Error(t, err)
	b.nc.Close()
	_, err = b.Wipe(t.Context(), "")
	require.ErrorIs(t, err, nats.ErrConnectionClosed)
}
