package cron

import "strings"

const fieldNames = "minute, hour, day of month, month, day of week"

// field is one of an expression's five.
type field struct {
	name     string
	min, max int
	names    []string // of the values from min on
	allowed  string
}

var fields = [...]field{
	{"minute", 0, 59, nil, "0 to 59"},
	{"hour", 0, 23, nil, "0 to 23"},
	{"day of month", 1, 31, nil, "1 to 31"},
	{
		"month", 1, 12,
		[]string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"},
		"1 to 12 or JAN to DEC",
	},
	{
		"day of week", 0, 6,
		[]string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"},
		"0 to 7 or SUN to SAT (0 and 7 are Sunday)",
	},
}

// parse reads a field's text as the set of its values.
func (f field) parse(text string) (set uint64, err error) {
	for item := range strings.SplitSeq(text, ",") {
		low, high, step, ok := f.item(item)
		if !ok {
			return 0, f.refuse(item)
		}
		for v := low; v <= high; v += step {
			set |= 1 << (v % f.modulus())
		}
	}
	return set, nil
}

// item reads one item of a field's list. A step has to stay within its range: every 90 minutes is not */90.
func (f field) item(text string) (low, high, step int, ok bool) {
	span, by, stepped := strings.Cut(text, "/")
	from, to, ranged := strings.Cut(span, "-")
	switch {
	case span == "*":
		low, high, ok = f.min, f.max, true
	case ranged:
		low, ok = f.value(from)
		if ok {
			high, ok = f.value(to)
		}
		if f.sunday(high) && low > 0 {
			high = 7 // as an end, Sunday ends the week
		}
	default:
		if low, ok = f.value(from); stepped {
			high = f.max
		} else {
			high = low
		}
	}
	if !ok || low > high {
		return 0, 0, 0, false
	}
	if step = 1; stepped {
		step, ok = number(by)
		ok = ok && step >= 1 && step <= max(high-low, 1)
	}
	return low, high, step, ok
}

// value reads a number or a name.
func (f field) value(text string) (int, bool) {
	for i, name := range f.names {
		if len(text) == len(name) && strings.EqualFold(text, name) {
			return f.min + i, true
		}
	}
	v, ok := number(text)
	return v, ok && v >= f.min && (v <= f.max || f.weekday() && v == 7)
}

func (f field) weekday() bool { return f.max == 6 }

func (f field) sunday(v int) bool { return f.weekday() && v == 0 }

// modulus folds the other number of Sunday.
func (f field) modulus() int {
	if f.weekday() {
		return 7
	}
	return f.max + 1
}

func (f field) refuse(item string) error {
	hint := ""
	letters := strings.Trim(strings.ToUpper(item), "0123456789-")
	if strings.ContainsAny(item, "?#") || letters == "L" || letters == "W" || letters == "LW" {
		hint = "; ?, L, W and # are not known here"
	}
	return refuse("%s %q is not allowed: %s, *, ranges (a-b with a <= b), steps within a range (*/n, a-b/n) and lists (a,b)%s",
		f.name, cut(item), f.allowed, hint)
}

// number reads one or two digits.
func number(text string) (int, bool) {
	if len(text) < 1 || len(text) > 2 {
		return 0, false
	}
	n := 0
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}
