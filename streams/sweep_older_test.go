package streams

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// impatient housekeeping takes for left behind what has stood for a moment.
func (n *node) impatient() *node {
	n.sweep.after = sweepAges{
		older: 100 * time.Millisecond, ready: 300 * time.Millisecond, wake: 300 * time.Millisecond,
		queue: 100 * time.Millisecond, stuck: time.Second,
		share: 1,
	}
	return n
}

// leftBehind is an operation whose operator died between its write and the deletion of what was older.
type leftBehind struct {
	op    job.Operation
	delay time.Duration
	ends  bool // it had ended
	now   state
	old   state
}

var leftovers = map[string]leftBehind{
	"cancelled while ready": {op: job.OpCancel, now: stateCancelled, old: stateReady},
	"cancelled while due":   {op: job.OpCancel, delay: time.Hour, now: stateCancelled, old: stateDue},
	"run now":               {op: job.OpRunNow, delay: time.Hour, now: stateReady, old: stateDue},
	"requeued":              {op: job.OpRequeue, ends: true, now: stateReady, old: stateSucceeded},
	"deleted when ended":    {op: job.OpDelete, ends: true, now: stateDeleted, old: stateSucceeded},
	"deleted while ready":   {op: job.OpDelete, now: stateDeleted, old: stateReady},
	"deleted while due":     {op: job.OpDelete, delay: time.Hour, now: stateDeleted, old: stateDue},
}

// leave makes the job of a leftBehind.
func (l leftBehind) leave(t *testing.T, p *place, n *node) job.Key {
	t.Helper()
	s := spec("q", "1")
	s.Delay = l.delay
	key := n.enqueue(s)
	if l.ends {
		c := n.work("q", "w")
		settle(t, claimOne(t, c), job.Succeed(nil))
		require.NoError(t, c.Close(t.Context()))
		natstest.Eventually(t, soon, func() bool { return len(n.docs(key)) == 1 })
	}
	dying := p.dying(t, AfterOperation)
	_, err := dying.operate(t.Context(), l.op, key)
	require.ErrorIs(t, err, errDied)
	require.Len(t, n.docs(key), 2)
	n.doc(key, l.now)
	n.doc(key, l.old)
	return key
}

func TestSweepFinishesWhatAnOperatorLeftBehind(t *testing.T) {
	t.Parallel()
	for name, l := range leftovers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for how, prepare := range map[string]func(p *place, n *node) *node{
				"by one who leads already": func(p *place, n *node) *node {
					n.sweepNothing()
					n.sweep.walk.pace.next = time.Now().Add(time.Hour) // by what is new alone
					return n
				},
				"by a new leader": func(p *place, n *node) *node { return nil },
			} {
				t.Run(how, func(t *testing.T) {
					p := server(t)
					n := p.open(t).impatient()
					leader := prepare(p, n)
					key := l.leave(t, p, n)
					if leader == nil {
						leader = p.open(t).impatient()
					}
					rest := n.doc(key, l.now)
					require.Equal(t, SweepReport{Older: 1}, leader.sweepUntil())
					recs := n.docs(key)
					require.Len(t, recs, 1)
					require.Equal(t, rest.seq, recs[0].seq, "what is left is as it was written")
					leader.sweepNothing()
					require.Equal(t, SweepReport{Older: 1}, leader.SweepTotals())
				})
			}
		})
	}
}

// Whoever wrote the newest document is about to delete the older one; a ready message has its delivery to clean up.
func TestSweepGivesTimeToDeleteWhatIsOlder(t *testing.T) {
	t.Parallel()
	for _, old := range []state{stateDue, stateReady} {
		t.Run(string(old), func(t *testing.T) {
			t.Parallel()
			p := server(t)
			n := p.open(t)
			n.sweep.after = defaultSweepAges
			n.sweep.after.older, n.sweep.after.ready = 10*time.Minute, 20*time.Minute
			l := leftovers["cancelled while "+string(old)]
			key := l.leave(t, p, n)
			age := map[state]time.Duration{stateDue: n.sweep.after.older, stateReady: n.sweep.after.ready}[old]
			n.clock.offset.Add(int64(age - time.Minute))
			n.sweepNothing()
			require.Len(t, n.docs(key), 2)
			n.clock.offset.Add(int64(2 * time.Minute))
			require.Equal(t, SweepReport{Older: 1}, n.sweepUntil())
			require.Equal(t, stateCancelled, n.docs(key)[0].state)
		})
	}
}

// A worker's delivery finishes the clean-up, and then there is nothing to repair.
func TestSweepLeavesAnOlderReadyMessageToItsDelivery(t *testing.T) {
	t.Parallel()
	p := server(t)
	n := p.open(t)
	key := leftovers["cancelled while ready"].leave(t, p, n)
	n.sweepNothing()
	claimNone(t, n.work("q", "w"), while)
	natstest.Eventually(t, soon, func() bool { return len(n.docs(key)) == 1 })
	n.clock.offset.Add(int64(time.Hour))
	n.sweepNothing()
}

// What is left of a deleted record stays for its ten minutes even where another job has taken its place.
func TestSweepDoesNotTouchWhatIsLeftOfADeletedRecord(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	key := n.enqueue(spec("q", "1"))
	require.True(t, n.steer(job.OpDelete, key).Done)
	stone := n.doc(key, stateDeleted)
	n.clock.offset.Add(int64(time.Hour))
	n.sweepNothing()
	require.Equal(t, seconds(MinRetention), header(n.newestMessage(key).header, "Nats-TTL"))
	d := stone.next(newWriter())
	d.Job.Type = "t"
	_, err := n.put(t.Context(), write{tail: stone.tail, state: stateReady, doc: &d, guard: stone.seq})
	require.NoError(t, err)
	n.clock.offset.Add(int64(time.Hour))
	for end := time.Now().Add(while); time.Now().Before(end); {
		n.sweepNothing()
	}
	require.Equal(t, stone.seq, n.doc(key, stateDeleted).seq)
}

func TestARoundThatFailsSaysWhere(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	n.sweepNothing()
	n.crash()
	_, err := n.Sweep(t.Context())
	require.ErrorContains(t, err, "housekeeping")
	require.False(t, errors.Is(err, job.ErrNotFound))
}
