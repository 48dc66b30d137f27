package natstest

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/jetcrew/jetcrew/pkg/embedded"
)

// Connect connects to a server or a cluster. The connection reconnects for
// ever, soon after every attempt, and is closed when the test ends.
func Connect(t testing.TB, url string, opts ...nats.Option) *nats.Conn {
	t.Helper()
	all := append([]nats.Option{
		nats.Name(t.Name()),
		nats.Timeout(5 * time.Second),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(50 * time.Millisecond),
		nats.ReconnectJitter(20*time.Millisecond, 20*time.Millisecond),
		// The default handler prints; a test that cares passes its own.
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}, opts...)
	nc, err := nats.Connect(url, all...)
	if err != nil {
		t.Fatalf("natstest: connect to %s: %v", url, err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// Embedded starts a server in this process that stops when the test ends.
func Embedded(t testing.TB) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(embedded.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatalf("natstest: %v", err)
	}
	t.Cleanup(s.Shutdown)
	return s
}
