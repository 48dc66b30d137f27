package pinned

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

// codeOverlap is the answer to a second consumer on the same subjects of a work
// queue.
const codeOverlap = 10100

func counts() []behaviour {
	return []behaviour{
		{"a consumer that never pulls counts what is stored", countIsExact},
		{"a consumer that never pulls counts what expires", countKnowsExpiry},
		{"a consumer that is made later counts what was there", countStartsLate},
		{"a work queue takes no overlapping consumers", consumersMayNotOverlap},
	}
}

// counter makes the consumer that counts a state.
func (j *jobs) counter(t *testing.T, state string) jetstream.Consumer {
	t.Helper()
	c, err := j.stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{
		Durable:       "count-" + state,
		FilterSubject: j.ns + ".job." + state + ".>",
		AckPolicy:     jetstream.AckExplicitPolicy,
	})
	require.NoError(t, err)
	return c
}

// requireCount waits for a count: in a cluster the consumer's leader may be
// another server than the stream's, and a little behind.
func requireCount(t *testing.T, c jetstream.Consumer, want int) {
	t.Helper()
	natstest.Eventually(t, soon, func() error {
		info, err := c.Info(t.Context())
		if err != nil {
			return err
		}
		if info.NumPending != uint64(want) {
			return fmt.Errorf("%d pending, not %d", info.NumPending, want)
		}
		return nil
	}, "count")
}

func countIsExact(t *testing.T, p *place) {
	j := p.jobs(t)
	due, dead := j.counter(t, "due"), j.counter(t, "dead")
	requireCount(t, due, 0)
	seqs := make([]uint64, 10)
	for i := range seqs {
		seqs[i] = j.put(t, plain(j.doc("due", fmt.Sprint("job", i))))
	}
	requireCount(t, due, 10)
	requireCount(t, dead, 0)

	for i := range 5 { // overwritten: counted once
		seqs[i] = j.put(t, plain(j.doc("due", fmt.Sprint("job", i))))
	}
	requireCount(t, due, 10)

	for _, i := range []int{9, 4, 0, 6} { // deleted in any order
		require.Zero(t, j.remove(t, seqs[i]))
	}
	requireCount(t, due, 6)

	for i := range 3 { // moved to another state
		j.put(t, plain(j.doc("dead", fmt.Sprint("job", i+1))))
		require.Zero(t, j.remove(t, seqs[i+1]))
	}
	requireCount(t, due, 3)
	requireCount(t, dead, 3)

	require.NoError(t, j.stream.Purge(t.Context(), jetstream.WithPurgeSubject(j.doc("due", "job5"))))
	requireCount(t, due, 2)
}

func countKnowsExpiry(t *testing.T, p *place) {
	j := p.jobs(t)
	dead := j.counter(t, "dead")
	for i := range 6 {
		msg := plain(j.doc("dead", fmt.Sprint("job", i)))
		if i%2 == 0 {
			msg.Header.Set("Nats-TTL", "4s")
		}
		j.put(t, msg)
	}
	requireCount(t, dead, 6)
	requireCount(t, dead, 3)
	msg := plain(j.doc("dead", "job1"))
	msg.Header.Set("Nats-TTL", time.Second.String())
	j.put(t, msg) // overwritten by one that expires
	requireCount(t, dead, 2)
}

func countStartsLate(t *testing.T, p *place) {
	j := p.jobs(t)
	for i := range 5 {
		j.put(t, plain(j.doc("dead", fmt.Sprint("job", i))))
	}
	j.put(t, plain(j.doc("dead", "job0")))
	requireCount(t, j.counter(t, "dead"), 5)
}

func consumersMayNotOverlap(t *testing.T, p *place) {
	j := p.jobs(t)
	j.counter(t, "dead")
	_, err := j.stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{
		Durable:       "other",
		FilterSubject: j.ns + ".job.dead.q.>",
		AckPolicy:     jetstream.AckExplicitPolicy,
	})
	require.Equal(t, codeOverlap, codeOf(err), err)
}
