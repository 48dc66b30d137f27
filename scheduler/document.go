package scheduler

import (
	"fmt"
	"time"
)

// Fires are instants at which a schedule fires, as a document.
type Fires struct {
	Next []LocalFire `json:"next"`
}

// LocalFire is an instant, in UTC and on the clocks of its zone.
type LocalFire struct {
	At    time.Time `json:"at"`
	Local string    `json:"local"`
}

// LocalFires are instants on the clocks of a zone.
func LocalFires(at []time.Time, timezone string) ([]LocalFire, error) {
	zone, err := time.LoadLocation(timezone)
	if err != nil {
		return nil, fmt.Errorf("timezone: %w", err)
	}
	out := make([]LocalFire, len(at))
	for i, t := range at {
		out[i] = LocalFire{t, t.In(zone).Format(time.RFC3339)}
	}
	return out, nil
}

// PutDone is what became of a schedule that was put, as a document.
type PutDone struct {
	Change   Change      `json:"change"`
	Schedule *Schedule   `json:"schedule"`
	Next     []LocalFire `json:"next"`
	Warnings []string    `json:"warnings,omitzero"`
}

// Plan is what became of many schedules, or would, as a document.
type Plan struct {
	DryRun    bool      `json:"dryRun"`
	Schedules []Planned `json:"schedules"`
	Warnings  []string  `json:"warnings,omitzero"`
}

// Planned is what became of one of them.
type Planned struct {
	Space     string    `json:"space"`
	Name      string    `json:"name"`
	Change    Change    `json:"change" enum:"created,updated,unchanged,deleted"`
	NextRunAt time.Time `json:"nextRunAt,omitzero"`
}

// List is a listing as a document.
type List struct {
	Schedules  []Schedule `json:"schedules"`
	Total      int        `json:"total"` // before a limit
	Unreadable []string   `json:"unreadable,omitzero"`
}

// List is the listing as a document, of so many schedules at most; 0: of all.
func (l *Listing) List(limit int) List {
	out := List{Schedules: l.Schedules, Total: len(l.Schedules)}
	if limit > 0 {
		out.Schedules = out.Schedules[:min(limit, out.Total)]
	}
	for _, err := range l.Unreadable {
		out.Unreadable = append(out.Unreadable, err.Error())
	}
	return out
}
