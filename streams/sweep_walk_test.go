package streams

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// Everything is met, be it close together or far between, in as many parts as it takes.
func TestSweepMeetsEverythingThereIs(t *testing.T) {
	t.Parallel()
	p := server(t)
	n := p.open(t)
	late := func(from, to int) {
		specs := make([]job.Spec, 0, to-from)
		for i := from; i < to; i++ {
			specs = append(specs, job.Spec{Queue: "q", ID: fmt.Sprint(i), Type: "t", Delay: time.Hour})
		}
		all, err := n.EnqueueMany(t.Context(), specs)
		require.NoError(t, err)
		for _, one := range all {
			require.NoError(t, one.Err)
		}
	}
	gone := func() {
		for i := range 5 * numbers {
			_, err := n.js.PublishAsync(n.readySubject(keyOf("gone", fmt.Sprint(i))), []byte(`{"type":"t"}`))
			require.NoError(t, err)
		}
		<-n.js.PublishAsyncComplete()
		stream, err := n.js.Stream(t.Context(), n.names.stream())
		require.NoError(t, err)
		require.NoError(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject(n.names.readyFilter("gone"))))
	}
	const jobs = 2 * minBatch
	late(0, 10)
	gone()
	late(10, jobs-10)
	gone()
	late(jobs-10, jobs)

	leader := p.open(t).impatient()
	for !leader.sweep.due.whole {
		leader.sweepNothing()
	}
	require.Len(t, leader.sweep.due.waiting, jobs)
	ext, err := leader.extent(t.Context())
	require.NoError(t, err)
	w := &leader.sweep.walk
	met, sparse := 0, false
	*w = wholeWalk{}
	for begun := false; !begun || w.end != 0; begun = true {
		w.pace = pace{}
		require.NoError(t, leader.sweepWalkPart(t.Context(), ext, new(SweepReport)))
		met, sparse = max(met, len(w.met)), sparse || w.sparse
	}
	require.Equal(t, jobs, met)
	require.True(t, sparse, "the gaps were read number by number")
	n.sweepNothing()
}
