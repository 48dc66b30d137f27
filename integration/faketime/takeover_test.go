package faketime

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/scheduler"
)

// A leader is cut off, again and again, at another moment of its term each time. It stops by its own clock before another
// begins, which is soon after its entry has expired; and never do two lead.
func TestALeaderThatIsCutOffIsFollowed(t *testing.T) {
	bubble(t, func(w *world) {
		t := w.t
		f := &fires{made: make(map[string][]fired)}
		links := []*link{w.link(), w.link()}
		planners := []*planner{w.plan("0", links[0], f, nil), w.plan("1", links[1], f, nil)}
		time.Sleep(time.Minute)
		for round := range 20 {
			old := 0
			if planners[1].leads() {
				old = 1
			}
			require.True(t, planners[old].leads())
			next := planners[1-old]
			require.False(t, next.leads())
			time.Sleep(time.Duration(round) * 517 * time.Millisecond)
			links[old].freeze()
			cut := time.Now()
			time.Sleep(time.Minute)
			require.True(t, next.leads(), "round %d", round)
			led := next.led()
			from := led[len(led)-1].from
			within(t, cut, from, scheduler.DefaultTTL+5*time.Second)
			before := planners[old].led()
			to := before[len(before)-1].to
			require.False(t, to.IsZero())
			require.LessOrEqual(t, to, from, "round %d", round)
			links[old].thaw()
			time.Sleep(time.Minute)
			require.True(t, next.leads(), "who comes back does not lead again, round %d", round)
			require.False(t, planners[old].leads())
		}
	})
}

// Every tick becomes one job (two days of them where there is time), never early and, but for a change of the lead, at once; the leader is cut off in the
// middle and comes back, with what it was just saying, when another has led for an hour.
func TestEachTickOnceWithATakeover(t *testing.T) {
	long(t)
	length := spare(3*time.Hour, 48*time.Hour)
	bubble(t, func(w *world) {
		t := w.t
		f := &fires{made: make(map[string][]fired)}
		links := []*link{w.link(), w.link()}
		planners := []*planner{w.plan("0", links[0], f, nil), w.plan("1", links[1], f, nil)}
		s := w.schedules()
		every := map[string]time.Duration{"five": 5 * time.Minute, "hour": time.Hour, "ninety": 90 * time.Minute}
		w.put(s, scheduler.Spec{Name: "five", Cron: "*/5 * * * *"})
		w.put(s, scheduler.Spec{Name: "hour", Cron: "@hourly"})
		w.put(s, scheduler.Spec{Name: "ninety", Cron: "@every 90m"})
		w.until(length/2 - time.Second) // a second before a tick of each
		old := 0
		if planners[1].leads() {
			old = 1
		}
		require.True(t, planners[old].leads())
		links[old].freeze()
		w.until(length/2 + time.Hour)
		require.True(t, planners[1-old].leads())
		links[old].thaw()
		w.until(length + time.Minute)

		f.mu.Lock()
		defer f.mu.Unlock()
		want := 0
		for name, d := range every {
			for at := w.begin.Add(d); !at.After(w.begin.Add(length)); at = at.Add(d) {
				want++
				id := fmt.Sprintf("%s@%d", name, at.Unix())
				made := f.made[id]
				require.Len(t, made, 1, "%s %s", name, at)
				require.Zero(t, made[0].missed)
				late := time.Second
				if at.Equal(w.begin.Add(length / 2)) {
					late = scheduler.DefaultTTL + 5*time.Second
				}
				within(t, at, made[0].at, late)
			}
		}
		require.Len(t, f.made, want, "nothing that was not promised")
		counts, err := w.store.Count(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, counts.Ready)
	})
}

// Nobody fires for thirty hours. What is owed then becomes what each schedule's policy says, and after it all goes on.
func TestFiresThatWereMissedForThirtyHours(t *testing.T) {
	long(t)
	bubble(t, func(w *world) {
		t := w.t
		f := &fires{made: make(map[string][]fired)}
		s := w.schedules()
		w.put(s, scheduler.Spec{Name: "one", Cron: "@hourly"})
		w.put(s, scheduler.Spec{Name: "skip", Cron: "@hourly", MissedPolicy: scheduler.MissedSkip})
		w.put(s, scheduler.Spec{Name: "each", Cron: "@hourly", MissedPolicy: scheduler.MissedEach, MissedLimit: 5})
		a := w.plan("a", nil, f, nil)
		w.until(2*time.Hour + time.Minute)
		a.retire()
		w.away(32*time.Hour + 30*time.Minute)
		b := w.plan("b", nil, f, nil)
		w.until(33*time.Hour + time.Minute)
		b.retire()

		id := func(name string, hour int) string {
			return fmt.Sprintf("%s@%d", name, w.begin.Add(time.Duration(hour)*time.Hour).Unix())
		}
		want := map[string]int{
			id("one", 3): 29, // and those of the hours 4 to 32
		}
		for _, name := range []string{"one", "skip", "each"} {
			for _, hour := range []int{1, 2, 33} {
				want[id(name, hour)] = 0
			}
		}
		for hour := 28; hour <= 32; hour++ {
			want[id("each", hour)] = 0
		}
		got := make(map[string]int)
		for id, made := range f.made {
			require.Len(t, made, 1)
			got[id] = made[0].missed
		}
		require.Equal(t, want, got)
		for name, missed := range map[string]int{"one": 29, "skip": 30, "each": 25} {
			sched, err := w.schedules().Get(t.Context(), job.DefaultSpace, name)
			require.NoError(t, err)
			require.Equal(t, missed, sched.Missed, name)
			require.Equal(t, w.begin.Add(33*time.Hour).Unix(), sched.LastFireAt.Unix())
		}
	})
}

// jumpy is a clock that can be put forward and back.
type jumpy struct {
	job.Clock
	off atomic.Int64
}

func (c *jumpy) Now() time.Time { return c.Clock.Now().Add(time.Duration(c.off.Load())) }

// The clock that schedules go by jumps back by three hours, and later forward again: no tick is made twice, none before it
// is promised, and what is owed after the jump forward is one job.
func TestAClockThatJumps(t *testing.T) {
	long(t)
	bubble(t, func(w *world) {
		t := w.t
		f := &fires{made: make(map[string][]fired)}
		clock := &jumpy{Clock: w.store}
		w.put(w.schedules(), scheduler.Spec{Name: "s", Cron: "@hourly"})
		p := w.plan("a", nil, f, clock)
		w.until(4*time.Hour + time.Minute)
		clock.off.Store(int64(-3 * time.Hour))
		w.until(8*time.Hour + 30*time.Minute) // 5:30 by the clock
		clock.off.Store(0)
		w.until(9*time.Hour + time.Minute)
		p.retire()
		got := make(map[int]int)
		for hour := 1; hour <= 9; hour++ {
			made := f.made[fmt.Sprintf("s@%d", w.begin.Add(time.Duration(hour)*time.Hour).Unix())]
			require.LessOrEqual(t, len(made), 1)
			if len(made) == 1 {
				got[hour] = made[0].missed
			}
		}
		require.Equal(t, map[int]int{1: 0, 2: 0, 3: 0, 4: 0, 5: 0, 6: 2, 9: 0}, got)
		require.Len(t, f.made, len(got))
		made := f.made[fmt.Sprintf("s@%d", w.begin.Add(5*time.Hour).Unix())]
		within(t, w.begin.Add(8*time.Hour), made[0].at, 2*time.Second)
	})
}
