package kv_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/kv"
)

// begun reads what a watch tells until it has begun, and does what is to be done then; from then on it reads so many
// events more.
func begun(t *testing.T, watch func(func(kv.Event, error) bool), then func(), more int) (before, after []kv.Event) {
	t.Helper()
	running := false
	for e, err := range watch {
		require.NoError(t, err)
		switch {
		case e.Kind == kv.EventWatching:
			require.Equal(t, kv.Event{Kind: kv.EventWatching, At: e.At}, e, "it is of no key")
			running = true
			then()
		case running:
			after = append(after, e)
		default:
			before = append(before, e)
		}
		if running && len(after) == more {
			return before, after
		}
	}
	t.Fatal("it ended without an error")
	return nil, nil
}

func TestASpaceIsWatched(t *testing.T) {
	store := kv.New(newClocked(kv.MemoryOptions{}), kv.Options{})
	space := store.Space("a/b")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	type value struct{ N int }
	require.NoError(t, space.Set(ctx, "k/1", value{1}, time.Hour))
	require.NoError(t, space.Set(ctx, "other", value{1}, 0))
	require.NoError(t, store.Space("a").Set(ctx, "b/k/1", value{2}, 0))
	_, _, err := space.List("k/board").Put(ctx, "ada", 5, "v")
	require.NoError(t, err)

	before, after := begun(t, space.Watch(ctx, "k/", kv.WatchOptions{}), func() {
		require.NoError(t, space.Set(ctx, "k/2", "text", 0))
		require.NoError(t, space.Delete(ctx, "k/1"))
	}, 2)
	require.Len(t, before, 1)
	require.Equal(t, "k/1", before[0].Key)
	require.True(t, before[0].There())
	require.Equal(t, time.Hour, before[0].Expires.Sub(before[0].At))
	var v value
	require.NoError(t, before[0].Decode(&v))
	require.Equal(t, value{1}, v)
	require.Equal(t, []kv.EventKind{kv.EventSet, kv.EventDeleted}, []kv.EventKind{after[0].Kind, after[1].Kind})
	require.Equal(t, "k/2", after[0].Key)
	require.Equal(t, `"text"`, after[0].Value)
	require.Zero(t, after[0].Expires)
	require.False(t, after[1].There())

	before, _ = begun(t, space.WatchLists(ctx, "", kv.WatchOptions{}), func() {}, 0)
	require.Len(t, before, 1)
	require.Equal(t, "k/board", before[0].Key)
	var entries []kv.Entry
	require.NoError(t, before[0].Decode(&entries))
	require.Equal(t, "ada", entries[0].ID)
}

func TestWhatCannotBeWatchedSaysSo(t *testing.T) {
	space, _, _ := newSpace(t) // whose adapter is no Watcher
	for op, watch := range map[string]func(context.Context, string, kv.WatchOptions) func(func(kv.Event, error) bool){
		"watch": func(ctx context.Context, p string, o kv.WatchOptions) func(func(kv.Event, error) bool) {
			return space.Watch(ctx, p, o)
		},
		"watch the lists": func(ctx context.Context, p string, o kv.WatchOptions) func(func(kv.Event, error) bool) {
			return space.WatchLists(ctx, p, o)
		},
	} {
		for prefix, want := range map[string]error{"k": kv.ErrNoWatch, "\xff": kv.ErrKey} {
			pairs := 0
			for e, err := range watch(t.Context(), prefix, kv.WatchOptions{}) {
				require.Zero(t, e)
				require.ErrorIs(t, err, want)
				require.ErrorContains(t, err, "kv: "+op+" ")
				pairs++
			}
			require.Equal(t, 1, pairs)
		}
	}
}

func TestAWatchOfAMemoryThatIsSlowHoldsUpNobody(t *testing.T) {
	m := newClocked(kv.MemoryOptions{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, after := begun(t, m.Watch(ctx, "", kv.WatchOptions{}), func() {
		for i := range 1000 { // while nobody reads
			_, err := m.Increment(ctx, "n", 1)
			require.NoError(t, err)
			if i == 500 {
				require.NoError(t, m.Set(ctx, "came and went", "v", 0))
				require.NoError(t, m.Delete(ctx, "came and went"))
			}
		}
	}, 1)
	require.Equal(t, "n", after[0].Key)
	require.Equal(t, "1000", after[0].Value, "the newest state")
}
