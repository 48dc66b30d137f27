package streams

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
)

func TestSweepTellsOnceOfWhatIsNoJobAndLeavesIt(t *testing.T) {
	t.Parallel()
	p := server(t)
	n, log := p.openLogged(t, p.config())
	n.impatient()
	n.enqueue(spec("q", "good"))
	subjects := map[string]string{
		"jetcrew.job.due.q.default.a":       `no JSON`,
		"jetcrew.job.running.q.default.b":   `{"v":7,"type":"t"}`,
		"jetcrew.job.succeeded.q.default.c": `{"type":"t","status":"dead"}`,
		"jetcrew.job.ready.q.default.d":     `[]`,
		"jetcrew.job.paused.q.default.e":    `{"type":"t"}`,
		"jetcrew.job.ready.q.f":             `{"type":"t"}`,
		"jetcrew.job.dead":                  `{"type":"t"}`,
		"jetcrew.job.dead.q.default.g.h.i":  `{"type":"t"}`,
	}
	for subject, body := range subjects {
		n.publish(subject, body)
	}
	found := 0
	rounds := func(node *node, until func() bool) {
		found = 0
		natstest.Eventually(t, soon, func() bool {
			rep, err := node.Sweep(t.Context())
			require.NoError(t, err)
			require.Zero(t, rep.Repaired())
			found += rep.Garbage
			return until()
		})
	}
	rounds(n, func() bool { return found == len(subjects) })
	end := time.Now().Add(while)
	rounds(n, func() bool { return time.Now().After(end) })
	require.Zero(t, found, "told of twice")
	require.Equal(t, len(subjects), log.lines("a document that is no job's"))
	require.Equal(t, len(subjects), n.SweepTotals().Garbage)
	for subject := range subjects {
		_, err := n.leaderNext(t.Context(), subject, 1)
		require.NoError(t, err, "%s is still there", subject)
	}
	other := p.open(t).impatient() // another leader tells of it again
	rounds(other, func() bool { return found == len(subjects) })
}

// Garbage under a job's own subjects is not deleted as older than the job's newest document.
func TestSweepDeletesNoGarbageAsOlder(t *testing.T) {
	t.Parallel()
	n := server(t).open(t).impatient()
	c := n.work("q", "w")
	key := n.enqueue(spec("q", "1"))
	settle(t, claimOne(t, c), job.Succeed(nil))
	n.publish(n.names.job(stateDue, tail(key)), `no JSON`)
	natstest.Eventually(t, soon, func() bool {
		rep, err := n.Sweep(t.Context())
		require.NoError(t, err)
		require.Zero(t, rep.Repaired())
		return n.SweepTotals().Garbage == 1
	})
	for end := time.Now().Add(while); time.Now().Before(end); {
		n.sweepNothing()
	}
	require.Len(t, n.docs(key), 2)
}

func TestSweepDeletesAWakeForWhichThereIsNothingToDo(t *testing.T) {
	t.Parallel()
	n := server(t).open(t).impatient()
	s := spec("q", "due")
	s.Delay = time.Hour
	n.enqueue(s)
	old := n.publish(n.names.wake(tail(keyOf("q", "gone"))), "")
	early := n.publish(n.names.wake(tail(keyOf("q", "due"))), "")
	require.Equal(t, SweepReport{Undone: 1}, n.sweepUntil())
	n.sweepNothing()
	m, err := n.leaderNext(t.Context(), n.names.ns+".wake.>", 1)
	require.NoError(t, err)
	require.NotEqual(t, old, m.seq)
	require.Equal(t, early, m.seq, "its document waits")
}

// The end that a fault led to is kept for the least time even where no record is to be kept.
func TestSweepKeepsTheEndOfALostClaimForAWhile(t *testing.T) {
	t.Parallel()
	p := server(t)
	cfg := p.config()
	cfg.Retention = Retention{NoRetention, NoRetention, NoRetention, NoRetention}
	n := p.openAs(t, cfg)
	c := n.work("q", "w")
	key := n.enqueue(job.Spec{Queue: "q", ID: "1", Type: "t", MaxAttempts: 1})
	cl := claimOne(t, c)
	n.loseReady(key)
	cl.Abandon()
	require.NoError(t, c.Close(t.Context()))
	require.Equal(t, SweepReport{LostReady: 1}, n.sweepUntil())
	n.see(key, job.Dead)
	require.Equal(t, seconds(MinRetention), header(n.newestMessage(key).header, "Nats-TTL"))
}
