package kv

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"
)

// ErrNoWatch: the adapter of the store cannot tell what happens.
var ErrNoWatch = errors.New("this store cannot be watched")

// Watcher is the capability of an Adapter to tell what happens to its keys. It is found by assertion.
type Watcher interface {
	// Watch yields what happens to the keys that begin with a prefix, until ctx ends: its error is the last pair then.
	//
	// It begins with the keys that are there, each as an EventThere, unless only changes are asked for; then comes one
	// EventWatching, and then each change. What changes faster than it is taken may be told as one change, by its newest
	// state: of a key that is there, an observer of all events knows the newest value. An outage ends nothing, and what has
	// happened meanwhile is told when it is over. What has lapsed is never told as being there.
	Watch(ctx context.Context, prefix string, opts WatchOptions) iter.Seq2[Event, error]
}

// WatchOptions say what a watch tells.
type WatchOptions struct {
	// ChangesOnly leaves out what is there when the watch begins. Defaults to false.
	ChangesOnly bool
}

// EventKind says what an Event tells of.
type EventKind string

// The kinds of events.
const (
	EventThere    EventKind = "there"    // the key had this value when the watch began
	EventWatching EventKind = "watching" // from here on come changes; it is of no key
	EventSet      EventKind = "set"      // the key has this value, or this lifetime, since
	EventDeleted  EventKind = "deleted"  // the key was removed
	EventExpired  EventKind = "expired"  // its lifetime is over
)

// Event is something that a watch tells.
type Event struct {
	Kind    EventKind
	At      time.Time // by the store's clock: when it was written, or found to be gone
	Key     string
	Value   string    // as it is stored; where the key is there
	Expires time.Time // the end of its lifetime, where it has one
}

// There reports whether the key has a value after the event.
func (e Event) There() bool { return e.Kind == EventThere || e.Kind == EventSet }

// Decode reads the value into what into points to, as Space.Get does.
func (e Event) Decode(into any) error { return decode(e.Value, into) }

// Watch yields what happens to the space's values whose keys begin with a prefix, until ctx ends: see Watcher for what is
// promised. Its error, the last pair, is ErrNoWatch where the store's adapter is no Watcher.
func (s *Space) Watch(ctx context.Context, prefix string, opts WatchOptions) iter.Seq2[Event, error] {
	return s.watch(ctx, "watch", s.values, prefix, opts)
}

// WatchLists is Watch for the space's lists: the key is a list's name, the value its entries as JSON, in their order.
func (s *Space) WatchLists(ctx context.Context, prefix string, opts WatchOptions) iter.Seq2[Event, error] {
	return s.watch(ctx, "watch the lists", s.lists, prefix, opts)
}

func (s *Space) watch(ctx context.Context, op, segment, prefix string, opts WatchOptions) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		composed, err := s.begin(segment, prefix)
		if err != nil {
			yield(Event{}, s.failed(op, prefix, err))
			return
		}
		w, ok := s.store.adapter.(Watcher)
		if !ok {
			yield(Event{}, s.failed(op, prefix, fmt.Errorf("%w: it is a %T", ErrNoWatch, s.store.adapter)))
			return
		}
		for event, err := range w.Watch(ctx, composed, opts) {
			if err != nil {
				yield(Event{}, s.failed(op, prefix, err))
				return
			}
			event.Key = strings.TrimPrefix(event.Key, segment)
			if !yield(event, nil) {
				return
			}
		}
	}
}
