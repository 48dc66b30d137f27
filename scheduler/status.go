package scheduler

import "time"

// OverdueAfter is how late a fire is when nobody makes it: for longer than another process needs to take the lead.
const OverdueAfter = 15 * time.Second

// Status is how schedules are kept up with, as a document.
type Status struct {
	At         time.Time `json:"at" doc:"By the store's clock."`
	Leader     *Leader   `json:"leader,omitzero" doc:"Left out: nobody leads."`
	Schedules  int       `json:"schedules"`
	Disabled   int       `json:"disabled"`
	Overdue    int       `json:"overdue" doc:"Due for more than 15s, which a change of the lead explains no more."`
	Failing    int       `json:"failing" doc:"Whose last job was refused."`
	Unreadable int       `json:"unreadable"`
	Next       *NextFire `json:"next,omitzero" doc:"The fire that is due next, or has been due for the longest."`
}

// NextFire is the next fire of a schedule.
type NextFire struct {
	Space string    `json:"space"`
	Name  string    `json:"name"`
	At    time.Time `json:"at"`
}

// Count takes in what a list of all schedules found.
func (st *Status) Count(l Listing) {
	st.Schedules, st.Unreadable = len(l.Schedules), len(l.Unreadable)
	for i := range l.Schedules {
		s := &l.Schedules[i]
		if !s.Active() {
			st.Disabled++
			continue
		}
		if s.Error != "" {
			st.Failing++
		}
		if s.Overdue(st.At) {
			st.Overdue++
		}
		if st.Next == nil && !s.NextRunAt.IsZero() { // they stand in this order
			st.Next = &NextFire{s.Space, s.Name, s.NextRunAt}
		}
	}
}

// Overdue reports whether a fire is due for so long at an instant that nobody makes it.
func (s *Schedule) Overdue(now time.Time) bool {
	return s.Active() && !s.NextRunAt.IsZero() && now.Sub(s.NextRunAt) > OverdueAfter
}
