package main

import (
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
)

// guarded starts a server that asks for a password.
func guarded(t *testing.T, dir string, port int, password string) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: port, NoSigs: true, JetStream: true, StoreDir: dir, Username: "ada", Password: password,
	})
	require.NoError(t, err)
	s.Start()
	require.True(t, s.ReadyForConnections(10*time.Second))
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s
}

// A server that refuses its credentials twice closes a connection for good: nothing brings it back.
func TestWorkExitsWhenItsConnectionIsClosedForGood(t *testing.T) {
	dir := t.TempDir()
	s := guarded(t, dir, server.RANDOM_PORT, "before")
	u, err := url.Parse(s.ClientURL())
	require.NoError(t, err)
	port, err := strconv.Atoi(u.Port())
	require.NoError(t, err)
	t.Setenv("JETCREW_URL", s.ClientURL())
	t.Setenv("JETCREW_USER", "ada")
	t.Setenv("JETCREW_PASSWORD", "before")
	t.Setenv("JETCREW_LEASE", "1s")
	w := start(t, "work", "--builtin", "echo")
	w.waitFor(t, "working")
	s.Shutdown()
	s.WaitForShutdown()
	guarded(t, dir, port, "after")
	require.Equal(t, exitFailure, w.ends(t), w.err.String())
	require.Contains(t, w.err.String(), "closed for good")
	require.NotContains(t, w.err.String(), "before")
}
