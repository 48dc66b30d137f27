package kv_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

func TestValuesRoundTripThroughJSON(t *testing.T) {
	space, _, memory := newSpace(t)
	ctx := t.Context()
	type cart struct {
		Items map[string]int `json:"items"`
		Held  time.Duration  `json:"held"`
		At    time.Time      `json:"at"`
	}
	in := cart{Items: map[string]int{"tea": 2, "cup": 1}, Held: 90 * time.Second, At: time.Unix(1_700_000_000, 123456789).UTC()}
	require.NoError(t, kv.Set(ctx, space, "cart", in, 0))
	out, ok, err := kv.Get[cart](ctx, space, "cart")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, in, out)
	raw, _, err := memory.Get(ctx, "v/shop/cart")
	require.NoError(t, err)
	require.Equal(t, `{"items":{"cup":1,"tea":2},"held":"1m30s","at":"2023-11-14T22:13:20.123456789Z"}`, raw)

	for _, value := range []any{nil, true, 1.5, "text", "", `"quoted"`, "<&>é\x00", []any{1.0, "a", nil}, map[string]any{"a": map[string]any{}}} {
		require.NoError(t, space.Set(ctx, "any", value, 0))
		var got any = "something else"
		ok, err := space.Get(ctx, "any", &got)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, value, got)
	}
	n, ok, err := kv.Get[int64](ctx, space, "nothing")
	require.NoError(t, err)
	require.False(t, ok)
	require.Zero(t, n)

	require.ErrorContains(t, space.Set(ctx, "k", func() {}, 0), `kv: set "k" in space "shop": `)
	require.Error(t, space.Set(ctx, "k", "\xff", 0))
	_, ok, err = memory.Get(ctx, "v/shop/k")
	require.NoError(t, err)
	require.False(t, ok)
}

func TestWhatIsNoJSONIsTheStringThatItIs(t *testing.T) {
	space, _, memory := newSpace(t)
	ctx := t.Context()
	for _, raw := range []string{"", "hello", "1 2", `{"a":1`, `{"a":1,"a":2}`, "\xff", "NaN", "'a'", "\"\xff\"", `{"a":1}x`} {
		require.NoError(t, memory.Set(ctx, "v/shop/k", raw, 0))
		var got any
		_, err := space.Get(ctx, "k", &got)
		require.NoError(t, err, "%q", raw)
		require.Equal(t, raw, got)
		text, ok, err := kv.Get[string](ctx, space, "k")
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, raw, text)
		_, _, err = kv.Get[map[string]int](ctx, space, "k")
		require.ErrorContains(t, err, "the value is no JSON")
	}
	type name string
	require.NoError(t, memory.Set(ctx, "v/shop/k", "hello", 0))
	named, _, err := kv.Get[name](ctx, space, "k")
	require.NoError(t, err)
	require.Equal(t, name("hello"), named)
	document, _, err := kv.Get[jsontext.Value](ctx, space, "k")
	require.NoError(t, err)
	require.Equal(t, `"hello"`, string(document))

	require.NoError(t, memory.Set(ctx, "v/shop/k", ` {"a" : 1} `, 0))
	spaced, _, err := kv.Get[map[string]int](ctx, space, "k")
	require.NoError(t, err)
	require.Equal(t, map[string]int{"a": 1}, spaced)
	_, _, err = kv.Get[int](ctx, space, "k")
	require.ErrorContains(t, err, `kv: get "k" in space "shop": `, "JSON of another kind is no string")
}

func TestSwapAndDeleteIfExpectAValue(t *testing.T) {
	space, _, memory := newSpace(t)
	ctx := t.Context()
	type lock struct{ Holder string }
	swap := func(expected *lock, next lock) bool {
		ok, err := kv.Swap(ctx, space, "lock", expected, next, time.Minute)
		require.NoError(t, err)
		return ok
	}
	require.False(t, swap(&lock{"a"}, lock{"b"}))
	require.True(t, swap(nil, lock{"a"}))
	require.False(t, swap(nil, lock{"b"}))
	require.False(t, swap(&lock{"b"}, lock{"b"}))
	require.True(t, swap(&lock{"a"}, lock{"b"}))

	ok, err := space.DeleteIf(ctx, "lock", lock{"a"})
	require.NoError(t, err)
	require.False(t, ok)
	ok, err = space.DeleteIf(ctx, "lock", lock{"b"})
	require.NoError(t, err)
	require.True(t, ok)
	require.True(t, swap(nil, lock{"c"}))
	memory.Advance(time.Minute)
	require.True(t, swap(nil, lock{"d"}), "it has lapsed")

	ok, err = space.Swap(ctx, "untyped", nil, map[string]int{"b": 1, "a": 2}, 0)
	require.NoError(t, err)
	require.True(t, ok)
	ok, err = space.Swap(ctx, "untyped", map[string]int{"a": 2, "b": 1}, jsontext.Value("null"), 0)
	require.NoError(t, err)
	require.True(t, ok, "a value is always written in the same way")
	ok, err = space.Swap(ctx, "untyped", jsontext.Value("null"), 1, 0)
	require.NoError(t, err)
	require.True(t, ok)
	require.NoError(t, space.Delete(ctx, "untyped"))
	ok, err = space.Expire(ctx, "untyped", time.Second)
	require.NoError(t, err)
	require.False(t, ok)
	ok, err = space.Expire(ctx, "lock", time.Second)
	require.NoError(t, err)
	require.True(t, ok)
	memory.Advance(time.Second)
	_, ok, err = kv.Get[lock](ctx, space, "lock")
	require.NoError(t, err)
	require.False(t, ok)
}

// Names that try to be another space's, or to reach the lists.
var rivals = []string{"a", "a/b", "a/", "/a", "a=2Fb", "a=b", "=", "=2F", "=3D", "/", "//", "v", "list", "list/a", "A", "a ", " a", "é", "..", "*", ">"}

func TestSpacesNeverReachEachOther(t *testing.T) {
	memory := newClocked(kv.MemoryOptions{})
	store := kv.New(memory, kv.Options{})
	ctx := t.Context()
	keys := []string{"k", "/k", "b/k", "a/k", "../k", "list/a/k", "/list/a/k", "v/a/k", "=", "=2F"}
	for _, name := range rivals {
		space := store.Space(name)
		for _, key := range keys {
			ok, err := space.Swap(ctx, key, nil, name+" "+key, 0)
			require.NoError(t, err)
			require.True(t, ok, "%q in %q is there already", key, name)
			stored, dropped, err := space.List(key).Put(ctx, "only", 1, name+" "+key)
			require.NoError(t, err)
			require.True(t, stored)
			require.Empty(t, dropped)
		}
	}
	check := func(name string) {
		t.Helper()
		space := store.Space(name)
		for _, key := range keys {
			value, _, err := kv.Get[string](ctx, space, key)
			require.NoError(t, err)
			require.Equal(t, name+" "+key, value)
			entries, err := space.List(key).Range(ctx, 0, 10, kv.Descending)
			require.NoError(t, err)
			require.Len(t, entries, 1, "list %q in %q", key, name)
			var got string
			require.NoError(t, entries[0].Decode(&got))
			require.Equal(t, name+" "+key, got)
		}
		for _, list := range []func(string) []string{
			func(prefix string) []string { return collect(t, space.Keys(ctx, prefix)) },
			func(prefix string) []string { return collect(t, space.ListNames(ctx, prefix)) },
		} {
			require.ElementsMatch(t, keys, list(""))
			require.ElementsMatch(t, []string{"/k", "/list/a/k"}, list("/"))
			require.ElementsMatch(t, []string{"list/a/k"}, list("list/"))
			require.Empty(t, list("../k/"))
		}
	}
	for _, name := range rivals {
		check(name)
	}
	for i, name := range rivals {
		n, err := store.Space(name).Wipe(ctx)
		require.NoError(t, err)
		require.Equal(t, 2*len(keys), n, "wipe %q", name)
		require.Empty(t, collect(t, store.Space(name).Keys(ctx, "")))
		require.Empty(t, collect(t, store.Space(name).ListNames(ctx, "")))
		for _, other := range rivals[i+1:] {
			check(other)
		}
	}
	require.Empty(t, collect(t, memory.Keys(ctx, "")))
}

func collect(t *testing.T, keys func(func(string, error) bool)) []string {
	t.Helper()
	var all []string
	for key, err := range keys {
		require.NoError(t, err)
		all = append(all, key)
	}
	return all
}

func TestAKeyLeavesRoomForItsSpace(t *testing.T) {
	memory := newClocked(kv.MemoryOptions{})
	store := kv.New(memory, kv.Options{})
	ctx := t.Context()
	for _, c := range []struct {
		name string
		left int // for a value's key; a list's name has three bytes less
	}{
		{"a", 760}, {"é", 759}, {"a/b=", 764 - 3 - 8}, {strings.Repeat("s", 191), 570}, {strings.Repeat("/", 191), 188},
	} {
		space := store.Space(c.name)
		longest := strings.Repeat("k", c.left)
		require.NoError(t, space.Set(ctx, longest, 1, 0))
		err := space.Set(ctx, longest+"k", 1, 0)
		require.ErrorIs(t, err, kv.ErrKey)
		require.ErrorContains(t, err, fmt.Sprintf("has %d bytes, at most %d are left beside the name of its space", c.left+1, c.left))
		_, _, err = space.List(longest[3:]).Put(ctx, "id", 1, nil)
		require.NoError(t, err)
		_, _, err = space.List(longest[2:]).Put(ctx, "id", 1, nil)
		require.ErrorIs(t, err, kv.ErrKey)
		require.ErrorContains(t, err, fmt.Sprintf("at most %d are left", c.left-3))
		require.Equal(t, []string{longest}, collect(t, space.Keys(ctx, longest)))
		require.Equal(t, []string{longest[3:]}, collect(t, space.ListNames(ctx, "")))
		require.ErrorIs(t, last(space.Keys(ctx, longest+"k")), kv.ErrKey)
	}
	space := store.Space("s")
	for _, key := range []string{"", "\xff", "a\xc3"} {
		for name, err := range everything(t, space, key) {
			require.ErrorIs(t, err, kv.ErrKey, "%s of %q", name, key)
		}
	}
	require.ErrorIs(t, last(space.Keys(ctx, "\xff")), kv.ErrKey)
	require.ErrorIs(t, last(space.ListNames(ctx, "\xff")), kv.ErrKey)
}

// last is what a list ends with.
func last(keys func(func(string, error) bool)) (err error) {
	for _, err = range keys {
	}
	return err
}

// everything is what each operation that takes a key fails with.
func everything(t *testing.T, space *kv.Space, key string) map[string]error {
	ctx := t.Context()
	errs := map[string]error{}
	_, errs["get"] = space.Get(ctx, key, new(any))
	_, _, errs["get typed"] = kv.Get[int](ctx, space, key)
	errs["set"] = space.Set(ctx, key, 1, 0)
	errs["delete"] = space.Delete(ctx, key)
	_, errs["deleteIf"] = space.DeleteIf(ctx, key, 1)
	_, errs["increment"] = space.Increment(ctx, key, 1, 0)
	_, errs["increment with a lifetime"] = space.Increment(ctx, key, 1, time.Second)
	_, errs["expire"] = space.Expire(ctx, key, time.Second)
	_, errs["swap"] = space.Swap(ctx, key, nil, 1, 0)
	_, errs["swap typed"] = kv.Swap(ctx, space, key, new(1), 1, 0)
	_, errs["change"] = kv.Change(ctx, space, key, func(*int) (*int, error) { return new(1), nil }, nil)
	_, _, errs["put"] = space.List(key).Put(ctx, "id", 1, nil)
	_, errs["remove"] = space.List(key).Remove(ctx, "id")
	_, errs["range"] = space.List(key).Range(ctx, 0, 1, kv.Ascending)
	errs["delete list"] = space.List(key).Delete(ctx)
	return errs
}

func TestASpaceHasAName(t *testing.T) {
	adapter := &spy{Adapter: newClocked(kv.MemoryOptions{})}
	store := kv.New(adapter, kv.Options{})
	for _, name := range []string{"", strings.Repeat("s", 192), "\xff", "a\x00b"} {
		space := store.Space(name)
		errs := everything(t, space, "k")
		_, errs["wipe"] = space.Wipe(t.Context())
		errs["keys"] = last(space.Keys(t.Context(), ""))
		errs["lists"] = last(space.ListNames(t.Context(), ""))
		for op, err := range errs {
			var field *job.FieldError
			require.ErrorAs(t, err, &field, "%s in %q", op, name)
			require.Equal(t, "space", field.Field)
		}
	}
	require.Empty(t, adapter.asked())
	require.Equal(t, "shop", store.Space("shop").Name())
	require.NoError(t, store.Space(strings.Repeat("s", 191)).Set(t.Context(), "k", 1, 0))
}

func TestNothingIsCaught(t *testing.T) {
	space, adapter, _ := newSpace(t)
	down := errors.New("no answer")
	adapter.before = func(string, string) error { return down }
	errs := everything(t, space, "k")
	_, errs["wipe"] = space.Wipe(t.Context())
	errs["keys"] = last(space.Keys(t.Context(), ""))
	errs["lists"] = last(space.ListNames(t.Context(), ""))
	for op, err := range errs {
		require.ErrorIs(t, err, down, op)
		require.ErrorContains(t, err, `in space "shop": `, op)
	}
	require.Len(t, adapter.asked(), len(errs), "each operation asked once, and gave up")
}

func TestWhatOperationsCost(t *testing.T) {
	space, adapter, memory := newSpace(t)
	ctx := t.Context()
	require.NoError(t, space.Set(ctx, "there", 1, 0))
	list := space.List("l")
	_, _, err := list.Put(ctx, "b", 5, nil)
	require.NoError(t, err)
	adapter.asked()
	for _, c := range []struct {
		name string
		op   func() error
		want []string
	}{
		{"get", func() error { _, err := space.Get(ctx, "there", new(any)); return err }, []string{"get"}},
		{"set", func() error { return space.Set(ctx, "k", 1, time.Second) }, []string{"set"}},
		{"delete", func() error { return space.Delete(ctx, "k") }, []string{"delete"}},
		{"deleteIf", func() error { _, err := space.DeleteIf(ctx, "k", 1); return err }, []string{"deleteIf"}},
		{"expire", func() error { _, err := space.Expire(ctx, "k", 1e9); return err }, []string{"expire"}},
		{"swap", func() error { _, err := space.Swap(ctx, "k", nil, 1, 0); return err }, []string{"swap"}},
		{"counter", func() error { _, err := space.Increment(ctx, "c", 1, 0); return err }, []string{"increment"}},
		{"new window", func() error { _, err := space.Increment(ctx, "w", 1, 1e9); return err }, []string{"swap"}},
		{"window", func() error { _, err := space.Increment(ctx, "w", 1, 1e9); return err }, []string{"swap", "increment"}},
		{"change", func() error {
			_, err := kv.Change(ctx, space, "there", func(n *int) (*int, error) { return new(*n + 1), nil }, nil)
			return err
		}, []string{"get", "swap"}},
		{"no change", func() error {
			_, err := kv.Change(ctx, space, "there", func(*int) (*int, error) { return nil, nil }, nil)
			return err
		}, []string{"get"}},
		{"put", func() error { _, _, err := list.Put(ctx, "a", 5, nil); return err }, []string{"get", "swap"}},
		{"put no higher", func() error { _, _, err := list.Put(ctx, "a", 4, nil, kv.HigherOnly()); return err }, []string{"get"}},
		{"remove", func() error { _, err := list.Remove(ctx, "a"); return err }, []string{"get", "swap"}},
		{"remove none", func() error { _, err := list.Remove(ctx, "a"); return err }, []string{"get"}},
		{"remove the last", func() error { _, err := list.Remove(ctx, "b"); return err }, []string{"get", "deleteIf"}},
		{"range", func() error { _, err := list.Range(ctx, 0, 9, kv.Descending); return err }, []string{"get"}},
		{"delete list", func() error { return list.Delete(ctx) }, []string{"delete"}},
		{"keys", func() error { return last(space.Keys(ctx, "")) }, []string{"keys"}},
		{"lists", func() error { return last(space.ListNames(ctx, "")) }, []string{"keys"}},
		{"wipe", func() error { _, err := space.Wipe(ctx); return err }, []string{"wipe", "wipe"}},
	} {
		require.NoError(t, c.op(), c.name)
		require.Equal(t, c.want, adapter.asked(), c.name)
	}
	require.Empty(t, collect(t, memory.Keys(ctx, "")))
}

func TestANilPointerOfAnyTypeIsNothing(t *testing.T) {
	t.Parallel()
	space, _, _ := newSpace(t)
	ctx := t.Context()
	type board struct{ Level int }
	won, err := space.Swap(ctx, "k", (*board)(nil), board{1}, 0)
	require.NoError(t, err)
	require.True(t, won)
	won, err = space.Swap(ctx, "k", (*board)(nil), board{2}, 0)
	require.NoError(t, err)
	require.False(t, won)
	won, err = space.Swap(ctx, "k", &board{1}, nil, 0)
	require.NoError(t, err)
	require.True(t, won)
	won, err = space.Swap(ctx, "k", jsontext.Value("null"), board{3}, 0)
	require.NoError(t, err)
	require.True(t, won, "the value null is one")
}

func TestWhatCannotBeWrittenIsNamed(t *testing.T) {
	t.Parallel()
	space, adapter, _ := newSpace(t)
	ctx := t.Context()
	const says = `the value to be written, of the type string, cannot be JSON`
	require.ErrorContains(t, space.Set(ctx, "k", "\xff", 0), says)
	_, _, err := space.List("l").Put(ctx, "id", 1, "\xff")
	require.ErrorContains(t, err, says)
	require.NoError(t, adapter.Adapter.Set(ctx, "v/shop/k", "\xff", 0))
	_, err = kv.Change(ctx, space, "k", func(current *string) (*string, error) { return current, nil }, nil)
	require.ErrorContains(t, err, says)
}
