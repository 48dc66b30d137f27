package kvbucket

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"
)

// doctor changes single answers of a good history, which the checker has to notice. (It cannot notice each: of two that
// were under way together, either may have been first.)
func doctor(t *testing.T, history []porcupine.Operation) {
	t.Helper()
	for what, change := range map[string]func(call, *answer) bool{
		"a swap that won and says no":  func(in call, out *answer) bool { was := out.ok; out.ok = false; return in.op == "swap" && was },
		"a sum that is one too many":   func(in call, out *answer) bool { out.sum++; return in.op == "increment" },
		"a value that was never there": func(in call, out *answer) bool { out.value = new("ghost"); return in.op == "get" },
		"a value that was overlooked": func(in call, out *answer) bool {
			was := out.value
			out.value = nil
			return in.op == "get" && was != nil
		},
		"a write that was not done":     func(in call, out *answer) bool { was := out.ok; out.undone = true; return in.op == "swap" && was },
		"a deleteIf that did not do it": func(in call, out *answer) bool { was := out.ok; out.ok = false; return in.op == "deleteIf" && was },
	} {
		tried, noticed := 0, false
		for i, o := range history {
			out := o.Output.(answer)
			if out.unknown || out.undone || !change(o.Input.(call), &out) {
				continue
			}
			bad := append([]porcupine.Operation(nil), history...)
			bad[i].Output = out
			tried++
			if noticed = porcupine.CheckOperationsTimeout(register, bad, time.Minute) == porcupine.Illegal; noticed || tried == 20 {
				break
			}
		}
		require.Positive(t, tried, "no operation to doctor: %s", what)
		require.True(t, noticed, what)
	}
}

func TestTheCheckerKnowsGoodFromBad(t *testing.T) {
	t.Parallel()
	double := call{op: "swap", key: "fresh", next: "a"}
	require.False(t, porcupine.CheckOperations(register, []porcupine.Operation{
		{ClientId: 0, Input: double, Call: 0, Output: answer{ok: true}, Return: 10},
		{ClientId: 1, Input: double, Call: 5, Output: answer{ok: true}, Return: 15},
	}), "two swaps of nothing that both won")
	require.True(t, porcupine.CheckOperations(register, []porcupine.Operation{
		{ClientId: 0, Input: double, Call: 0, Output: answer{unknown: true}, Return: int64(time.Hour)},
		{ClientId: 1, Input: double, Call: 5, Output: answer{ok: true}, Return: 15},
	}), "of which one may not have been")
	over := call{op: "swap", key: "fresh", expected: new("a"), next: "b"}
	read := func(value *string, from int64) []porcupine.Operation {
		return []porcupine.Operation{
			{ClientId: 0, Input: double, Call: 0, Output: answer{ok: true}, Return: 10},
			{ClientId: 0, Input: over, Call: 20, Output: answer{ok: true}, Return: 30},
			{ClientId: 1, Input: call{op: "get", key: "fresh"}, Call: from, Output: answer{value: value}, Return: 40},
		}
	}
	require.True(t, porcupine.CheckOperations(register, read(new("b"), 35)))
	require.True(t, porcupine.CheckOperations(register, read(new("a"), 25)), "while the second one is under way")
	require.False(t, porcupine.CheckOperations(register, read(new("a"), 35)), "a read that is behind")
	require.False(t, porcupine.CheckOperations(register, read(nil, 35)))
	undone := read(new("a"), 35)
	undone[1].Output = answer{undone: true}
	require.True(t, porcupine.CheckOperations(register, undone))
	undone[2].Output = answer{value: new("b")}
	require.False(t, porcupine.CheckOperations(register, undone), "what is said not to have been done was done")
}
