package streams

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/natsenv"
)

// stub is a NATS server of some version that can do no more than be connected to.
type stub struct {
	listener net.Listener
	done     sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
	verbs []string // of all that clients sent
}

func startStub(t *testing.T, version string) *stub {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	s := &stub{listener: l}
	s.done.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, conn)
			s.mu.Unlock()
			s.done.Go(func() { s.talk(conn, version) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		s.mu.Lock()
		for _, conn := range s.conns {
			_ = conn.Close()
		}
		s.mu.Unlock()
		s.done.Wait()
	})
	return s
}

func (s *stub) url() string { return "nats://" + s.listener.Addr().String() }

func (s *stub) talk(conn net.Conn, version string) {
	_, err := fmt.Fprintf(conn, `INFO {"server_id":"STUB","server_name":"stub","version":%q,"proto":1,"headers":true,`+
		`"max_payload":1048576,"jetstream":true}`+"\r\n", version)
	if err != nil {
		return
	}
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		verb, _, _ := strings.Cut(lines.Text(), " ")
		s.mu.Lock()
		s.verbs = append(s.verbs, verb)
		s.mu.Unlock()
		if verb != "PING" {
			continue
		}
		if _, err := conn.Write([]byte("PONG\r\n")); err != nil {
			return
		}
	}
}

// asked are the kinds of lines that clients sent besides what connecting takes.
func (s *stub) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.verbs), func(verb string) bool {
		return verb == "CONNECT" || verb == "PING" || verb == "PONG"
	})
}

func TestContract_AServerThatIsTooOldIsRefusedByName(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2.10.0", "2.13.99", "1.4.1"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			srv := startStub(t, version)
			nc := natstest.Connect(t, srv.url(), nats.NoReconnect())
			s, err := Open(t.Context(), nc, Config{})
			require.ErrorIs(t, err, ErrServerTooOld)
			require.Nil(t, s)
			require.ErrorContains(t, err, version, "the operator is told what there is")
			require.ErrorContains(t, err, natsenv.MinServer, "and what is needed")

			require.NoError(t, nc.Flush(), "the connection stays its owner's")
			require.Empty(t, srv.asked(), "nothing is asked of a server that cannot answer it")
		})
	}
}
