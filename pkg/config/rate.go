package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Bounds of a Rate that limits anything.
const (
	MaxRateCount  = 1_000_000_000
	MinRatePeriod = time.Second
	MaxRatePeriod = day
)

// Rate is how many of something there may be in a period. The zero value is no limit.
type Rate struct {
	Count int
	Per   time.Duration
}

// Limits reports whether it is a limit at all.
func (r Rate) Limits() bool { return r.Count > 0 && r.Per > 0 }

// ParseRate reads count/period, such as 100/1s, or none for no limit.
func ParseRate(s string) (Rate, error) {
	if s == "none" {
		return Rate{}, nil
	}
	count, period, found := strings.Cut(s, "/")
	n, err := strconv.Atoi(count)
	if !found || err != nil || n < 1 || n > MaxRateCount {
		return Rate{}, fmt.Errorf("%q is no count of 1 to %d, a slash and a period, such as 100/1s, nor none", cut(s), MaxRateCount)
	}
	per, err := ParseDuration(period)
	if err != nil {
		return Rate{}, err
	}
	if per < MinRatePeriod || per > MaxRatePeriod {
		return Rate{}, fmt.Errorf("the period %q is not from %s to %s", cut(period), FormatDuration(MinRatePeriod), FormatDuration(MaxRatePeriod))
	}
	return Rate{n, per}, nil
}

// UnmarshalText is ParseRate.
func (r *Rate) UnmarshalText(text []byte) (err error) {
	*r, err = ParseRate(string(text))
	return err
}

// String is the rate as it may be written.
func (r Rate) String() string {
	if !r.Limits() {
		return "none"
	}
	return strconv.Itoa(r.Count) + "/" + FormatDuration(r.Per)
}
