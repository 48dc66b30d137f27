package natstest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

func linked(t *testing.T) (*natstest.Link, *nats.Conn) {
	t.Helper()
	l := natstest.StartLink(t, natstest.Embedded(t).URL())
	return l, natstest.Connect(t, l.URL(), nats.Timeout(500*time.Millisecond))
}

func TestALinkLosesWhatItsDialerLoses(t *testing.T) {
	l, nc := linked(t)
	js := stream(t, nc, 1)
	l.DropFromServer(1, natstest.IsPubAck)
	_, err := tryPublish(t, js)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = tryPublish(t, js)
	require.NoError(t, err)
	require.EqualValues(t, 2, stored(t, js))

	l.Silence()
	require.Error(t, nc.FlushTimeout(shortly))
	l.Heal()
	require.EqualValues(t, 2, stored(t, js))
	require.Zero(t, nc.Statistics.Reconnects)
}

func TestALinkThatIsCutComesBackUnlessRefused(t *testing.T) {
	l, nc := linked(t)
	require.Equal(t, 1, l.Connections())
	for n, spoil := range []func(){
		l.Cut,
		func() { l.ResetFromServer(1); _ = nc.FlushTimeout(shortly) },
		func() { l.ResetToServer(1); _ = nc.FlushTimeout(shortly) },
		func() { l.Refuse(); l.Cut(); natstest.Eventually(t, soon, nc.IsReconnecting); l.Heal() },
	} {
		spoil()
		natstest.Eventually(t, soon, func() error {
			if got := l.Accepted(); !nc.IsConnected() || got != n+2 || l.Connections() != 1 {
				return fmt.Errorf("%d connections were made, %d are there", got, l.Connections())
			}
			return nil
		})
		require.NoError(t, nc.FlushTimeout(soon))
	}
}

func TestASlowLinkKeepsTheOrder(t *testing.T) {
	l, nc := linked(t)
	l.Slow(30*time.Millisecond, 60*time.Millisecond)
	sub, err := nc.SubscribeSync("a")
	require.NoError(t, err)
	rtt, err := nc.RTT()
	require.NoError(t, err)
	require.GreaterOrEqual(t, rtt, 60*time.Millisecond)
	for i := range 50 {
		require.NoError(t, nc.Publish("a", []byte{byte(i)}))
		require.NoError(t, nc.FlushTimeout(soon))
		l.Slow(0, time.Duration(50-i)*time.Millisecond)
	}
	for i := range 50 {
		m, err := sub.NextMsg(soon)
		require.NoError(t, err)
		require.EqualValues(t, i, m.Data[0])
	}
}

func TestAServerTakesOnAnotherConfiguration(t *testing.T) {
	const users = `authorization { users: [ { user: a, password: %s } ] }`
	p := natstest.StartServer(t, natstest.ServerConfig{Extra: fmt.Sprintf(users, "one")})
	connect := func(password string) error {
		nc, err := nats.Connect(p.URL(), nats.UserInfo("a", password))
		if err == nil {
			nc.Close()
		}
		return err
	}
	require.NoError(t, connect("one"))
	p.Reload(t, fmt.Sprintf(users, "two"))
	require.ErrorIs(t, connect("one"), nats.ErrAuthorization)
	require.NoError(t, connect("two"))
	p.Restart(t)
	require.NoError(t, connect("two"), "it keeps it through a restart")
}

func TestAServerRetires(t *testing.T) {
	p := natstest.StartServer(t, natstest.ServerConfig{Extra: `lame_duck_grace_period: "100ms"`})
	nc := natstest.Connect(t, p.URL())
	p.Retire()
	require.False(t, p.Running())
	p.Restart(t)
	natstest.Eventually(t, soon, nc.IsConnected)
}
