package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// durationFlag adds a flag whose value may have days: 90s, 12h, 7d, 1d12h.
func durationFlag(f *pflag.FlagSet, to *time.Duration, name string, value time.Duration, usage string) {
	*to = value
	f.Var((*durationValue)(to), name, usage)
}

type durationValue time.Duration

func (d *durationValue) Set(s string) error {
	v, err := config.ParseDuration(s)
	if err != nil {
		return err
	}
	*d = durationValue(v)
	return nil
}

func (d *durationValue) Type() string { return "duration" }

// String is empty for nothing, so that the help shows no default where there is none.
func (d *durationValue) String() string {
	if *d == 0 {
		return ""
	}
	return config.FormatDuration(time.Duration(*d))
}

// moment is an instant that was given as such, or as how long ago it was.
type moment struct {
	at       time.Time
	ago      time.Duration
	relative bool // ago counts
}

// maxAgo is the longest time to look back; no job is older.
const maxAgo = 100 * 365 * 24 * time.Hour

// parseMoment reads the value of a flag; an empty one means none.
func parseMoment(flag, s string) (moment, error) {
	if s == "" {
		return moment{}, nil
	}
	if at, err := time.Parse(time.RFC3339, s); err == nil {
		return moment{at: at}, nil
	}
	ago, err := config.ParseDuration(s)
	if err != nil || ago < 0 || ago > maxAgo {
		return moment{}, usagef("--%s: %q is neither how long ago, such as 90s, 12h or 7d, nor an instant such as 2030-01-31T09:00:00Z", flag, shorten(s, 80))
	}
	return moment{ago: ago, relative: true}, nil
}

// of is the instant, seen from now, as exact as instants are written; the zero time if none was given.
func (m moment) of(now time.Time) time.Time {
	switch {
	case m.relative:
		return job.Millis(now.Add(-m.ago))
	case m.at.IsZero():
		return m.at
	default:
		return job.Millis(m.at)
	}
}

// age is how long ago an instant was, for people; never negative.
func age(now, t time.Time) string {
	if t.IsZero() {
		return ""
	}
	d := max(now.Sub(t), 0)
	switch {
	case d < time.Second:
		return "now"
	case d < time.Hour:
		d = d.Truncate(time.Second)
	case d < 48*time.Hour:
		d = d.Truncate(time.Minute)
	default:
		d = d.Truncate(time.Hour)
	}
	return config.FormatDuration(d)
}
