package kvtest

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/kv"
)

// observed is a watch that goes on beside the test, and what it has told.
type observed struct {
	mu     sync.Mutex
	events []kv.Event
	values map[string]string // of the keys that are there, as the events have it
	err    error             // the last pair
	ended  chan struct{}
	end    context.CancelFunc
}

// observe begins a watch, and waits until it has told what is there.
func (e *env) observe(prefix string, opts kv.WatchOptions) *observed {
	e.Helper()
	w, ok := e.a.(kv.Watcher)
	if !ok {
		e.Skip("it is no kv.Watcher")
	}
	ctx, cancel := context.WithCancel(e.ctx)
	o := &observed{values: make(map[string]string), ended: make(chan struct{}), end: cancel}
	go func() {
		defer close(o.ended)
		for event, err := range w.Watch(ctx, prefix, opts) {
			o.take(event, err)
		}
	}()
	e.Cleanup(func() {
		cancel()
		<-o.ended
	})
	e.eventually("the watch has begun", func() bool { return len(o.of("")) > 0 })
	return o
}

func (o *observed) take(event kv.Event, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		o.err = err
		return
	}
	o.events = append(o.events, event)
	switch {
	case event.There():
		o.values[event.Key] = event.Value
	case event.Kind != kv.EventWatching:
		delete(o.values, event.Key)
	}
}

// of is what was told of a key.
func (o *observed) of(key string) []kv.EventKind {
	o.mu.Lock()
	defer o.mu.Unlock()
	var kinds []kv.EventKind
	for _, event := range o.events {
		if event.Key == key {
			kinds = append(kinds, event.Kind)
		}
	}
	return kinds
}

// knows reports whether the keys that are there have just these values, as the events have it.
func (o *observed) knows(values map[string]string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Equal(values, o.values)
}

// last is the kind of what was told of a key last.
func (o *observed) last(key string) kv.EventKind {
	kinds := o.of(key)
	if len(kinds) == 0 {
		return ""
	}
	return kinds[len(kinds)-1]
}

// eventually waits until something is the case.
func (e *env) eventually(what string, is func() bool) {
	e.Helper()
	e.within(time.Hour, is)
	require.NoError(e, e.ctx.Err(), "waiting for: %s", what)
}

// within waits until something is the case, for a while, and no longer than the test may take.
func (e *env) within(d time.Duration, is func() bool) {
	for began := time.Now(); !is() && time.Since(began) < d && e.ctx.Err() == nil; {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-e.ctx.Done():
		}
	}
}

func watchTellsAll(e *env) {
	e.set("k/a", "1", 0)
	e.set("k/b", "2", time.Hour)
	e.set("k/gone", "v", 0)
	require.NoError(e, e.a.Delete(e.ctx, "k/gone"))
	o := e.observe("k/", kv.WatchOptions{})
	require.True(e, o.knows(map[string]string{"k/a": "1", "k/b": "2"}), "%v", o.events)
	require.Equal(e, []kv.EventKind{kv.EventThere}, o.of("k/a"))
	require.Empty(e, o.of("k/gone"), "what is not there is not told")
	for _, event := range o.events {
		require.Equal(e, event.Key == "k/b", !event.Expires.IsZero(), "%v", event)
	}

	e.set("k/a", "1", 0)
	e.eventually("the same value is set", func() bool { return o.last("k/a") == kv.EventSet })
	e.increment("k/a", 6)
	require.True(e, e.swap("k/c", nil, "new", 0))
	require.True(e, e.deleteIf("k/b", "2"))
	e.eventually("all changes are told", func() bool { return o.knows(map[string]string{"k/a": "7", "k/c": "new"}) })
	require.Equal(e, kv.EventDeleted, o.last("k/b"))
	require.True(e, e.expire("k/c", time.Hour))
	e.eventually("a new lifetime is told", func() bool { return len(o.of("k/c")) >= 2 })
	_, err := e.a.Wipe(e.ctx, "k/")
	require.NoError(e, err)
	e.eventually("the wipe is told", func() bool { return o.knows(map[string]string{}) })
	require.Equal(e, kv.EventDeleted, o.last("k/c"))
}

func watchChanges(e *env) {
	e.set("k", "1", 0)
	e.set("other", "1", 0)
	o := e.observe("", kv.WatchOptions{ChangesOnly: true})
	require.Len(e, o.events, 1, "nothing but the beginning")
	require.NoError(e, e.a.Delete(e.ctx, "k"))
	e.eventually("a delete of what was there before", func() bool { return o.last("k") == kv.EventDeleted })
	e.set("k", "2", 0)
	e.eventually("a new value", func() bool { return o.knows(map[string]string{"k": "2"}) })
	require.Empty(e, o.of("other"))
	require.NoError(e, e.a.Delete(e.ctx, "nothing"))
	e.set("end", "v", 0)
	e.eventually("the end", func() bool { return o.last("end") == kv.EventSet })
	require.Empty(e, o.of("nothing"), "a delete of nothing is no change")
}

func watchLapses(e *env) {
	e.set("lapsed", "v", time.Second)
	e.outlive(time.Second)
	e.set("longer", "v", time.Minute)
	e.set("lasting", "v", 0)
	o := e.observe("", kv.WatchOptions{})
	require.Empty(e, o.of("lapsed"), "what has lapsed is not there")
	// One that lapses before the watch comes to it is never told: a busy machine may need several.
	e.eventually("one that will lapse is told", func() bool {
		e.set("ends", "v", time.Second)
		e.within(time.Second/2, func() bool { return o.last("ends") != "" })
		return o.last("ends") != ""
	})
	require.True(e, e.expire("longer", 0))
	e.eventually("a lifetime that is none any more", func() bool { return o.last("longer") == kv.EventSet })
	e.outlive(time.Second)
	e.eventually("the end is told", func() bool { return o.last("ends") == kv.EventExpired })
	if _, ok := e.a.(Clock); ok {
		e.outlive(time.Minute)
	}
	e.set("ends", "again", 0)
	e.eventually("what lapsed is set again", func() bool {
		return o.knows(map[string]string{"ends": "again", "longer": "v", "lasting": "v"})
	})
}

func watchPrefix(e *env) {
	all := []string{"a", "a/", "a/1", "a/é", "a//2", "A/1", "ab", "a.1", "b/a/1", "a=2F1", "/a", "a /1"}
	o := e.observe("a/", kv.WatchOptions{})
	words := e.observe("a", kv.WatchOptions{})
	writeAll(e.T, e.ctx, e.a, all)
	e.set("a/last", "v", 0)
	want := map[string]string{"a/last": "v"}
	for _, key := range []string{"a/", "a/1", "a/é", "a//2"} {
		want[key] = "value of " + key
	}
	e.eventually("all of the prefix", func() bool { return o.knows(want) })
	for _, key := range []string{"a", "ab", "a.1", "a=2F1", "a /1"} {
		want[key] = "value of " + key
	}
	e.eventually("all of the shorter one", func() bool { return words.knows(want) })
}

func watchMany(e *env) {
	want := make(map[string]string)
	var all []string
	for i := range 300 {
		all = append(all, "many/"+string(rune('a'+i)))
	}
	writeAll(e.T, e.ctx, e.a, all[:200])
	o := e.observe("many/", kv.WatchOptions{})
	writeAll(e.T, e.ctx, e.a, all[100:])
	for _, key := range all {
		want[key] = "value of " + key
	}
	e.eventually("all of many", func() bool { return o.knows(want) })
}

func watchEnds(e *env) {
	e.set("k", "v", 0)
	o := e.observe("", kv.WatchOptions{})
	o.end()
	<-o.ended
	require.ErrorIs(e, o.err, context.Canceled, "the last pair says why")
	require.Equal(e, kv.EventThere, o.last("k"))

	w := e.a.(kv.Watcher)
	seen := 0
	for event, err := range w.Watch(e.ctx, "", kv.WatchOptions{}) {
		require.NoError(e, err)
		require.NoError(e, e.a.Set(e.ctx, "written within", event.Value, 0), "a watch holds no lock")
		seen++
		break
	}
	require.Equal(e, 1, seen)
	gone, cancel := context.WithCancel(e.ctx)
	cancel()
	for _, c := range []struct {
		ctx    context.Context
		prefix string
		err    error
	}{{e.ctx, "\xff", kv.ErrKey}, {gone, "", context.Canceled}} {
		pairs := 0
		for event, err := range w.Watch(c.ctx, c.prefix, kv.WatchOptions{}) {
			require.ErrorIs(e, err, c.err)
			require.Zero(e, event)
			pairs++
		}
		require.Equal(e, 1, pairs)
	}
}
