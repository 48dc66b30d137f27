package kv

import "time"

// sweepPerWrite bounds what one write sweeps, so that none waits for all that lapsed in a quiet hour. As a write adds
// at most one, the sweep is always faster than what it clears.
const sweepPerWrite = 16

// immortal is the place of an entry without a lifetime.
const immortal = -1

// entry is a key of a Memory.
type entry struct {
	key, value string
	until      time.Time // with a lifetime
	place      int       // among the deadlines, or immortal
}

func (e *entry) lapsed(now time.Time) bool { return e.place != immortal && !now.Before(e.until) }

// sweep removes at most n lapsed entries, and answers how many there were.
func (m *Memory) sweep(now time.Time, n int) int {
	swept := 0
	for swept < n && len(m.mortal) > 0 && m.mortal[0].lapsed(now) {
		m.remove(m.mortal[0], now)
		swept++
	}
	return swept
}

// deadlines is a heap of entries, by when they lapse.
type deadlines []*entry

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return d[i].until.Before(d[j].until) }

func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].place, d[j].place = i, j
}

// Push implements heap.Interface.
func (d *deadlines) Push(x any) {
	e := x.(*entry)
	e.place = len(*d)
	*d = append(*d, e)
}

// Pop implements heap.Interface.
func (d *deadlines) Pop() any {
	old := *d
	last := len(old) - 1
	e := old[last]
	old[last] = nil
	*d = old[:last]
	e.place = immortal
	return e
}
