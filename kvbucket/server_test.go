package kvbucket

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

// put publishes a message as it is, over whatever is there.
func put(t *testing.T, b *Bucket, key, value string, headers ...string) {
	t.Helper()
	m := &nats.Msg{Subject: b.subject(key), Header: nats.Header{}, Data: []byte(value)}
	for i := 0; i < len(headers); i += 2 {
		m.Header.Set(headers[i], headers[i+1])
	}
	_, err := b.js.PublishMsg(t.Context(), m)
	require.NoError(t, err)
}

// killed kills a server when what was to lapse has lapsed, and starts it again.
func killed(t *testing.T, s *natstest.Process, b *Bucket, lasting uint64) {
	t.Helper()
	lapsed(t, b, lasting)
	s.Kill()
	s.Restart(t)
	natstest.Eventually(t, soon, b.nc.IsConnected)
}

// lapsed waits until a bucket has no more than so many messages.
func lapsed(t *testing.T, b *Bucket, lasting uint64) {
	t.Helper()
	natstest.Eventually(t, soon, func() bool {
		n, _ := left(t, b)
		return n <= lasting
	}, "what has a TTL does not lapse")
}

// This is why commit writes some things twice. Where a server brings back nothing that was replaced, the second write can
// go, once every server that is supported does so.
func TestWhatAKilledServerBringsBack(t *testing.T) {
	t.Parallel()
	s := natstest.StartServer(t, natstest.ServerConfig{})
	b := open(t, s.URL(), config())
	brief := []string{jetstream.MsgTTLHeader, "1"}
	marker := append([]string{headerOperation, operationPurge, headerRollup, "sub"}, brief...)
	put(t, b, "stays", "v")
	put(t, b, "deleted", "old")
	put(t, b, "deleted", "", marker...)
	put(t, b, "lapsed", "old")
	put(t, b, "lapsed", "new", brief...)
	put(t, b, "lapsed before it would have", "old", jetstream.MsgTTLHeader, "3600")
	put(t, b, "lapsed before it would have", "new", brief...)
	for range 2 {
		put(t, b, "deleted twice", "old")
		put(t, b, "lapsed twice", "old")
	}
	for range 2 {
		put(t, b, "deleted twice", "", marker...)
		put(t, b, "lapsed twice", "new", brief...)
		put(t, b, "lapsed after it would have", "v", brief...)
	}
	once := []string{"stays", "deleted", "lapsed", "lapsed before it would have"}
	killed(t, s, b, 1)
	lapsed(t, b, uint64(len(once)))
	require.ElementsMatch(t, once, keysOf(t, b, ""), "what was replaced once by what has lapsed comes back, and nothing else")
	for _, key := range once[1:] {
		has(t, b, key, "old")
	}
	killed(t, s, b, uint64(len(once)))
	twice := append(once, "deleted twice", "lapsed twice")
	lapsed(t, b, uint64(len(twice)))
	require.ElementsMatch(t, twice, keysOf(t, b, ""), "killed twice, what was replaced twice comes back")
}

// Once the server has tidied what was written after a value, that value comes back even where it was replaced twice: this is
// the limit of what a second write is good for. What was purged while it was there stays gone.
func TestWhatAKilledServerBringsBackOnceItHasTidied(t *testing.T) {
	if testing.Short() {
		t.Skip("writes some tens of megabytes")
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	s := natstest.StartServer(t, natstest.ServerConfig{Dir: dir, JetStream: "sync_interval: 500ms"})
	b := open(t, s.URL(), config())
	marker := []string{headerOperation, operationPurge, headerRollup, "sub", jetstream.MsgTTLHeader, "1"}
	large := strings.Repeat("x", 500<<10)
	put(t, b, "replaced twice", "old")
	put(t, b, "purged", "old")
	const lasting = 20
	for i := range lasting {
		put(t, b, "stays/"+strconv.Itoa(i), large)
	}
	for range 2 {
		put(t, b, "replaced twice", "what replaced it", marker...)
	}
	stream, err := b.js.Stream(t.Context(), b.stream)
	require.NoError(t, err)
	require.NoError(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject(b.subject("purged"))))
	put(t, b, "purged", "", marker...)
	for range 2 * lasting {
		put(t, b, "stays/0", large)
	}
	lapsed(t, b, lasting)
	// Where the server has looked in vain once, it looks again when the stream's first message has moved on: this has it do so
	// now and then, and not often enough to empty the block of the old values.
	const every = 5 * time.Second
	began, moved := time.Now(), 0
	natstest.Eventually(t, soon, func() bool {
		if !onDisk(dir, "what replaced it") {
			return true
		}
		if time.Since(began) > time.Duration(moved+1)*every {
			moved++
			put(t, b, "stays/"+strconv.Itoa(moved), large)
		}
		return false
	}, "the server does not tidy its disk")
	killed(t, s, b, lasting)
	has(t, b, "replaced twice", "old")
	absent(t, b, "purged")
}

// onDisk reports whether a text stands in any of a server's files.
func onDisk(dir, text string) bool {
	found := false
	_ = filepath.WalkDir(dir, func(path string, _ os.DirEntry, _ error) error {
		content, err := os.ReadFile(path)
		found = found || err == nil && bytes.Contains(content, []byte(text))
		return nil // a file may be removed meanwhile
	})
	return found
}
