// Package cron says when a schedule fires: it parses a cron expression in a time zone, and finds the next fire
// and those that are owed after an outage. It knows no clock and does no I/O besides reading the zone.
//
// An expression has five fields (minute, hour, day of month, month, day of week), or is @hourly, @daily,
// @midnight, @weekly, @monthly, @yearly, @annually, or @every with a duration.
//
// The fields are those of the wall clock. A time of day fires at the first instant at which the clock shows it or
// a later time: one that the clock skips fires once, right after the gap, and one that comes twice fires the first
// time. An hour field that covers all hours asks for no time of day: it fires whenever the other fields match what
// the clock shows, so it goes on through every real hour; where the clock is put forward in the middle of an hour, the
// minutes that it skips are skipped.
package cron

import "time"

// Fires are in the years 1 to 9999: no document could hold others.
const (
	minUnix = -62_135_596_800 // 0001-01-01T00:00:00Z
	endUnix = 253_402_300_800 // 10000-01-01T00:00:00Z
)

// Spec is a parsed cron expression in a time zone. Only Parse makes one, and nothing changes it.
type Spec struct {
	text  string
	every time.Duration // of @every, else 0
	wall  wall
	zone  *time.Location
}

// Next is the first fire strictly after an instant, in UTC; false: there is none before the year 10000.
//
// An @every fires at promised, and then again and again after its interval, however late each fire really ran; the
// instant a schedule was made at is as good a promise as that of its next fire. Other expressions ignore promised.
func (s *Spec) Next(promised, after time.Time) (time.Time, bool) {
	promised, after = clamp(promised), clamp(after)
	if s.every > 0 {
		return s.nextEvery(promised, after)
	}
	at, ok := s.find(after.Unix() + 1) // fires are whole seconds
	if !ok || at >= endUnix {
		return time.Time{}, false
	}
	return time.Unix(at, 0).UTC(), true
}

// Owed are the fires that nobody fired, if the next one was promised for an instant: that one itself, and all after
// it until the last instant, which is included. It answers the first of them, at most limit, and how many there are
// in all. The total is exact and is counted, not walked: its cost grows with the months, not with the fires.
func (s *Spec) Owed(promised, until time.Time, limit int) (fires []time.Time, total int) {
	promised, until = clamp(promised), clamp(until)
	if promised.After(until) {
		return nil, 0
	}
	total = 1 + s.count(promised, until)
	if limit = min(limit, total); limit <= 0 {
		return nil, total
	}
	fires = append(make([]time.Time, 0, limit), promised)
	for len(fires) < limit {
		next, ok := s.Next(promised, fires[len(fires)-1])
		if !ok {
			break
		}
		fires = append(fires, next)
	}
	return fires, total
}

// Interval is the time between two fires of an @every; false: the expression is none.
func (s *Spec) Interval() (time.Duration, bool) { return s.every, s.every > 0 }

// String is the expression, with its fields one space apart. Parse reads it as the same Spec, in the same zone.
func (s *Spec) String() string { return s.text }

func (s *Spec) nextEvery(promised, after time.Time) (time.Time, bool) {
	if promised.After(after) {
		return promised, true
	}
	// In seconds: between two instants may lie more than a Duration holds.
	step := int64(s.every / time.Second)
	next := promised.Unix() + (elapsed(promised, after)/step+1)*step
	if next >= endUnix {
		return time.Time{}, false
	}
	return time.Unix(next, int64(promised.Nanosecond())).UTC(), true
}

// elapsed are the whole seconds from one instant to a later one.
func elapsed(from, to time.Time) int64 {
	n := to.Unix() - from.Unix()
	if to.Nanosecond() < from.Nanosecond() {
		n--
	}
	return n
}

// count is how many fires come after an instant, until another one, which is included.
func (s *Spec) count(after, until time.Time) int {
	switch from, end := after.Unix()+1, until.Unix()+1; {
	case s.every > 0:
		return int(elapsed(after, until) / int64(s.every/time.Second))
	case s.wall.everyHour():
		return s.countShown(from, end)
	default:
		return s.countReached(from, end)
	}
}

// clamp brings an instant into the years in which there are fires, and into UTC.
func clamp(t time.Time) time.Time {
	if first := time.Unix(minUnix, 0); t.Before(first) {
		t = first
	}
	if last := time.Unix(endUnix, -1); t.After(last) {
		t = last
	}
	return t.UTC()
}
