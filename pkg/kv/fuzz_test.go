package kv_test

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/kv"
)

// Whatever stands in the store can be read: as the document it is, or as the string it is.
func FuzzValues(f *testing.F) {
	for _, raw := range []string{"", "text", "null", "1", `"a"`, `{"a":[1,{"b":null}]}`, `{"a":1,"a":2}`, "\xff", " [1] ", "1e999", `"\ud800"`, "-0", "[[[[", "1 2"} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		space, _, memory := newSpace(t)
		ctx := t.Context()
		require.NoError(t, memory.Set(ctx, "v/shop/k", raw, 0))
		var got any
		ok, err := space.Get(ctx, "k", &got)
		if err != nil {
			// Only a number that no float holds.
			require.ErrorIs(t, err, strconv.ErrRange)
			require.Error(t, json.Unmarshal([]byte(raw), new(any)))
			return
		}
		require.True(t, ok)
		if text, ok := got.(string); ok && text == raw {
			return
		}
		var want any
		require.NoError(t, json.Unmarshal([]byte(raw), &want), "%q was read as %#v", raw, got)
		require.Equal(t, want, got)

		// What was read can be written, and read again.
		require.NoError(t, space.Set(ctx, "k", got, 0))
		var again any
		_, err = space.Get(ctx, "k", &again)
		require.NoError(t, err)
		require.Equal(t, got, again)
		swapped, err := space.Swap(ctx, "k", any(again), 1, 0)
		require.NoError(t, err)
		require.Equal(t, got != nil, swapped) // to expect nil is to expect nothing
	})
}

// compact is a value with its spaces and its spelling of strings put right, and its numbers left as they are.
func compact(t *testing.T, value jsontext.Value) string {
	t.Helper()
	value = value.Clone()
	require.NoError(t, value.Format(jsontext.PreserveRawStrings(false), jsontext.Multiline(false)))
	return value.String()
}

// Whatever stands in the store is a list of good entries, that can be written and reads the same again.
func FuzzLists(f *testing.F) {
	for _, raw := range []string{
		"", "[]", "[1]", `[{"id":"a","score":1,"value":null}]`, `[{"id":"a","score":1},{"id":"b","score":1},{"id":"a","score":2}]`, `[{"id":"a","score":-0}`,
		`[{"id":"a","score":1e308,"value":{"a":1}},{}]`, `[{"id":"a","score":1,"value":" "}] [`, "[\xff]", `[{"id":"a","score":0,"value":"\ud800"}]`,
		`[{"id":"a","score":1,"value":[1e999, "\u0061\/"] }]`, `[{"id":"low","score":-1e-300},null,[],"x",{"id":"","score":1}]`,
	} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		entries := kv.DecodeList(raw)
		seen := map[string]bool{}
		for i, e := range entries {
			require.False(t, seen[e.ID])
			seen[e.ID] = true
			require.Regexp(t, `^[A-Za-z0-9:_.@-]{1,128}$`, e.ID)
			require.False(t, math.IsNaN(e.Score) || math.IsInf(e.Score, 0))
			require.True(t, e.Value.IsValid())
			if i > 0 {
				before := entries[i-1]
				require.True(t, before.Score > e.Score || before.Score == e.Score && before.ID < e.ID)
			}
		}
		if len(entries) > 0 {
			require.True(t, strings.HasPrefix(strings.TrimLeft(raw, " \t\r\n"), "["))
		}

		space, _, memory := newSpace(t)
		list := space.List("l")
		ctx := t.Context()
		require.NoError(t, memory.Set(ctx, "list/shop/l", raw, 0))
		_, _, err := list.Put(ctx, "fuzz.new", 0.5, "v")
		if errors.Is(err, kv.ErrTooLarge) {
			return
		}
		require.NoError(t, err)
		if !seen["fuzz.new"] {
			was, err := list.Remove(ctx, "fuzz.new")
			require.NoError(t, err)
			require.True(t, was)
			again, err := list.Range(ctx, 0, math.MaxInt, kv.Descending)
			require.NoError(t, err)
			want := entries[:min(len(entries), kv.MaxEntries)]
			require.Equal(t, ids(want), ids(again))
			for i := range want {
				require.Equal(t, want[i].Score, again[i].Score)
				require.Equal(t, compact(t, want[i].Value), compact(t, again[i].Value))
			}
		}
	})
}
