package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKVLists(t *testing.T) {
	url := serve(t)
	require.Empty(t, call(t, "kv", "list", "range", "board").ok(t).out)
	require.Equal(t, `{"space":"default","list":"board","entries":[]}`+"\n", call(t, "kv", "list", "range", "board", "--json").ok(t).out)
	require.Equal(t, "ada stored\n", call(t, "kv", "list", "put", "board", "ada", "300", `{"level":"one"}`).ok(t).out)
	call(t, "kv", "list", "put", "board", "bob", "12.5", "text \x1b", "--string").ok(t)
	call(t, "kv", "list", "put", "board", "cyd", "--", "-1e3").ok(t)
	require.Regexp(t, `^ID +SCORE +VALUE *\nada +300 +\{"level":"one"\} *\nbob +12\.5 +"text \\u001b" *\ncyd +-1000 +null *\n$`,
		call(t, "kv", "list", "range", "board").ok(t).out)
	require.JSONEq(t, `{"space":"default","list":"board","entries":[{"id":"bob","score":12.5,"value":"text \u001b"}]}`,
		call(t, "kv", "list", "range", "board", "--offset", "1", "--limit", "1", "--json").ok(t).out)
	require.Regexp(t, `(?s)^ID.*cyd.*bob.*ada`, call(t, "kv", "list", "range", "board", "--ascending").ok(t).out)

	call(t, "kv", "list", "put", "board", "ada", "299", "--higher-only").fails(t, exitUnchanged, "has a higher score")
	r := call(t, "kv", "list", "put", "board", "ada", "299", "--higher-only", "--json")
	require.Equal(t, exitUnchanged, r.code)
	require.JSONEq(t, `{"space":"default","list":"board","id":"ada","done":false,"dropped":[]}`, r.out)
	require.Equal(t, "dee stored\nbob fell off\ncyd fell off\n", call(t, "kv", "list", "put", "board", "dee", "20", "--keep", "2").ok(t).out)
	require.JSONEq(t, `{"space":"default","list":"board","id":"eve","done":true,"dropped":[{"id":"eve","score":1,"value":null}]}`,
		call(t, "kv", "list", "put", "board", "eve", "1", "--keep", "2", "--json").ok(t).out)

	e, err := stock(t, url).Get(t.Context(), "list.default.board")
	require.NoError(t, err)
	require.JSONEq(t, `[{"id":"ada","score":300,"value":{"level":"one"}},{"id":"dee","score":20,"value":null}]`, string(e.Value()))

	call(t, "kv", "set", "board", "1").ok(t)
	call(t, "kv", "list", "put", "boats", "a", "1").ok(t)
	require.Equal(t, "board\nboats\n", call(t, "kv", "list", "names", "boa").ok(t).out)
	require.JSONEq(t, `{"space":"default","lists":["board","boats"],"more":false}`, call(t, "kv", "list", "names", "--json").ok(t).out)

	require.Equal(t, "dee removed\n", call(t, "kv", "list", "remove", "board", "dee").ok(t).out)
	call(t, "kv", "list", "remove", "board", "dee").fails(t, exitNoJob, `there is no entry "dee" in list "board"`)
	r = call(t, "kv", "list", "remove", "board", "dee", "--json")
	require.Equal(t, exitNoJob, r.code)
	require.JSONEq(t, `{"space":"default","list":"board","id":"dee","done":false}`, r.out)
	require.Equal(t, "board deleted\n", call(t, "kv", "list", "delete", "board").ok(t).out)
	require.Equal(t, "boats\n", call(t, "kv", "list", "names").ok(t).out)
	require.Equal(t, "1\n", call(t, "kv", "get", "board").ok(t).out, "the key of that name is another thing")
	for i := range 3 {
		call(t, "kv", "list", "put", "boats", fmt.Sprint(i), "5").ok(t)
	}
	require.Regexp(t, `(?s)^ID.*0 .*1 .*2 .*a `, call(t, "kv", "list", "range", "boats").ok(t).out, "by id where scores are equal")
}
