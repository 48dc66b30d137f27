package kvtest

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/kv"
)

func incrementFromZero(e *env) {
	require.EqualValues(e, 1, e.increment("k", 1))
	require.EqualValues(e, 3, e.increment("k", 2))
	require.EqualValues(e, -7, e.increment("k", -10))
	require.EqualValues(e, -7, e.increment("k", 0))
	require.EqualValues(e, 0, e.increment("k", 7))
	e.has("k", "0")
	require.EqualValues(e, -5, e.increment("below", -5))
	e.has("below", "-5")
	require.EqualValues(e, 0, e.increment("zero", 0))
	e.has("zero", "0")
	e.set("given", "41", 0)
	require.EqualValues(e, 42, e.increment("given", 1))
	require.NoError(e, e.a.Delete(e.ctx, "given"))
	require.EqualValues(e, 1, e.increment("given", 1), "from zero after a delete")
	require.True(e, e.deleteIf("given", "1"))
	require.EqualValues(e, 2, e.increment("given", 2), "from zero after a deleteIf")
	require.True(e, e.swap("given", new("2"), "10", 0))
	require.EqualValues(e, 11, e.increment("given", 1))
}

func incrementRace(e *env) {
	const each = 25
	var mu sync.Mutex
	var totals []int64
	e.race(func(_ int, a kv.Adapter) error {
		for range each {
			total, err := a.Increment(e.ctx, "k", 1)
			if err != nil {
				return err
			}
			mu.Lock()
			totals = append(totals, total)
			mu.Unlock()
		}
		return nil
	})
	e.has("k", "300")
	slices.Sort(totals)
	require.Len(e, totals, racers*each)
	for i, total := range totals {
		require.EqualValues(e, i+1, total, "each total is answered once")
	}

	var sums []int64 // amounts of both signs, and the lifetime that one of them starts with
	e.set("mixed", "1000", time.Hour)
	e.race(func(writer int, a kv.Adapter) error {
		sum, err := a.Increment(e.ctx, "mixed", int64(writer*writer)*int64(1-2*(writer%2)))
		mu.Lock()
		sums = append(sums, sum)
		mu.Unlock()
		return err
	})
	want := int64(1000)
	for writer := range racers {
		want += int64(writer*writer) * int64(1-2*(writer%2))
	}
	require.Equal(e, want, e.increment("mixed", 0))
	require.Contains(e, sums, want, "the last one was told the sum of all")
}

func incrementKeeps(e *env) {
	e.set("mortal", "1", time.Second)
	e.set("lasting", "1", 0)
	e.set("hour", "1", time.Hour)
	e.increment("mortal", 1) // if it has lapsed by now, it has none: so only what is told below counts
	require.EqualValues(e, 2, e.increment("lasting", 1))
	require.EqualValues(e, 2, e.increment("hour", 1))
	counted, _, err := e.a.Get(e.ctx, "mortal")
	require.NoError(e, err)
	e.outlive(time.Second)
	if counted == "2" {
		e.absent("mortal")
	}
	if _, ok := e.a.(Clock); ok {
		require.Equal(e, "2", counted)
	}
	e.has("lasting", "2")
	e.has("hour", "2")
}

func incrementLapsed(e *env) {
	e.set("k", "5", time.Second)
	e.set("text", "no number", time.Second)
	e.outlive(time.Second)
	require.EqualValues(e, 1, e.increment("k", 1))
	require.EqualValues(e, 1, e.increment("text", 1), "what has lapsed need not be an integer")
	e.outlive(time.Second)
	require.EqualValues(e, 2, e.increment("k", 1), "the old lifetime is not taken over")
	require.EqualValues(e, 2, e.increment("text", 1))
}

func notIntegers(e *env) {
	for _, value := range []string{
		"", " ", "x", "1.5", "1.0", "1e3", "+1", "01", "-0", "--1", "-", "1 ", " 1", "1\n", "1_000", "1,000", "0x10", "null", `"1"`, "[1]", "{}",
		"true", "NaN", "Infinity", "9223372036854775808", "-9223372036854775809", "99999999999999999999999", "１",
	} {
		e.set("k", value, time.Hour)
		for _, amount := range []int64{1, 0, -1} {
			_, err := e.a.Increment(e.ctx, "k", amount)
			require.ErrorIs(e, err, kv.ErrNotInteger, "increment of %q", value)
		}
		e.has("k", value)
	}
}

func edges(e *env) {
	require.EqualValues(e, int64(math.MaxInt64), e.increment("top", math.MaxInt64))
	require.EqualValues(e, int64(math.MinInt64), e.increment("bottom", math.MinInt64))
	for _, c := range []struct {
		key    string
		amount int64
	}{{"top", 1}, {"top", math.MaxInt64}, {"bottom", -1}, {"bottom", math.MinInt64}} {
		_, err := e.a.Increment(e.ctx, c.key, c.amount)
		require.ErrorIs(e, err, kv.ErrNotInteger, "%s %+d", c.key, c.amount)
	}
	e.has("top", "9223372036854775807")
	e.has("bottom", "-9223372036854775808")
	require.EqualValues(e, int64(math.MaxInt64), e.increment("top", 0))
	require.EqualValues(e, -1, e.increment("top", math.MinInt64))
	require.EqualValues(e, -1, e.increment("bottom", math.MaxInt64))
}
