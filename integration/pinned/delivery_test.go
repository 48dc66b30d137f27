package pinned

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

func deliveries() []behaviour {
	return []behaviour{
		{"an ack removes the message from the stream", ackRemoves},
		{"a message that is not acknowledged in time is delivered again and counted", redeliveryIsCounted},
		{"a late ack is taken as the current holder's", lateAckIsTaken},
		{"an ack of what was deleted is no error", ackOfWhatIsGone},
		{"an overwritten message is delivered as the new one, for the first time", overwrittenIsNew},
		{"a message that is overwritten while it is held is not delivered again", heldIsOverwritten},
	}
}

const lease = time.Second

func (j *jobs) queue(t *testing.T) jetstream.Consumer {
	t.Helper()
	c, err := j.stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{
		Durable:       "q",
		FilterSubject: j.ns + ".job.ready.q.>",
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       lease,
		MaxDeliver:    -1,
		MaxAckPending: -1,
		MaxWaiting:    8192,
	})
	require.NoError(t, err)
	j.awaitConsumer(t, "q")
	return c
}

func next(t *testing.T, c jetstream.Consumer) (jetstream.Msg, *jetstream.MsgMetadata) {
	t.Helper()
	msg, err := c.Next(jetstream.FetchMaxWait(soon))
	require.NoError(t, err)
	meta, err := msg.Metadata()
	require.NoError(t, err)
	return msg, meta
}

func none(t *testing.T, c jetstream.Consumer, wait time.Duration) {
	t.Helper()
	_, err := c.Next(jetstream.FetchMaxWait(wait))
	require.ErrorIs(t, err, nats.ErrTimeout)
}

func ackRemoves(t *testing.T, p *place) {
	j := p.jobs(t)
	c := j.queue(t)
	j.put(t, plain(j.doc("ready", "a")))
	msg, meta := next(t, c)
	require.EqualValues(t, 1, meta.NumDelivered)
	require.NotNil(t, j.last(t, j.doc("ready", "a")))
	require.NoError(t, msg.DoubleAck(t.Context()))
	natstest.Eventually(t, soon, func() bool { return j.last(t, j.doc("ready", "a")) == nil })
	j.put(t, guarded(j.doc("ready", "a"), j.filter("a"), 0))
}

func redeliveryIsCounted(t *testing.T, p *place) {
	j := p.jobs(t)
	c := j.queue(t)
	j.put(t, plain(j.doc("ready", "a")))
	for n := uint64(1); n <= 3; n++ {
		_, meta := next(t, c)
		require.Equal(t, n, meta.NumDelivered)
	}
}

func lateAckIsTaken(t *testing.T, p *place) {
	j := p.jobs(t)
	c := j.queue(t)
	j.put(t, plain(j.doc("ready", "a")))
	old, _ := next(t, c)
	current, meta := next(t, c)
	require.EqualValues(t, 2, meta.NumDelivered)
	require.NoError(t, old.DoubleAck(t.Context()))
	natstest.Eventually(t, soon, func() bool { return j.last(t, j.doc("ready", "a")) == nil })
	require.NoError(t, current.DoubleAck(t.Context()))
	none(t, c, 2*lease)
}

func ackOfWhatIsGone(t *testing.T, p *place) {
	j := p.jobs(t)
	c := j.queue(t)
	seq := j.put(t, plain(j.doc("ready", "a")))
	msg, _ := next(t, c)
	require.Zero(t, j.remove(t, seq))
	require.NoError(t, msg.DoubleAck(t.Context()))
	none(t, c, 2*lease)
	info, err := c.Info(t.Context())
	require.NoError(t, err)
	require.Zero(t, info.NumAckPending)
	require.Zero(t, info.NumPending)
}

func overwrittenIsNew(t *testing.T, p *place) {
	j := p.jobs(t)
	c := j.queue(t)
	j.put(t, plain(j.doc("ready", "a")))
	_, first := next(t, c)
	seq := j.put(t, plain(j.doc("ready", "a")))
	_, second := next(t, c)
	require.Equal(t, seq, second.Sequence.Stream)
	require.Greater(t, second.Sequence.Stream, first.Sequence.Stream)
	require.EqualValues(t, 1, second.NumDelivered)
}

func heldIsOverwritten(t *testing.T, p *place) {
	j := p.jobs(t)
	c := j.queue(t)
	j.put(t, plain(j.doc("ready", "a")))
	old, _ := next(t, c)
	seq := j.put(t, plain(j.doc("ready", "a")))
	require.NoError(t, old.DoubleAck(t.Context()))
	require.Equal(t, seq, j.last(t, j.doc("ready", "a")).Seq, "an ack of the old one leaves the new one")
	current, meta := next(t, c)
	require.Equal(t, seq, meta.Sequence.Stream)
	require.NoError(t, current.DoubleAck(t.Context()))
	none(t, c, 2*lease)
}
