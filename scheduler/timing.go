package scheduler

import (
	"hash/fnv"
	"sort"
	"time"

	"github.com/jetcrew/jetcrew/scheduler/cron"
)

// timing is when a schedule fires: its cron expression, shifted by its share of the jitter. The instants are whole
// seconds, since the ids of jobs are made of them.
type timing struct {
	spec  *cron.Spec
	every time.Duration // of an interval, else 0
	shift time.Duration
}

// timing of a normalized spec.
func (s *Spec) timing() (timing, error) {
	spec, err := cron.Parse(s.Cron, s.Timezone)
	if err != nil {
		return timing{}, err
	}
	every, _ := spec.Interval()
	return timing{spec, every, s.shift()}, nil
}

// shift is the schedule's share of its jitter: the same for as long as it has its name.
func (s *Spec) shift() time.Duration {
	h := fnv.New64a()
	h.Write([]byte(s.Space))
	h.Write([]byte{0})
	h.Write([]byte(s.Name))
	return time.Duration(h.Sum64()%uint64(s.Jitter/time.Second+1)) * time.Second
}

// first is the first instant after now for a schedule that has promised none. Zero: there is none.
func (t timing) first(now time.Time) time.Time {
	if t.every > 0 {
		return ceilSecond(now.Add(t.every + t.shift))
	}
	return t.after(time.Time{}, now)
}

// after is the first instant after one, where an earlier one is promised. Zero: there is none.
func (t timing) after(promised, instant time.Time) time.Time {
	shift := t.shift
	if t.every > 0 {
		shift = 0 // an interval is counted from a promise that is shifted already
	}
	next, ok := t.spec.Next(promised.Add(-shift), instant.Add(-shift))
	if !ok {
		return time.Time{}
	}
	return next.Add(shift)
}

// owed is how many instants there are from a promised one until another, both included.
func (t timing) owed(promised, until time.Time) int {
	shift := t.shift
	if t.every > 0 {
		shift = 0
	}
	_, n := t.spec.Owed(promised.Add(-shift), until.Add(-shift), 0)
	return n
}

// nth is the n-th instant from a promised one on, which is the first. There have to be so many until the given one.
func (t timing) nth(promised, until time.Time, n int) time.Time {
	seconds := sort.Search(int(until.Sub(promised)/time.Second), func(i int) bool {
		return t.owed(promised, promised.Add(time.Duration(i)*time.Second)) >= n
	})
	return promised.Add(time.Duration(seconds) * time.Second)
}

func ceilSecond(t time.Time) time.Time {
	c := t.Truncate(time.Second)
	if c.Before(t) {
		c = c.Add(time.Second)
	}
	return c.UTC()
}

// Preview answers the next n instants at which a spec will fire if it is put now, or fewer where there are no more. It
// refuses what Put refuses.
func Preview(s Spec, now time.Time, n int) ([]time.Time, error) {
	if err := s.Normalize(); err != nil {
		return nil, err
	}
	t, err := s.timing()
	if err != nil {
		return nil, err
	}
	return t.from(t.first(now), n), nil
}

// Next answers a schedule's next n instants, the promised one first.
func (s *Schedule) Next(n int) ([]time.Time, error) {
	t, err := s.timing()
	if err != nil {
		return nil, err
	}
	return t.from(s.NextRunAt, n), nil
}

func (t timing) from(at time.Time, n int) []time.Time {
	out := make([]time.Time, 0, max(0, min(n, 1000)))
	for ; len(out) < cap(out) && !at.IsZero(); at = t.after(at, at) {
		out = append(out, at)
	}
	return out
}
