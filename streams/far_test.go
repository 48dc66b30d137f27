package streams

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// Jobs that wait for an instant, or for their next attempt, take nothing of what the queue may have under way, however
// many they are.
func TestWhatWaitsLongHoldsUpNothingFresh(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	limit := 2
	_, err := n.Configure(t.Context(), "q", job.QueueSettings{Concurrency: &limit})
	require.NoError(t, err)
	const far = 500
	specs := make([]job.Spec, far)
	for i := range specs {
		specs[i] = spec("q", fmt.Sprint("far-", i))
		specs[i].Delay = time.Hour
	}
	_, err = n.EnqueueMany(t.Context(), specs)
	require.NoError(t, err)
	c := n.work("q", "w")
	for i := range 5 * limit {
		n.enqueue(spec("q", fmt.Sprint("unlucky-", i)))
		settle(t, claimOne(t, c), job.Fail(time.Hour, "no luck"))
	}
	for i := range 5 * limit {
		id := fmt.Sprint("fresh-", i)
		n.enqueue(spec("q", id))
		cl := claimOne(t, c)
		require.Equal(t, id, cl.Job().ID)
		settle(t, cl, job.Succeed(nil))
		n.see(keyOf("q", id), job.Succeeded)
	}
	subjects, err := n.remains("q")
	require.NoError(t, err)
	due := 0
	for s := range subjects {
		if sub, err := n.names.parse(s); err == nil && sub.state == stateDue {
			due++
		}
	}
	require.Equal(t, far+5*limit, due, "that wait still")
	ready, err := n.js.Consumer(t.Context(), n.names.stream(), n.names.readyConsumer("q"))
	require.NoError(t, err)
	require.Equal(t, limit, ready.CachedInfo().Config.MaxAckPending)
	require.Zero(t, ready.CachedInfo().NumAckPending, "what waits is nobody's to acknowledge")
}
