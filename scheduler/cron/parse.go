package cron

import (
	"fmt"
	"math/bits"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // zones exist on any machine; its own files go first

	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/pkg/job"
)

const (
	// MaxExpression is the longest expression, in bytes.
	MaxExpression = 1024
	// MaxEvery is the longest interval of an @every. The shortest is a second.
	MaxEvery = 366 * 24 * time.Hour
)

var descriptors = map[string]string{
	"@hourly":   "0 * * * *",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@weekly":   "0 0 * * 0",
	"@monthly":  "0 0 1 * *",
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
}

// Parse reads a cron expression that is meant in a time zone: an IANA name, or "" for UTC. Its errors are
// *job.FieldError of the fields cron and timezone.
//
// A field is *, a value, a range a-b, one of them with a step (*/n, a-b/n, a/n for a to the field's last value), or a
// list of these. Months and weekdays may be named (JAN, MON) in any case; Sunday is 0, 7 or SUN. If both day fields are
// restricted, either one makes a day match. As in classic cron, a day field that begins with * restricts nothing in
// that sense, so "0 0 */2 * MON" means the Mondays with an odd number. Seconds, years, ?, L, W, #, a TZ= in front
// and @reboot are refused, and so is an expression that can never fire.
func Parse(expr, zone string) (*Spec, error) {
	loc, err := loadZone(zone)
	if err != nil {
		return nil, err
	}
	if len(expr) > MaxExpression {
		return nil, refuse("has %d bytes, at most %d are allowed", len(expr), MaxExpression)
	}
	words := strings.Fields(expr)
	switch {
	case len(words) == 0:
		return nil, refuse("must not be empty")
	case strings.HasPrefix(words[0], "TZ=") || strings.HasPrefix(words[0], "CRON_TZ="):
		return nil, refuse("%q is not allowed: the zone is given as timezone", cut(words[0]))
	case words[0][0] == '@':
		return parseDescriptor(words, loc)
	}
	return parseFields(words, loc)
}

func loadZone(name string) (*time.Location, error) {
	const want = "an IANA name such as Europe/Paris is needed, or none for UTC"
	switch name {
	case "Local", "localtime":
		return nil, &job.FieldError{Field: "timezone", Reason: fmt.Sprintf("%q is another zone on each machine: %s", name, want)}
	}
	if loc, ok := zones.Load(name); ok {
		return loc.(*time.Location), nil
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, &job.FieldError{Field: "timezone", Reason: fmt.Sprintf("%q is not known: %s", cut(name), want)}
	}
	zones.Store(name, loc)
	return loc, nil
}

// zones are those that were read, by name. There are some hundreds of them, and to read one takes longer than all else.
var zones sync.Map

func parseDescriptor(words []string, loc *time.Location) (*Spec, error) {
	name := strings.ToLower(words[0])
	if name == "@every" {
		return parseEvery(strings.Join(words[1:], " "), loc)
	}
	fields, ok := descriptors[name]
	switch {
	case !ok:
		return nil, refuse("%q is not allowed: @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually, @every, "+
			"or the five fields %s", cut(words[0]), fieldNames)
	case len(words) > 1:
		return nil, refuse("%q is not allowed after %s, which stands alone", cut(words[1]), name)
	}
	s, err := parseFields(strings.Fields(fields), loc)
	if err != nil {
		return nil, err
	}
	s.text = name
	return s, nil
}

func parseEvery(text string, loc *time.Location) (*Spec, error) {
	d, err := config.ParseDuration(text)
	if err != nil || d < time.Second || d > MaxEvery || d%time.Second != 0 {
		return nil, refuse("@every %q is not allowed: whole seconds from 1s to %s, such as 90s, 12h, 7d or 1d12h",
			cut(text), config.FormatDuration(MaxEvery))
	}
	return &Spec{text: "@every " + config.FormatDuration(d), every: d, zone: loc}, nil
}

func parseFields(words []string, loc *time.Location) (*Spec, error) {
	if len(words) != len(fields) {
		return nil, refuse("needs five fields (%s), has %d", fieldNames, len(words))
	}
	var sets [len(fields)]uint64
	for i := range fields {
		f := &fields[i]
		set, err := f.parse(words[i])
		if err != nil {
			return nil, err
		}
		sets[i] = set
	}
	s := &Spec{text: strings.Join(words, " "), zone: loc, wall: wall{
		minutes:  sets[0],
		hours:    uint32(sets[1]),
		days:     uint32(sets[2]),
		months:   uint16(sets[3]),
		weekdays: weekdayMasks(sets[4]),
		either:   words[2][0] != '*' && words[4][0] != '*',
	}}
	if !s.wall.possible() {
		return nil, refuse("would never fire: no day of month %s in month %s", cut(words[2]), cut(words[3]))
	}
	return s, nil
}

// possible reports that a day can match. Every date that exists falls on every weekday in some year, so it is only a
// day that none of the months has which makes a cron impossible.
func (w *wall) possible() bool {
	if w.either {
		return true
	}
	for m := time.January; m <= time.December; m++ {
		const leap = 2000
		if w.months>>m&1 == 1 && bits.TrailingZeros32(w.days) <= daysIn(leap, m) {
			return true
		}
	}
	return false
}

func refuse(format string, args ...any) error {
	return &job.FieldError{Field: "cron", Reason: fmt.Sprintf(format, args...)}
}

// cut keeps an error readable, whatever was sent.
func cut(s string) string {
	const limit = 40
	if len(s) <= limit {
		return s
	}
	return s[:limit] + "..."
}
