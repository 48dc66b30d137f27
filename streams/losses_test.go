package streams

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// counted waits until a store has counted these losses, and no others.
func (n *node) counted(want ...Losses) {
	n.t.Helper()
	natstest.Eventually(n.t, soon, func() error {
		if got := n.Losses(); fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("counted %+v, not %+v", got, want)
		}
		return nil
	})
}

// want has a free slot wait for a job that never comes: nothing is delivered before.
func (c *consumer) want() {
	go func() { _, _ = c.Claim(context.Background()) }() // ends with the consumer
}

// Whoever takes over what a worker left behind counts it, once; the worker itself is not there any more to do so.
func TestLossesAreCountedByWhoWritesThem(t *testing.T) {
	t.Parallel()
	p := server(t)
	for name, c := range map[string]struct {
		attempts int
		cancel   bool
		deaf     bool // the heir does not hear that its write was stored
		want     Losses
		status   job.Status
	}{
		"again":               {attempts: 2, want: Losses{Lost: 1}, status: job.Succeeded},
		"again, unheard":      {attempts: 2, deaf: true, want: Losses{Lost: 1}, status: job.Succeeded},
		"last":                {attempts: 1, want: Losses{Lost: 1, LostDead: 1}, status: job.Dead},
		"last, unheard":       {attempts: 1, deaf: true, want: Losses{Lost: 1, LostDead: 1}, status: job.Dead},
		"was to be cancelled": {attempts: 2, cancel: true, want: Losses{Lost: 1, LostCancelled: 1}, status: job.Cancelled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := queueName(t)
			var d natstest.FaultDialer
			gone, heir := p.open(t), p.open(t, d.Option())
			s := spec(q, "1")
			s.MaxAttempts = c.attempts
			key := heir.enqueue(s)
			claimOne(t, gone.work(q, "gone"))
			heir.see(key, job.Running)
			if c.cancel {
				heir.requestCancel(key)
			}
			gone.crash()
			if c.deaf {
				d.DropFromServer(1, natstest.IsPubAck)
			}
			w := heir.work(q, "heir")
			if c.status == job.Succeeded {
				settle(t, claimOne(t, w), job.Succeed(nil))
			} else {
				w.want()
			}
			heir.see(key, c.status)
			c.want.Queue = q
			heir.counted(c.want)
			require.Equal(t, []Losses{{Queue: q}}, gone.Losses(), "who lost it counts nothing")
			if c.deaf {
				from, _ := d.Dropped()
				require.Equal(t, 1, from)
			}
		})
	}
}

// Housekeeping counts what it writes in a worker's place.
func TestHousekeepingCountsLosses(t *testing.T) {
	t.Parallel()
	p := server(t)
	for _, c := range []struct {
		attempts int
		want     Losses
		status   job.Status
	}{
		{2, Losses{Queue: "2", Lost: 1}, job.Pending},
		{1, Losses{Queue: "1", Lost: 1, LostDead: 1}, job.Dead},
	} {
		gone, n := p.open(t), p.open(t)
		s := spec(fmt.Sprint(c.attempts), "1")
		s.MaxAttempts = c.attempts
		key := n.enqueue(s)
		w := gone.work(s.Queue, "gone")
		cl := claimOne(t, w)
		n.see(key, job.Running)
		require.NoError(t, n.remove(t.Context(), n.doc(key, stateReady).seq))
		cl.Abandon()
		gone.crash()
		require.Equal(t, SweepReport{LostReady: 1}, n.sweepUntil())
		n.see(key, c.status)
		n.counted(c.want)
		_, err := n.Sweep(t.Context())
		require.NoError(t, err)
		n.counted(c.want)
	}
}

// What nobody could run is counted by whoever put it out of the way.
func TestWhatCannotBeRunIsCounted(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	n.work("q", "w").want()
	n.publish(n.readySubject(keyOf("q", "junk")), "no job")
	n.counted(Losses{Queue: "q", SetAside: 1})

	// It is to wait until it is due, and there is no room for what that adds to its document.
	due := `{"dueAt":"2200-01-01T00:00:00Z",`
	n.publish(n.readySubject(keyOf("q", "big")), due+string(bodyOf(int(n.nc.MaxPayload()) - len(due) + 1)[1:]))
	n.counted(Losses{Queue: "q", SetAside: 1, TooLarge: 1})
	n.see(keyOf("q", "big"), job.Dead)
}

// Made-up queues do not make it count in ever more places.
func TestLossesOfManyQueuesAreCountedTogether(t *testing.T) {
	t.Parallel()
	var s Store
	for i := range mostLossQueues + 50 {
		s.losses.count(fmt.Sprintf("q%03d", i), Losses{Lost: 1})
	}
	all := s.Losses()
	require.Len(t, all, mostLossQueues+1)
	require.Equal(t, Losses{Queue: OtherQueues, Lost: 50}, all[0])
	require.Equal(t, Losses{Queue: "q000", Lost: 1}, all[1])
	s.losses.count("q000", Losses{SetAside: 1})
	require.Equal(t, Losses{Queue: "q000", Lost: 1, SetAside: 1}, s.Losses()[1])
}
