package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAShellCompletesSchedules(t *testing.T) {
	serve(t)
	for _, name := range []string{"nightly", "night-shift", "other", "evil\x1b[2J"} {
		call(t, "schedule", "put", name, "--type", "t", "--cron", "@daily").ok(t)
	}
	call(t, "schedule", "put", "report", "--space", "acme", "--type", "t", "--cron", "@daily").ok(t)
	for _, c := range []struct {
		args []string
		out  string
	}{
		{[]string{"schedule", "get", "ni"}, "night-shift\nnightly\n:4\n"},
		{[]string{"schedule", "get", "nightly", "ni"}, ":4\n"},
		{[]string{"schedule", "put", "ot"}, "other\n:4\n"},
		{[]string{"schedule", "next", "e"}, ":4\n"},
		{[]string{"schedule", "enable", "nightly", "ni"}, "night-shift\n:4\n"},
		{[]string{"schedule", "delete", "--space", "acme", ""}, "report\n:4\n"},
		{[]string{"schedule", "run", "x"}, ":4\n"},
		{[]string{"schedule", "put", "x", "--missed", ""}, "one\nskip\neach\n:6\n"},
		{[]string{"--namespace", "elsewhere", "schedule", "get", ""}, ":4\n"},
		{[]string{"--url", "nats://127.0.0.1:1", "schedule", "get", ""}, ":4\n"},
	} {
		r := call(t, append([]string{"__complete"}, c.args...)...).ok(t)
		require.Equal(t, c.out, r.out, "%q: %s", c.args, r.err)
	}
}
