package kvtest

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/kv"
)

func swapExact(e *env) {
	e.set("k", `{"a": 1}`, 0)
	for _, other := range []string{"", `{"a":1}`, `{"a": 1} `, ` {"a": 1}`, `{"A": 1}`, `{"a": 1}` + "\x00", `{"a": 1`} {
		require.False(e, e.swap("k", &other, "2", 0), "expecting %q", other)
	}
	e.has("k", `{"a": 1}`)
	require.True(e, e.swap("k", new(`{"a": 1}`), "2", 0))
	e.has("k", "2")
	require.False(e, e.swap("k", new(`{"a": 1}`), "3", 0))
	e.set("accent", "é", 0)
	require.False(e, e.swap("accent", new("e\u0301"), "x", 0), "bytes, not what they look like")
}

func swapNothing(e *env) {
	require.False(e, e.swap("k", new("v"), "v", 0))
	e.absent("k")
	require.True(e, e.swap("k", nil, "v", 0))
	e.has("k", "v")
	require.False(e, e.swap("k", nil, "w", 0))
	require.False(e, e.swap("k", nil, "v", 0), "the value is there, but not by this call")
	e.has("k", "v")

	require.NoError(e, e.a.Delete(e.ctx, "k"))
	require.True(e, e.swap("k", nil, "w", 0), "over what was deleted")
	require.True(e, e.deleteIf("k", "w"))
	require.True(e, e.swap("k", nil, "x", time.Second), "over what was deleted")
	e.outlive(time.Second)
	require.True(e, e.swap("k", nil, "y", 0), "over what lapsed")
	e.has("k", "y")
}

func swapSame(e *env) {
	e.set("k", "v", 0)
	require.True(e, e.swap("k", new("v"), "v", 0))
	require.True(e, e.swap("k", new("v"), "v", time.Second))
	e.outlive(time.Second)
	e.absent("k")
}

func swapRace(e *env) {
	e.set("lapsed", "old", time.Second)
	e.outlive(time.Second)
	for round := range 5 {
		e.set("there", "old", 0)
		for _, c := range []struct {
			key      string
			expected *string
			next     func(writer int) string
		}{
			{fmt.Sprintf("new %d", round), nil, func(writer int) string { return fmt.Sprint(writer) }},
			{fmt.Sprintf("new and equal %d", round), nil, func(int) string { return "same" }},
			{"there", new("old"), func(writer int) string { return fmt.Sprint(writer) }},
			{"lapsed", nil, func(writer int) string { return fmt.Sprint(writer) }},
		} {
			if c.key == "lapsed" && round > 0 {
				continue
			}
			var wins atomic.Int32
			var winner atomic.Value
			e.race(func(writer int, a kv.Adapter) error {
				ok, err := a.Swap(e.ctx, c.key, c.expected, c.next(writer), time.Hour)
				if ok {
					wins.Add(1)
					winner.Store(c.next(writer))
				}
				return err
			})
			require.EqualValues(e, 1, wins.Load(), "winners of %q", c.key)
			e.has(c.key, winner.Load().(string))
		}
	}
}

func swapLifetime(e *env) {
	require.True(e, e.swap("new", nil, "v", time.Second))
	e.set("over none", "v", 0)
	require.True(e, e.swap("over none", new("v"), "w", time.Second))
	e.set("over longer", "v", time.Hour)
	require.True(e, e.swap("over longer", new("v"), "w", time.Second))
	e.set("over shorter", "v", time.Minute)
	require.True(e, e.swap("over shorter", new("v"), "w", time.Hour))
	e.outlive(time.Second)
	e.absent("new")
	e.absent("over none")
	e.absent("over longer")
	if _, ok := e.a.(Clock); ok {
		e.outlive(time.Minute)
	}
	e.has("over shorter", "w")
}

func swapLost(e *env) {
	e.set("mortal", "v", time.Second)
	require.False(e, e.swap("mortal", new("w"), "x", time.Hour))
	e.set("lasting", "v", 0)
	require.False(e, e.swap("lasting", new("w"), "x", time.Second))
	require.False(e, e.swap("lasting", nil, "x", time.Second))
	require.False(e, e.deleteIf("lasting", "w"))
	e.outlive(time.Second)
	e.absent("mortal")
	e.has("lasting", "v")
}
