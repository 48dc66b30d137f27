package cron_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNextRare(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		expr, after string
		want        []string
	}{
		{"0 0 29 2 *", "2092-03-01T00:00:00Z", fires("2096-02-29T00:00:00Z", "2104-02-29T00:00:00Z")},
		// Leap days on a weekend: five days of the week on with each, two over 2100, which has none; so from Saturday in
		// 2076 to Sunday in 2088 and Saturday in 2116.
		{"0 0 29 2 */6", "2076-02-28T00:00:00Z", fires("2076-02-29T00:00:00Z", "2088-02-29T00:00:00Z", "2116-02-29T00:00:00Z")},
		// A day field that begins with * is not one of two alternatives: Mondays with an odd number.
		{"0 0 */2 * MON", "2026-02-03T00:00:00Z", fires("2026-02-09T00:00:00Z", "2026-02-23T00:00:00Z", "2026-03-09T00:00:00Z")},
		{"0 0 31 1-6 *", "2026-01-31T00:00:00Z", fires("2026-03-31T00:00:00Z", "2026-05-31T00:00:00Z", "2027-01-31T00:00:00Z")},
		// Either day field: the 13th, and Fridays.
		{"0 0 13 * FRI", "2026-11-08T00:00:00Z", fires("2026-11-13T00:00:00Z", "2026-11-20T00:00:00Z", "2026-11-27T00:00:00Z", "2026-12-04T00:00:00Z", "2026-12-11T00:00:00Z", "2026-12-13T00:00:00Z")},
		// A day that February has not still leaves its Mondays.
		{"0 0 31 2 MON", "2027-02-20T00:00:00Z", fires("2027-02-22T00:00:00Z", "2028-02-07T00:00:00Z")},
	} {
		requireFires(t, parse(t, c.expr, ""), at(t, c.after), c.want...)
	}
}

func TestNextIsStrictlyAfter(t *testing.T) {
	t.Parallel()
	s := parse(t, "0 12 * * *", "")
	noon := at(t, "2026-05-01T12:00:00Z")
	for after, want := range map[time.Time]time.Time{
		noon.Add(-1): noon,
		noon:         noon.AddDate(0, 0, 1),
		noon.Add(1):  noon.AddDate(0, 0, 1),
		noon.In(time.FixedZone("", 3600)).Add(-1e9): noon,
	} {
		next, ok := s.Next(time.Time{}, after)
		require.True(t, ok)
		require.Equal(t, want, next)
	}
}

// The calendar ends, and a search ends with it.
func TestNextEnds(t *testing.T) {
	t.Parallel()
	last := at(t, "9999-12-31T23:59:59Z")
	for _, zone := range []string{"", "Pacific/Kiritimati", "Pacific/Pago_Pago", "Europe/Paris"} {
		for _, expr := range []string{"* * * * *", "* 0-22 * * *", "0 0 29 2 *", "@every 1s", "@every 366d"} {
			s := parse(t, expr, zone)
			for _, after := range []time.Time{last, last.Add(time.Hour), time.Unix(1<<62, 0)} {
				next, ok := s.Next(last, after)
				require.False(t, ok, "%s in %s after %s: %s", expr, zone, after, next)
				require.Zero(t, next)
			}
			fires, total := s.Owed(last, last.AddDate(1000, 0, 0), 10)
			require.Equal(t, []time.Time{last}, fires)
			require.Equal(t, 1, total)

			// And begins.
			for _, after := range []time.Time{{}, time.Unix(-1<<62, 0)} {
				next, ok := s.Next(after, after)
				require.True(t, ok)
				require.LessOrEqual(t, next.Year(), 4)
			}
		}
	}
}

func TestEvery(t *testing.T) {
	t.Parallel()
	s := parse(t, "@every 90s", "Europe/Paris")
	d, ok := s.Interval()
	require.True(t, ok)
	require.Equal(t, 90*time.Second, d)
	_, ok = parse(t, "*/2 * * * *", "").Interval()
	require.False(t, ok)

	promised := at(t, "2026-03-29T00:59:00.25Z")
	for after, want := range map[string]string{
		"2026-03-28T00:00:00Z":     "2026-03-29T00:59:00.25Z", // not before it was promised
		"2026-03-29T00:59:00.249Z": "2026-03-29T00:59:00.25Z",
		"2026-03-29T00:59:00.25Z":  "2026-03-29T01:00:30.25Z",
		"2026-03-29T01:00:30Z":     "2026-03-29T01:00:30.25Z",
		"2026-03-29T01:00:30.3Z":   "2026-03-29T01:02:00.25Z",
		"2026-03-29T02:00:00Z":     "2026-03-29T02:00:30.25Z", // 41 intervals
	} {
		next, ok := s.Next(promised, at(t, after))
		require.True(t, ok)
		require.Equal(t, at(t, want), next, after)
	}
	fires, total := s.Owed(promised, promised.Add(time.Hour), 2)
	require.Equal(t, []time.Time{promised, promised.Add(90 * time.Second)}, fires)
	require.Equal(t, 41, total)
	_, total = s.Owed(promised, promised.Add(time.Hour-1), 0)
	require.Equal(t, 40, total)

	// More time than a Duration holds.
	next, ok := parse(t, "@every 1d", "").Next(time.Time{}, at(t, "2026-03-29T11:00:00Z"))
	require.True(t, ok)
	require.Equal(t, at(t, "2026-03-30T00:00:00Z"), next)
}

func TestOwed(t *testing.T) {
	t.Parallel()
	s := parse(t, "* * * * *", "America/New_York")
	promised := at(t, "2016-01-01T00:00:00Z")
	until := promised.AddDate(10, 0, 0) // of which three are leap years
	fires, total := s.Owed(promised, until, 3)
	require.Equal(t, []time.Time{promised, promised.Add(time.Minute), promised.Add(2 * time.Minute)}, fires)
	require.Equal(t, 3653*24*60+1, total)

	fires, total = s.Owed(promised, promised, 10)
	require.Equal(t, []time.Time{promised}, fires)
	require.Equal(t, 1, total)
	fires, total = s.Owed(promised, promised.Add(-1), 10)
	require.Empty(t, fires)
	require.Zero(t, total)
	for _, limit := range []int{0, -1} {
		fires, total = s.Owed(promised, promised.Add(time.Hour), limit)
		require.Empty(t, fires)
		require.Equal(t, 61, total)
	}

	// What was promised under another expression is owed still.
	odd := at(t, "2016-01-01T00:00:30Z")
	fires, total = s.Owed(odd, odd.Add(time.Minute), 10)
	require.Equal(t, []time.Time{odd, at(t, "2016-01-01T00:01:00Z")}, fires)
	require.Equal(t, 2, total)
}

// The total is what walking would find, over all changes of some clocks.
func TestOwedCountsWhatNextFinds(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"Australia/Lord_Howe", "Pacific/Apia", "America/Sao_Paulo", "Africa/Casablanca", "Europe/Paris", "America/Juneau"} {
		for _, expr := range []string{"15 0-3,23 * * *", "0,30 * */7 * *", "15 2 */3 * 0,6"} {
			s := parse(t, expr, zone)
			first, ok := s.Next(time.Time{}, at(t, "1866-12-31T23:59:30Z"))
			require.True(t, ok)
			fires, total := s.Owed(first, at(t, "2052-01-01T00:00:00Z"), 1<<30)
			require.Len(t, fires, total, "%s in %s", expr, zone)
		}
	}
}
