package scheduler

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// planned is what a schedule that promised an instant comes to at another one.
func planned(t *testing.T, spec Spec, promised, now string) (plan, timing) {
	t.Helper()
	spec.Name, spec.Type = "s", "work"
	require.NoError(t, spec.Normalize())
	tm, err := spec.timing()
	require.NoError(t, err)
	s := Schedule{Spec: spec, NextRunAt: at(t, promised)}
	return s.plan(tm, at(t, now)), tm
}

// at is a time of one day; empty: the zero time.
func at(t testing.TB, clock string) time.Time {
	t.Helper()
	if clock == "" {
		return time.Time{}
	}
	return instant(t, "2030-01-01 "+clock)
}

func TestPlan(t *testing.T) {
	t.Parallel()
	minutely := Cron("* * * * *", Spec{})
	with := func(p MissedPolicy, limit int) Spec {
		s := minutely
		s.MissedPolicy, s.MissedLimit = p, limit
		return s
	}
	for name, c := range map[string]struct {
		spec           Spec
		promised, now  string
		fire           string
		stands, missed int
		next           string
	}{
		"one, on time":                    {with(MissedOne, 0), "00:01:00", "00:01:00", "00:01:00", 0, 0, "00:02:00"},
		"one, late":                       {with(MissedOne, 0), "00:01:00", "00:01:59", "00:01:00", 0, 0, "00:02:00"},
		"one, at the next":                {with(MissedOne, 0), "00:01:00", "00:02:00", "00:01:00", 1, 1, "00:03:00"},
		"one, late by several":            {with(MissedOne, 0), "00:01:00", "00:11:30", "00:01:00", 10, 10, "00:12:00"},
		"the default is one":              {minutely, "00:01:00", "00:11:30", "00:01:00", 10, 10, "00:12:00"},
		"skip, on time":                   {with(MissedSkip, 0), "00:01:00", "00:01:00", "00:01:00", 0, 0, "00:02:00"},
		"skip, within the time allowed":   {with(MissedSkip, 0), "00:01:00", "00:01:59", "00:01:00", 0, 0, "00:02:00"},
		"skip, late by several":           {with(MissedSkip, 0), "00:01:00", "00:11:30", "", 0, 10, "00:11:00"},
		"skip, the newest is what is due": {with(MissedSkip, 0), "00:11:00", "00:11:30", "00:11:00", 0, 0, "00:12:00"},
		"skip, all too late": {
			Cron("0 * * * *", Spec{MissedPolicy: MissedSkip}), "01:00:00", "03:05:00", "", 0, 3, "04:00:00",
		},
		"skip, at the end of the time allowed": {
			Cron("0 * * * *", Spec{MissedPolicy: MissedSkip}), "01:00:00", "01:01:00", "01:00:00", 0, 0, "02:00:00",
		},
		"skip, just past it": {
			Cron("0 * * * *", Spec{MissedPolicy: MissedSkip}), "01:00:00", "01:01:01", "", 0, 1, "02:00:00",
		},
		"each, on time":                {with(MissedEach, 3), "00:01:00", "00:01:00", "00:01:00", 0, 0, "00:02:00"},
		"each, within its limit":       {with(MissedEach, 3), "00:01:00", "00:03:10", "00:01:00", 0, 0, "00:02:00"},
		"each, past its limit":         {with(MissedEach, 3), "00:01:00", "00:11:30", "", 0, 8, "00:09:00"},
		"each, the newest are left":    {with(MissedEach, 3), "00:09:00", "00:11:30", "00:09:00", 0, 0, "00:10:00"},
		"each with a limit of one":     {with(MissedEach, 1), "00:01:00", "00:11:30", "", 0, 10, "00:11:00"},
		"each with its default of ten": {with(MissedEach, 0), "00:01:00", "00:10:59", "00:01:00", 0, 0, "00:02:00"},
		"an interval":                  {Every(90*time.Second, Spec{}), "00:01:10", "00:04:10", "00:01:10", 2, 2, "00:05:40"},
		"an interval of a second":      {Every(time.Second, Spec{}), "00:00:01", "12:00:00", "00:00:01", 43199, 43199, "12:00:01"},
		"a clock that went back":       {minutely, "00:05:00", "00:01:30", "00:05:00", 0, 0, "00:02:00"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _ := planned(t, c.spec, c.promised, c.now)
			if name == "a clock that went back" { // nobody plans what is not due; if so, it must not be made twice
				require.Equal(t, at(t, c.fire), got.fire)
				return
			}
			require.Equal(t, plan{at(t, c.fire), c.stands, c.missed, at(t, c.next)}, got)
		})
	}
}

func TestWhoLooksLaterFoldsWhatTheFirstDidNot(t *testing.T) {
	t.Parallel()
	// The second leader sees five fires owed; the first saw so many less, or more.
	for stands, next := range map[int]string{0: "00:02:00", 1: "00:03:00", 3: "00:05:00", 4: "00:06:00"} {
		p, tm := planned(t, Cron("* * * * *", Spec{}), "00:01:00", "00:05:30")
		got := p.folded(tm, at(t, "00:05:30"), stands)
		require.Equal(t, plan{at(t, "00:01:00"), stands, stands, at(t, next)}, got, "%d", stands)
	}
	p, tm := planned(t, Cron("* * * * *", Spec{}), "00:01:00", "00:01:30")
	require.Equal(t, plan{at(t, "00:01:00"), 4, 4, at(t, "00:06:00")}, p.folded(tm, at(t, "00:05:30"), 4), "who looked earlier, and came later")
	require.Equal(t, p, p.folded(tm, at(t, "00:05:30"), 1000000), "what is not owed is not believed")
	require.Equal(t, p, p.folded(tm, at(t, "00:05:30"), -1))
}

// The most that there can be: a second's interval for ten years, and an outage in a zone whose clock changes.
func TestPlanAfterALongOutage(t *testing.T) {
	t.Parallel()
	spec := Every(time.Second, Spec{MissedPolicy: MissedEach, MissedLimit: 1000})
	spec.Name, spec.Type = "s", "work"
	require.NoError(t, spec.Normalize())
	tm, err := spec.timing()
	require.NoError(t, err)
	from := instant(t, "2030-01-01 00:00:00")
	s := Schedule{Spec: spec, NextRunAt: from}
	until := instant(t, "2040-01-01 00:00:00")
	total := int(until.Sub(from)/time.Second) + 1
	require.Equal(t, plan{missed: total - 1000, next: until.Add(-999 * time.Second)}, s.plan(tm, until))

	spec = Cron("30 2 * * *", Spec{Name: "s", Type: "work", Timezone: "Europe/Berlin", MissedPolicy: MissedEach, MissedLimit: 2})
	require.NoError(t, spec.Normalize())
	tm, err = spec.timing()
	require.NoError(t, err)
	s = Schedule{Spec: spec, NextRunAt: instant(t, "2030-03-30 01:30:00")}
	// On the 31st the clock skips 02:30, which fires at 03:00 there.
	p := s.plan(tm, instant(t, "2030-04-01 12:00:00"))
	require.Equal(t, plan{missed: 1, next: instant(t, "2030-03-31 01:00:00")}, p)
}
