package main

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type fullDisk struct{ left int }

func (f *fullDisk) Write(p []byte) (int, error) {
	if len(p) > f.left {
		n := f.left
		f.left = 0
		return n, errors.New("no space left on device")
	}
	f.left -= len(p)
	return len(p), nil
}

func TestOutputThatCannotBeWrittenIsAFailure(t *testing.T) {
	serve(t)
	call(t, "enqueue", "t", "--id", "x").ok(t)
	for _, args := range [][]string{
		{"config"},
		{"config", "--json"},
		{"version"},
		{"version", "--json"},
		{"help"},
		{"job"},
		{"enqueue", "--help"},
		{"completion", "bash"},
		{"enqueue", "t", "--id", "x"},
		{"enqueue", "t", "--id", "x", "--json"},
		{"enqueue", "--file", "-"},
		{"job", "get", "x"},
		{"job", "get", "x", "--json"},
		{"job", "list"},
		{"job", "list", "--json"},
		{"job", "list", "--all"},
		{"job", "list", "--all", "--json"},
		{"job", "counts"},
		{"job", "counts", "--json"},
		{"job", "cancel", "--queue", "nobody", "--yes"},
		{"job", "cancel", "--queue", "nobody", "--yes", "--json"},
		{"queue", "list"},
		{"queue", "list", "--json"},
		{"queue", "info", "default"},
		{"queue", "resume", "default"},
		{"queue", "configure", "default", "--concurrency", "7"},
		{"worker", "list", "--json"},
		{"setup"},
		{"serve", "hash-token", "--name", "n"},
	} {
		stdin := `{"type":"t","id":"x"}`
		if args[0] == "serve" {
			stdin = strings.Repeat("k", 64) + "\n"
		}
		for _, left := range []int{0, 10} {
			var errs bytes.Buffer
			code := run(args, strings.NewReader(stdin), &fullDisk{left}, &errs)
			require.Equal(t, exitFailure, code, "%q: %s", args, &errs)
			require.Regexp(t, `^jetcrew: .*no space left on device\n$`, errs.String(), "%q", args)
		}
		require.Zero(t, run(args, strings.NewReader(stdin), io.Discard, io.Discard), "%q", args)
	}
}

func TestAShellCompletesWhatAValueCanBe(t *testing.T) {
	t.Setenv("JETCREW_URL", "nats://127.0.0.1:1") // nobody is there to be asked
	for _, c := range []struct {
		args []string
		out  string
	}{
		{[]string{"work", "--builtin", ""}, "echo\nsleep\nfail\nsha256\n:6\n"},
		{[]string{"work", "--builtin", "echo,f"}, "echo,sleep\necho,fail\necho,sha256\n:6\n"},
		{[]string{"work", "--log-level", ""}, "trace\ndebug\ninfo\nwarn\nerror\n:4\n"},
		{[]string{"work", "--exec", ""}, ":4\n"},
		{[]string{"work", "--handlers", ""}, ":0\n"},
		{[]string{"work", "--url", ""}, ":4\n"},
		{[]string{"work", ""}, ":4\n"},
		{[]string{"enqueue", "--file", ""}, ":0\n"},
		{[]string{"enqueue", "--id", ""}, ":4\n"},
		{[]string{"job", "get", ""}, ":4\n"},
		{[]string{"job", "list", "--status", "dead,"}, "dead,pending\ndead,ready\ndead,due\ndead,running\ndead,succeeded\ndead,failed\ndead,cancelled\n:6\n"},
		{[]string{"job", "run-now", "--status", ""}, "due\n:6\n"},
		{[]string{"job", "cancel", "--status", ""}, "pending\nready\ndue\nrunning\n:6\n"},
		{[]string{"job", "watch", "--status", ""}, "pending\nready\ndue\nrunning\nsucceeded\nfailed\ndead\ncancelled\n:6\n"},
		{[]string{"job", "list", "--cursor", ""}, ":4\n"},
		{[]string{"queue", "configure", "q", "--retention-dead", ""}, "none\ndefault\n:6\n"},
		{[]string{"queue", "purge", "q", "--status", "ready,"}, "ready,due\nready,succeeded\nready,failed\nready,dead\nready,cancelled\n:6\n"},
		{[]string{"queue", "pause", ""}, ":4\n"},
		{[]string{"dev", "--dir", ""}, ":16\n"},
		{[]string{"demo", ""}, ":16\n"},
	} {
		require.Equal(t, c.out, call(t, append([]string{"__complete"}, c.args...)...).ok(t).out, "%q", c.args)
	}
}
