package kvtest

import (
	"math"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/kv"
)

func lapsed(e *env) {
	e.set("lasting", "v", time.Hour)
	e.set("k", "v", time.Second)
	e.outlive(time.Second)
	e.absent("k")
	e.has("lasting", "v")

	e.set("k", "again", 0)
	e.outlive(time.Second)
	e.has("k", "again")
}

func lapsedIsAbsent(e *env) {
	for _, key := range []string{"swap", "swap of nothing", "expire", "deleteIf", "increment", "set", "delete"} {
		e.set(key, "1", time.Second)
	}
	e.outlive(time.Second)
	require.False(e, e.swap("swap", new("1"), "2", 0))
	e.absent("swap")
	require.True(e, e.swap("swap of nothing", nil, "2", time.Hour))
	e.has("swap of nothing", "2")
	require.False(e, e.expire("expire", time.Hour))
	e.absent("expire")
	require.False(e, e.deleteIf("deleteIf", "1"))
	e.absent("deleteIf")
	require.EqualValues(e, 7, e.increment("increment", 7))
	e.has("increment", "7")
	e.set("set", "2", 0)
	e.has("set", "2")
	require.NoError(e, e.a.Delete(e.ctx, "delete"))
	e.absent("delete")
}

func millis(e *env) {
	e.set("half", "v", 500*time.Millisecond)
	e.set("odd", "v", 300*time.Millisecond+500*time.Microsecond)
	e.set("shortest", "v", time.Millisecond)
	e.set("lasting", "v", time.Hour+time.Millisecond)
	e.outlive(500 * time.Millisecond) // while a store that counts in seconds would still have them
	for _, key := range []string{"half", "odd", "shortest"} {
		e.absent(key)
	}
	e.has("lasting", "v")

	// A lifetime is not cut to whole seconds either.
	e.set("almost two", "v", 1900*time.Millisecond)
	started := time.Now()
	e.advance(1100 * time.Millisecond)
	_, ok, err := e.a.Get(e.ctx, "almost two")
	require.NoError(e, err)
	if time.Since(started) < 1700*time.Millisecond {
		require.True(e, ok, "it has 0.6 s left at least")
	}
	e.outlive(800 * time.Millisecond)
	e.absent("almost two")
}

func longest(e *env) {
	for name, ttl := range map[string]time.Duration{
		"a year": 365 * 24 * time.Hour, "a century": 36525 * 24 * time.Hour, "the longest": math.MaxInt64,
	} {
		e.set(name, "v", ttl)
		require.True(e, e.swap(name+" swapped", nil, "v", ttl))
		e.set(name+" expiring", "v", 0)
		require.True(e, e.expire(name+" expiring", ttl))
		defer func() {
			for _, key := range []string{name, name + " swapped", name + " expiring"} {
				e.has(key, "v")
			}
		}()
	}
	e.outlive(time.Second)
}

func noLifetime(e *env) {
	e.set("k", "v", 0)
	for _, ttl := range []time.Duration{-1, -time.Second, math.MinInt64, 1, 999 * time.Microsecond} {
		for _, key := range []string{"k", "absent"} {
			for name, op := range e.leases(key, ttl) {
				require.ErrorIs(e, op(), kv.ErrTTL, "%s of %q for %d ns", name, key, ttl)
			}
		}
	}
	e.outlive(time.Second)
	e.has("k", "v")
	e.absent("absent")
}

func expireAbsent(e *env) {
	require.False(e, e.expire("k", time.Second))
	e.absent("k")
	require.False(e, e.expire("k", 0))
	e.absent("k")
	require.True(e, e.swap("k", nil, "v", 0), "expire left nothing behind")
	e.set("deleted", "v", 0)
	require.NoError(e, e.a.Delete(e.ctx, "deleted"))
	require.False(e, e.expire("deleted", time.Second))
	e.set("deleted", "v", 0)
	e.outlive(time.Second)
	e.has("k", "v")
	e.has("deleted", "v")
}

func expireCounts(e *env) {
	e.set("ends", "v", 0)
	require.True(e, e.expire("ends", time.Second))
	e.set("ends sooner", "v", time.Hour)
	require.True(e, e.expire("ends sooner", time.Second))
	e.set("ends later", "v", time.Minute)
	require.True(e, e.expire("ends later", time.Hour))
	e.outlive(time.Second)
	e.absent("ends")
	e.absent("ends sooner")
	if _, ok := e.a.(Clock); ok {
		e.outlive(time.Minute)
	}
	e.has("ends later", "v")
}

func expireNone(e *env) {
	e.set("k", "v", 2*time.Second)
	stays := e.expire("k", 0)
	e.outlive(2 * time.Second)
	if stays { // or a slow store has let it lapse before
		e.has("k", "v")
	}
	if _, ok := e.a.(Clock); ok {
		require.True(e, stays)
	}
}
