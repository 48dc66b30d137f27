package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"mvdan.cc/sh/v3/shell"
)

// The commands of docs/kv.md work as they stand there, one after the other.
func TestKVDocument(t *testing.T) {
	serve(t)
	doc, err := os.ReadFile("../../docs/kv.md")
	require.NoError(t, err)
	ran := 0
	for line := range strings.Lines(string(doc)) {
		command, ok := strings.CutPrefix(line, "    jetcrew kv ")
		if !ok {
			continue
		}
		words, err := shell.Fields(command, nil)
		require.NoError(t, err, line)
		ran++
		if words[0] == "watch" {
			w := start(t, append([]string{"kv"}, words...)...)
			w.waitFor(t, "watching the space")
			require.Zero(t, w.stop(t), "%s: %s", line, w.err)
			continue
		}
		r := call(t, append([]string{"kv"}, words...)...)
		require.Zero(t, r.code, "%s: %s", line, r.err)
	}
	require.Greater(t, ran, 15)
}
