package pinned

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

func pulls() []behaviour {
	return []behaviour{
		{"a pull that does not wait says 404 when there is nothing", pullWithoutWaiting},
		{"a pull that does not wait ends with a status when it got less than it asked for", pullWithoutWaitingPartly},
		{"a pull that expires says 408 with what is missing of it", pullExpires},
		{"a pull that is filled ends without a status", pullIsFilled},
		{"a pull beats while it waits", pullBeats},
		{"a pull may not beat slower than half its expiry", pullBeatsTooSlowly},
		{"a pull beyond max_waiting says 409", pullBeyondMaxWaiting},
		{"a deletion of the consumer ends a pull with 409", pullOfDeletedConsumer},
		{"a deletion of the stream ends a pull with 409", pullOfDeletedStream},
		{"max_waiting cannot be changed", maxWaitingStays},
	}
}

type pullRequest struct {
	Batch     int           `json:"batch,omitempty"`
	NoWait    bool          `json:"no_wait,omitempty"`
	Expires   time.Duration `json:"expires,omitempty"`
	Heartbeat time.Duration `json:"idle_heartbeat,omitempty"`
}

func (j *jobs) next(consumer string) string {
	return "$JS.API.CONSUMER.MSG.NEXT." + j.name() + "." + consumer
}

// pull sends a request, and returns the subscription that gets the answers.
func (j *jobs) pull(t *testing.T, consumer string, r pullRequest) *nats.Subscription {
	t.Helper()
	req, err := json.Marshal(r)
	require.NoError(t, err)
	// Not NewRespInbox: a delivery bears the job's subject, not the inbox's, and
	// the client then takes it for the answer to whatever request is open.
	sub, err := j.nc.SubscribeSync(j.nc.NewInbox())
	require.NoError(t, err)
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	require.NoError(t, j.nc.PublishRequest(j.next(consumer), sub.Subject, req))
	return sub
}

// awaitConsumer waits until a pull reaches a new consumer: see awaitInterest.
func (j *jobs) awaitConsumer(t *testing.T, name string) {
	t.Helper()
	natstest.Eventually(t, soon, func() error {
		sub := j.pull(t, name, pullRequest{Batch: 1, Expires: time.Second, Heartbeat: time.Second}) // refused
		msg, err := sub.NextMsg(2 * time.Second)
		if err == nil {
			require.Equal(t, "400", msg.Header.Get("Status"))
		}
		return err
	}, "interest in the consumer")
}

func answer(t *testing.T, sub *nats.Subscription) *nats.Msg {
	t.Helper()
	msg, err := sub.NextMsg(soon)
	require.NoError(t, err)
	return msg
}

// requireMissing checks the headers that say what a pull did not get.
func requireMissing(t *testing.T, msg *nats.Msg, messages int) {
	t.Helper()
	require.Equal(t, fmt.Sprint(messages), msg.Header.Get("Nats-Pending-Messages"))
	require.Equal(t, "0", msg.Header.Get("Nats-Pending-Bytes"))
}

func pullWithoutWaiting(t *testing.T, p *place) {
	j := p.jobs(t)
	j.queue(t)
	end := answer(t, j.pull(t, "q", pullRequest{Batch: 5, NoWait: true}))
	requireEnd(t, end, "404", "No Messages")
	require.Len(t, end.Header, 2)
}

func pullWithoutWaitingPartly(t *testing.T, p *place) {
	j := p.jobs(t)
	c := j.queue(t)
	j.put(t, plain(j.doc("ready", "a")))
	requireCount(t, c, 1) // acknowledged is not yet known to the consumer's leader
	sub := j.pull(t, "q", pullRequest{Batch: 5, NoWait: true})
	require.Empty(t, answer(t, sub).Header)
	end := answer(t, sub)
	if p.replicas == 1 {
		requireEnd(t, end, "404", "No Messages")
		require.Len(t, end.Header, 2)
		return
	}
	requireEnd(t, end, "408", "Request Timeout")
	requireMissing(t, end, 4)
}

func pullExpires(t *testing.T, p *place) {
	j := p.jobs(t)
	j.queue(t)
	j.put(t, plain(j.doc("ready", "a")))
	began := time.Now()
	sub := j.pull(t, "q", pullRequest{Batch: 5, Expires: 400 * time.Millisecond})
	require.Empty(t, answer(t, sub).Header)
	end := answer(t, sub)
	requireEnd(t, end, "408", "Request Timeout")
	requireMissing(t, end, 4)
	require.GreaterOrEqual(t, time.Since(began), 400*time.Millisecond)
}

func pullIsFilled(t *testing.T, p *place) {
	j := p.jobs(t)
	j.queue(t)
	j.put(t, plain(j.doc("ready", "a")))
	j.put(t, plain(j.doc("ready", "b")))
	sub := j.pull(t, "q", pullRequest{Batch: 2, Expires: time.Second, Heartbeat: 200 * time.Millisecond})
	for range 2 {
		require.Empty(t, answer(t, sub).Header)
	}
	_, err := sub.NextMsg(1500 * time.Millisecond)
	require.ErrorIs(t, err, nats.ErrTimeout)
}

func pullBeats(t *testing.T, p *place) {
	j := p.jobs(t)
	j.queue(t)
	sub := j.pull(t, "q", pullRequest{Batch: 2, Expires: 5 * time.Second, Heartbeat: 300 * time.Millisecond})
	beat := answer(t, sub)
	requireEnd(t, beat, "100", "Idle Heartbeat")
	require.Equal(t, "0", beat.Header.Get("Nats-Last-Consumer"))
	require.Equal(t, "0", beat.Header.Get("Nats-Last-Stream"))
	seq := j.put(t, plain(j.doc("ready", "a")))
	for msg := answer(t, sub); msg.Header.Get("Status") != ""; msg = answer(t, sub) {
		requireEnd(t, msg, "100", "Idle Heartbeat")
	}
	beat = answer(t, sub) // a delivery does not end it
	requireEnd(t, beat, "100", "Idle Heartbeat")
	require.Equal(t, "1", beat.Header.Get("Nats-Last-Consumer"))
	require.Equal(t, fmt.Sprint(seq), beat.Header.Get("Nats-Last-Stream"))
}

func pullBeatsTooSlowly(t *testing.T, p *place) {
	j := p.jobs(t)
	j.queue(t)
	end := answer(t, j.pull(t, "q", pullRequest{Batch: 1, Expires: time.Second, Heartbeat: 600 * time.Millisecond}))
	requireEnd(t, end, "400", "Bad Request - heartbeat value too large")
}

func pullBeyondMaxWaiting(t *testing.T, p *place) {
	j := p.jobs(t)
	_, err := j.stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{
		Durable: "few", FilterSubject: j.ns + ".job.ready.q.>", AckPolicy: jetstream.AckExplicitPolicy, MaxWaiting: 2,
	})
	require.NoError(t, err)
	j.awaitConsumer(t, "few")
	first := j.pull(t, "few", pullRequest{Batch: 1, Expires: soon})
	j.pull(t, "few", pullRequest{Batch: 1, Expires: soon})
	end := answer(t, j.pull(t, "few", pullRequest{Batch: 1, Expires: soon}))
	requireEnd(t, end, "409", "Exceeded MaxWaiting")
	require.Len(t, end.Header, 2)
	j.put(t, plain(j.doc("ready", "a")))
	require.Empty(t, answer(t, first).Header)
}

func pullOfDeletedConsumer(t *testing.T, p *place) {
	j := p.jobs(t)
	j.queue(t)
	sub := j.pull(t, "q", pullRequest{Batch: 1, Expires: soon, Heartbeat: 500 * time.Millisecond})
	requireEnd(t, answer(t, sub), "100", "Idle Heartbeat")
	require.NoError(t, j.stream.DeleteConsumer(t.Context(), "q"))
	requireDeleted(t, sub)
	j.requireNobody(t)
}

func pullOfDeletedStream(t *testing.T, p *place) {
	j := p.jobs(t)
	j.queue(t)
	sub := j.pull(t, "q", pullRequest{Batch: 1, Expires: soon, Heartbeat: 500 * time.Millisecond})
	requireEnd(t, answer(t, sub), "100", "Idle Heartbeat")
	require.NoError(t, j.js.DeleteStream(t.Context(), j.name()))
	requireDeleted(t, sub)
	j.requireNobody(t)
}

func requireDeleted(t *testing.T, sub *nats.Subscription) {
	t.Helper()
	end := answer(t, sub)
	for end.Header.Get("Status") == "100" {
		end = answer(t, sub)
	}
	requireEnd(t, end, "409", "Consumer Deleted")
	require.Len(t, end.Header, 2)
}

// requireNobody waits until a pull has no responders any more.
func (j *jobs) requireNobody(t *testing.T) {
	t.Helper()
	natstest.Eventually(t, soon, func() error {
		sub := j.pull(t, "q", pullRequest{Batch: 1, Expires: time.Second})
		msg, err := sub.NextMsg(2 * time.Second)
		if errors.Is(err, nats.ErrNoResponders) {
			return nil
		}
		return fmt.Errorf("answer %v, %v", msg, err)
	})
}

func maxWaitingStays(t *testing.T, p *place) {
	j := p.jobs(t)
	c := j.queue(t)
	cfg := c.CachedInfo().Config
	cfg.MaxWaiting = 100
	_, err := j.stream.UpdateConsumer(t.Context(), cfg)
	require.Equal(t, 10012, codeOf(err), err)
}
