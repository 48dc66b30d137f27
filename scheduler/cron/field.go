package cron

import (
	"math/bits"
	"regexp"
	"slices"
	"strconv"
	"strings"

	robfig "github.com/robfig/cron/v3"
)

const fieldNames = "minute, hour, day of month, month, day of week"

// field is one of an expression's five. A library knows what its numbers, names and ranges mean; it is asked for one
// item at a time, so that what it refuses can be named. What it takes beyond cron's own form (signs, ?, empty items,
// steps longer than their range) does not get so far.
type field struct {
	name    string
	allowed string
	last    string // value
	parser  robfig.Parser
	set     func(*robfig.SpecSchedule) uint64
	week    bool
}

var fields = [...]field{
	{
		name: "minute", allowed: "0 to 59", last: "59",
		parser: robfig.NewParser(robfig.Minute), set: func(s *robfig.SpecSchedule) uint64 { return s.Minute },
	},
	{
		name: "hour", allowed: "0 to 23", last: "23",
		parser: robfig.NewParser(robfig.Hour), set: func(s *robfig.SpecSchedule) uint64 { return s.Hour },
	},
	{
		name: "day of month", allowed: "1 to 31", last: "31",
		parser: robfig.NewParser(robfig.Dom), set: func(s *robfig.SpecSchedule) uint64 { return s.Dom },
	},
	{
		name: "month", allowed: "1 to 12 or JAN to DEC", last: "12",
		parser: robfig.NewParser(robfig.Month), set: func(s *robfig.SpecSchedule) uint64 { return s.Month },
	},
	{
		// The library knows no Sunday but 0, so the days are given to it as hours.
		name: "day of week", allowed: "0 to 7 or SUN to SAT (0 and 7 are Sunday)", last: "6", week: true,
		parser: robfig.NewParser(robfig.Hour), set: func(s *robfig.SpecSchedule) uint64 { return s.Hour },
	},
}

// parse reads a field's text as the set of its values.
func (f *field) parse(text string) (set uint64, err error) {
	for item := range strings.SplitSeq(text, ",") {
		one, ok := f.item(item)
		if !ok {
			return 0, f.refuse(item)
		}
		set |= one
	}
	if f.week { // 7 is Sunday as well
		set = (set | set>>7) & 0x7f
	}
	return set, nil
}

// shape is what an item of a field's list looks like: a value or a range, and a step.
var shape = regexp.MustCompile(`^(\*|[0-9]{1,2}|[A-Za-z]{3})(?:-([0-9]{1,2}|[A-Za-z]{3}))?(?:/([0-9]{1,2}))?$`)

// item reads one item. A step has to stay within its range: every 90 minutes is not */90.
func (f *field) item(text string) (set uint64, ok bool) {
	m := shape.FindStringSubmatch(text)
	if m == nil || m[1] == "*" && m[2] != "" {
		return 0, false
	}
	from, to, step := m[1], m[2], m[3]
	if f.week {
		from, to = weekdays(from, to)
	}
	span := from
	switch {
	case to != "":
		span += "-" + to
	case step != "" && from != "*":
		span += "-" + f.last
	}
	set, ok = f.read(span)
	if !ok || step == "" {
		return set, ok
	}
	length := bits.Len64(set) - 1 - bits.TrailingZeros64(set)
	if n, err := strconv.Atoi(step); err != nil || n < 1 || n > max(length, 1) {
		return 0, false
	}
	return f.read(span + "/" + step)
}

// read has the library read a range.
func (f *field) read(span string) (set uint64, ok bool) {
	s, err := f.parser.Parse(span)
	if err != nil {
		return 0, false
	}
	spec, ok := s.(*robfig.SpecSchedule)
	if !ok {
		return 0, false
	}
	const star = 1 << 63 // the library's mark of a *
	set = f.set(spec) &^ star
	return set, !f.week || set>>8 == 0
}

// weekdays gives a range of days in numbers, from 0 to 7. As an end, Sunday ends the week.
func weekdays(from, to string) (string, string) {
	names := []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}
	number := func(day string) string {
		if i := slices.Index(names, strings.ToUpper(day)); i >= 0 {
			return strconv.Itoa(i)
		}
		return day
	}
	if from == "*" {
		return "0", "6"
	}
	from, to = number(from), number(to)
	if to == "0" && from != "0" {
		to = "7"
	}
	return from, to
}

func (f *field) refuse(item string) error {
	hint := ""
	letters := strings.Trim(strings.ToUpper(item), "0123456789-")
	if strings.ContainsAny(item, "?#") || letters == "L" || letters == "W" || letters == "LW" {
		hint = "; ?, L, W and # are not known here"
	}
	return refuse("%s %q is not allowed: %s, *, ranges (a-b with a <= b), steps within a range (*/n, a-b/n) and lists (a,b)%s",
		f.name, cut(item), f.allowed, hint)
}
