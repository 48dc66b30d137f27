package kv

import (
	"context"
	"iter"
	"math"
	"strings"
	"time"
)

// watchTick is how often a watch looks at the store's clock at least while something there has a lifetime: the clock may
// be a test's, which no timer knows of.
const watchTick = 50 * time.Millisecond

// watch is one Watch of a Memory. What changes is noted by the writer, and read by the watch in its own time, so that one
// that is slow holds up nobody: it is told the newest state.
type watch struct {
	prefix string
	wake   chan struct{} // holds one: something was noted

	// Guarded by the store's mutex.
	noted map[string]time.Time // keys that changed, and when
	order []string             // of them

	told map[string]time.Time // the keys told to be there, and the ends of their lifetimes
}

// Watch implements Watcher.
func (m *Memory) Watch(ctx context.Context, prefix string, opts WatchOptions) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		err := CheckPrefix(prefix)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			yield(Event{}, err)
			return
		}
		w, there := m.attach(prefix)
		defer m.detach(w)
		if opts.ChangesOnly {
			there = nil
		}
		for _, e := range append(there, Event{Kind: EventWatching, At: m.opts.Now()}) {
			if !yield(e, nil) {
				return
			}
		}
		for {
			events, pause := m.changes(w)
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
			}
			if err := w.await(ctx, pause); err != nil {
				yield(Event{}, err)
				return
			}
		}
	}
}

// attach begins a watch, and answers what is there.
func (m *Memory) attach(prefix string) (*watch, []Event) {
	w := &watch{prefix: prefix, wake: make(chan struct{}, 1), noted: make(map[string]time.Time), told: make(map[string]time.Time)}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.opts.Now()
	var there []Event
	for key, e := range m.entries {
		if strings.HasPrefix(key, prefix) && !e.lapsed(now) {
			there = append(there, w.found(EventThere, e, now))
		}
	}
	if m.watches == nil {
		m.watches = make(map[*watch]struct{})
	}
	m.watches[w] = struct{}{}
	return w, there
}

func (m *Memory) detach(w *watch) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.watches, w)
}

// note tells the watches of a key that it changed.
func (m *Memory) note(key string, now time.Time) {
	for w := range m.watches {
		if !strings.HasPrefix(key, w.prefix) {
			continue
		}
		if _, ok := w.noted[key]; !ok {
			w.order = append(w.order, key)
		}
		w.noted[key] = now
		select {
		case w.wake <- struct{}{}:
		default: // it is awake
		}
	}
}

// changes takes what was noted since, what has lapsed by now among it, and answers for how long nothing will lapse.
func (m *Memory) changes(w *watch) ([]Event, time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.opts.Now()
	m.sweep(now, math.MaxInt)
	var events []Event
	for _, key := range w.order {
		e, at := m.live(key, now), w.noted[key]
		until, known := w.told[key]
		switch {
		case e != nil:
			events = append(events, w.found(EventSet, e, at))
		case known && !until.IsZero() && !now.Before(until):
			events = append(events, w.lost(EventExpired, key, until))
		case known:
			events = append(events, w.lost(EventDeleted, key, at))
		}
	}
	clear(w.noted)
	w.order = w.order[:0]
	if len(m.mortal) == 0 {
		return events, -1
	}
	return events, min(m.mortal[0].until.Sub(now), watchTick)
}

// found is the event of a key that is there.
func (w *watch) found(kind EventKind, e *entry, at time.Time) Event {
	var until time.Time
	if e.place != immortal {
		until = e.until
	}
	w.told[e.key] = until
	return Event{Kind: kind, At: at, Key: e.key, Value: e.value, Expires: until}
}

// lost is the event of a key that is there no more.
func (w *watch) lost(kind EventKind, key string, at time.Time) Event {
	delete(w.told, key)
	return Event{Kind: kind, At: at, Key: key}
}

// await waits until something is noted, and no longer than a pause, unless it is negative.
func (w *watch) await(ctx context.Context, pause time.Duration) error {
	var lapse <-chan time.Time
	if pause >= 0 {
		t := time.NewTimer(pause)
		defer t.Stop()
		lapse = t.C
	}
	select {
	case <-w.wake:
	case <-lapse:
	case <-ctx.Done():
	}
	return ctx.Err()
}
