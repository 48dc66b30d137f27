package chaos

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/streams"
)

// limited is the configuration of an account with limits.
func limited(jetStream, connections string) string {
	return fmt.Sprintf(`accounts {
  A {
    jetstream { %s }
    limits { %s }
    users: [ { user: u, password: p } ]
  }
}`, jetStream, connections)
}

const unlimited = "max_file: 1GB, max_streams: 100, max_consumers: 100"

// code is the server's code of an error; 0 if it is not the server's.
func code(err error) jetstream.ErrorCode {
	if api := (*jetstream.APIError)(nil); errors.As(err, &api) {
		return api.ErrorCode
	}
	return 0
}

// An account that has no room for another stream or consumer refuses it with the server's own reason. With more room,
// the next try succeeds.
func TestAccountWithoutRoomForStreamsAndConsumers(t *testing.T) {
	t.Parallel()
	server := natstest.StartServer(t, natstest.ServerConfig{Extra: limited("max_file: 1GB, max_streams: 1, max_consumers: 100", "")})
	nc := natstest.Connect(t, as(server, "u", "p"))
	open := func() (*streams.Store, error) { return streams.Open(t.Context(), nc, streams.Config{}) }
	_, err := open()
	require.ErrorContains(t, err, "maximum number of streams reached")
	require.EqualValues(t, 10027, code(err), err)

	server.Reload(t, limited("max_file: 1GB, max_streams: 2, max_consumers: 6", ""))
	var store *streams.Store
	natstest.Eventually(t, patience, func() error { // the client may be between two connections
		store, err = open()
		return err
	})
	t.Cleanup(store.Close)
	_, err = store.Enqueue(t.Context(), job.Spec{Type: jobType, ID: "1"})
	require.ErrorContains(t, err, "maximum consumers limit reached")
	require.EqualValues(t, 10026, code(err), err)

	server.Reload(t, limited(unlimited, ""))
	natstest.Eventually(t, patience, func() error {
		_, err := store.Enqueue(t.Context(), job.Spec{Type: jobType, ID: "1"})
		return err
	})
}

// An account takes no further connection: a worker that comes is refused and says why, the others are not touched, and
// one may come when another has gone.
func TestAccountWithoutRoomForConnections(t *testing.T) {
	heavy(t)
	t.Parallel()
	server := natstest.StartServer(t, natstest.ServerConfig{Extra: limited(unlimited, "max_connections: 3")})
	c := newCrew(t, as(server, "u", "p"), workerConfig{Lease: time.Second})
	steady, victim := c.work("steady"), c.work("victim")
	c.start(2, 20*time.Millisecond)
	c.progress(60)
	_, err := connect(c.cfg.URL)
	require.ErrorIs(t, err, nats.ErrMaxAccountConnectionsExceeded)
	victim.busy(1)
	victim.Kill()
	c.faulted()
	heir := c.work("heir")
	c.progress(60)
	c.finish()
	c.check(vanished)
	c.dismiss(steady, heir)
}

// The account's storage is full while jobs come and run: whoever asks for another job is told so, outcomes wait, and
// all goes on when there is room.
func TestAccountStorageFull(t *testing.T) {
	heavy(t)
	t.Parallel()
	server := natstest.StartServer(t, natstest.ServerConfig{Extra: limited("max_file: 1MB, max_streams: 100, max_consumers: 100", "")})
	c := newCrew(t, as(server, "u", "p"), workerConfig{Lease: 2 * time.Second})
	hands := []*hand{c.work("w1"), c.work("w2")}
	c.start(4, 5*time.Millisecond)
	var full error
	c.until(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		a := mix(c.cfg.Queue, "probe", int(monotonic()/time.Millisecond)*50) // one that succeeds at once
		var got job.Enqueued
		got, full = c.store.Enqueue(ctx, a.spec)
		if full == nil {
			c.mu.Lock()
			c.jobs[a.spec.ID], a.acked, a.created = a, true, got.Created
			c.mu.Unlock()
			return errors.New("there is still room")
		}
		return nil
	})
	c.faulted()
	t.Logf("when it is full: %v", full)
	require.NotZero(t, code(full), full)
	require.NotErrorIs(t, full, job.ErrUnknown)
	time.Sleep(5 * time.Second) // the fault itself: longer than leases
	server.Reload(t, limited(unlimited, ""))
	c.progress(60)
	c.finish()
	c.check(vanished)
	c.dismiss(hands...)
}
