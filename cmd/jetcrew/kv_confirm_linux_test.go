package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/kv"
)

func TestATerminalIsAskedBeforeASpaceIsWiped(t *testing.T) {
	for typed, yes := range map[string]bool{"y\n": true, "n\n": false, "\n": false} {
		person, tty := terminal(t)
		out, asked := &lockedBuffer{}, &lockedBuffer{}
		a := &app{stdin: tty, stdout: out, stderr: asked}
		space := kv.New(kv.NewMemory(kv.MemoryOptions{}), kv.Options{}).Space("a\x1b")
		require.NoError(t, space.Set(t.Context(), "k", 1, 0))
		_, _, err := space.List("l").Put(t.Context(), "id", 1, nil)
		require.NoError(t, err)
		_, err = person.WriteString(typed)
		require.NoError(t, err)
		err = a.wipe(t.Context(), storedSpace{space}, &bulkFlags{})
		require.Equal(t, `remove 2 values and lists of space a\x1b? [y/N] `, asked.String())
		there, gerr := space.Get(t.Context(), "k", new(int))
		require.NoError(t, gerr)
		require.Equal(t, !yes, there)
		if yes {
			require.NoError(t, err)
			require.Equal(t, "removed 2 values and lists\n", out.String())
		} else {
			require.ErrorIs(t, err, errNotConfirmed)
			require.Empty(t, out.String())
		}
	}
}
