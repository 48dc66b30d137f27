package guard_test

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/jetcrew/jetcrew/pkg/guard"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// asked is what a key is derived from; the input is a tree of maps, slices, strings, numbers as written, bools and nil.
type asked struct {
	space, typ, caller string
	input              any
}

func (a asked) key(t require.TestingT, text string) guard.Key {
	key, err := guard.Derived(a.space, a.typ, a.caller, jsontext.Value(text))
	require.NoError(t, err, text)
	return key
}

// tokens are few, and run into each other: what a sloppy derivation would confuse is drawn often.
var tokens = rapid.SampledFrom([]string{"a", "b", "ab", "a/b", "/", ",", `"`, `\`, "{}", "null", "1", " ", "é", "e\u0301", "\n"})

func tree(depth int) *rapid.Generator[any] {
	leaves := []*rapid.Generator[any]{
		rapid.Map(tokens, func(s string) any { return s }),
		rapid.Map(rapid.SampledFrom([]string{"0", "1", "-1", "1.5", "12", "9007199254740992", "9007199254740993", "1e400"}), func(s string) any { return json.Number(s) }),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Just[any](nil),
	}
	if depth == 0 {
		return rapid.OneOf(leaves...)
	}
	below := tree(depth - 1)
	return rapid.OneOf(append(leaves,
		rapid.Map(rapid.SliceOfN(below, 0, 3), func(s []any) any { return s }),
		rapid.Map(rapid.MapOfN(tokens, below, 0, 3), func(m map[string]any) any { return m }),
	)...)
}

var asks = rapid.Custom(func(t *rapid.T) asked {
	return asked{
		space: tokens.Draw(t, "space"), typ: tokens.Draw(t, "type"),
		caller: rapid.OneOf(rapid.Just(""), tokens).Draw(t, "caller"),
		input:  rapid.MapOfN(tokens, tree(2), 0, 3).Draw(t, "input"),
	}
})

// write writes a tree as JSON, with the members in any order, spaces anywhere, and strings escaped one way or another.
func write(r *rand.Rand, v any) string {
	space := func() string { return strings.Repeat(" ", r.IntN(2)) }
	text := func(s string) string {
		b, err := json.Marshal(s)
		if err != nil {
			panic(err)
		}
		if r.IntN(2) == 0 {
			return strings.ReplaceAll(string(b), "a", `\u0061`)
		}
		return string(b)
	}
	var parts []string
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v { // in any order
			parts = append(parts, space()+text(name)+space()+":"+space()+write(r, member)+space())
		}
		return "{" + strings.Join(parts, ",") + "}"
	case []any:
		for _, element := range v {
			parts = append(parts, space()+write(r, element)+space())
		}
		return "[" + strings.Join(parts, ",") + "]"
	case string:
		return text(v)
	case json.Number:
		return v.String()
	default:
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return string(b)
	}
}

func TestKeysAreTheSameForTheSameOnly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		one, other := asks.Draw(t, "one"), asks.Draw(t, "other")
		if rapid.Bool().Draw(t, "alike") { // all but one field
			alike := one
			switch rapid.IntRange(0, 3).Draw(t, "but") {
			case 0:
				alike.space = other.space
			case 1:
				alike.typ = other.typ
			case 2:
				alike.caller = other.caller
			default:
				alike.input = other.input
			}
			other = alike
		}
		key := one.key(t, write(r, one.input))
		require.Equal(t, key, one.key(t, write(r, one.input)), "however it is written")
		if reflect.DeepEqual(one, other) {
			require.Equal(t, key, other.key(t, write(r, other.input)))
		} else {
			require.NotEqual(t, key, other.key(t, write(r, other.input)))
		}

		named, err := guard.Named(one.space, "c", one.typ, "t", nil)
		require.NoError(t, err)
		shared, err := guard.Shared(one.space, one.typ)
		require.NoError(t, err)
		require.NotEqual(t, named, shared)
		require.NotEqual(t, key, shared)
	})
}

func TestFieldsOfAKeyDoNotRunTogether(t *testing.T) {
	t.Parallel()
	seen := map[guard.Key]string{}
	add := func(what string, key guard.Key, err error) {
		require.NoError(t, err, what)
		require.Empty(t, seen[key], "%s", what)
		require.False(t, key.IsZero())
		seen[key] = what
	}
	for _, f := range [][3]string{{"ab", "c", "d"}, {"a", "bc", "d"}, {"a", "b", "cd"}, {"abc", "d", ""}, {"a", "bcd", ""}} {
		what := strings.Join(f[:], "|")
		derived, err := guard.Derived(f[0], f[1], f[2], nil)
		add("derived "+what, derived, err)
		if f[2] != "" {
			named, err := guard.Named(f[0], f[1], f[2], "t", nil)
			add("named "+what, named, err)
		}
		shared, err := guard.Shared(f[0], f[1]+"|"+f[2])
		add("shared "+what, shared, err)
	}
	for _, n := range []string{"9007199254740992", "9007199254740993", "1e400", "1e401"} { // as float64 two and two are one
		key, err := guard.Derived("a", "b", "c", jsontext.Value(`{"n":`+n+`}`))
		add(n, key, err)
	}
	none, err := guard.Derived("a", "b", "c", nil)
	require.NoError(t, err)
	empty, err := guard.Derived("a", "b", "c", jsontext.Value(" { } "))
	require.NoError(t, err)
	require.Equal(t, empty, none, "no input is {}")
	require.True(t, guard.Key{}.IsZero())
}

func TestWhatIsNoKeyIsRefused(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", guard.MaxKey+1)
	derive := func(space, typ, caller, input string) error {
		_, err := guard.Derived(space, typ, caller, jsontext.Value(input))
		return err
	}
	name := func(space, caller, name, typ, input string) error {
		_, err := guard.Named(space, caller, name, typ, jsontext.Value(input))
		return err
	}
	share := func(space, id string) error {
		_, err := guard.Shared(space, id)
		return err
	}
	for what, c := range map[string]struct {
		err   error
		field string
	}{
		"derived without a space":    {derive("", "t", "c", "{}"), "space"},
		"derived without a type":     {derive("s", "", "c", "{}"), "type"},
		"derived of no text":         {derive("s", "t", "\xff", "{}"), "caller"},
		"derived of no JSON":         {derive("s", "t", "c", "{"), "input"},
		"derived of doubled members": {derive("s", "t", "c", `{"a":1,"a":2}`), "input"},
		"derived of half a rune":     {derive("s", "t", "c", "{\"a\":\"\xff\"}"), "input"},
		"named without a space":      {name("", "c", "k", "t", "{}"), "space"},
		"named by nobody":            {name("s", "", "k", "t", "{}"), "caller"},
		"named nothing":              {name("s", "c", "", "t", "{}"), "idempotencyKey"},
		"named too long":             {name("s", "c", long, "t", "{}"), "idempotencyKey"},
		"named without a type":       {name("s", "c", "k", "", "{}"), "type"},
		"named of no JSON":           {name("s", "c", "k", "t", "{} {}"), "input"},
		"shared without a space":     {share("", "id"), "space"},
		"shared without an id":       {share("s", ""), "id"},
		"shared too long":            {share("s", long), "id"},
	} {
		var wrong *job.FieldError
		require.ErrorAs(t, c.err, &wrong, what)
		require.Equal(t, c.field, wrong.Field, what)
	}
}
