package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

func timingOf(t *testing.T, s Spec) timing {
	t.Helper()
	s.Type = "work"
	require.NoError(t, s.Normalize())
	tm, err := s.timing()
	require.NoError(t, err)
	return tm
}

func TestJitterSpreadsAndStays(t *testing.T) {
	t.Parallel()
	now := instant(t, "2030-01-01 00:00:30")
	shares := make(map[time.Duration]int)
	for i := range 1000 {
		spec := Cron("0 * * * *", Spec{Name: fmt.Sprint("s", i), Jitter: 10 * time.Minute})
		tm := timingOf(t, spec)
		first := tm.first(now)
		share := first.Sub(instant(t, "2030-01-01 01:00:00"))
		if share < 0 { // its fire of the hour before is still to come
			share += time.Hour
		}
		require.True(t, share >= 0 && share <= 10*time.Minute, "%s", first)
		require.Zero(t, share%time.Second)
		shares[share]++
		require.Equal(t, first, timingOf(t, spec).first(now), "another process says the same")
		require.Equal(t, first.Add(5*time.Hour), tm.after(first, first.Add(4*time.Hour)))
		require.Equal(t, 5, tm.owed(first, first.Add(4*time.Hour)))
		require.Equal(t, first.Add(3*time.Hour), tm.nth(first, first.Add(4*time.Hour), 4))
	}
	require.Greater(t, len(shares), 300, "of 601 that there are")
	for share, n := range shares {
		require.Less(t, n, 12, "%s", share)
	}
}

func TestJitterIsOfTheNameAndTheSpace(t *testing.T) {
	t.Parallel()
	share := func(space, name string) time.Duration {
		s := Spec{Space: space, Name: name, Jitter: MaxJitter}
		return s.shift()
	}
	require.NotEqual(t, share("a", "x"), share("b", "x"))
	require.NotEqual(t, share("a", "x"), share("a", "y"))
	require.NotEqual(t, share("a", "bx"), share("ab", "x"))
	require.Zero(t, (&Spec{Name: "x"}).shift())
	require.Zero(t, (&Spec{Name: "x", Jitter: 999 * time.Millisecond}).shift(), "fires are whole seconds")
}

// What is promised next is what a preview shows, however late each look is.
func TestNextIsStableOverPlans(t *testing.T) {
	t.Parallel()
	for _, expr := range []string{"*/7 * * * *", "@hourly", "30 2 * * *", "@every 100s"} {
		for _, jitter := range []time.Duration{0, 17 * time.Minute} {
			spec := Cron(expr, Spec{Name: "s", Type: "work", Timezone: "Europe/Berlin", Jitter: jitter})
			now := instant(t, "2030-03-29 12:00:00")
			want, err := Preview(spec, now, 50)
			require.NoError(t, err)
			require.Len(t, want, 50)
			require.NoError(t, spec.Normalize())
			s := Schedule{Spec: spec, NextRunAt: want[0]}
			got, err := s.Next(50)
			require.NoError(t, err)
			require.Equal(t, want, got)
			tm := timingOf(t, spec)
			for i, at := range want[:49] {
				require.Equal(t, at, s.NextRunAt, "%s with %s", expr, jitter)
				late := want[i+1].Sub(at) - time.Second // not so late that the next is due
				s.NextRunAt = s.plan(tm, at.Add(time.Duration(i)*late/49)).next
			}
		}
	}
}

func TestAnIntervalIsAnchoredToItsPromise(t *testing.T) {
	t.Parallel()
	tm := timingOf(t, Every(90*time.Second, Spec{Name: "s"}))
	first := tm.first(instant(t, "2030-01-01 00:00:00").Add(200 * time.Millisecond))
	require.Equal(t, instant(t, "2030-01-01 00:01:31"), first, "a whole second, none before the interval has passed")
	require.Equal(t, first.Add(90*time.Second), tm.after(first, first.Add(89*time.Second)))
	require.Equal(t, first.Add(180*time.Second), tm.after(first, first.Add(90*time.Second)))
	require.Equal(t, first.Add(90*time.Second*1000), tm.after(first, first.Add(90*time.Second*1000-1)))

	shifted := timingOf(t, Every(90*time.Second, Spec{Name: "s", Jitter: time.Hour}))
	require.NotZero(t, shifted.shift)
	from := shifted.first(instant(t, "2030-01-01 00:00:00"))
	require.Equal(t, instant(t, "2030-01-01 00:01:30").Add(shifted.shift), from, "the first is shifted")
	require.Equal(t, from.Add(90*time.Second), shifted.after(from, from), "the others are counted from it")
}

func TestPreviewRefusesWhatPutRefuses(t *testing.T) {
	t.Parallel()
	now := instant(t, "2030-01-01 00:00:00")
	for field, s := range map[string]Spec{
		"name":         {Type: "work", Cron: "@daily"},
		"type":         {Name: "s", Cron: "@daily"},
		"cron":         {Name: "s", Type: "work", Cron: "0 0 30 2 *"},
		"timezone":     {Name: "s", Type: "work", Cron: "@daily", Timezone: "Mars/Olympus"},
		"input":        {Name: "s", Type: "work", Cron: "@daily", Input: []byte(`[1]`)},
		"missedPolicy": {Name: "s", Type: "work", Cron: "@daily", MissedPolicy: "all"},
		"missedLimit":  {Name: "s", Type: "work", Cron: "@daily", MissedLimit: 3},
		"overlap":      {Name: "s", Type: "work", Cron: "@daily", Overlap: "queue"},
		"jitter":       {Name: "s", Type: "work", Cron: "@daily", Jitter: 25 * time.Hour},
	} {
		_, err := Preview(s, now, 3)
		var fault *job.FieldError
		require.ErrorAs(t, err, &fault, field)
		require.Equal(t, field, fault.Field)
		require.NotEmpty(t, fault.Reason)
	}
	none, err := Preview(Cron("@daily", Spec{Name: "s", Type: "work"}), now, 0)
	require.NoError(t, err)
	require.Empty(t, none)
}
