package kvtest

import (
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/kv"
)

func deletes(e *env) {
	require.NoError(e, e.a.Delete(e.ctx, "never there"))
	e.absent("never there")
	e.set("k", "v", time.Second)
	require.NoError(e, e.a.Delete(e.ctx, "k"))
	e.absent("k")
	require.NoError(e, e.a.Delete(e.ctx, "k"))
	require.Empty(e, e.keys(""))
	for range 3 {
		require.True(e, e.swap("k", nil, "again", 0))
		require.NoError(e, e.a.Delete(e.ctx, "k"))
	}
	e.set("k", "stays", 0)
	e.outlive(time.Second)
	e.has("k", "stays")
}

func deleteIf(e *env) {
	require.False(e, e.deleteIf("k", "v"))
	e.set("k", "v", 0)
	for _, other := range []string{"", "V", "v ", " v", "w", "v\x00"} {
		require.False(e, e.deleteIf("k", other), "expecting %q", other)
	}
	e.has("k", "v")
	require.True(e, e.deleteIf("k", "v"))
	e.absent("k")
	require.False(e, e.deleteIf("k", "v"))
	e.set("k", "w", time.Hour)
	require.False(e, e.deleteIf("k", "v"), "it is another's by now")
	e.has("k", "w")
	require.True(e, e.deleteIf("k", "w"))
	require.Empty(e, e.keys(""))
}

func deleteIfRace(e *env) {
	for range 5 {
		e.set("k", "v", 0)
		var wins atomic.Int32
		e.race(func(_ int, a kv.Adapter) error {
			ok, err := a.DeleteIf(e.ctx, "k", "v")
			if ok {
				wins.Add(1)
			}
			return err
		})
		require.EqualValues(e, 1, wins.Load())
		e.absent("k")
	}

	// Against swaps of the same value: what one of them won, the others have not.
	for range 5 {
		e.set("k", "v", 0)
		var deleted, swapped atomic.Int32
		e.race(func(writer int, a kv.Adapter) (err error) {
			var ok bool
			if writer%3 == 0 {
				if ok, err = a.DeleteIf(e.ctx, "k", "v"); ok {
					deleted.Add(1)
				}
				return err
			}
			if ok, err = a.Swap(e.ctx, "k", new("v"), "w", 0); ok {
				swapped.Add(1)
			}
			return err
		})
		require.EqualValues(e, 1, deleted.Load()+swapped.Load())
		if deleted.Load() == 1 {
			e.absent("k")
		} else {
			e.has("k", "w")
		}
	}
}
