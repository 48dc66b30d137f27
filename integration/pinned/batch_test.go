package pinned

import (
	"context"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"github.com/synadia-io/orbit.go/jetstreamext"
)

// codeBatchTooLarge is the answer to a batch of more than 1,000 messages.
const codeBatchTooLarge = 10199

func batches() []behaviour {
	return []behaviour{
		{"a batch whose guards hold is stored whole", batchIsStoredWhole},
		{"a batch with one guard that fails stores nothing", batchStoresNothing},
		{"a guard with a wildcard does not see the writes of its own batch", batchDoesNotSeeItself},
		{"a batch may hold a thousand messages and no more", batchHoldsAThousand},
		{"a batch purges an alarm", batchPurgesAnAlarm},
	}
}

// batch publishes msgs as one atomic batch, and returns the last sequence.
func (j *jobs) batch(t *testing.T, msgs ...*nats.Msg) (uint64, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	for {
		ack, err := jetstreamext.PublishMsgBatch(ctx, j.js, msgs)
		if codeOf(err) == codeInFlight {
			continue
		}
		if err != nil {
			return 0, err
		}
		require.EqualValues(t, len(msgs), ack.BatchSize)
		return ack.Sequence, nil
	}
}

func (j *jobs) enqueues(n int) []*nats.Msg {
	msgs := make([]*nats.Msg, n)
	for i := range msgs {
		id := fmt.Sprint("job", i)
		msgs[i] = guarded(j.doc("ready", id), j.filter(id), 0)
	}
	return msgs
}

func (j *jobs) messages(t *testing.T) uint64 {
	t.Helper()
	info, err := j.stream.Info(t.Context())
	require.NoError(t, err)
	return info.State.Msgs
}

func batchIsStoredWhole(t *testing.T, p *place) {
	j := p.jobs(t)
	before := j.put(t, plain(j.wake("a")))
	seq, err := j.batch(t, j.enqueues(50)...)
	require.NoError(t, err)
	require.Equal(t, before+50, seq)
	for i := range uint64(50) { // in order, without gaps
		require.Equal(t, before+1+i, j.last(t, j.doc("ready", fmt.Sprint("job", i))).Seq)
	}
}

func batchStoresNothing(t *testing.T, p *place) {
	for _, conflict := range []int{0, 7, 19} {
		j := p.jobs(t)
		id := fmt.Sprint("job", conflict)
		j.put(t, guarded(j.doc("succeeded", id), j.filter(id), 0))
		_, err := j.batch(t, j.enqueues(20)...)
		require.Equal(t, codeWrongLastSequence, codeOf(err), "conflict at %d: %v", conflict, err)
		require.EqualValues(t, 1, j.messages(t))
		require.Nil(t, j.last(t, j.ns+".job.ready.>"))
		j.put(t, guarded(j.doc("ready", "job1"), j.filter("job1"), 0)) // no guard stays in flight
	}
}

// So whoever makes a batch has to see to it that no job is in it twice.
func batchDoesNotSeeItself(t *testing.T, p *place) {
	for _, state := range []string{"ready", "due"} {
		j := p.jobs(t)
		seq, err := j.batch(t,
			guarded(j.doc("ready", "a"), j.filter("a"), 0),
			guarded(j.doc(state, "a"), j.filter("a"), 0))
		require.NoError(t, err)
		require.EqualValues(t, 2, seq)
		require.Equal(t, seq, j.last(t, j.doc(state, "a")).Seq)

		_, err = j.batch(t, // and two that do not agree: the second is held against the first's
			guarded(j.doc("running", "a"), j.filter("a"), seq),
			guarded(j.doc("dead", "a"), j.filter("a"), seq+1))
		require.Equal(t, codeWrongLastSequence, codeOf(err), err)
	}
}

func batchHoldsAThousand(t *testing.T, p *place) {
	j := p.jobs(t)
	_, err := j.batch(t, j.enqueues(1001)...)
	require.Equal(t, codeBatchTooLarge, codeOf(err), err)
	require.Zero(t, j.messages(t))
	seq, err := j.batch(t, j.enqueues(1000)...)
	require.NoError(t, err)
	require.EqualValues(t, 1000, seq)
	require.EqualValues(t, 1000, j.messages(t))
}

func batchPurgesAnAlarm(t *testing.T, p *place) {
	j := p.jobs(t)
	alarm := j.alarm("a", "w")
	j.put(t, j.schedule("a", "w", inAnHour()))
	due := j.put(t, guarded(j.doc("due", "a"), j.filter("a"), 0))

	_, err := j.batch(t,
		purging(guarded(j.doc("cancelled", "a"), j.filter("a"), due+1), alarm),
		guarded(j.doc("ready", "b"), j.filter("b"), 0))
	require.Equal(t, codeWrongLastSequence, codeOf(err), err)
	require.NotNil(t, j.last(t, alarm))

	_, err = j.batch(t,
		purging(guarded(j.doc("cancelled", "a"), j.filter("a"), due), alarm),
		guarded(j.doc("ready", "b"), j.filter("b"), 0))
	require.NoError(t, err)
	require.Nil(t, j.last(t, alarm))
}
