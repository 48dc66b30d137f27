package cron

import (
	"math"
	"time"
)

// reach is more than two zones' offsets from UTC can ever differ, so clocks before that matter no more.
const reach = 52 * 60 * 60

// period is a time [start, end) during which a zone's offset from UTC does not change, in Unix seconds. A period may
// begin where another one with the same offset ends.
type period struct {
	start, end, offset int64
}

// periodAt is the period that an instant lies in.
func (s *Spec) periodAt(at int64) period {
	p := bounds(s.zone, at)
	// Where the zone file's table ends and its rule begins, the bounds may be too wide: the rule knows only the year.
	for p.start != math.MinInt64 {
		if q := bounds(s.zone, p.start); q.end <= at && q.end > p.start {
			p.start = q.end
			continue
		}
		break
	}
	return p
}

// bounds is a period whose start may be too early; see periodAt, which costs twice as much.
func bounds(zone *time.Location, at int64) period {
	t := time.Unix(at, 0).In(zone)
	_, offset := t.Zone()
	p := period{math.MinInt64, math.MaxInt64, int64(offset)}
	start, end := t.ZoneBounds()
	if !start.IsZero() {
		p.start = start.Unix()
	}
	if !end.IsZero() {
		p.end = end.Unix()
	}
	if p.end <= at { // so it is on the last day of a leap year, which by a zone file's rule has 365 days
		p.end = time.Date(t.UTC().Year()+1, time.January, 1, 0, 0, 0, 0, time.UTC).Unix()
	}
	return p
}

// find is the first fire at an instant or later.
func (s *Spec) find(from int64) (int64, bool) {
	if s.wall.everyHour() {
		return s.findShown(from)
	}
	p := s.periodAt(from)
	calm := p.start < from-reach // so what the clock reached is what it shows
	reached := from + p.offset
	if !calm {
		reached = s.reached(from)
	}
	// The first time of day that the clock has neither shown nor passed yet.
	w, ok := s.wall.next(reached)
	switch {
	case !ok:
		return 0, false
	case calm && w-p.offset < p.end:
		return w - p.offset, true
	}
	return s.first(w, from), true
}

// findShown is the first instant from which on, or at which, the clock shows a time that matches.
func (s *Spec) findShown(from int64) (int64, bool) {
	for from < endUnix {
		p := bounds(s.zone, from)
		w, ok := s.wall.next(from + p.offset)
		if !ok {
			return 0, false
		}
		if w-p.offset < p.end {
			return w - p.offset, true
		}
		from = p.end
	}
	return 0, false
}

// reached is the first time of day, in wall clock seconds, that the clock has not reached before an instant: all
// earlier ones were shown or skipped.
func (s *Spec) reached(before int64) int64 {
	high := int64(math.MinInt64)
	for end := before; ; {
		p := s.periodAt(end - 1)
		high = max(high, end+p.offset)
		if p.start < before-reach {
			return high
		}
		end = p.start
	}
}

// first is the first instant, none before from, at which the clock shows a time of day or a later one.
func (s *Spec) first(w, from int64) int64 {
	for at := max(from, w-reach/2); ; {
		p := bounds(s.zone, at)
		if hit := max(at, w-p.offset); hit < p.end {
			return hit
		}
		at = p.end
	}
}

// countShown is how often the clock shows a time that matches in [from, end).
func (s *Spec) countShown(from, end int64) (n int) {
	for from < end {
		p := bounds(s.zone, from)
		n += s.wall.count(from+p.offset, min(end, p.end)+p.offset)
		from = p.end
	}
	return n
}

// countReached is how many instants in [from, end) are the first ones of a time of day that matches. Those that one
// gap skips share their instant, which is the gap's end, with the time that the clock shows then.
func (s *Spec) countReached(from, end int64) int {
	n := s.wall.count(s.reached(from), s.reached(end))
	for at := from; at < end; {
		p := s.periodAt(at)
		if p.start == at {
			if shared := s.wall.count(s.reached(at), at+p.offset+1); shared > 1 {
				n -= shared - 1
			}
		}
		at = p.end
	}
	return n
}
