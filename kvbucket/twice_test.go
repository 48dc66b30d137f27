package kvbucket

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

func TestWhatWasDeletedOrHasLapsedStaysGoneWhenTheServerIsKilled(t *testing.T) {
	t.Parallel()
	s := natstest.StartServer(t, natstest.ServerConfig{})
	cfg := config()
	cfg.MarkerTTL = time.Second
	b := open(t, s.URL(), cfg)
	ctx := t.Context()
	yes := func(ok bool, err error) {
		t.Helper()
		require.NoError(t, err)
		require.True(t, ok)
	}
	ends := map[string]func(key string){
		"deleted":              func(key string) { require.NoError(t, b.Delete(ctx, key)) },
		"deleted if":           func(key string) { yes(b.DeleteIf(ctx, key, "old")) },
		"expired":              func(key string) { yes(b.Expire(ctx, key, time.Second)) },
		"set":                  func(key string) { set(t, b, key, "new", time.Second) },
		"swapped":              func(key string) { yes(b.Swap(ctx, key, new("old"), "new", time.Second)) },
		"changed, then lapsed": func(key string) { set(t, b, key, "new", 0); set(t, b, key, "newer", time.Second) },
		"wiped":                func(string) {},
	}
	lifetimes := map[string]time.Duration{"for ever": 0, "for an hour": time.Hour, "for a while": 10 * time.Second}
	key := func(end, lifetime string) string {
		prefix := "ended/"
		if end == "wiped" {
			prefix = "wiped/"
		}
		return prefix + end + " " + lifetime
	}
	for lifetime, ttl := range lifetimes {
		for end, do := range ends {
			set(t, b, key(end, lifetime), "old", ttl)
			do(key(end, lifetime))
		}
	}
	wiped, err := b.Wipe(ctx, "wiped/")
	require.NoError(t, err)
	require.Equal(t, len(lifetimes), wiped)
	for i := range 5 { // it is not by chance that they were the last ones
		set(t, b, "stays/"+strconv.Itoa(i), "v", 0)
	}
	gone := func() bool { return len(keysOf(t, b, "ended/"))+len(keysOf(t, b, "wiped/")) == 0 }
	natstest.Eventually(t, soon, gone)
	killed(t, s, b, 5)
	require.True(t, gone(), "these came back: %v", keysOf(t, b, ""))
	require.Len(t, keysOf(t, b, "stays/"), 5)
	for lifetime := range lifetimes {
		for end := range ends {
			absent(t, b, key(end, lifetime))
		}
	}
}

func TestOnlyWhatReplacesSomethingThatWouldOutlastItIsWrittenTwice(t *testing.T) {
	t.Parallel()
	b := open(t, server(t), config())
	ctx := t.Context()
	ok := func(_ bool, err error) error { return err }
	n := 0
	for name, c := range map[string]struct {
		before func(key string) // none where nil
		do     func(key string) error
		writes uint64
	}{
		"a set without a lifetime":           {func(k string) { set(t, b, k, "v", 0) }, func(k string) error { return b.Set(ctx, k, "w", 0) }, 1},
		"a lock that is free":                {nil, func(k string) error { return ok(b.Swap(ctx, k, nil, "w", time.Minute)) }, 1},
		"a lock that was released":           {func(k string) { require.NoError(t, b.Delete(ctx, k)) }, func(k string) error { return ok(b.Swap(ctx, k, nil, "w", time.Second)) }, 1},
		"a lock that is held on to":          {func(k string) { set(t, b, k, "v", time.Minute) }, func(k string) error { return ok(b.Swap(ctx, k, new("v"), "v", 2*time.Minute)) }, 1},
		"a lock's release":                   {func(k string) { set(t, b, k, "v", 20*time.Second) }, func(k string) error { return ok(b.DeleteIf(ctx, k, "v")) }, 1},
		"a longer lock's release":            {func(k string) { set(t, b, k, "v", 4*time.Minute) }, func(k string) error { return ok(b.DeleteIf(ctx, k, "v")) }, 1},
		"a counter with a lifetime":          {func(k string) { set(t, b, k, "1", time.Minute) }, func(k string) error { _, err := b.Increment(ctx, k, 1); return err }, 1},
		"a lifetime that is over never":      {func(k string) { set(t, b, k, "v", time.Minute) }, func(k string) error { return ok(b.Expire(ctx, k, 0)) }, 1},
		"a very long lock's release":         {func(k string) { set(t, b, k, "v", time.Hour) }, func(k string) error { return ok(b.DeleteIf(ctx, k, "v")) }, 2},
		"a delete of a value":                {func(k string) { set(t, b, k, "v", 0) }, func(k string) error { return ok(b.DeleteIf(ctx, k, "v")) }, 2},
		"a delete that does not look":        {nil, func(k string) error { return b.Delete(ctx, k) }, 2},
		"a set with a lifetime":              {nil, func(k string) error { return b.Set(ctx, k, "w", time.Minute) }, 2},
		"a lifetime that is made shorter":    {func(k string) { set(t, b, k, "v", time.Hour) }, func(k string) error { return ok(b.Expire(ctx, k, time.Minute)) }, 2},
		"a value that gets a lifetime":       {func(k string) { set(t, b, k, "v", 0) }, func(k string) error { return ok(b.Expire(ctx, k, time.Minute)) }, 2},
		"a swap of a value that then lapses": {func(k string) { set(t, b, k, "v", 0) }, func(k string) error { return ok(b.Swap(ctx, k, new("v"), "w", time.Minute)) }, 2},
	} {
		n++
		key := strconv.Itoa(n)
		if c.before != nil {
			c.before(key)
		}
		before := b.last.Load()
		require.NoError(t, c.do(key), name)
		require.Equal(t, c.writes, b.last.Load()-before, name)
	}
	require.Zero(t, b.Conflicts())
}

// What became of the second write is nothing to whoever made the first.
func TestASecondWriteThatFailsFailsNothing(t *testing.T) {
	t.Parallel()
	d := &natstest.FaultDialer{}
	url := server(t)
	b, other := open(t, url, config(), d.Option()), open(t, url, config())
	b.timeout = 200 * time.Millisecond
	second := func(frame []byte) bool {
		return isPublish(frame, b.subject("k")) && bytes.Contains(frame, []byte(headerAgain))
	}
	t.Run("somebody else has written since", func(t *testing.T) {
		set(t, b, "k", "v", 0)
		_, before := d.Dropped()
		d.DropToServer(1, second)
		done := make(chan error)
		go func() { done <- b.Delete(t.Context(), "k") }()
		natstest.Eventually(t, soon, func() bool { _, n := d.Dropped(); return n > before })
		set(t, other, "k", "new", 0)
		require.NoError(t, <-done)
		has(t, b, "k", "new")
		require.Zero(t, b.Conflicts())
	})
	t.Run("it never arrives", func(t *testing.T) {
		set(t, b, "k", "v", 0)
		_, before := d.Dropped()
		d.DropToServer(-1, second)
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		done := make(chan error)
		go func() {
			ok, err := b.Swap(ctx, "k", new("v"), "w", time.Minute)
			if err == nil && !ok {
				err = assert.AnError
			}
			done <- err
		}()
		natstest.Eventually(t, soon, func() bool { _, n := d.Dropped(); return n > before })
		leave()
		require.NoError(t, <-done, "it is stored, though the caller has left")
		d.Heal()
		has(t, b, "k", "w")
	})
}

func TestASecondWriteIsNoEvent(t *testing.T) {
	t.Parallel()
	url := server(t)
	for _, changesOnly := range []bool{false, true} {
		b := open(t, url, config())
		prefix := fmt.Sprint(changesOnly, "/")
		set(t, b, prefix+"gone", "v", 0)
		ctx, stop := context.WithTimeout(t.Context(), soon)
		var told []string
		for e, err := range b.Watch(ctx, prefix, kv.WatchOptions{ChangesOnly: changesOnly}) {
			require.NoError(t, err)
			switch key := strings.TrimPrefix(e.Key, prefix); {
			case e.Kind == kv.EventWatching:
				set(t, b, prefix+"k", "v", time.Hour)
				ok, err := b.Expire(ctx, prefix+"k", time.Minute)
				require.NoError(t, err)
				require.True(t, ok)
				require.NoError(t, b.Delete(ctx, prefix+"k"))
				require.NoError(t, b.Delete(ctx, prefix+"gone"))
				set(t, b, prefix+"end", "v", 0)
			case e.Kind != kv.EventThere:
				told = append(told, fmt.Sprint(e.Kind, " ", key))
			}
			if e.Key == prefix+"end" {
				break
			}
		}
		stop()
		// What changes faster than it is told may be told as one.
		require.Equal(t, []string{"deleted gone", "set end"}, told[len(told)-2:])
		counts := make(map[string]int)
		for _, event := range told {
			counts[event]++
		}
		require.LessOrEqual(t, counts["set k"], 2, told)
		require.LessOrEqual(t, counts["deleted k"], 1, told)
		require.Equal(t, 1, counts["deleted gone"], told)
	}
}

// Of each of the two a watch may have seen either, or both.
func TestWhatAWatchTellsOfASecondWrite(t *testing.T) {
	t.Parallel()
	now := time.Now()
	value := func(seq, again uint64) *entry { return &entry{seq: seq, again: again, stored: now, value: []byte("v")} }
	marker := func(seq, again uint64) *entry { return &entry{seq: seq, again: again, stored: now, marker: true} }
	for name, c := range map[string]struct {
		seen    []*entry
		blurred uint64
		want    []kv.EventKind
	}{
		"both":                     {[]*entry{value(3, 0), value(4, 3)}, 0, []kv.EventKind{kv.EventSet}},
		"the second only":          {[]*entry{value(4, 3)}, 0, []kv.EventKind{kv.EventSet}},
		"the second over another":  {[]*entry{value(2, 0), value(4, 3)}, 0, []kv.EventKind{kv.EventSet, kv.EventSet}},
		"the same once more":       {[]*entry{value(3, 0), value(4, 3), value(5, 0)}, 0, []kv.EventKind{kv.EventSet, kv.EventSet}},
		"both markers":             {[]*entry{value(2, 0), marker(3, 0), marker(4, 3)}, 9, []kv.EventKind{kv.EventSet, kv.EventDeleted}},
		"markers of what was gone": {[]*entry{marker(3, 0), marker(4, 3)}, 9, []kv.EventKind{kv.EventDeleted}},
		"its second marker only":   {[]*entry{marker(4, 3)}, 9, []kv.EventKind{kv.EventDeleted}},
		"two deletes":              {[]*entry{marker(3, 0), marker(5, 0), marker(6, 5)}, 9, []kv.EventKind{kv.EventDeleted, kv.EventDeleted}},
	} {
		b := &Bucket{prefix: "p.", clock: wall{}}
		var told []kv.EventKind
		w := b.newWatch("", func(e kv.Event, _ error) bool {
			told = append(told, e.Kind)
			return true
		})
		w.blurred = c.blurred
		for _, e := range c.seen {
			require.NoError(t, w.apply("p.k", e), name)
		}
		require.Equal(t, c.want, told, name)
	}
}
