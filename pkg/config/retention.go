package config

import (
	"fmt"
	"time"
)

// Bounds of a Retention that keeps records at all.
const (
	MinRetention = 10 * time.Minute
	MaxRetention = 3650 * day
)

// Retention is how long the record of a job that has ended is kept, or NoRetention.
type Retention time.Duration

// NoRetention keeps no record. It is the store's own value for this.
const NoRetention Retention = -1

// ParseRetention reads a duration of MinRetention to MaxRetention, or none, 0 or 0s for NoRetention.
func ParseRetention(s string) (Retention, error) {
	if s == "none" {
		return NoRetention, nil
	}
	d, err := ParseDuration(s)
	switch {
	case err != nil:
		return 0, err
	case d == 0:
		return NoRetention, nil
	case d < MinRetention || d > MaxRetention:
		return 0, fmt.Errorf("%q is not from %s to %s, nor none", cut(s), FormatDuration(MinRetention), FormatDuration(MaxRetention))
	}
	return Retention(d), nil
}

// UnmarshalText is ParseRetention.
func (r *Retention) UnmarshalText(text []byte) (err error) {
	*r, err = ParseRetention(string(text))
	return err
}

// String is the retention as it may be written.
func (r Retention) String() string {
	if r == NoRetention {
		return "none"
	}
	return FormatDuration(time.Duration(r))
}
