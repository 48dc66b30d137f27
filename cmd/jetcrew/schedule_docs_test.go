package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"mvdan.cc/sh/v3/shell"
)

// TestScheduleDocs does what docs/schedules.md says, line by line.
func TestScheduleDocs(t *testing.T) {
	serve(t)
	t.Chdir("../..")
	s := start(t, "schedule")
	s.waitFor(t, "leading")
	text, err := os.ReadFile("docs/schedules.md")
	require.NoError(t, err)
	ran := 0
	for line := range strings.Lines(string(text)) {
		command, ok := strings.CutPrefix(line, "    jetcrew ")
		if !ok {
			continue
		}
		command, _, _ = strings.Cut(command, " # ")
		args, err := shell.Fields(command, nil)
		require.NoError(t, err, line)
		r := call(t, args...)
		require.Zero(t, r.code, "%s%s", line, r.err)
		ran++
	}
	require.Greater(t, ran, 12)
	require.ElementsMatch(t, []string{"default/poll", "default/nightly-greeting"}, schedulesOf(t, "--owner", "example"))
	require.Zero(t, s.stop(t))
}
