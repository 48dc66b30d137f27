package kvbucket

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/natsenv"
)

// oldServer is a NATS server of some version that can do no more than be connected to.
func oldServer(t *testing.T, version string) (url string) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	var all sync.WaitGroup
	all.Go(func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = fmt.Fprintf(conn, `INFO {"server_id":"S","version":%q,"proto":1,"headers":true,"max_payload":1048576,"jetstream":true}`+"\r\n", version)
		for lines := bufio.NewScanner(conn); lines.Scan(); { // until the client goes
			if strings.HasPrefix(lines.Text(), "PING") {
				_, _ = conn.Write([]byte("PONG\r\n"))
			}
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	return "nats://" + l.Addr().String()
}

func TestAServerThatIsTooOldIsRefusedByName(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2.10.0", "2.13.99"} {
		nc := natstest.Connect(t, oldServer(t, version), nats.NoReconnect())
		_, err := Open(t.Context(), nc, config())
		require.ErrorIs(t, err, ErrServerTooOld)
		require.ErrorContains(t, err, version)
		require.ErrorContains(t, err, natsenv.MinServer)
	}
}
