package cron

import (
	"math/bits"
	"time"
)

const day = 24 * 60 * 60

// wall are the times that an expression's fields match, on a clock without a zone. Its times are seconds since 1970
// by that clock, and matches are whole minutes.
type wall struct {
	minutes  uint64    // bit m: the minute m
	hours    uint32    // bit h: the hour h
	days     uint32    // bit d: the day d of a month
	months   uint16    // bit m: the month m
	weekdays [7]uint32 // by the weekday of a month's first day: as days, those whose weekday matches
	either   bool      // a day matches by its day of month or by its weekday; else both must match
}

// everyHour reports that the hour field covers all hours.
func (w *wall) everyHour() bool { return bits.OnesCount32(w.hours) == 24 }

// weekdayMasks turns a set of weekdays (bit 0: Sunday) into what wall holds of it.
func weekdayMasks(set uint64) (masks [7]uint32) {
	for first := range masks {
		for d := 1; d <= 31; d++ {
			if set>>((first+d-1)%7)&1 == 1 {
				masks[first] |= 1 << d
			}
		}
	}
	return masks
}

// next is the first time at or after t that matches; false: none does in this calendar.
func (w *wall) next(t int64) (int64, bool) {
	clock := time.Unix(ceilMinute(t), 0).UTC()
	y, m, d := clock.Date()
	if w.month(y, m)>>d&1 == 1 {
		if minute, ok := w.minuteFrom(clock.Hour(), clock.Minute()); ok {
			return midnight(y, m, d) + minute*60, true
		}
	}
	d++
	for y <= 9999+1 { // a day more than UTC has, in zones that are ahead of it
		if rest := w.month(y, m) >> d; rest != 0 {
			minute, ok := w.minuteFrom(0, 0)
			return midnight(y, m, d+bits.TrailingZeros32(rest)) + minute*60, ok
		}
		d = 1
		if m++; m > time.December {
			y, m = y+1, time.January
		}
	}
	return 0, false
}

// minuteFrom is the first minute of a day that matches at or after a time of day.
func (w *wall) minuteFrom(hour, minute int) (int64, bool) {
	if w.hours>>hour&1 == 1 {
		if rest := w.minutes >> minute; rest != 0 {
			return int64(hour*60 + minute + bits.TrailingZeros64(rest)), true
		}
	}
	later := w.hours >> (hour + 1)
	if later == 0 || w.minutes == 0 {
		return 0, false
	}
	return int64((hour+1+bits.TrailingZeros32(later))*60 + bits.TrailingZeros64(w.minutes)), true
}

// month are the days of a month that match.
func (w *wall) month(y int, m time.Month) uint32 {
	if w.months>>m&1 == 0 {
		return 0
	}
	byWeekday := w.weekdays[weekday(midnight(y, m, 1)/day)]
	set := w.days & byWeekday
	if w.either {
		set = w.days | byWeekday
	}
	return set & (1<<(daysIn(y, m)+1) - 1)
}

// count is how many times in [from, end) match.
func (w *wall) count(from, end int64) int {
	from, end = ceilMinute(from), ceilMinute(end)
	if from >= end {
		return 0
	}
	a, b := time.Unix(from, 0).UTC(), time.Unix(end, 0).UTC()
	perDay := bits.OnesCount32(w.hours) * bits.OnesCount64(w.minutes)
	return w.daysBetween(a, b)*perDay + w.earlier(b) - w.earlier(a)
}

// earlier is how many times match on a day before a time of that day.
func (w *wall) earlier(t time.Time) int {
	y, m, d := t.Date()
	if w.month(y, m)>>d&1 == 0 {
		return 0
	}
	n := bits.OnesCount32(w.hours&(1<<t.Hour()-1)) * bits.OnesCount64(w.minutes)
	if w.hours>>t.Hour()&1 == 1 {
		n += bits.OnesCount64(w.minutes & (1<<t.Minute() - 1))
	}
	return n
}

// daysBetween is how many days match from the day of a until the one before that of b.
func (w *wall) daysBetween(a, b time.Time) (n int) {
	y, m, d := a.Date()
	lastY, lastM, lastD := b.Date()
	n -= bits.OnesCount32(w.month(y, m) & (1<<d - 1))
	for y < lastY || m < lastM {
		n += bits.OnesCount32(w.month(y, m))
		if m++; m > time.December {
			y, m = y+1, time.January
		}
	}
	return n + bits.OnesCount32(w.month(lastY, lastM)&(1<<lastD-1))
}

// ceilMinute is the first whole minute that is not before t.
func ceilMinute(t int64) int64 {
	r := t % 60
	if r > 0 {
		r -= 60
	}
	return t - r
}

func midnight(y int, m time.Month, d int) int64 {
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix()
}

// weekday is that of a day since 1970-01-01, a Thursday.
func weekday(days int64) time.Weekday { return time.Weekday(((days+4)%7 + 7) % 7) }

func daysIn(y int, m time.Month) int {
	switch {
	case m == time.February && y%4 == 0 && (y%100 != 0 || y%400 == 0):
		return 29
	case m == time.February:
		return 28
	case m == time.April || m == time.June || m == time.September || m == time.November:
		return 30
	}
	return 31
}
