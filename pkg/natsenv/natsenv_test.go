package natsenv_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/natsenv"
)

func TestVersionsAreCompared(t *testing.T) {
	for v, ok := range map[string]bool{
		"2.14.0": true, "2.14": true, "2.14.0-RC.1": true, "2.14.1": true, "2.15.2": true, "v2.15.2": true, "3.0.0": true, "10.0.0": true,
		"2.13.9": false, "2.9.25": false, "1.99.0": false, "": false, "dev": false, "2.x.0": false, "2": false,
	} {
		require.Equal(t, ok, natsenv.NewEnough(v), v)
	}
}

func TestNamespaces(t *testing.T) {
	for s, ok := range map[string]bool{
		"jetcrew": true, "a": true, "a-b_9": true, "a" + strings.Repeat("b", 31): true,
		"": false, "A": false, "a.b": false, "x*": false, "x>": false, "9a": false, "_a": false, "a" + strings.Repeat("b", 32): false,
	} {
		require.Equal(t, ok, natsenv.ValidNamespace(s), s)
	}
}
