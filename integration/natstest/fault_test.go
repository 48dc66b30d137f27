package natstest_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

// shortly is how long a test waits for what must not come.
const shortly = 300 * time.Millisecond

func faulty(t *testing.T) (*natstest.FaultDialer, *nats.Conn, jetstream.JetStream) {
	t.Helper()
	d := &natstest.FaultDialer{}
	nc := natstest.Connect(t, natstest.Embedded(t).URL(), d.Option(), nats.Timeout(500*time.Millisecond))
	return d, nc, stream(t, nc, 1)
}

func tryPublish(t *testing.T, js jetstream.JetStream, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), shortly)
	defer cancel()
	return js.Publish(ctx, "s.a", []byte("x"), opts...)
}

func stored(t *testing.T, js jetstream.JetStream) uint64 {
	t.Helper()
	s, err := js.Stream(t.Context(), "S")
	require.NoError(t, err)
	return s.CachedInfo().State.Msgs
}

func TestLostPubAckLeavesTheMessageAndTheConnection(t *testing.T) {
	d, nc, js := faulty(t)
	d.DropFromServer(1, natstest.IsPubAck)
	_, err := tryPublish(t, js)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.EqualValues(t, 1, stored(t, js))
	ack, err := tryPublish(t, js)
	require.NoError(t, err)
	require.EqualValues(t, 2, ack.Sequence)
	from, to := d.Dropped()
	require.Equal(t, 1, from)
	require.Zero(t, to)
	require.Zero(t, nc.Statistics.Reconnects)
}

func TestLostPublishIsNotStored(t *testing.T) {
	d, _, js := faulty(t)
	d.DropToServer(1, func(frame []byte) bool { return bytes.Contains(frame, []byte("PUB s.a ")) })
	_, err := tryPublish(t, js)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.EqualValues(t, 0, stored(t, js))
	_, err = tryPublish(t, js)
	require.NoError(t, err)
}

func TestBlackholesLastUntilHealed(t *testing.T) {
	d, nc, js := faulty(t)

	d.BlackholeFromServer()
	_, err := tryPublish(t, js)
	require.Error(t, err)
	require.Error(t, nc.FlushTimeout(shortly))
	d.Heal()
	require.EqualValues(t, 1, stored(t, js))

	d.BlackholeToServer()
	_, err = tryPublish(t, js)
	require.Error(t, err)
	d.Heal()
	require.EqualValues(t, 1, stored(t, js))
}

func TestResetInsideAPublishStoresNothing(t *testing.T) {
	d, nc, js := faulty(t)
	reconnected := nc.StatusChanged(nats.CONNECTED)
	d.ResetToServer(20)
	_, err := tryPublish(t, js)
	require.Error(t, err)
	await(t, reconnected)
	require.EqualValues(t, 0, stored(t, js))
}

func TestResetInsideAnAnswerStores(t *testing.T) {
	d, nc, js := faulty(t)
	reconnected := nc.StatusChanged(nats.CONNECTED)
	d.ResetFromServer(20)
	_, err := tryPublish(t, js)
	require.Error(t, err)
	await(t, reconnected)
	require.EqualValues(t, 1, stored(t, js))
}

func TestCutConnectionComesBackUnlessRefused(t *testing.T) {
	d, nc, js := faulty(t)
	reconnected := nc.StatusChanged(nats.CONNECTED)
	d.Cut()
	await(t, reconnected)
	_, err := tryPublish(t, js)
	require.NoError(t, err)

	lost := nc.StatusChanged(nats.RECONNECTING)
	d.Refuse()
	d.Cut()
	await(t, lost)
	require.Never(t, nc.IsConnected, shortly, 20*time.Millisecond)
	d.Heal()
	natstest.Eventually(t, soon, nc.IsConnected)
	_, err = tryPublish(t, js)
	require.NoError(t, err)
}

func TestBigMessagesPassWhole(t *testing.T) {
	d, nc, _ := faulty(t)
	d.DropFromServer(-1, func(frame []byte) bool { return bytes.HasSuffix(frame, []byte("drop me\r\n")) })
	sub, err := nc.SubscribeSync("big")
	require.NoError(t, err)
	big := bytes.Repeat([]byte("MSG a 1 2\r\n"), 60_000)
	h := nats.Header{"K": {"v"}}
	for _, body := range [][]byte{big, append(bytes.Clone(big), "drop me"...), big} {
		require.NoError(t, nc.PublishMsg(&nats.Msg{Subject: "big", Data: body, Header: h}))
	}
	for range 2 {
		msg, err := sub.NextMsg(soon)
		require.NoError(t, err)
		require.True(t, bytes.Equal(big, msg.Data))
	}
	_, err = sub.NextMsg(shortly)
	require.ErrorIs(t, err, nats.ErrTimeout)
}

func await(t *testing.T, ch <-chan nats.Status) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(soon):
		t.Fatal("the connection's status did not change")
	}
}
