package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// watchedEvents are the lines that "kv watch --json" has printed so far.
func watchedEvents(t *testing.T, r *running) []map[string]any {
	t.Helper()
	var events []map[string]any
	for line := range strings.Lines(r.out.String()) {
		if !strings.HasSuffix(line, "\n") { // it is being written
			break
		}
		var e map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &e), line)
		events = append(events, e)
	}
	return events
}

// told waits until the last event of a key is of a kind, and answers it.
func told(t *testing.T, r *running, key, kind string) (last map[string]any) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, e := range watchedEvents(t, r) {
			if e["key"] == key {
				last = e
			}
		}
		return last["event"] == kind
	}, 20*time.Second, 10*time.Millisecond, "%s of %s: %s", kind, key, r.out)
	return last
}

func TestKVWatch(t *testing.T) {
	url := serve(t)
	call(t, "kv", "set", "k/a", `{"n":1}`).ok(t)
	call(t, "kv", "set", "other", "1").ok(t)
	call(t, "kv", "set", "k/a", "1", "--space", "foreign").ok(t)
	call(t, "kv", "list", "put", "k/board", "id", "1").ok(t)
	_, err := stock(t, url).Put(t.Context(), "v.default.k.bytes", []byte("\xff\x1b"))
	require.NoError(t, err)
	w := start(t, "kv", "watch", "k/", "--json")
	e := told(t, w, "k/a", "there")
	require.Equal(t, "default", e["space"])
	require.Equal(t, map[string]any{"n": 1.0}, e["value"])
	require.NotContains(t, e, "expiresAt")
	_, err = time.Parse(time.RFC3339, e["at"].(string))
	require.NoError(t, err)
	require.Equal(t, "\ufffd\x1b", told(t, w, "k/bytes", "there")["value"])

	call(t, "kv", "set", "k/b", "2", "--ttl", "1h").ok(t)
	require.Contains(t, told(t, w, "k/b", "set"), "expiresAt")
	call(t, "kv", "delete", "k/a").ok(t)
	require.NotContains(t, told(t, w, "k/a", "deleted"), "value")
	call(t, "kv", "expire", "k/b", "--ttl", "100ms").ok(t)
	told(t, w, "k/b", "expired")
	for _, e := range watchedEvents(t, w) {
		require.Contains(t, e["key"], "k/")
		require.NotEqual(t, "k/board", e["key"])
	}
	require.Zero(t, w.stop(t), "a signal is its proper end: %s", w.err)

	w = start(t, "kv", "watch", "--changes")
	w.waitFor(t, "watching the space default: Ctrl-C ends it\n")
	call(t, "kv", "set", "new\x1b", "\"a\u202eb\"").ok(t)
	w.waitFor(t, "set")
	require.Regexp(t, `^\d{4}-\d\d-\d\dT\S+Z +set +new\\x1b  "a\\u202eb"\n`, w.out.String())
	require.NotContains(t, w.out.String(), "other")
	require.Zero(t, w.stop(t))

	w = start(t, "kv", "watch", "--lists", "--json")
	require.Equal(t, "id", told(t, w, "k/board", "there")["value"].([]any)[0].(map[string]any)["id"])
	require.Zero(t, w.stop(t))
}
