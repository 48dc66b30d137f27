package scheduler

import (
	"container/heap"
	"time"
)

// item is a schedule as the leader keeps it in memory: the document as it is stored, and when to look at it.
type item struct {
	key    string
	rev    uint64
	body   []byte
	at     time.Time // zero: never
	failed int       // tries of its fire that came to nothing
	place  int       // in the heap; -1: not in it
	busy   bool      // it is being fired, and not to be looked at until it is free
}

// board is every schedule there is, the next to be looked at first.
type board struct {
	items map[string]*item
	queue queue
	heir  *board // that is about to take this one's place; nil: none
}

func newBoard() *board { return &board{items: make(map[string]*item)} }

// set takes what stands under a key at a revision. What is older than what is known is left out.
func (b *board) set(key string, rev uint64, body []byte, at time.Time) {
	it := b.items[key]
	if it == nil {
		it = &item{key: key, place: -1}
		b.items[key] = it
	}
	if rev <= it.rev {
		return
	}
	it.rev, it.body, it.failed = rev, body, 0
	b.look(it, at)
}

// moved takes what this process wrote.
func (b *board) moved(key string, rev uint64, body []byte, at time.Time) {
	b.set(key, rev, body, at)
	if b.heir != nil {
		b.heir.set(key, rev, body, at)
	}
}

// inherit takes over what is being fired, and which fires could not be made, and when they are tried again.
func (b *board) inherit(from *board) {
	for key, old := range from.items {
		it := b.items[key]
		if it == nil {
			continue
		}
		if old.failed > 0 && it.rev == old.rev {
			it.failed = old.failed
			b.look(it, old.at)
		}
		if old.busy {
			b.hold(it)
		}
	}
}

// failing reports whether a fire could not be made.
func (b *board) failing() bool {
	for _, it := range b.items {
		if it.failed > 0 {
			return true
		}
	}
	return false
}

// hold keeps an item from being looked at until it is free.
func (b *board) hold(it *item) {
	if it.place >= 0 {
		heap.Remove(&b.queue, it.place)
	}
	it.busy = true
}

// free has an item that was fired looked at again at an instant.
func (b *board) free(it *item, at time.Time) {
	it.busy = false
	b.look(it, at)
}

// look has an item looked at next at an instant; never, if it is zero.
func (b *board) look(it *item, at time.Time) {
	it.at = at
	switch {
	case it.busy:
	case at.IsZero() && it.place >= 0:
		heap.Remove(&b.queue, it.place)
	case at.IsZero():
	case it.place >= 0:
		heap.Fix(&b.queue, it.place)
	default:
		heap.Push(&b.queue, it)
	}
}

// drop forgets a key that was deleted at a revision.
func (b *board) drop(key string, rev uint64) {
	if it := b.items[key]; it != nil && it.rev < rev {
		b.look(it, time.Time{})
		delete(b.items, key)
	}
}

// next is when to look at the next item.
func (b *board) next() (time.Time, bool) {
	if len(b.queue) == 0 {
		return time.Time{}, false
	}
	return b.queue[0].at, true
}

// take takes out what is to be looked at by an instant, the oldest first, n at most. They are busy until they are freed.
func (b *board) take(now time.Time, n int) []*item {
	var out []*item
	for len(out) < n && len(b.queue) > 0 && !b.queue[0].at.After(now) {
		it := heap.Pop(&b.queue).(*item)
		it.busy = true
		out = append(out, it)
	}
	return out
}

// queue is a heap by instants.
type queue []*item

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].at.Before(q[j].at) }

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

func (q *queue) Push(v any) {
	it := v.(*item)
	it.place = len(*q)
	*q = append(*q, it)
}

func (q *queue) Pop() any {
	old := *q
	it := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	it.place = -1
	return it
}
