package kv_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

// ids are what entries are called.
func ids(entries []kv.Entry) string {
	var all []string
	for _, e := range entries {
		all = append(all, e.ID)
	}
	return strings.Join(all, " ")
}

func ranked(t *testing.T, l *kv.List, offset, limit int, order kv.Order) string {
	t.Helper()
	entries, err := l.Range(t.Context(), offset, limit, order)
	require.NoError(t, err)
	return ids(entries)
}

func putAll(t *testing.T, l *kv.List, scores map[string]float64) {
	t.Helper()
	for id, score := range scores {
		_, _, err := l.Put(t.Context(), id, score, nil)
		require.NoError(t, err)
	}
}

func TestListsAreRankedByScoreAndThenByID(t *testing.T) {
	space, _, memory := newSpace(t)
	list := space.List("board")
	require.Empty(t, ranked(t, list, 0, 10, kv.Descending))
	putAll(t, list, map[string]float64{"b": 5, "a": 5, "B": 5, "low": -1.5, "top": 1e300, "zero": 0, "nought": math.Copysign(0, -1)})
	require.Equal(t, "top B a b nought zero low", ranked(t, list, 0, 500, kv.Descending))
	require.Equal(t, "low zero nought b a B top", ranked(t, list, 0, 500, kv.Ascending))
	for _, c := range []struct {
		offset, limit int
		order         kv.Order
		want          string
	}{
		{0, 2, kv.Descending, "top B"},
		{2, 2, kv.Descending, "a b"},
		{6, 2, kv.Descending, "low"},
		{7, 2, kv.Descending, ""},
		{700, math.MaxInt, kv.Descending, ""},
		{math.MaxInt, math.MaxInt, kv.Ascending, ""},
		{0, 0, kv.Descending, ""},
		{0, 2, kv.Ascending, "low zero"},
		{5, math.MaxInt, kv.Ascending, "B top"},
	} {
		require.Equal(t, c.want, ranked(t, list, c.offset, c.limit, c.order), "%+v", c)
	}
	_, _, err := list.Put(t.Context(), "low", 6, nil) // another score, another place
	require.NoError(t, err)
	require.Equal(t, "top low B a b nought zero", ranked(t, list, 0, 500, kv.Descending))

	memory.Advance(1000 * time.Hour)
	require.Equal(t, "top low", ranked(t, list, 0, 2, kv.Descending), "a list has no lifetime")
	require.NoError(t, list.Delete(t.Context()))
	require.Empty(t, ranked(t, list, 0, 2, kv.Descending))
}

func TestAnEntryCarriesAValue(t *testing.T) {
	space, _, memory := newSpace(t)
	list := space.List("l")
	ctx := t.Context()
	type player struct{ Name string }
	_, _, err := list.Put(ctx, "a", 1, player{"Ada"})
	require.NoError(t, err)
	_, _, err = list.Put(ctx, "b", 0.5, jsontext.Value(`{"n": 12345678901234567890}`))
	require.NoError(t, err)
	entries, err := list.Range(ctx, 0, 10, kv.Descending)
	require.NoError(t, err)
	var got player
	require.NoError(t, entries[0].Decode(&got))
	require.Equal(t, player{"Ada"}, got)
	require.Equal(t, 1.0, entries[0].Score)
	raw, _, err := memory.Get(ctx, "list/shop/l")
	require.NoError(t, err)
	require.JSONEq(t, `[{"id":"a","score":1,"value":{"Name":"Ada"}},{"id":"b","score":0.5,"value":{"n":12345678901234567890}}]`, raw)
	require.Contains(t, raw, "12345678901234567890", "a value is kept to the last digit")

	_, _, err = list.Put(ctx, "a", 1, player{"Ada L."})
	require.NoError(t, err)
	entries, err = list.Range(ctx, 0, 1, kv.Descending)
	require.NoError(t, err)
	require.NoError(t, entries[0].Decode(&got))
	require.Equal(t, player{"Ada L."}, got)
}

func TestPutRefusesWhatIsNoEntry(t *testing.T) {
	space, adapter, _ := newSpace(t)
	list := space.List("l")
	ctx := t.Context()
	refused := func(field, want string, id string, score float64, opts ...kv.PutOption) {
		t.Helper()
		_, _, err := list.Put(ctx, id, score, 1, opts...)
		var f *job.FieldError
		require.ErrorAs(t, err, &f)
		require.Equal(t, field, f.Field)
		require.ErrorContains(t, err, want)
	}
	for _, id := range []string{"", " ", "a b", "a/b", "é", "a\n", "a+b", "\xff", "a\x00", strings.Repeat("a", 129), "{}", "`"} {
		refused("id", "must be 1 to 128 of A-Z a-z 0-9 : _ . @ -", id, 1)
	}
	for _, score := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		refused("score", "must be a finite number", "a", score)
	}
	refused("keep", "not NaN", "a", 1, kv.Keep(math.NaN()))
	_, _, err := list.Put(ctx, "a", 1, math.NaN())
	require.Error(t, err)
	for _, c := range [][2]int{{-1, 5}, {0, -1}} {
		_, err := list.Range(ctx, c[0], c[1], kv.Descending)
		var f *job.FieldError
		require.ErrorAs(t, err, &f)
		require.ErrorContains(t, err, "must not be negative")
	}
	require.Empty(t, adapter.asked())

	for _, id := range []string{"a", "A-Z_a.z:0@9", strings.Repeat("a", 128), "-", "..", "@"} {
		_, _, err := list.Put(ctx, id, 1, nil)
		require.NoError(t, err)
	}
	_, _, err = list.Put(ctx, "largest", math.MaxFloat64, nil)
	require.NoError(t, err)
	_, _, err = list.Put(ctx, "smallest", math.SmallestNonzeroFloat64, nil)
	require.NoError(t, err)
	entries, err := list.Range(ctx, 0, 500, kv.Descending)
	require.NoError(t, err)
	require.Equal(t, math.MaxFloat64, entries[0].Score)
	require.Equal(t, math.SmallestNonzeroFloat64, entries[len(entries)-1].Score)
}

func TestKeepIsHowManyStay(t *testing.T) {
	ctx := t.Context()
	for _, c := range []struct {
		keep          kv.PutOption
		score         float64
		kept, dropped string
	}{
		{kv.Keep(10), 2.5, "c new b a", ""},
		{kv.Keep(4), 2.5, "c new b a", ""},
		{kv.Keep(3), 2.5, "c new b", "a"},
		{kv.Keep(3.99), 2.5, "c new b", "a"},
		{kv.Keep(2), 2.5, "c new", "b a"},
		{kv.Keep(1), 2.5, "c", "new b a"},
		{kv.Keep(2), 0, "c b", "a new"},
		{kv.Keep(0), 9, "", "new c b a"},
		{kv.Keep(0.9), 9, "", "new c b a"},
		{kv.Keep(-3), 9, "", "new c b a"},
		{kv.Keep(math.Inf(-1)), 9, "", "new c b a"},
		{kv.Keep(math.Inf(1)), 9, "new c b a", ""},
		{kv.Keep(1000), 9, "new c b a", ""},
		{kv.Keep(math.MaxInt), 9, "new c b a", ""},
	} {
		space, _, memory := newSpace(t)
		list := space.List("l")
		putAll(t, list, map[string]float64{"a": 1, "b": 2, "c": 3})
		stored, dropped, err := list.Put(ctx, "new", c.score, nil, c.keep)
		require.NoError(t, err)
		require.True(t, stored, "what falls off at once was stored")
		require.Equal(t, c.dropped, ids(dropped))
		require.Equal(t, c.kept, ranked(t, list, 0, 500, kv.Descending))
		if c.kept == "" {
			require.Empty(t, collect(t, memory.Keys(ctx, "")), "a list without entries is not stored")
		}
	}

	space, adapter, memory := newSpace(t)
	stored, dropped, err := space.List("none").Put(ctx, "a", 1, nil, kv.Keep(0))
	require.NoError(t, err)
	require.True(t, stored)
	require.Equal(t, "a", ids(dropped))
	require.Empty(t, collect(t, memory.Keys(ctx, "")))
	require.Equal(t, []string{"get"}, adapter.asked())
}

func TestAListHas500EntriesAtMost(t *testing.T) {
	space, _, memory := newSpace(t)
	list := space.List("l")
	ctx := t.Context()
	var all []string
	for i := range 499 {
		all = append(all, fmt.Sprintf(`{"id":"%d","score":%[1]d}`, i))
	}
	require.NoError(t, memory.Set(ctx, "list/shop/l", "["+strings.Join(all, ",")+"]", 0))
	_, dropped, err := list.Put(ctx, "499", 499, nil)
	require.NoError(t, err)
	require.Empty(t, dropped)
	stored, dropped, err := list.Put(ctx, "lowest", -1, nil)
	require.NoError(t, err)
	require.True(t, stored)
	require.Equal(t, "lowest", ids(dropped))
	_, dropped, err = list.Put(ctx, "highest", 1000, nil, kv.Keep(600))
	require.NoError(t, err)
	require.Equal(t, "0", ids(dropped))
	entries, err := list.Range(ctx, 0, 1000, kv.Descending)
	require.NoError(t, err)
	require.Len(t, entries, 500)
}

func TestHigherOnlyKeepsAHigherScore(t *testing.T) {
	space, adapter, _ := newSpace(t)
	list := space.List("l")
	ctx := t.Context()
	put := func(score float64, value string) bool {
		stored, dropped, err := list.Put(ctx, "a", score, value, kv.HigherOnly(), kv.Keep(1))
		require.NoError(t, err)
		require.Empty(t, dropped)
		return stored
	}
	require.True(t, put(5, "first"))
	adapter.asked()
	require.False(t, put(4.9, "lower"))
	require.Equal(t, []string{"get"}, adapter.asked(), "nothing is written")
	require.True(t, put(5, "equal"), "an equal score is none that is higher")
	require.True(t, put(5.1, "higher"))
	entries, err := list.Range(ctx, 0, 10, kv.Descending)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Equal(t, `"higher"`, string(entries[0].Value))
}

func TestAListHas128000BytesAtMost(t *testing.T) {
	space, _, memory := newSpace(t)
	list := space.List("l")
	ctx := t.Context()
	put := func(id string, score float64, bytes int, opts ...kv.PutOption) error {
		_, _, err := list.Put(ctx, id, score, strings.Repeat("x", bytes), opts...)
		return err
	}
	frame := len(`[{"id":"a","score":1,"value":""}]`)
	err := put("a", 1, 128_000-frame+1)
	require.ErrorIs(t, err, kv.ErrTooLarge)
	require.ErrorContains(t, err, "its JSON would have 128001 bytes, at most 128000 are allowed: keep fewer entries")
	require.NoError(t, put("a", 1, 128_000-frame))
	raw, _, err := memory.Get(ctx, "list/shop/l")
	require.NoError(t, err)
	require.Len(t, raw, 128_000)

	require.ErrorIs(t, put("b", 2, 0), kv.ErrTooLarge)
	require.Equal(t, "a", ranked(t, list, 0, 9, kv.Descending))
	require.NoError(t, put("b", 2, 0, kv.Keep(1)), "what falls off does not count")
	require.Equal(t, "b", ranked(t, list, 0, 9, kv.Descending))
	require.ErrorIs(t, put("c", 3, 200_000, kv.Keep(1)), kv.ErrTooLarge)

	// A list that something else made too long can be made shorter.
	require.NoError(t, memory.Set(ctx, "list/shop/l", fmt.Sprintf(`[{"id":"a","score":1,"value":%q},{"id":"b","score":2,"value":%[1]q},{"id":"c","score":3}]`,
		strings.Repeat("x", 130_000)), 0))
	require.ErrorIs(t, put("d", 4, 0), kv.ErrTooLarge)
	was, err := list.Remove(ctx, "c")
	require.NoError(t, err)
	require.True(t, was)
	require.Equal(t, "b a", ranked(t, list, 0, 9, kv.Descending))
}

func TestRemoveAnswersWhetherItWasThere(t *testing.T) {
	space, _, memory := newSpace(t)
	list := space.List("l")
	ctx := t.Context()
	remove := func(id string) bool {
		was, err := list.Remove(ctx, id)
		require.NoError(t, err)
		return was
	}
	require.False(t, remove("a"))
	putAll(t, list, map[string]float64{"a": 1, "b": 2})
	require.False(t, remove("c"))
	require.True(t, remove("a"))
	require.False(t, remove("a"))
	require.Equal(t, "b", ranked(t, list, 0, 9, kv.Descending))
	require.True(t, remove("b"))
	require.Empty(t, collect(t, memory.Keys(ctx, "")))
	putAll(t, list, map[string]float64{"a": 1})
	require.Equal(t, "a", ranked(t, list, 0, 9, kv.Descending))
}

func TestBadEntriesAreSkippedOneByOne(t *testing.T) {
	space, _, memory := newSpace(t)
	list := space.List("l")
	ctx := t.Context()
	good := []string{
		`{"id":"low","score":-1,"value":null}`, ` { "score" : 1e1 , "extra": {"a":1,"b":2}, "id" : "high" } `, `{"id":"mid","score":2,"value":{"a":[1]}}`,
	}
	bad := []string{
		`null`, `1`, `"a"`, `[]`, `[1,2]`, `{}`, `{"id":"x"}`, `{"score":1}`, `{"id":"","score":1}`, `{"id":"a b","score":1}`, `{"id":1,"score":1}`,
		`{"id":"x","score":"1"}`, `{"id":"x","score":null}`, `{"id":null,"score":1}`, `{"id":"x","score":1e999}`, `{"ID":"x","score":1}`,
		`{"id":"x","id":"y","score":1}`, `{"id":"x","score":1,"value":{"a":1,"a":2}}`, "{\"id\":\"x\",\"score\":1,\"value\":\"\xff\"}",
		`{"id":"x","score":1,"value":"\ud800"}`, `{"id":"high","score":99,"value":"a second one of that id"}`, `{"id":"` + strings.Repeat("x", 129) + `","score":1}`,
	}
	for _, first := range bad {
		all := slices.Concat(good[:1], []string{good[1], first}, good[2:], bad)
		require.NoError(t, memory.Set(ctx, "list/shop/l", " [ "+strings.Join(all, " , ")+" ] ", 0))
		require.Equal(t, "high mid low", ranked(t, list, 0, 99, kv.Descending), "with %q", first)
	}
	_, _, err := list.Put(ctx, "new", 3, nil)
	require.NoError(t, err)
	raw, _, err := memory.Get(ctx, "list/shop/l")
	require.NoError(t, err)
	require.JSONEq(t, `[{"id":"high","score":10,"value":null},{"id":"new","score":3,"value":null},{"id":"mid","score":2,"value":{"a":[1]}},{"id":"low","score":-1,"value":null}]`, raw)
}

func TestWhatIsNoListReadsAsEmpty(t *testing.T) {
	space, _, memory := newSpace(t)
	list := space.List("l")
	ctx := t.Context()
	entry := `{"id":"a","score":1,"value":null}`
	for _, raw := range []string{
		"", "text", "null", "1", `"[]"`, "{}", entry, "[", "[" + entry, "[" + entry + ",", "[" + entry + ",]", "[" + entry + "] x", "[" + entry + "][]",
		"[,]", "[" + entry + " " + entry + "]", "\xff", "[]", " [ ] ", "[" + entry + ",{]", strings.Repeat("[", 20_000),
	} {
		require.NoError(t, memory.Set(ctx, "list/shop/l", raw, 0))
		require.Empty(t, ranked(t, list, 0, 99, kv.Descending), "%.40q", raw)
		was, err := list.Remove(ctx, "a")
		require.NoError(t, err)
		require.False(t, was)
		got, _, err := memory.Get(ctx, "list/shop/l")
		require.NoError(t, err)
		require.Equal(t, raw, got, "nothing was written")
		_, _, err = list.Put(ctx, "b", 1, nil)
		require.NoError(t, err)
		require.Equal(t, "b", ranked(t, list, 0, 99, kv.Descending))
	}
}
