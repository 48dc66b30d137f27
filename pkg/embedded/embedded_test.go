package embedded_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/jetcrew/jetcrew/pkg/embedded"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func start(t *testing.T, cfg embedded.Config) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(cfg)
	require.NoError(t, err)
	t.Cleanup(s.Shutdown)
	return s
}

func open(t *testing.T, url string, opts ...nats.Option) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(url, opts...)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	return js
}

func publish(t *testing.T, js jetstream.JetStream) uint64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
	require.NoError(t, err)
	ack, err := js.Publish(ctx, "s.a", []byte("x"))
	require.NoError(t, err)
	return ack.Sequence
}

func TestServesJetStreamByURL(t *testing.T) {
	s := start(t, embedded.Config{})
	require.EqualValues(t, 1, publish(t, open(t, s.URL())))
	require.Equal(t, "nats --server "+s.URL()+" stream ls", s.CLIHint())
}

func TestServesJetStreamInProcess(t *testing.T) {
	s := start(t, embedded.Config{})
	require.EqualValues(t, 1, publish(t, open(t, "", s.InProcess())))
}

func TestKeepsWhatIsStoredInItsDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "for", "it")
	for want := uint64(1); want <= 3; want++ {
		s := start(t, embedded.Config{Dir: dir})
		require.Equal(t, dir, s.Dir())
		require.Equal(t, want, publish(t, open(t, s.URL())))
		s.Shutdown()
	}
	require.DirExists(t, dir)
}

func TestShutdownIsIdempotentAndRemovesATemporaryDirectory(t *testing.T) {
	s := start(t, embedded.Config{})
	require.DirExists(t, s.Dir())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(s.Shutdown)
	}
	wg.Wait()
	s.Shutdown()
	require.NoDirExists(t, s.Dir())
}

func TestListensOnTheGivenPort(t *testing.T) {
	free := start(t, embedded.Config{})
	_, port := hostPort(t, free.URL())
	free.Shutdown()
	s := start(t, embedded.Config{Port: port})
	require.Equal(t, free.URL(), s.URL())
}

func TestRefusesAPortInUse(t *testing.T) {
	_, port := hostPort(t, start(t, embedded.Config{}).URL())
	dir := t.TempDir()
	_, err := embedded.Start(embedded.Config{Port: port, Dir: dir})
	require.ErrorIs(t, err, embedded.ErrInUse)
	require.ErrorContains(t, err, "embedded: address 127.0.0.1:")
	start(t, embedded.Config{Dir: dir}) // the failed start gave the directory back
}

func TestRefusesADirectoryInUse(t *testing.T) {
	dir := t.TempDir()
	first := start(t, embedded.Config{Dir: dir})
	_, err := embedded.Start(embedded.Config{Dir: dir})
	require.ErrorIs(t, err, embedded.ErrInUse)
	require.ErrorContains(t, err, "embedded: directory "+dir)
	require.EqualValues(t, 1, publish(t, open(t, first.URL())))

	first.Shutdown()
	second := start(t, embedded.Config{Dir: dir})
	require.EqualValues(t, 2, publish(t, open(t, second.URL())))
}

func TestRefusesADirectoryThatCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := embedded.Start(embedded.Config{Dir: filepath.Join(file, "below")})
	require.ErrorContains(t, err, "embedded: directory "+file)
}

func TestRefusesADirectoryThatIsNotWritable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere")
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o500))
	_, err := embedded.Start(embedded.Config{Dir: dir})
	require.ErrorIs(t, err, os.ErrPermission)
	require.ErrorContains(t, err, "embedded: directory "+dir)
}

func TestRefusesNonsense(t *testing.T) {
	for name, cfg := range map[string]embedded.Config{
		"port":    {Port: 70000},
		"store":   {MaxStore: -1},
		"timeout": {ReadyTimeout: -1},
		"host":    {Host: "256.0.0.1"},
	} {
		_, err := embedded.Start(cfg)
		require.ErrorContains(t, err, "embedded: ", name)
	}
}

func TestBoundsWhatIsStored(t *testing.T) {
	const limit = 1 << 20
	s := start(t, embedded.Config{MaxStore: limit})
	js := open(t, s.URL())
	publish(t, js)
	full := false
	for range 64 {
		if _, err := js.Publish(t.Context(), "s.a", make([]byte, limit/16)); err != nil {
			full = true
			break
		}
	}
	require.True(t, full, "the store took four times its limit")
}

func TestLogsTheServersWarnings(t *testing.T) {
	var buf syncBuffer
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "jetstream"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "jetstream", "$G"), nil, 0o600)) // where a directory should be
	s, err := embedded.Start(embedded.Config{Dir: dir, Logger: zerolog.New(&buf)})
	if err == nil {
		js := open(t, s.URL())
		_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S"})
		s.Shutdown()
	}
	require.Error(t, err)
	require.Contains(t, buf.String(), "nats-server: ")
}

func hostPort(t *testing.T, url string) (string, int) {
	t.Helper()
	addr, err := net.ResolveTCPAddr("tcp", url[len("nats://"):])
	require.NoError(t, err)
	return addr.IP.String(), addr.Port
}

type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
