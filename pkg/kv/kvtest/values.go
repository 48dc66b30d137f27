package kvtest

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/kv"
)

func largeValue(e *env) {
	random := rand.New(rand.NewPCG(1, 2))
	large := make([]byte, 140<<10)
	for i := range large {
		large[i] = byte(random.IntN(256))
	}
	value := string(large)
	e.set("set", value, 0)
	e.has("set", value)
	require.True(e, e.swap("swap", nil, value, time.Hour))
	e.has("swap", value)

	other := value[:len(value)-1] + string(value[len(value)-1]^1) // another last byte
	require.False(e, e.swap("swap", &other, "small", 0))
	require.False(e, e.deleteIf("swap", other))
	require.True(e, e.expire("set", time.Hour))
	e.has("set", value)
	require.True(e, e.swap("swap", &value, other, 0))
	e.has("swap", other)
	require.True(e, e.deleteIf("swap", other))
}

func anyValue(e *env) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for _, value := range []string{
		"", " ", "\x00", "\n", "\r\n\r\n", "NATS/1.0\r\n\r\n", "\xff\xfe", string(every), "null", "{}", "é", "e\u0301", "\ufeff",
		strings.Repeat("\x00", 1000),
	} {
		e.set("set", value, 0)
		e.has("set", value)
		e.set("lasting", value, time.Hour)
		e.has("lasting", value)
		require.True(e, e.swap("swap", nil, value, 0), "swap to %.20q", value)
		e.has("swap", value)
		require.False(e, e.swap("swap", nil, "other", 0), "a value of %.20q is there", value)
		require.False(e, e.swap("swap", new(value+" "), "other", 0))
		require.True(e, e.swap("swap", &value, value, 0))
		require.True(e, e.deleteIf("swap", value))
		e.absent("swap")
	}
	require.False(e, e.swap("none", new(""), "v", 0), "nothing is not an empty value")
	require.False(e, e.deleteIf("none", ""), "nothing is not an empty value")
}

func overLimit(e *env) {
	limited, ok := e.a.(Limited)
	if !ok {
		e.Skip("this adapter tells no limit")
	}
	large := strings.Repeat("x", limited.TooLarge())
	e.set("kept", "v", 0)
	require.ErrorIs(e, e.a.Set(e.ctx, "kept", large, 0), kv.ErrTooLarge)
	require.ErrorIs(e, e.a.Set(e.ctx, "new", large, time.Hour), kv.ErrTooLarge)
	_, err := e.a.Swap(e.ctx, "kept", new("v"), large, 0)
	require.ErrorIs(e, err, kv.ErrTooLarge)
	_, err = e.a.Swap(e.ctx, "new", nil, large, 0)
	require.ErrorIs(e, err, kv.ErrTooLarge)
	require.Regexp(e, `\d`, err.Error(), "the error gives the size and the limit")
	e.has("kept", "v")
	e.absent("new")
	require.ElementsMatch(e, []string{"kept"}, e.keys(""))

	// What is expected may be longer than what could ever be there.
	require.False(e, e.swap("kept", &large, "w", 0))
	require.False(e, e.deleteIf("kept", large))
	e.has("kept", "v")
}
