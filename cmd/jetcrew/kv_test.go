package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
	"github.com/jetcrew/jetcrew/worker"
)

// stock is the bucket as the client library's own KV, and so the nats CLI, sees it.
func stock(t *testing.T, url string) jetstream.KeyValue {
	t.Helper()
	nc, err := nats.Connect(url)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	store, err := js.KeyValue(t.Context(), "JETCREW_KV")
	require.NoError(t, err)
	return store
}

// fails checks an exit code, that nothing was printed, and that the reason stands on one line.
func (r result) fails(t *testing.T, code int, says string) {
	t.Helper()
	require.Equal(t, code, r.code, r.err)
	require.Regexp(t, `^jetcrew: [^\n]+\n$`, r.err)
	require.Contains(t, r.err, says)
	require.Empty(t, r.out)
}

func TestKVSetAndGet(t *testing.T) {
	url := serve(t)
	call(t, "kv", "get", "k").fails(t, exitNoJob, `there is no key "k" in space "default"`)
	call(t, "kv", "get", "k", "--raw").fails(t, exitNoJob, `there is no key`)
	call(t, "kv", "get", "k", "--json").fails(t, exitNoJob, `there is no key`)

	require.Equal(t, "k set\n", call(t, "kv", "set", "k", `{ "b": 1, "a":12345678901234567890 }`).ok(t).out)
	require.Equal(t, `{"b":1,"a":12345678901234567890}`+"\n", call(t, "kv", "get", "k").ok(t).out, "the very digits, in their order")
	require.Equal(t, `{"space":"default","key":"k","value":{"b":1,"a":12345678901234567890}}`+"\n", call(t, "kv", "get", "k", "--json").ok(t).out)
	require.JSONEq(t, `{"space":"default","key":"k","done":true}`, call(t, "kv", "set", "k", `null`, "--json").ok(t).out)
	require.Equal(t, "null\n", call(t, "kv", "get", "k").ok(t).out)

	call(t, "kv", "set", "k", `say "hi"`, "--string").ok(t)
	require.Equal(t, `"say \"hi\""`+"\n", call(t, "kv", "get", "k").ok(t).out)
	require.Equal(t, `say "hi"`+"\n", call(t, "kv", "get", "k", "--raw").ok(t).out)
	callWith(t, "[1,\n 2]\n", "kv", "set", "k", "-").ok(t)
	require.Equal(t, "[1,2]\n", call(t, "kv", "get", "k", "--raw").ok(t).out)
	callWith(t, "two\nlines\n", "kv", "set", "k", "-", "--string").ok(t)
	require.Equal(t, `"two\nlines\n"`+"\n", call(t, "kv", "get", "k").ok(t).out)
	call(t, "kv", "set", "k", "--", "-5").ok(t)
	require.Equal(t, "-5\n", call(t, "kv", "get", "k").ok(t).out)

	store := stock(t, url)
	e, err := store.Get(t.Context(), "v.default.k")
	require.NoError(t, err)
	require.Equal(t, "-5", string(e.Value()), "nats kv get JETCREW_KV v.default.k")
	_, err = store.Put(t.Context(), "v.default.foreign", []byte("no JSON"))
	require.NoError(t, err)
	require.Equal(t, `"no JSON"`+"\n", call(t, "kv", "get", "foreign").ok(t).out)
	_, err = store.Put(t.Context(), "v.default.foreign", []byte("\xff bytes"))
	require.NoError(t, err)
	require.Equal(t, "\xff bytes\n", call(t, "kv", "get", "foreign", "--raw").ok(t).out)
	require.Equal(t, exitFailure, call(t, "kv", "get", "foreign").code)
}

func TestKVLifetimes(t *testing.T) {
	serve(t)
	call(t, "kv", "set", "short", "1", "--ttl", "1s").ok(t)
	call(t, "kv", "set", "days", "1", "--ttl", "7d").ok(t)
	require.Equal(t, "days expires in 1d12h\n", call(t, "kv", "expire", "days", "--ttl", "36h").ok(t).out)
	require.Eventually(t, func() bool { return call(t, "kv", "get", "short").code == exitNoJob }, 20*time.Second, 20*time.Millisecond)
	call(t, "kv", "expire", "short", "--ttl", "1h").fails(t, exitNoJob, "there is no key")
	r := call(t, "kv", "expire", "short", "--ttl", "1h", "--json")
	require.Equal(t, exitNoJob, r.code)
	require.JSONEq(t, `{"space":"default","key":"short","done":false}`, r.out)
	require.Equal(t, "days stays\n", call(t, "kv", "expire", "days", "--ttl", "0s").ok(t).out)
	call(t, "kv", "expire", "days", "--ttl", "250ms").ok(t)
	require.Eventually(t, func() bool { return call(t, "kv", "get", "days").code == exitNoJob }, 20*time.Second, 20*time.Millisecond)
}

func TestKVCounters(t *testing.T) {
	serve(t)
	require.Equal(t, "1\n", call(t, "kv", "incr", "n").ok(t).out)
	require.Equal(t, "-4\n", call(t, "kv", "incr", "n", "--by", "-5").ok(t).out)
	require.JSONEq(t, `{"space":"default","key":"n","value":-4}`, call(t, "kv", "incr", "n", "--by", "0", "--json", "--ttl", "1d").ok(t).out)
	call(t, "kv", "set", "n", `"text"`).ok(t)
	call(t, "kv", "incr", "n").fails(t, exitUnchanged, "not an integer")
	call(t, "kv", "set", "n", "9223372036854775807").ok(t)
	call(t, "kv", "incr", "n").fails(t, exitUnchanged, "leaves 64 bits")
	require.Equal(t, "9223372036854775807\n", call(t, "kv", "get", "n").ok(t).out)
}

func TestKVSwapAndDelete(t *testing.T) {
	serve(t)
	require.Equal(t, "lock swapped\n", call(t, "kv", "swap", "lock", `"a"`, "--absent", "--ttl", "1h").ok(t).out)
	call(t, "kv", "swap", "lock", `"b"`, "--absent").fails(t, exitUnchanged, `key "lock" in space "default" has a value`)
	call(t, "kv", "swap", "lock", `"b"`, "--expect", `"x"`).fails(t, exitUnchanged, "does not have the value that was expected")
	r := call(t, "kv", "swap", "lock", `"b"`, "--expect", `"x"`, "--json")
	require.Equal(t, exitUnchanged, r.code)
	require.JSONEq(t, `{"space":"default","key":"lock","done":false}`, r.out)
	call(t, "kv", "swap", "lock", "b", "--expect", "a", "--string").ok(t)
	callWith(t, `"b"`, "kv", "swap", "lock", `null`, "--expect", "-").ok(t)
	call(t, "kv", "swap", "lock", `{"n":1}`, "--expect", "null").ok(t)
	call(t, "kv", "swap", "gone", "1", "--expect", "null").fails(t, exitUnchanged, "nothing was changed")

	call(t, "kv", "delete", "lock", "--if", "2").fails(t, exitUnchanged, "nothing was changed")
	require.JSONEq(t, `{"space":"default","key":"lock","done":true}`, call(t, "kv", "delete", "lock", "--if", `{ "n": 1 }`, "--json").ok(t).out)
	call(t, "kv", "get", "lock").fails(t, exitNoJob, "there is no key")
	require.Equal(t, "lock deleted\n", call(t, "kv", "delete", "lock").ok(t).out, "it is none the less gone")
}

func TestKVKeysMayBeAnyText(t *testing.T) {
	serve(t)
	keys := []string{"a", " ", "a ", "A", "..", "a..b", ".", "*", ">", "$", "=", "=41", ":", "@", "-", "/", "//", "a/", "/a", "é", "😀", "\u202e", "\x00", "\x7f", "a\nb", `a\nb`}
	var class strings.Builder
	for c := range 128 {
		class.WriteByte(byte(c))
	}
	keys = append(keys, class.String(), strings.Repeat("é", 250))
	for i, key := range keys {
		call(t, "kv", "set", "--json", "--", key, fmt.Sprint(i)).ok(t)
	}
	var listed struct{ Keys []string }
	require.NoError(t, json.Unmarshal([]byte(call(t, "kv", "keys", "--json").ok(t).out), &listed))
	require.ElementsMatch(t, keys, listed.Keys)
	for i, key := range keys {
		require.Equal(t, fmt.Sprint(i, "\n"), call(t, "kv", "get", "--", key).ok(t).out, "%q", key)
	}
	require.Equal(t, 1, strings.Count(call(t, "kv", "keys", "--json").ok(t).out, "\n"), "one line, as of every command")
	text := call(t, "kv", "keys").ok(t).out
	require.Equal(t, len(keys), strings.Count(text, "\n"), "a key a line, whatever is in it")
	require.NotContains(t, text, "\x00")
	require.NotContains(t, text, "\u202e")

	require.Equal(t, "a\na\\nb\na \na..b\na/\na\\\\nb\n", call(t, "kv", "keys", "a").ok(t).out)
	r := call(t, "kv", "keys", "a", "--limit", "2").ok(t)
	require.Equal(t, 2, strings.Count(r.out, "\n"))
	require.Equal(t, "there are more: --limit is 2\n", r.err)
	require.Empty(t, call(t, "kv", "keys", "a", "--limit", "6").ok(t).err)
}

func TestKVSpacesCannotReachEachOther(t *testing.T) {
	serve(t)
	call(t, "kv", "set", "k", `"mine"`, "--space", "a").ok(t)
	call(t, "kv", "list", "put", "l", "id", "1", "--space", "a").ok(t)
	for _, other := range []string{"b", "a/k", "default", "a/", "A", "list", "../a"} {
		call(t, "kv", "get", "k", "--space", other).fails(t, exitNoJob, "there is no key")
		for _, key := range []string{"a/k", "../a/k", "v/a/k", "/a/k"} {
			call(t, "kv", "get", key, "--space", other).fails(t, exitNoJob, "there is no key")
		}
		require.Empty(t, call(t, "kv", "keys", "--space", other).ok(t).out)
		require.Empty(t, call(t, "kv", "list", "names", "--space", other).ok(t).out)
		require.Equal(t, "removed 0 values and lists\n", call(t, "kv", "wipe", "--yes", "--space", other).ok(t).out)
	}
	require.Equal(t, "\"mine\"\n", call(t, "kv", "get", "k", "--space", "a").ok(t).out)
}

func TestKVWipe(t *testing.T) {
	serve(t)
	for _, key := range []string{"a", "b"} {
		call(t, "kv", "set", key, "1", "--space", "s").ok(t)
	}
	call(t, "kv", "list", "put", "l", "id", "1", "--space", "s").ok(t)
	call(t, "kv", "set", "k", "1").ok(t)
	call(t, "kv", "wipe", "--space", "s").fails(t, exitUsage, "--yes")
	require.Equal(t, "would be removed: 3 values and lists\n", call(t, "kv", "wipe", "--space", "s", "--dry-run").ok(t).out)
	require.JSONEq(t, `{"space":"s","wiped":3}`, call(t, "kv", "wipe", "--space", "s", "--yes", "--json").ok(t).out)
	require.Empty(t, call(t, "kv", "keys", "--space", "s").ok(t).out)
	require.Equal(t, "k\n", call(t, "kv", "keys").ok(t).out)
	require.Equal(t, "removed 1 value or list\n", call(t, "kv", "wipe", "--yes").ok(t).out)
}

func TestKVRefusesGarbage(t *testing.T) {
	serve(t)
	long := strings.Repeat("x", 4096)
	for _, c := range []struct {
		says string
		args []string
	}{
		{"KEY: invalid key: must not be empty", []string{"get", ""}},
		{"KEY: invalid key: has 4096 bytes, at most 764 are allowed", []string{"get", long}},
		{"KEY: invalid key: is not valid UTF-8", []string{"set", "\xff", "1"}},
		{"are left beside the name of its space", []string{"get", strings.Repeat("k", 764)}},
		{"--space: must", []string{"get", "k", "--space", ""}},
		{"--space: has 4096 bytes, at most 191 are allowed", []string{"keys", "--space", long}},
		{"PREFIX: invalid key", []string{"keys", long}},
		{"PREFIX: invalid key", []string{"watch", "\xff"}},
		{"VALUE: must be one JSON value", []string{"set", "k", "{"}},
		{"VALUE: must be one JSON value", []string{"set", "k", ""}},
		{"VALUE: must be one JSON value", []string{"set", "k", "1 2"}},
		{"VALUE: must be one JSON value", []string{"set", "k", "text"}},
		{"VALUE: must be one JSON value", []string{"set", "k", "NaN"}},
		{"VALUE: must be one JSON value", []string{"set", "k", `{"a":1,"a":2}`}},
		{"VALUE: must be one JSON value", []string{"set", "k", "\"\xff\""}},
		{"VALUE: must be one JSON value", []string{"set", "k", "-"}},
		{"VALUE: is not valid UTF-8", []string{"set", "k", "\xff", "--string"}},
		{"stands after --", []string{"set", "k", "-5"}},
		{"--ttl: invalid lifetime: -1s is negative", []string{"set", "k", "1", "--ttl", "-1s"}},
		{"--ttl: invalid lifetime: 999µs is under a millisecond", []string{"set", "k", "1", "--ttl", "999us"}},
		{"is no duration", []string{"set", "k", "1", "--ttl", "1.5d"}},
		{"is no duration", []string{"incr", "k", "--ttl", "soon"}},
		{"--ttl: invalid lifetime", []string{"incr", "k", "--ttl", "-1ns"}},
		{"is no duration", []string{"swap", "k", "1", "--absent", "--ttl", "-1d1h"}},
		{"--ttl: invalid lifetime", []string{"expire", "k", "--ttl", "-1h"}},
		{"--ttl: say how long", []string{"expire", "k"}},
		{"--by", []string{"incr", "k", "--by", "1.5"}},
		{"--by", []string{"incr", "k", "--by", "9223372036854775808"}},
		{"--raw or --json", []string{"get", "k", "--raw", "--json"}},
		{"say what is expected", []string{"swap", "k", "1"}},
		{"say what is expected", []string{"swap", "k", "1", "--expect", "1", "--absent"}},
		{"cannot both come by stdin", []string{"swap", "k", "-", "--expect", "-"}},
		{"--expect: must be one JSON value", []string{"swap", "k", "1", "--expect", "x"}},
		{"--if: must be one JSON value", []string{"delete", "k", "--if", ""}},
		{"--string goes with --if", []string{"delete", "k", "--string"}},
		{"--limit: must not be negative", []string{"keys", "--limit", "-1"}},
		{"no terminal", []string{"wipe"}},
		{"LIST: invalid key", []string{"list", "range", ""}},
		{"--limit: must not be negative", []string{"list", "range", "l", "--limit", "-1"}},
		{"--offset: must not be negative", []string{"list", "range", "l", "--offset", "-1"}},
		{"score: must be a finite number, not NaN", []string{"list", "put", "l", "id", "NaN"}},
		{"score: must be a finite number, not +Inf", []string{"list", "put", "l", "id", "inf"}},
		{`SCORE: must be a finite decimal number, such as 12.5 or 1e6, not "1e999"`, []string{"list", "put", "l", "id", "1e999"}},
		{`SCORE: must be a finite decimal number`, []string{"list", "put", "l", "id", "1_000"}},
		{`SCORE: must be a finite decimal number`, []string{"list", "put", "l", "id", "0x10p0"}},
		{`SCORE: must be a finite decimal number, such as 12.5 or 1e6, not "many"`, []string{"list", "put", "l", "id", "many"}},
		{`id: must be 1 to 128 of A-Z a-z 0-9 : _ . @ -, not "a b"`, []string{"list", "put", "l", "a b", "1"}},
		{"id: must be 1 to 128", []string{"list", "put", "l", "", "1"}},
		{"--keep: must be 0 to 500", []string{"list", "put", "l", "id", "1", "--keep", "-1"}},
		{"--keep: must be 0 to 500", []string{"list", "put", "l", "id", "1", "--keep", "501"}},
		{"--string goes with VALUE", []string{"list", "put", "l", "id", "1", "--string"}},
		{"VALUE: must be one JSON value", []string{"list", "put", "l", "id", "1", "{}{}"}},
		{"accepts", []string{"get"}},
		{"accepts", []string{"set", "k"}},
		{"accepts", []string{"list", "put", "l", "id"}},
		{"unknown command", []string{"nonsense"}},
		{"unknown command", []string{"list", "nonsense"}},
	} {
		call(t, append([]string{"kv"}, c.args...)...).fails(t, exitUsage, c.says)
	}
	require.Empty(t, call(t, "kv", "keys").ok(t).out, "nothing was written")
	require.Empty(t, call(t, "kv", "list", "names").ok(t).out)

	big := `"` + strings.Repeat("x", 1<<20) + `"`
	callWith(t, big, "kv", "set", "k", "-").fails(t, exitFailure, "value too large: has 1048578 bytes, at most")
	callWith(t, big[1:140_000]+`"`, "kv", "list", "put", "l", "id", "1", "-", "--string").fails(t, exitFailure, "at most 128000 are allowed: keep fewer entries")
	callWith(t, big[:140_000]+`"`, "kv", "set", "k", "-").ok(t)
	require.Len(t, call(t, "kv", "get", "k", "--raw").ok(t).out, 140_000)
}

func TestKVIsCompletedByAShell(t *testing.T) {
	url := serve(t)
	call(t, "__complete", "kv", "get", "").ok(t)
	nc, err := nats.Connect(url)
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	_, err = js.Stream(t.Context(), "KV_JETCREW_KV")
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound, "to complete makes nothing")

	for _, key := range []string{"mail/a", "mail/b", "other", "evil\x1b[2J"} {
		call(t, "kv", "set", key, "1", "--space", "s").ok(t)
	}
	call(t, "kv", "list", "put", "board", "id", "1", "--space", "s").ok(t)
	for _, c := range []struct {
		args []string
		out  string
	}{
		{[]string{"kv", "get", "--space", "s", "mail/"}, "mail/a\nmail/b\n:4\n"},
		{[]string{"kv", "delete", "--space", "s", ""}, "mail/a\nmail/b\nother\n:4\n"},
		{[]string{"kv", "swap", "--space", "s", "o"}, "other\n:4\n"},
		{[]string{"kv", "set", "--space", "s", "other", ""}, ":4\n"},
		{[]string{"kv", "get", ""}, ":4\n"},
		{[]string{"kv", "get", "--space", "", ""}, ":4\n"},
		{[]string{"kv", "list", "range", "--space", "s", "b"}, "board\n:4\n"},
		{[]string{"kv", "list", "remove", "--space", "s", "board", ""}, ":4\n"},
	} {
		require.Equal(t, c.out, call(t, append([]string{"__complete"}, c.args...)...).ok(t).out, "%q", c.args)
	}
}

func TestAHandlerFindsWhatTheCommandsWrote(t *testing.T) {
	url := serve(t)
	call(t, "kv", "set", "greeting", `"hello"`, "--space", "acme").ok(t)
	cfg, err := config.Load([]string{"JETCREW_URL=" + url}, nil)
	require.NoError(t, err)
	c, err := client.Connect(t.Context(), client.Config{URLs: cfg.URL})
	require.NoError(t, err)
	defer c.Close()
	w, err := worker.New(c.Store(), workerConfig(cfg, c.KV(), zerolog.Nop()))
	require.NoError(t, err)
	worker.Handle(w, "greet", func(ctx context.Context, j *job.Job, in struct{ Name string }) (any, error) {
		space, ok := kv.FromContext(ctx)
		if !ok {
			return nil, job.GiveUp(fmt.Errorf("there is no store"))
		}
		text, _, err := kv.Get[string](ctx, space, "greeting")
		if err != nil {
			return nil, err
		}
		return nil, space.Set(ctx, "answer", text+" "+in.Name, 0)
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	call(t, "enqueue", "greet", "--space", "acme", "--input", `{"Name":"Ada"}`, "--wait").ok(t)
	require.Equal(t, "hello Ada\n", call(t, "kv", "get", "answer", "--raw", "--space", "acme").ok(t).out)
	cancel()
	require.NoError(t, <-ended)
}

func TestWorkersAndSetupMakeTheBucket(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(t *testing.T) (url string)
	}{
		{"work", func(t *testing.T) string {
			url := serve(t)
			w := start(t, "work", "--builtin", "echo")
			w.waitFor(t, "working")
			t.Cleanup(func() { require.Zero(t, w.stop(t)) })
			return url
		}},
		{"dev", func(t *testing.T) string {
			w := start(t, "dev", "--port", "0")
			w.waitFor(t, "jetcrew dev is running")
			t.Cleanup(func() { require.Zero(t, w.stop(t)) })
			return regexp.MustCompile(`nats://127\.0\.0\.1:\d+`).FindString(w.out.String())
		}},
		{"setup", func(t *testing.T) string {
			url := serve(t)
			call(t, "setup").ok(t)
			return url
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, err := stock(t, c.make(t)).Status(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, 1, status.History())
		})
	}
}

func TestSetupTellsWhatIsWrongWithTheBucket(t *testing.T) {
	url := serve(t)
	call(t, "setup").ok(t)
	nc, err := nats.Connect(url)
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	s, err := js.Stream(t.Context(), "KV_JETCREW_KV")
	require.NoError(t, err)
	changed := s.CachedInfo().Config
	changed.MaxBytes, changed.Discard, changed.MaxMsgsPerSubject = 1<<20, jetstream.DiscardNew, 5
	_, err = js.UpdateStream(t.Context(), changed)
	require.NoError(t, err)

	t.Setenv("JETCREW_MANAGE", "verify")
	w := start(t, "work", "--builtin", "echo", "--no-lead")
	w.waitFor(t, "handlers have no key/value store")
	w.waitFor(t, "working")
	require.Zero(t, w.stop(t))
	call(t, "kv", "get", "k").fails(t, exitFailure, "max_msgs_per_subject is 5, want 1")

	require.NoError(t, os.Unsetenv("JETCREW_MANAGE"))
	r := call(t, "setup").ok(t)
	for _, want := range []string{"settings drift", "max_msgs_per_subject", "max_bytes", "JETCREW_KV"} {
		require.Contains(t, r.err, want)
	}
	call(t, "kv", "set", "k", "1").ok(t)
}
