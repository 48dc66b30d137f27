package kvbucket

import (
	"container/heap"
	"context"
	"strings"
	"time"

	"github.com/jetcrew/jetcrew/pkg/kv"
)

// present is a key that a watch knows to be there.
type present struct {
	key     string
	seq     uint64
	expires time.Time
	place   int    // among the lifetimes; -1 without one
	seen    uint64 // the recount that found it last
}

// apply takes the last message of a key, as it is or has become.
func (w *watch) apply(subject string, e *entry) error {
	key, ok := decode(strings.TrimPrefix(subject, w.b.prefix))
	if !ok || !strings.HasPrefix(key, w.prefix) {
		return nil
	}
	known := w.known[key]
	now := w.b.clock.Now()
	switch {
	case e.there(now) && known != nil && known.seq == e.seq:
		return nil // it was found by a list
	case e.there(now) && known != nil && e.again != 0 && known.seq == e.again:
		w.keep(key, e)
		return nil // it has been told
	case e.there(now):
		w.keep(key, e)
		kind := kv.EventSet
		if w.listing && e.seq <= w.fence {
			kind = kv.EventThere
		}
		return w.tell(kv.Event{Kind: kind, At: e.stored, Key: key, Value: string(e.value), Expires: e.expires})
	case known != nil && e.marker:
		w.note(key, e)
		return w.gone(known, kv.EventDeleted, e.stored)
	case known != nil:
		return w.gone(known, kv.EventExpired, e.expires)
	case e.marker && e.seq > w.fence && e.seq <= w.blurred:
		if e.again != 0 && w.told[key] == e.again {
			return nil
		}
		w.note(key, e)
		return w.tell(kv.Event{Kind: kv.EventDeleted, At: e.stored, Key: key})
	}
	return nil
}

// note keeps in mind that a marker is told of, as long as its second one could be taken for another.
func (w *watch) note(key string, e *entry) {
	if e.seq > w.blurred {
		return
	}
	if w.told == nil {
		w.told = make(map[string]uint64)
	}
	w.told[key] = e.seq
}

// keep notes that a key is there.
func (w *watch) keep(key string, e *entry) {
	p := w.known[key]
	if p == nil {
		p = &present{key: key, place: -1}
		w.known[key] = p
	}
	p.seq, p.expires = e.seq, e.expires
	switch {
	case p.expires.IsZero() && p.place >= 0:
		heap.Remove(&w.ends, p.place)
	case p.expires.IsZero():
	case p.place >= 0:
		heap.Fix(&w.ends, p.place)
	default:
		heap.Push(&w.ends, p)
	}
}

// gone tells that a key is there no more.
func (w *watch) gone(p *present, kind kv.EventKind, at time.Time) error {
	delete(w.known, p.key)
	if p.place >= 0 {
		heap.Remove(&w.ends, p.place)
	}
	return w.tell(kv.Event{Kind: kind, At: at, Key: p.key})
}

// lapse tells of the keys whose lifetime is over. Without a connection nobody knows: it may have been made longer.
func (w *watch) lapse() error {
	for len(w.ends) > 0 && w.b.nc.IsConnected() {
		first := w.ends[0]
		if w.b.clock.Now().Before(first.expires) {
			return nil
		}
		if err := w.gone(first, kv.EventExpired, first.expires); err != nil {
			return err
		}
	}
	return nil
}

// recount lists the keys, and tells of those that have gone without a word.
func (w *watch) recount(ctx context.Context) error {
	began := time.Now()
	anew, err := w.replaced(ctx)
	if err != nil {
		return err
	}
	if anew { // its messages are numbered anew: all of them are news
		w.next = 1
		for _, p := range w.known {
			p.seq = 0
		}
	}
	w.close(ctx) // consumers get stuck, and do not say so: the next one goes on where this one was
	w.recounts++
	err = w.b.walk(ctx, w.prefix, func(key string, _ *entry) bool {
		if p := w.known[key]; p != nil {
			p.seen = w.recounts
		}
		return true // a key that is not known yet is on its way
	})
	if err != nil {
		return err
	}
	for key, p := range w.known {
		if p.seen == w.recounts {
			continue
		}
		// It may have been written while the list was read: then the list has missed it.
		e, err := w.b.leaders(ctx, w.b.subject(key))
		if err != nil {
			return err
		}
		now := w.b.clock.Now()
		switch {
		case e.there(now):
			continue
		case e.seq != 0 && !e.marker, e.seq == 0 && !p.expires.IsZero() && !now.Before(p.expires):
			err = w.gone(p, kv.EventExpired, now)
		default:
			err = w.gone(p, kv.EventDeleted, now)
		}
		if err != nil {
			return err
		}
	}
	w.recountAt = time.Now().Add(max(w.every, recountShare*time.Since(began)))
	return nil
}

// replaced reports whether the stream is not the one that it was: made anew, or put back to an older state.
func (w *watch) replaced(ctx context.Context) (bool, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	stream, err := ask(ctx, w.b.streamInfo)
	if err != nil {
		return false, err
	}
	was := w.created
	w.created = stream.Created
	return !was.IsZero() && (!was.Equal(w.created) || stream.State.LastSeq+1 < w.next), nil
}

// lifetimes is a heap of keys, the one that lapses first in front.
type lifetimes []*present

func (l lifetimes) Len() int           { return len(l) }
func (l lifetimes) Less(i, j int) bool { return l[i].expires.Before(l[j].expires) }

func (l lifetimes) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].place, l[j].place = i, j
}

// Push implements heap.Interface.
func (l *lifetimes) Push(x any) {
	p := x.(*present)
	p.place = len(*l)
	*l = append(*l, p)
}

// Pop implements heap.Interface.
func (l *lifetimes) Pop() any {
	old := *l
	last := len(old) - 1
	p := old[last]
	old[last] = nil
	*l = old[:last]
	p.place = -1
	return p
}
