package kvtest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/kv"
)

func keys(e *env) {
	require.Empty(e, e.keys(""))
	all := []string{"a", "a/", "a/1", "a/2", "a/é", "a/e\u0301", "A/1", "a.1", "a 1", "ab", "b", "b/a/1", "é", "ü", "a/=", "a/==2F", "a=2F1"}
	writeAll(e.T, e.ctx, e.a, all)
	for _, prefix := range []string{"", "a", "a/", "a/1", "a/1x", "a.", "a ", "A", "A/", "b/", "é", "a/e", "a/=", "a=", "z", " ", "/", "."} {
		want := []string{}
		for _, key := range all {
			if strings.HasPrefix(key, prefix) {
				want = append(want, key)
			}
		}
		require.ElementsMatch(e, want, e.keys(prefix), "keys %q", prefix)
	}
	require.NoError(e, e.a.Delete(e.ctx, "a/1"))
	require.True(e, e.deleteIf("a/2", "value of a/2"))
	require.ElementsMatch(e, []string{"a/", "a/é", "a/e\u0301", "a/=", "a/==2F"}, e.keys("a/"))
}

func manyKeys(e *env) {
	var all []string
	for i := range 1500 { // more than a server answers at once
		all = append(all, fmt.Sprintf("many/%d/%s", i, strings.Repeat("é", i%50)))
	}
	writeAll(e.T, e.ctx, e.a, all)
	e.set("other", "v", 0)
	require.ElementsMatch(e, all, e.keys("many/"))
	n, err := e.a.Wipe(e.ctx, "many/")
	require.NoError(e, err)
	require.Equal(e, len(all), n)
	require.Equal(e, []string{"other"}, e.keys(""))
}

func keysLapsed(e *env) {
	e.set("k/gone", "v", time.Second)
	e.set("k/lasting", "v", time.Hour)
	e.set("k/kept", "v", 0)
	require.Subset(e, e.keys("k/"), []string{"k/lasting", "k/kept"})
	e.outlive(time.Second)
	require.ElementsMatch(e, []string{"k/lasting", "k/kept"}, e.keys("k/"))
	n, err := e.a.Wipe(e.ctx, "k/")
	require.NoError(e, err)
	require.Equal(e, 2, n, "what has lapsed is not there")
	require.True(e, e.swap("k/gone", nil, "v", 0))
}

func keysMeanwhile(e *env) {
	var all []string
	for i := range 40 {
		all = append(all, fmt.Sprint("k", i))
	}
	writeAll(e.T, e.ctx, e.a, all)
	seen := 0
	for key, err := range e.a.Keys(e.ctx, "k") {
		require.NoError(e, err)
		e.has(key, "value of "+key)
		e.set(key, "written", 0)
		if seen++; seen == 10 {
			break
		}
	}
	require.Equal(e, 10, seen)
	removed := map[string]bool{}
	for key, err := range e.a.Keys(e.ctx, "k") {
		require.NoError(e, err)
		require.NoError(e, e.a.Delete(e.ctx, key))
		removed[key] = true
	}
	require.Len(e, removed, len(all))
	require.Empty(e, e.keys(""))

	writeAll(e.T, e.ctx, e.a, all)
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	var last error
	for key, err := range e.a.Keys(ctx, "k") {
		require.NoError(e, last, "an error is the last pair")
		if err != nil {
			require.Empty(e, key)
		}
		last = err
	}
	require.ErrorIs(e, last, context.Canceled, "a list that was cut short says so")
}

func wipe(e *env) {
	writeAll(e.T, e.ctx, e.a, []string{"a/1", "a/2", "a/é é", "a", "ab/1", "A/1", "b/a/1", "a.1"})
	e.set("a/mortal", "v", time.Hour)
	n, err := e.a.Wipe(e.ctx, "a/")
	require.NoError(e, err)
	require.Equal(e, 4, n)
	require.ElementsMatch(e, []string{"a", "ab/1", "A/1", "b/a/1", "a.1"}, e.keys(""))
	for _, key := range []string{"a/1", "a/2", "a/é é", "a/mortal"} {
		e.absent(key)
	}
	for _, prefix := range []string{"a/", "nothing"} {
		n, err = e.a.Wipe(e.ctx, prefix)
		require.NoError(e, err)
		require.Zero(e, n)
	}
	n, err = e.a.Wipe(e.ctx, "")
	require.NoError(e, err)
	require.Equal(e, 5, n)
	require.Empty(e, e.keys(""))
}

func wiped(e *env) {
	e.set("k/1", "5", time.Second)
	e.set("k/2", "5", time.Second)
	e.set("k/3", "5", time.Second)
	_, err := e.a.Wipe(e.ctx, "k/")
	require.NoError(e, err)
	require.False(e, e.expire("k/1", time.Hour))
	require.True(e, e.swap("k/1", nil, "6", 0))
	require.EqualValues(e, 1, e.increment("k/2", 1))
	e.set("k/3", "7", 0)
	e.outlive(time.Second)
	e.has("k/1", "6")
	e.has("k/2", "1")
	e.has("k/3", "7")
}

func cancelled(e *env) {
	e.set("k", "1", 0)
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	gone := &env{T: e.T, ctx: ctx, a: e.a}
	for _, key := range []string{"k", "absent"} {
		for name, op := range gone.operations(key, time.Hour) {
			require.ErrorIs(e, op(), context.Canceled, "%s of %q", name, key)
		}
		_, err := e.a.Swap(ctx, key, new("1"), "2", 0)
		require.ErrorIs(e, err, context.Canceled)
		_, err = e.a.DeleteIf(ctx, key, "1")
		require.ErrorIs(e, err, context.Canceled)
	}
	_, err := e.a.Wipe(ctx, "")
	require.ErrorIs(e, err, context.Canceled)
	e.has("k", "1")
	e.absent("absent")

	require.ErrorIs(e, e.a.Set(ctx, "", "v", 0), kv.ErrKey, "a bad key is one whatever the context")
}
