package scheduler

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// take claims the next job, as a worker does.
func (b *bench) take() job.Claim {
	b.t.Helper()
	ctx := context.Background()
	c, err := b.jobs.Consume(ctx, job.ConsumerConfig{WorkerID: "worker-" + b.t.Name(), Slots: 4})
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = c.Close(context.Background()) })
	claim, err := c.Claim(ctx)
	require.NoError(b.t, err)
	return claim
}

func TestOverlapSkip(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := newBench(t, "2030-01-01 00:00:30")
	b.put(Cron("* * * * *", Spec{Name: "s", Type: "work", Overlap: OverlapSkip}))
	o := b.fire(b.jobs)
	b.clock.set(at(t, "00:01:00"))
	b.next("s", "00:02:00")
	b.clock.set(at(t, "00:02:00")) // the first one's job waits still
	s := b.next("s", "00:03:00")
	require.Equal(t, []int{1, 0}, []int{s.Skipped, s.Missed})
	require.Equal(t, fireID("s", at(t, "00:01:00")), s.LastJob.ID)
	claim := b.take()
	b.clock.set(at(t, "00:05:10")) // it runs
	s = b.next("s", "00:06:00")
	require.Equal(t, []int{2, 2}, []int{s.Skipped, s.Missed}, "one was skipped, two were missed")
	_, err := claim.Settle(ctx, job.Succeed(nil))
	require.NoError(t, err)
	b.clock.set(at(t, "00:06:00"))
	s = b.next("s", "00:07:00")
	require.Equal(t, []int{2, 2}, []int{s.Skipped, s.Missed})
	require.Equal(t, fireID("s", at(t, "00:06:00")), s.LastJob.ID)
	for i, f := range o.wait(t, 4) {
		require.Equal(t, i == 1 || i == 2, f.Skipped)
		require.Equal(t, !f.Skipped, f.Created)
		require.NoError(t, f.Err)
		require.GreaterOrEqual(t, f.Late, time.Duration(0))
	}
	require.Equal(t, 2, o.logged("a fire was skipped"))

	// A last job that is there no more is no overlap.
	_, err = b.jobs.Cancel(ctx, *s.LastJob)
	require.NoError(t, err)
	_, err = b.jobs.Delete(ctx, *s.LastJob)
	require.NoError(t, err)
	b.clock.set(at(t, "00:07:00"))
	require.Equal(t, 2, b.next("s", "00:08:00").Skipped)
}

func TestOverlapReplace(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := newBench(t, "2030-01-01 00:00:30")
	b.put(Cron("* * * * *", Spec{Name: "s", Type: "work", Overlap: OverlapReplace}))
	var cancels atomic.Int32
	b.fire(&steered{Jobs: b.jobs, stop: func(job.Key) { cancels.Add(1) }})
	b.clock.set(at(t, "00:01:00"))
	b.next("s", "00:02:00")
	require.Zero(t, cancels.Load())
	b.clock.set(at(t, "00:02:00"))
	b.next("s", "00:03:00")
	require.Equal(t, job.Cancelled, b.job("s", "00:01:00").Status)
	claim := b.take()
	require.Equal(t, fireID("s", at(t, "00:02:00")), claim.Job().ID)
	b.clock.set(at(t, "00:03:00"))
	s := b.next("s", "00:04:00")
	require.Zero(t, s.Skipped)
	told := make(chan error, 1)
	claim.Notify(func(err error) { told <- err })
	select {
	case err := <-told:
		require.ErrorIs(t, err, job.ErrCancelRequested)
	case <-time.After(patience):
		t.Fatal("the running job was not told")
	}
	_, err := claim.Settle(ctx, job.Outcome{Status: job.Cancelled})
	require.NoError(t, err)
	require.Equal(t, job.Pending, b.job("s", "00:03:00").Status)
	b.clock.set(at(t, "00:04:00"))
	b.next("s", "00:05:00")
	require.Equal(t, job.Cancelled, b.job("s", "00:03:00").Status)
	require.Equal(t, job.Pending, b.job("s", "00:04:00").Status)
	require.EqualValues(t, 3, cancels.Load())
}

// A fire whose job was made, and whose schedule still promises it, neither skips nor cancels itself.
func TestAFireDoesNotOverlapItself(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, overlap := range map[string]Overlap{"skip": OverlapSkip, "replace": OverlapReplace} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "2030-01-01 00:00:30")
			spec := Cron("* * * * *", Spec{Name: "s", Type: "work", Overlap: overlap})
			b.put(spec)
			o := b.fire(b.jobs)
			b.clock.set(at(t, "00:01:00"))
			b.next("s", "00:02:00")
			o.stop()
			// The clock comes back from a jump, and a put promises anew what was fired by the clock that was ahead.
			b.clock.set(at(t, "00:00:30"))
			spec.Environment = "staging"
			require.Equal(t, at(t, "00:01:00"), b.put(spec).NextRunAt)
			b.fire(b.jobs)
			b.clock.set(at(t, "00:01:00"))
			s := b.next("s", "00:02:00")
			require.Zero(t, s.Skipped)
			require.Equal(t, job.Pending, b.job("s", "00:01:00").Status)
		})
	}
	// Where what the last one came to cannot be read, nothing is decided.
	b := newBench(t, "2030-01-01 00:00:30")
	b.put(Cron("* * * * *", Spec{Name: "s", Type: "work", Overlap: OverlapReplace}))
	var broken atomic.Bool
	o := b.fire(&unanswering{b.jobs, &broken})
	b.clock.set(at(t, "00:01:00"))
	b.next("s", "00:02:00")
	broken.Store(true)
	b.clock.set(at(t, "00:02:00"))
	natstest.Eventually(t, patience, func() bool { return o.logged("is not made yet") == 1 })
	_, err := b.jobs.Get(ctx, job.Key{Space: "default", ID: fireID("s", at(t, "00:02:00"))})
	require.ErrorIs(t, err, job.ErrNotFound)
	broken.Store(false)
	b.clock.set(at(t, "00:02:30"))
	b.next("s", "00:03:00")
	require.Equal(t, job.Cancelled, b.job("s", "00:01:00").Status)
}

// unanswering are jobs of which nobody can be asked to cancel one, while broken.
type unanswering struct {
	Jobs
	broken *atomic.Bool
}

func (u *unanswering) Cancel(ctx context.Context, key job.Key) (job.Changed, error) {
	if u.broken.Load() {
		return job.Changed{}, job.ErrUnknown
	}
	return u.Jobs.Cancel(ctx, key)
}
