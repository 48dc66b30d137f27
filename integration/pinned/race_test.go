package pinned

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

const rounds = 400

func races() []behaviour {
	return []behaviour{
		{"a race of guarded writes has one winner", guardHasOneWinner},
		{"a race of a batch and a guarded write has one winner", batchRaces},
		{"a race of guards with two spellings has one winner on one server only", spellingsDoNotKnowEachOther},
		{"a race with a write without a guard is decided on one server only", guardMissesPlainWrite},
	}
}

// entry is what came of one writer's part in a race.
type entry struct {
	seq      uint64 // 0 if it was refused
	code     int
	inFlight int
	err      error
}

// race has every message published at once, each through another connection.
func (p *place) race(t *testing.T, msgs ...*nats.Msg) []entry {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	entries := make([]entry, len(msgs))
	var wg sync.WaitGroup
	for i, msg := range msgs {
		js, err := jetstream.New(p.conns[i])
		require.NoError(t, err)
		wg.Go(func() {
			e := &entries[i]
			e.seq, e.code, e.inFlight, e.err = write(ctx, js, msg)
		})
	}
	wg.Wait()
	for _, e := range entries {
		require.NoError(t, e.err)
		if e.seq == 0 {
			require.Equal(t, codeWrongLastSequence, e.code)
		}
	}
	return entries
}

func guardHasOneWinner(t *testing.T, p *place) {
	j := p.jobs(t)
	states := []string{"running", "succeeded", "cancelled"}
	retried := 0
	for round := range rounds {
		id := fmt.Sprint("job", round)
		ready := j.put(t, guarded(j.doc("ready", id), j.filter(id), 0))
		msgs := make([]*nats.Msg, len(states))
		for i, state := range states {
			msgs[i] = guarded(j.doc(state, id), j.filter(id), ready)
		}
		winners := 0
		for i, e := range p.race(t, msgs...) {
			retried += e.inFlight
			got := j.last(t, msgs[i].Subject)
			if e.seq == 0 {
				require.Nil(t, got)
				continue
			}
			winners++
			require.Equal(t, e.seq, got.Seq)
		}
		require.Equal(t, 1, winners, "round %d", round)
	}
	t.Logf("%d times a write was refused because another was in flight", retried)
	if p.replicas == 1 {
		require.Zero(t, retried)
	}
}

func batchRaces(t *testing.T, p *place) {
	j := p.jobs(t)
	other, err := jetstream.New(p.conns[1])
	require.NoError(t, err)
	batches := 0
	for round := range rounds / 4 {
		a, b := fmt.Sprint("a", round), fmt.Sprint("b", round)
		ready := j.put(t, guarded(j.doc("ready", b), j.filter(b), 0))
		var e entry
		var wg sync.WaitGroup
		wg.Go(func() {
			// The batch takes some milliseconds, more on a busy machine: the write
			// comes in before, during or after it.
			step := round % 20
			time.Sleep(time.Duration(step*step) * 50 * time.Microsecond)
			e.seq, e.code, e.inFlight, e.err = write(t.Context(), other, guarded(j.doc("cancelled", b), j.filter(b), ready))
		})
		batched, err := j.batch(t,
			guarded(j.doc("ready", a), j.filter(a), 0),
			guarded(j.doc("running", b), j.filter(b), ready))
		wg.Wait()
		require.NoError(t, e.err)
		if batched != 0 {
			batches++
			require.Equal(t, codeWrongLastSequence, e.code, "taken as %d over %d", e.seq, batched)
			continue
		}
		require.Equal(t, codeWrongLastSequence, codeOf(err), err)
		require.NotZero(t, e.seq)
		require.Nil(t, j.last(t, j.doc("ready", a)))
	}
	t.Logf("the batch won %d of %d races", batches, rounds/4)
}

// In a cluster the guards that are in flight are told apart by their spelling.
// How often both win there is chance, so it is only reported.
func spellingsDoNotKnowEachOther(t *testing.T, p *place) {
	j := p.jobs(t)
	both := 0
	for round := range rounds {
		id := fmt.Sprint("job", round)
		ready := j.put(t, guarded(j.doc("ready", id), j.filter(id), 0))
		entries := p.race(t,
			guarded(j.doc("running", id), j.filter(id), ready),
			guarded(j.doc("cancelled", id), j.ns+".job.*.*.s."+id, ready))
		require.NotZero(t, max(entries[0].seq, entries[1].seq))
		if entries[0].seq != 0 && entries[1].seq != 0 {
			both++
		}
	}
	t.Logf("in %d of %d races both won", both, rounds)
	if p.replicas == 1 {
		require.Zero(t, both)
	}
}

// The server also looks for writes in flight that have no guard, but under the
// guard's subject as it is spelled: it finds none that a wildcard stands for.
func guardMissesPlainWrite(t *testing.T, p *place) {
	j := p.jobs(t)
	missed := 0
	for round := range rounds {
		id := fmt.Sprint("job", round)
		ready := j.put(t, guarded(j.doc("ready", id), j.filter(id), 0))
		entries := p.race(t,
			guarded(j.doc("running", id), j.filter(id), ready),
			plain(j.doc("ready", id)))
		claim, other := entries[0].seq, entries[1].seq
		require.NotZero(t, other)
		if claim > other { // it was taken although it had not seen the other
			missed++
		}
	}
	t.Logf("in %d of %d races the guard held over a write that it should have seen", missed, rounds)
	if p.replicas == 1 {
		require.Zero(t, missed)
	}
}
