package streams

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// A look at a job's documents that takes longer than what was seen may be trusted for is no reason to look for ever.
func TestAJobStartsHoweverSlowTheConnection(t *testing.T) {
	t.Parallel()
	p := server(t)
	operator := p.open(t)
	link := natstest.StartLink(t, p.urls[0])
	far := &place{urls: []string{link.URL()}, ns: p.ns, replicas: p.replicas}
	n := far.open(t)
	c := n.work("q", "w")
	link.Slow(claimDelay, claimDelay+10*time.Millisecond)
	for _, id := range []string{"1", "2"} {
		key := operator.enqueue(spec("q", id))
		cl := claimOne(t, c)
		require.Equal(t, id, cl.Job().ID)
		require.Equal(t, 1, cl.Job().Attempts)
		operator.see(key, job.Running) // it was claimed before it started
		settle(t, cl, job.Succeed(nil))
		require.Len(t, operator.see(key, job.Succeeded).History, 1)
	}
	link.Slow(0, 0)
	operator.clean("q", 2)
}
