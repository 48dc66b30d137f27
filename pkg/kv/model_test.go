package kv_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/jetcrew/jetcrew/pkg/kv"
)

// model is what a store should hold, written as plainly as can be.
type model struct {
	now    time.Duration
	values map[string]modelValue
	lists  map[string][]modelEntry
}

type modelValue struct {
	value any
	until time.Duration // 0: none
}

type modelEntry struct {
	id    string
	score float64
	value any
}

func (m *model) get(k string) (any, bool) {
	v, ok := m.values[k]
	if ok && v.until != 0 && m.now >= v.until {
		delete(m.values, k)
		return nil, false
	}
	return v.value, ok
}

func (m *model) set(k string, value any, ttl time.Duration) {
	v := modelValue{value: value}
	if ttl > 0 {
		v.until = m.now + ttl
	}
	m.values[k] = v
}

func (m *model) put(k, id string, score float64, value any, keep int) (dropped []modelEntry) {
	list := slices.DeleteFunc(slices.Clone(m.lists[k]), func(e modelEntry) bool { return e.id == id })
	list = append(list, modelEntry{id, score, value})
	slices.SortFunc(list, func(a, b modelEntry) int { return cmp.Or(-cmp.Compare(a.score, b.score), cmp.Compare(a.id, b.id)) })
	if len(list) > keep {
		list, dropped = list[:keep], list[keep:]
	}
	m.lists[k] = list
	return dropped
}

// A store does what its model does, whatever is asked of it, in spaces and under keys that are made to be mixed up.
func TestAStoreDoesWhatItsModelDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		memory := newClocked(kv.MemoryOptions{})
		store := kv.New(memory, kv.Options{})
		ctx := t.Context()
		m := &model{values: map[string]modelValue{}, lists: map[string][]modelEntry{}}

		spaces := []string{"a", "a/b", "a=2Fb", "list"}
		keys := []string{"k", "b/k", "list/a/k"}
		var space *kv.Space
		var key, at string // at is the model's key
		ttls := rapid.SampledFrom([]time.Duration{0, 0, time.Millisecond, time.Second, time.Minute})
		values := rapid.OneOf(
			rapid.Just[any](nil), rapid.Just[any]("text"), rapid.Just[any](""), rapid.Just[any](map[string]any{"n": 1.0}),
			rapid.Map(rapid.IntRange(-3, 3), func(n int) any { return float64(n) }),
		)
		place := func(t *rapid.T) {
			name := rapid.SampledFrom(spaces).Draw(t, "space")
			key = rapid.SampledFrom(keys).Draw(t, "key")
			space, at = store.Space(name), name+"\x00"+key
		}
		integer := func(value any) (int64, bool) {
			f, ok := value.(float64)
			return int64(f), ok && f == math.Trunc(f)
		}

		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				for _, name := range spaces {
					var wantKeys, wantLists []string
					for _, k := range keys {
						at := name + "\x00" + k
						if _, ok := m.get(at); ok {
							wantKeys = append(wantKeys, k)
						}
						if len(m.lists[at]) > 0 {
							wantLists = append(wantLists, k)
						}
					}
					for what, c := range map[string]struct {
						got  func(func(string, error) bool)
						want []string
					}{
						"keys": {store.Space(name).Keys(ctx, ""), wantKeys}, "lists": {store.Space(name).ListNames(ctx, ""), wantLists},
					} {
						var got []string
						for k, err := range c.got {
							require.NoError(t, err)
							got = append(got, k)
						}
						require.ElementsMatch(t, c.want, got, "%s of %q", what, name)
					}
				}
			},
			"advance": func(t *rapid.T) {
				d := rapid.SampledFrom([]time.Duration{time.Microsecond, time.Millisecond, 999 * time.Millisecond, time.Second, time.Minute}).Draw(t, "d")
				memory.Advance(d)
				m.now += d
			},
			"get": func(t *rapid.T) {
				place(t)
				var got any
				ok, err := space.Get(ctx, key, &got)
				require.NoError(t, err)
				want, there := m.get(at)
				require.Equal(t, there, ok)
				require.Equal(t, want, got)
			},
			"set": func(t *rapid.T) {
				place(t)
				value, ttl := values.Draw(t, "value"), ttls.Draw(t, "ttl")
				require.NoError(t, space.Set(ctx, key, value, ttl))
				m.set(at, value, ttl)
			},
			"delete": func(t *rapid.T) {
				place(t)
				require.NoError(t, space.Delete(ctx, key))
				delete(m.values, at)
			},
			"deleteIf": func(t *rapid.T) {
				place(t)
				expected := values.Draw(t, "expected")
				ok, err := space.DeleteIf(ctx, key, expected)
				require.NoError(t, err)
				value, there := m.get(at)
				require.Equal(t, there && fmt.Sprintf("%#v", value) == fmt.Sprintf("%#v", expected), ok)
				if ok {
					delete(m.values, at)
				}
			},
			"expire": func(t *rapid.T) {
				place(t)
				ttl := ttls.Draw(t, "ttl")
				ok, err := space.Expire(ctx, key, ttl)
				require.NoError(t, err)
				value, there := m.get(at)
				require.Equal(t, there, ok)
				if there {
					m.set(at, value, ttl)
				}
			},
			"increment": func(t *rapid.T) {
				place(t)
				amount, ttl := int64(rapid.IntRange(-2, 2).Draw(t, "amount")), ttls.Draw(t, "ttl")
				got, err := space.Increment(ctx, key, amount, ttl)
				value, there := m.get(at)
				n, ok := integer(value)
				switch {
				case !there:
					require.NoError(t, err)
					require.Equal(t, amount, got)
					m.set(at, float64(amount), ttl)
				case !ok:
					require.ErrorIs(t, err, kv.ErrNotInteger)
				default:
					require.NoError(t, err)
					require.Equal(t, n+amount, got)
					v := m.values[at]
					v.value = float64(n + amount)
					if n == 0 && amount != 0 && ttl > 0 { // it answers its own amount, as if it had made the counter
						v.until = m.now + ttl
					}
					m.values[at] = v
				}
			},
			"swap": func(t *rapid.T) {
				place(t)
				next, ttl := values.Draw(t, "next"), ttls.Draw(t, "ttl")
				var expected *any
				if rapid.Bool().Draw(t, "expecting") {
					expected = new(values.Draw(t, "expected"))
				}
				ok, err := kv.Swap(ctx, space, key, expected, next, ttl)
				require.NoError(t, err)
				value, there := m.get(at)
				want := !there && expected == nil || there && expected != nil && fmt.Sprintf("%#v", value) == fmt.Sprintf("%#v", *expected)
				require.Equal(t, want, ok)
				if ok {
					m.set(at, next, ttl)
				}
			},
			"change": func(t *rapid.T) {
				place(t)
				next, ttl, write := values.Draw(t, "next"), ttls.Draw(t, "ttl"), rapid.Bool().Draw(t, "write")
				value, there := m.get(at)
				got, err := kv.Change(ctx, space, key, func(current *any) (*any, error) {
					require.Equal(t, there, current != nil)
					if there {
						require.Equal(t, value, *current)
					}
					if !write {
						return nil, nil
					}
					return &next, nil
				}, func(written any) time.Duration {
					require.Equal(t, next, written)
					return ttl
				})
				require.NoError(t, err)
				require.Equal(t, write, got != nil)
				if write {
					require.Equal(t, next, *got)
					m.set(at, next, ttl)
				}
			},
			"wipe": func(t *rapid.T) {
				if rapid.IntRange(0, 3).Draw(t, "seldom") > 0 {
					t.Skip("not now")
				}
				name := rapid.SampledFrom(spaces).Draw(t, "space")
				n, err := store.Space(name).Wipe(ctx)
				require.NoError(t, err)
				want := 0
				for _, k := range keys {
					at := name + "\x00" + k
					if _, ok := m.get(at); ok {
						want++
					}
					if len(m.lists[at]) > 0 {
						want++
					}
					delete(m.values, at)
					delete(m.lists, at)
				}
				require.Equal(t, want, n)
			},
			"put": func(t *rapid.T) {
				place(t)
				id := rapid.SampledFrom([]string{"a", "A", "b", "b.1", "-"}).Draw(t, "id")
				score := rapid.SampledFrom([]float64{-1, 0, math.Copysign(0, -1), 1, 1.5, 1e300}).Draw(t, "score")
				value, keep := values.Draw(t, "value"), rapid.IntRange(0, 5).Draw(t, "keep")
				opts := []kv.PutOption{kv.Keep(keep)}
				higherOnly := rapid.Bool().Draw(t, "higherOnly")
				if higherOnly {
					opts = append(opts, kv.HigherOnly())
				}
				stored, dropped, err := space.List(key).Put(ctx, id, score, value, opts...)
				require.NoError(t, err)
				is := slices.IndexFunc(m.lists[at], func(e modelEntry) bool { return e.id == id })
				if higherOnly && is >= 0 && m.lists[at][is].score > score {
					require.False(t, stored)
					require.Empty(t, dropped)
					return
				}
				require.True(t, stored)
				sameEntries(t, m.put(at, id, score, value, keep), dropped)
			},
			"remove": func(t *rapid.T) {
				place(t)
				id := rapid.SampledFrom([]string{"a", "A", "b", "b.1", "-"}).Draw(t, "id")
				was, err := space.List(key).Remove(ctx, id)
				require.NoError(t, err)
				left := slices.DeleteFunc(slices.Clone(m.lists[at]), func(e modelEntry) bool { return e.id == id })
				require.Equal(t, len(left) < len(m.lists[at]), was)
				m.lists[at] = left
			},
			"range": func(t *rapid.T) {
				place(t)
				offset, limit := rapid.IntRange(0, 6).Draw(t, "offset"), rapid.IntRange(0, 6).Draw(t, "limit")
				order, want := kv.Descending, slices.Clone(m.lists[at])
				if rapid.Bool().Draw(t, "ascending") {
					order = kv.Ascending
					slices.Reverse(want)
				}
				want = want[min(offset, len(want)):]
				want = want[:min(limit, len(want))]
				got, err := space.List(key).Range(ctx, offset, limit, order)
				require.NoError(t, err)
				sameEntries(t, want, got)
			},
		})
	})
}

func sameEntries(t *rapid.T, want []modelEntry, got []kv.Entry) {
	t.Helper()
	require.Len(t, got, len(want))
	for i, e := range got {
		var value any
		require.NoError(t, e.Decode(&value))
		require.Equal(t, want[i], modelEntry{e.ID, e.Score, value})
	}
}
