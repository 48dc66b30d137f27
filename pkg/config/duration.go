package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// ParseDuration reads a duration as Go writes it, before which whole days may stand: 90s, 12h, 7d, 1d12h.
func ParseDuration(s string) (time.Duration, error) {
	days, rest, found := strings.Cut(s, "d")
	if !found {
		d, err := time.ParseDuration(s)
		if err != nil {
			return 0, noDuration(s)
		}
		return d, nil
	}
	if days == "" || strings.Trim(days, "0123456789") != "" {
		return 0, noDuration(s)
	}
	n, err := strconv.ParseInt(days, 10, 64)
	if err != nil || n > math.MaxInt64/int64(day) {
		return 0, tooLong(s)
	}
	d := time.Duration(n) * day
	if rest == "" {
		return d, nil
	}
	if rest[0] < '0' || rest[0] > '9' { // no sign in the middle
		return 0, noDuration(s)
	}
	more, err := time.ParseDuration(rest)
	if err != nil {
		return 0, noDuration(s)
	}
	if d += more; d < 0 {
		return 0, tooLong(s)
	}
	return d, nil
}

// FormatDuration is the shortest text that ParseDuration reads as d: 7d, 1d12h, 90m as 1h30m.
func FormatDuration(d time.Duration) string {
	text := ""
	if d >= day {
		text = strconv.FormatInt(int64(d/day), 10) + "d"
		if d %= day; d == 0 {
			return text
		}
	}
	rest := d.String()
	if d%time.Minute == 0 && strings.HasSuffix(rest, "m0s") {
		rest = strings.TrimSuffix(rest, "0s")
	}
	if d%time.Hour == 0 && strings.HasSuffix(rest, "h0m") {
		rest = strings.TrimSuffix(rest, "0m")
	}
	return text + rest
}

func noDuration(s string) error {
	return fmt.Errorf("%q is no duration such as 90s, 12h, 7d or 1d12h", cut(s))
}

func tooLong(s string) error { return fmt.Errorf("%q is longer than any duration can be", cut(s)) }
