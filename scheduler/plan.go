package scheduler

import (
	"fmt"
	"time"
)

// clockSkew is more than the clocks of two processes that read the same store's can differ.
const clockSkew = time.Second

// plan is what one look at a schedule that is due comes to: the fire that was promised or none, and what is promised
// next.
type plan struct {
	fire   time.Time // the promised instant; zero: nothing is enqueued
	stands int       // owed fires that the job stands for besides its own
	missed int       // fires that get no job of their own, those included
	next   time.Time // zero: never again
}

// plan decides what is to be done at an instant, by the schedule's record alone. The schedule has to be due.
//
// Nothing but the promised instant is ever fired: whoever looks at the same record, however much later, makes the same
// job or none. So fires that are given up are first written off, and what comes after them is promised.
func (s *Schedule) plan(t timing, now time.Time) plan {
	promised := s.NextRunAt
	if promised.IsZero() { // somebody else wrote the record
		return plan{next: t.first(now)}
	}
	owed := max(1, t.owed(promised, now))
	drop := 0
	switch s.MissedPolicy {
	case MissedEach:
		drop = max(0, owed-s.MissedLimit)
	case MissedSkip:
		drop = owed - 1
		if now.Sub(t.nth(promised, now, owed)) > SkipAfter {
			drop = owed
		}
	default:
		return plan{fire: promised, stands: owed - 1, missed: owed - 1, next: t.after(promised, now)}
	}
	switch drop {
	case 0:
		return plan{fire: promised, next: t.after(promised, promised)}
	case owed:
		return plan{missed: owed, next: t.after(promised, now)}
	default:
		return plan{missed: drop, next: t.nth(promised, now, drop+1)}
	}
}

// folded is the plan once it is known for how many fires the job of this one stands: whoever made it may have looked
// earlier, and what has come due since is still to be made, or later, and then that is done.
func (p plan) folded(t timing, now time.Time, stands int) plan {
	until := now.Add(clockSkew)
	if stands == p.stands || stands < 0 || stands >= t.owed(p.fire, until) {
		return p // as it was planned, or a number that nobody who fires has written
	}
	p.next = t.after(p.fire, t.nth(p.fire, until, stands+1))
	p.missed += stands - p.stands
	p.stands = stands
	return p
}

// fireID is the id of the job of a fire. It is the same whoever makes it.
func fireID(name string, at time.Time) string { return fmt.Sprintf("%s@%d", name, at.Unix()) }
