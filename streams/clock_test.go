package streams

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

func TestContractA1_TheClockIsTheServersWithin50ms(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	for range 5 {
		require.WithinDuration(t, time.Now(), n.Now(), 50*time.Millisecond) // the server is this process
		require.NoError(t, n.clock.sync(t.Context(), n.Store))
	}
	require.Equal(t, time.UTC, n.Now().Location())
}

func TestTheClockGoesOnByMonotonicTime(t *testing.T) {
	c := &clock{base: time.Now()}
	c.offset.Store(noon.UnixNano())
	a := c.now()
	require.WithinDuration(t, noon, a, time.Minute)
	time.Sleep(20 * time.Millisecond)
	require.WithinRange(t, c.now(), a.Add(20*time.Millisecond), a.Add(time.Minute))
}

// A process whose clock is an hour wrong: what it knows of the store's clock is an hour from its own. No instant that
// it writes, and none that it decides by, may be of its own clock.
func TestContractA1_AnHourWrongChangesNothing(t *testing.T) {
	t.Parallel()
	for _, wrong := range []time.Duration{time.Hour, -time.Hour} {
		n := server(t).open(t)
		n.clock.offset.Add(int64(wrong))
		c := n.work("q", "w")
		near := func(got time.Time, after time.Duration) {
			t.Helper()
			require.WithinDuration(t, time.Now().Add(wrong+after), got, 20*time.Second)
		}
		s := spec("q", "later")
		s.Delay = 2 * time.Hour
		n.enqueue(s)
		d := n.doc(keyOf("q", "later"), stateDue)
		near(d.Job.RunAt, s.Delay)
		near(d.Job.DueAt, s.Delay)
		key := n.enqueue(spec("q", "1"))
		cl := claimOne(t, c)
		near(cl.Job().StartedAt, 0)
		near(cl.Job().LeaseUntil, lease)
		n.see(key, job.Running)
		d = n.doc(key, stateRunning)
		near(d.Job.StartedAt, 0)
		near(d.Job.LeaseUntil, lease)
		require.NoError(t, cl.Heartbeat(t.Context()))
		j := settle(t, cl, job.Fail(3*time.Hour, "no"))
		near(j.RunAt, 3*time.Hour)
		near(j.UpdatedAt, 0)
		near(j.History[0].StartedAt, 0)
		near(j.History[0].EndedAt, 0)
		near(n.doc(key, stateDue).Job.RunAt, 3*time.Hour)
	}
}
