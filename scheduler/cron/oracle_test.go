package cron_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// shown is what a clock on the wall shows, as minutes of a calendar without zones.
type shown int64

func clockAt(zone *time.Location, minute int64) shown {
	t := time.Unix(minute*60, 0).In(zone)
	y, m, d := t.Date()
	return shown(time.Date(y, m, d, t.Hour(), t.Minute(), 0, 0, time.UTC).Unix() / 60)
}

// values is one field of an expression: its text, and what it means.
type values struct {
	text string
	set  []int
}

// expression is what the oracle knows of a cron: the values that were drawn, and not how they are read.
type expression struct {
	minute, hour, dom, month, dow values
}

func (e expression) String() string {
	return strings.Join([]string{e.minute.text, e.hour.text, e.dom.text, e.month.text, e.dow.text}, " ")
}

func (e expression) matches(s shown) bool {
	t := time.Unix(int64(s)*60, 0).UTC()
	dom, dow := slices.Contains(e.dom.set, t.Day()), slices.Contains(e.dow.set, int(t.Weekday()))
	day := dom && dow
	if !strings.HasPrefix(e.dom.text, "*") && !strings.HasPrefix(e.dow.text, "*") {
		day = dom || dow
	}
	return day && slices.Contains(e.minute.set, t.Minute()) && slices.Contains(e.hour.set, t.Hour()) &&
		slices.Contains(e.month.set, int(t.Month()))
}

// fires walks through the minutes [from, end) and applies the rule as it is worded: whatever the clock shows, if the
// hours are all there; else a time fires when the clock shows it first, or else right after the gap that it is in.
func (e expression) fires(zone *time.Location, from, end int64) []int64 {
	const margin = 3 * 24 * 60 // what was shown before counts too
	first := map[shown]int64{}
	fires := map[int64]bool{}
	for at := from - margin; at < end; at++ {
		now := clockAt(zone, at)
		if len(e.hour.set) == 24 {
			fires[at] = e.matches(now)
			continue
		}
		if _, again := first[now]; !again {
			first[now] = at
			fires[at] = fires[at] || e.matches(now)
		}
		for skipped := clockAt(zone, at-1) + 1; skipped < now; skipped++ {
			if _, seen := first[skipped]; !seen { // or it was shown before the clock was put back
				fires[at] = fires[at] || e.matches(skipped)
			}
		}
	}
	var all []int64
	for at := from; at < end; at++ {
		if fires[at] {
			all = append(all, at)
		}
	}
	return all
}

func list(set []int) string { return strings.Trim(strings.ReplaceAll(fmt.Sprint(set), " ", ","), "[]") }

func steps(low, high, step int) (set []int) {
	for ; low <= high; low += step {
		set = append(set, low)
	}
	return set
}

func every(low, high int) values { return values{"*", steps(low, high, 1)} }

// draw makes a field of the values from low to high.
func draw(low, high int) *rapid.Generator[values] {
	return rapid.Custom(func(t *rapid.T) values {
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0, 1:
			return every(low, high)
		case 2:
			step := rapid.IntRange(1, high-low).Draw(t, "step")
			return values{fmt.Sprintf("*/%d", step), steps(low, high, step)}
		case 3:
			a := rapid.IntRange(low, high).Draw(t, "a")
			b := rapid.IntRange(a, high).Draw(t, "b")
			step := rapid.IntRange(1, max(b-a, 1)).Draw(t, "step")
			return values{fmt.Sprintf("%d-%d/%d", a, b, step), steps(a, b, step)}
		default:
			set := rapid.SliceOfN(rapid.IntRange(low, high), 1, 4).Draw(t, "list")
			return values{list(set), set}
		}
	})
}

// Zones whose offsets are whole minutes from 1975 on, so that the oracle may go by minutes.
var zones = []string{
	"UTC", "Europe/Paris", "Europe/Dublin", "Europe/Moscow", "America/New_York", "America/St_Johns", "America/Sao_Paulo",
	"America/Santiago", "America/Nuuk", "America/Caracas", "Africa/Cairo", "Africa/Casablanca", "Asia/Tehran", "Asia/Gaza",
	"Asia/Kathmandu", "Asia/Pyongyang", "Australia/Lord_Howe", "Pacific/Apia", "Pacific/Kwajalein", "Pacific/Kiritimati",
	"America/Ciudad_Juarez", "Pacific/Chatham", "Antarctica/Troll", "Antarctica/Casey", "Antarctica/Macquarie",
}

// drawMinute draws an instant, mostly one near a change of the zone's clock.
func drawMinute(t *rapid.T, zone *time.Location) int64 {
	year := rapid.IntRange(1975, 2060).Draw(t, "year")
	start := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC).Unix() / 60
	var changes []int64
	const step = 12 * 60
	for at := start; at < start+366*24*60; at += step {
		if clockAt(zone, at+step)-clockAt(zone, at) != step {
			changes = append(changes, at)
		}
	}
	if len(changes) > 0 && rapid.IntRange(0, 9).Draw(t, "near") > 0 {
		start = rapid.SampledFrom(changes).Draw(t, "change")
		return start + int64(rapid.IntRange(-36*60, 36*60).Draw(t, "offset"))
	}
	return start + int64(rapid.IntRange(0, 366*24*60).Draw(t, "offset"))
}

// Next and Owed find what the simplest reading of the rule finds.
func TestContractNextByOracle(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := expression{
			draw(0, 59).Draw(t, "minute"), draw(0, 23).Draw(t, "hour"), draw(1, 31).Draw(t, "dom"),
			draw(1, 12).Draw(t, "month"), draw(0, 6).Draw(t, "dow"),
		}
		if rapid.Bool().Draw(t, "often") { // most drawn days are rare, and so are hours at which clocks change
			e.dom, e.month = every(1, 31), every(1, 12)
			if rapid.Bool().Draw(t, "daily") {
				e.dow = every(0, 6)
				e.hour = draw(0, 3).Draw(t, "early")
				e.hour.text = list(e.hour.set)
			}
		}
		name := rapid.SampledFrom(zones).Draw(t, "zone")
		zone, err := time.LoadLocation(name)
		require.NoError(t, err)
		from := drawMinute(t, zone)
		end := from + 3*24*60
		possible := strings.HasPrefix(e.dom.text, "*") || !strings.HasPrefix(e.dow.text, "*") || slices.Min(e.dom.set) <= 28
		if !possible {
			t.Skip("it may never fire")
		}
		s := parse(t, e.String(), name)
		want := e.fires(zone, from, end)

		last := time.Unix(from*60-1, 0)
		promised := last
		for _, w := range want {
			next, ok := s.Next(promised, last)
			require.True(t, ok)
			require.Equal(t, time.Unix(w*60, 0).UTC(), next, "%s in %s after %s", s, name, last.UTC())
			last = next
		}
		next, ok := s.Next(promised, last)
		require.True(t, ok)
		require.GreaterOrEqual(t, next.Unix()/60, end, "%s in %s after %s", s, name, last.UTC())

		// The promise is owed whether it is a fire or not.
		promised = time.Unix(from*60, 0)
		fires, total := s.Owed(promised, time.Unix(end*60-1, 0), 3)
		if len(want) == 0 || want[0] != from {
			want = slices.Insert(want, 0, from)
		}
		require.Equal(t, len(want), total)
		require.Len(t, fires, min(3, total))
		for i, f := range fires {
			require.Equal(t, want[i]*60, f.Unix())
		}
	})
}
