package scheduler

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// gate stops whoever comes to it the first time, until it is opened.
type gate struct {
	once    sync.Once
	reached chan struct{}
	open    chan struct{}
}

func newGate() *gate { return &gate{reached: make(chan struct{}), open: make(chan struct{})} }

func (g *gate) pass() {
	g.once.Do(func() {
		close(g.reached)
		<-g.open
	})
}

func (g *gate) wait(t *testing.T) {
	t.Helper()
	select {
	case <-g.reached:
	case <-time.After(patience):
		t.Fatal("nobody has come to the gate")
	}
}

func TestTwoLeadersAtOnceFireEachInstantOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, "2030-01-01 00:00:30")
	const schedules, minutes = 40, 6
	for i := range schedules {
		policy := []MissedPolicy{MissedOne, MissedSkip, MissedEach}[i%3]
		b.put(Cron("* * * * *", Spec{Name: fmt.Sprint("s", i), Type: "work", MissedPolicy: policy}))
	}
	leaders := []*observer{b.fireFrom(b.open(), b.jobs), b.fireFrom(b.open(), b.jobs), b.fireFrom(b.open(), b.jobs)}
	for m := 1; m <= minutes; m++ {
		now := at(t, fmt.Sprintf("00:%02d:00", m))
		b.clock.set(now)
		natstest.Eventually(t, patience, func() error {
			due, err := b.store.Due(context.Background(), 0)
			if err == nil && len(due.Schedules) > 0 {
				err = fmt.Errorf("%d are due still at %s", len(due.Schedules), now)
			}
			return err
		})
	}
	for _, o := range leaders {
		o.stop()
	}
	created, doubled := 0, 0
	for _, o := range leaders {
		for _, f := range o.seen() {
			require.NoError(t, f.Err)
			require.Zero(t, f.Missed)
			if f.Created {
				created++
			} else {
				doubled++
			}
		}
	}
	t.Logf("%d fires; %d times another leader had been there", created, doubled)
	require.Equal(t, schedules*minutes, created)
	for i := range schedules {
		name := fmt.Sprint("s", i)
		require.Zero(t, b.get(name).Missed)
		for m := 1; m <= minutes; m++ {
			require.Zero(t, b.job(name, fmt.Sprintf("00:%02d:00", m)).Missed)
		}
	}
}

// A leader is frozen when its fire is made and nothing is written down; others lead, and then it goes on.
func TestALeaderFrozenBeforeItMovesTheSchedule(t *testing.T) {
	t.Parallel()
	b := newBench(t, "2030-01-01 00:00:30")
	b.put(Cron("* * * * *", Spec{Name: "s", Type: "work"}))
	g := newGate()
	frozen := b.fireFrom(b.open(), &steered{Jobs: b.jobs, made: func([]job.Enqueued) { g.pass() }})
	b.clock.set(at(t, "00:01:00"))
	g.wait(t)
	b.clock.set(at(t, "00:03:30"))
	heir := b.fireFrom(b.open(), b.jobs)
	// The frozen one's job stands for itself alone: what came due since is another one.
	s := b.next("s", "00:04:00")
	require.Equal(t, 1, s.Missed)
	require.Equal(t, at(t, "00:02:00"), s.LastFireAt)
	close(g.open)
	frozen.wait(t, 1)
	require.Equal(t, s, b.get("s"), "what it writes late is not taken")
	b.clock.set(at(t, "00:04:00"))
	s = b.next("s", "00:05:00")
	require.Equal(t, 1, s.Missed)
	require.Zero(t, b.job("s", "00:01:00").Missed)
	require.Equal(t, 1, b.job("s", "00:02:00").Missed)
	require.Zero(t, b.job("s", "00:04:00").Missed)
	heir.stop()
	frozen.stop()
	created := 0
	for _, f := range append(frozen.seen(), heir.seen()...) {
		if f.Created {
			created++
		}
	}
	require.Equal(t, 3, created)
}

// One leader is frozen when it has decided and made nothing, the next when its job is made and nothing is written down.
// The first finds a job that stands for more than it had planned.
func TestALeaderFrozenBeforeItEnqueues(t *testing.T) {
	t.Parallel()
	b := newBench(t, "2030-01-01 00:00:30")
	b.put(Cron("* * * * *", Spec{Name: "s", Type: "work"}))
	before, after := newGate(), newGate()
	first := b.fireFrom(b.open(), &steered{Jobs: b.jobs, before: before.pass})
	b.clock.set(at(t, "00:01:00"))
	before.wait(t)
	b.clock.set(at(t, "00:03:30"))
	second := b.fireFrom(b.open(), &steered{Jobs: b.jobs, made: func([]job.Enqueued) { after.pass() }})
	after.wait(t)
	close(before.open)
	s := b.next("s", "00:04:00")
	require.Equal(t, 2, s.Missed)
	require.Equal(t, 2, b.job("s", "00:01:00").Missed)
	close(after.open)
	second.wait(t, 1)
	require.Equal(t, s, b.get("s"))
	require.False(t, first.wait(t, 1)[0].Created)
	b.clock.set(at(t, "00:04:00"))
	require.Equal(t, 2, b.next("s", "00:05:00").Missed)
	page, err := b.jobs.List(context.Background(), job.ListRequest{Filter: job.Filter{Spaces: []string{"default"}}})
	require.NoError(t, err)
	require.Len(t, page.Jobs, 2, "one for three instants, one for the next")
}

// A leader crashes when its fire is made; the next comes so late that its policy gives that fire up, and does not count
// it as missed.
func TestWhatWasMadeBeforeACrashIsNotMissed(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]MissedPolicy{"skip": MissedSkip, "each": MissedEach} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "2030-01-01 00:00:30")
			spec := Cron("* * * * *", Spec{Name: "s", Type: "work", MissedPolicy: policy})
			if policy == MissedEach {
				spec.MissedLimit = 1
			}
			b.put(spec)
			// All that the crashed one leaves is its job.
			_, err := b.jobs.Enqueue(context.Background(), b.get("s").job(fireID("s", at(t, "00:01:00")), 0))
			require.NoError(t, err)
			b.clock.set(at(t, "00:05:10"))
			o := b.fire(b.jobs)
			s := b.next("s", "00:06:00")
			require.Equal(t, 3, s.Missed, "the fires of the minutes 2, 3 and 4")
			require.Equal(t, at(t, "00:05:00"), s.LastFireAt)
			fires := o.wait(t, 2)
			require.Equal(t, at(t, "00:01:00"), fires[0].At)
			require.False(t, fires[0].Created)
			require.True(t, fires[1].Created)
		})
	}
}
