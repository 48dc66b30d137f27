package kvbucket

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

// adds increments "c", and expects the sum.
func adds(t *testing.T, b *Bucket, amount, want int64) {
	t.Helper()
	sum, err := b.Increment(t.Context(), "c", amount)
	require.NoError(t, err)
	require.Equal(t, want, sum)
}

func TestACounterOfABucketThatWasMadeAnewIsNotOverwritten(t *testing.T) {
	t.Parallel()
	url := server(t)
	b := open(t, url, config())
	for i := range 5 {
		set(t, b, "v", strconv.Itoa(i), 0)
	}
	adds(t, b, 10, 10)
	require.EqualValues(t, 6, b.last.Load())
	left := time.Now()
	require.NoError(t, b.js.DeleteStream(t.Context(), b.stream))
	other := open(t, url, config())
	for i := range 5 {
		set(t, other, "v", strconv.Itoa(i), 0)
	}
	adds(t, other, 1, 1) // at the same sequence
	natstest.Eventually(t, soon, func() bool { return time.Since(left) > 2*knownFor })
	adds(t, b, 10, 11)
	has(t, other, "c", "11")
}

func TestACounterOfAServerThatWasPutBackIsNotOverwritten(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	s := natstest.StartServer(t, natstest.ServerConfig{Dir: dir})
	b := open(t, s.URL(), config())
	adds(t, b, 1, 1)
	s.Stop()
	older := filepath.Join(t.TempDir(), "older")
	require.NoError(t, os.CopyFS(older, os.DirFS(dir)))
	s.Restart(t)
	natstest.Eventually(t, soon, b.nc.IsConnected)
	adds(t, b, 1, 2)
	known := b.counters.recall(b.subject("c"))
	require.NotNil(t, known)

	s.Kill()
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.CopyFS(dir, os.DirFS(older)))
	s.Restart(t)
	adds(t, open(t, s.URL(), config()), 5, 6)
	natstest.Eventually(t, soon, b.nc.IsConnected)
	known.at = time.Now() // however fast that was
	require.False(t, b.holds(known))
	adds(t, b, 1, 7)
}

func TestWhatIsKnownOfSequencesEndsWithThem(t *testing.T) {
	t.Parallel()
	url := server(t)
	d := &natstest.FaultDialer{}
	b := open(t, url, config(), d.Option())
	b.replicated = true // as if several servers had it
	for range 5 {
		set(t, b, "k", "v", 0)
	}
	subject := b.subject("k")
	require.True(t, b.recent.past(subject, 1))
	era := b.era()

	// It shows by an answer.
	require.NoError(t, b.js.DeleteStream(t.Context(), b.stream))
	open(t, url, config())
	set(t, b, "k", "v", 0)
	require.EqualValues(t, 1, b.last.Load())
	require.False(t, b.recent.past(subject, 1))
	require.NotEqual(t, era, b.era())
	b.learn(era, subject, 9) // late news of what was before
	require.EqualValues(t, 1, b.last.Load())
	b.anew(era, 9)
	require.EqualValues(t, 1, b.last.Load())

	// A reconnect is enough.
	set(t, b, "k", "v", 0)
	require.True(t, b.recent.past(subject, 1))
	before := b.nc.Stats().Reconnects
	d.Cut()
	natstest.Eventually(t, soon, func() bool { return b.nc.Stats().Reconnects > before })
	b.era()
	require.Zero(t, b.last.Load())
	require.False(t, b.recent.past(subject, 1))
}
