package streams

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// sweepUntil makes rounds of housekeeping until one has repaired something, and answers what.
func (n *node) sweepUntil() SweepReport {
	n.t.Helper()
	var rep SweepReport
	natstest.Eventually(n.t, soon, func() bool {
		var err error
		rep, err = n.Sweep(n.t.Context())
		require.NoError(n.t, err)
		return rep.Repaired() > 0
	})
	return rep
}

func (n *node) sweepNothing() {
	n.t.Helper()
	rep, err := n.Sweep(n.t.Context())
	require.NoError(n.t, err)
	require.Equal(n.t, SweepReport{}, rep)
}

// loseReady deletes the ready message of a job whose claim can be read, as a server's fault does.
func (n *node) loseReady(key job.Key) {
	n.t.Helper()
	n.see(key, job.Running)
	require.NoError(n.t, n.remove(n.t.Context(), n.doc(key, stateReady).seq))
}

func TestSweepRevivesAClaimThatLostItsMessage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		most   int
		flag   bool
		status job.Status
	}{
		"again": {3, false, job.Pending}, "dead": {1, false, job.Dead}, "cancelled": {1, true, job.Cancelled}, "cancelled first": {3, true, job.Cancelled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := server(t)
			n := p.open(t)
			dying := p.dying(t, BeforeSettle)
			first := dying.work("q", "first")
			key := n.enqueue(job.Spec{Queue: "q", ID: "1", Type: "t", MaxAttempts: c.most})
			cl := claimOne(t, first)
			n.loseReady(key)
			if c.flag {
				n.requestCancel(key)
			}
			n.sweepNothing() // it is held
			dying.crash()
			_ = cl
			rep := n.sweepUntil()
			require.Equal(t, SweepReport{LostReady: 1}, rep)
			require.False(t, n.Now().Before(cl.Job().LeaseUntil))
			j := n.see(key, c.status)
			require.Equal(t, 1, j.Attempts)
			require.Len(t, j.History, 1)
			require.Equal(t, job.AttemptLost, j.History[0].Status)
			require.Equal(t, "first", j.History[0].WorkerID)
			require.Equal(t, job.LostError, j.Error)
			require.True(t, j.LeaseUntil.IsZero())
			require.Len(t, n.docs(key), 1)
			second := n.work("q", "second")
			if c.status == job.Pending {
				require.Empty(t, j.WorkerID)
				cl := claimOne(t, second)
				require.Equal(t, 2, cl.Job().Attempts)
				settle(t, cl, job.Succeed(nil))
			} else {
				require.Equal(t, "first", j.WorkerID)
				claimNone(t, second, while)
			}
			n.clean("q", 1)
			n.sweepNothing()
		})
	}
}

func TestSweepLeavesAReportedClaim(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	calm := 3 * lease // its heartbeats come in time on a slow machine too
	_, err := n.Configure(t.Context(), "q", job.QueueSettings{Lease: &calm})
	require.NoError(t, err)
	c := n.work("q", "w")
	key := n.enqueue(spec("q", "1"))
	cl := claimOne(t, c)
	n.loseReady(key)
	for end := time.Now().Add(2 * calm); time.Now().Before(end); {
		n.sweepNothing()
		time.Sleep(50 * time.Millisecond)
	}
	require.Equal(t, 1, settle(t, cl, job.Succeed(nil)).Attempts)
	n.see(key, job.Succeeded)
	n.clean("q", 1)
}

func TestSweepThatDiesIsFinishedByAnother(t *testing.T) {
	t.Parallel()
	p := server(t)
	n := p.open(t)
	c := n.work("q", "w")
	key := n.enqueue(spec("q", "1"))
	cl := claimOne(t, c)
	n.loseReady(key)
	cl.Abandon()
	require.NoError(t, c.Close(t.Context()))
	dying := p.dying(t, AfterSweepWrite)
	natstest.Eventually(t, soon, func() bool {
		_, err := dying.Sweep(t.Context())
		return err != nil
	})
	dying.awaitDeath()
	require.Len(t, n.docs(key), 2)
	cl = claimOne(t, n.work("q", "second"))
	require.Equal(t, 2, cl.Job().Attempts)
	settle(t, cl, job.Succeed(nil))
	n.clean("q", 1)
}

func TestSweepMovesWhatIsLate(t *testing.T) {
	t.Parallel()
	p := server(t)
	n := p.open(t)
	var keys []job.Key
	for _, id := range []string{"lost", "kept", "far"} {
		s := spec("q", id)
		s.Delay = time.Minute
		if id == "far" {
			s.Delay = time.Hour
		}
		keys = append(keys, n.enqueue(s))
	}
	d := n.doc(keys[0], stateDue) // its alarm is lost; the other one is stuck
	stream, err := n.js.Stream(t.Context(), n.names.stream())
	require.NoError(t, err)
	require.NoError(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject(n.names.alarm(d.tail, d.Writer))))
	n.sweepNothing()
	at := func(key job.Key, after time.Duration) { // has the clock stand so long after a job's instant
		n.clock.offset.Add(int64(n.doc(key, stateDue).Job.RunAt.Add(after).Sub(n.Now())))
	}
	at(keys[0], lateDue-5*time.Second)
	n.sweepNothing() // ten seconds are not over
	at(keys[1], lateDue+time.Second)
	require.Equal(t, SweepReport{LateDue: 2}, n.sweepUntil())
	for _, k := range keys[:2] {
		require.Len(t, n.docs(k), 1)
		require.Equal(t, stateReady, n.docs(k)[0].state)
	}
	require.Equal(t, stateDue, n.docs(keys[2])[0].state)
	left, err := n.remains("q")
	require.NoError(t, err)
	require.Len(t, left, 4, "the alarms went along: three documents and the far one's alarm")
	n.sweepNothing()
	other := p.open(t)
	c := other.work("q", "w")
	for range 2 {
		settle(t, claimOne(t, c), job.Succeed(nil))
	}
}

func TestSweepDeletesOlderDocuments(t *testing.T) {
	t.Parallel()
	p := server(t)
	n := p.open(t).impatient()
	n.sweep.after.older = 2 * time.Second
	calm := 20 * time.Second // the live claim lives on a slow machine too
	_, err := n.Configure(t.Context(), "q", job.QueueSettings{Lease: &calm})
	require.NoError(t, err)
	c := n.work("q", "w")
	live := n.enqueue(spec("q", "live"))
	cl := claimOne(t, c)
	n.see(live, job.Running)
	key := n.enqueue(spec("q", "1"))
	one := claimOne(t, c)
	n.see(key, job.Running)
	old := n.doc(key, stateRunning)
	settle(t, one, job.Succeed(nil))
	natstest.Eventually(t, soon, func() bool { return len(n.docs(key)) == 1 })
	// A copy of what was deleted, as a server that lost a delete brings it back.
	end := n.docs(key)[0]
	_, err = n.put(t.Context(), write{tail: old.tail, state: stateRunning, doc: &old.document, guard: end.seq})
	require.NoError(t, err)
	rep, err := n.Sweep(t.Context())
	require.NoError(t, err)
	require.Zero(t, rep.Repaired(), "whoever wrote the newest may be about to delete it")
	require.Equal(t, SweepReport{Older: 1}, n.sweepUntil())
	require.Equal(t, stateSucceeded, n.docs(key)[0].state)
	require.Len(t, n.docs(key), 1)
	require.Len(t, n.docs(live), 2, "the ready message under a live claim is not an older document")
	settle(t, cl, job.Succeed(nil))
	n.clean("q", 2)
}

func TestSweepDeletesADueDocumentThatWasMoved(t *testing.T) {
	t.Parallel()
	p := server(t)
	n := p.open(t)
	dying := p.dying(t, AfterWakeMove)
	first := dying.work("q", "first")
	s := spec("q", "1")
	s.Delay = 200 * time.Millisecond
	key := n.enqueue(s)
	n.sweepNothing()
	dying.awaitDeath()
	_ = first
	require.Len(t, n.docs(key), 2)
	n.clock.offset.Add(int64(time.Minute / 2))
	require.Equal(t, SweepReport{Older: 1}, n.sweepUntil())
	require.Len(t, n.docs(key), 1)
	require.Equal(t, stateReady, n.docs(key)[0].state)
}

func TestManySweepAtOnce(t *testing.T) {
	t.Parallel()
	p := server(t)
	n := p.open(t)
	c := n.work("q", "w")
	for range 4 {
		key := n.enqueue(job.Spec{Queue: "q", Type: "t"})
		cl := claimOne(t, c)
		n.loseReady(key)
		cl.Abandon()
	}
	require.NoError(t, c.Close(t.Context()))
	total := make(chan int, 3)
	for range 3 {
		m := p.open(t).impatient()
		go func() {
			sum := 0
			for end := time.Now().Add(5 * lease); time.Now().Before(end); {
				rep, err := m.Sweep(t.Context())
				if err != nil {
					t.Error(err)
				}
				sum += rep.LostReady
				time.Sleep(20 * time.Millisecond)
			}
			total <- sum
		}()
	}
	require.Equal(t, 4, <-total+<-total+<-total)
	c = n.work("q", "w2")
	for range 4 {
		cl := claimOne(t, c)
		require.Equal(t, 2, cl.Job().Attempts)
		settle(t, cl, job.Succeed(nil))
	}
	n.clean("q", 4)
}
