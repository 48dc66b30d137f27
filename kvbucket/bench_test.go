package kvbucket

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

// TestBench measures the bucket beside the client library's own KV, by turns and in one run, and prints ratios, with
// their quartiles. It asserts none, and is short unless JETCREW_BENCH asks for more.
func TestBench(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	n, rounds := 300, 1
	if os.Getenv("JETCREW_BENCH") != "" {
		n, rounds = 4000, 21
	}
	b := open(t, natstest.StartServer(t, natstest.ServerConfig{}).URL(), config())
	raw, err := b.js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "RAW"})
	require.NoError(t, err)
	value := strings.Repeat("x", 200)
	key := func(i int) string { return "v/bench/" + strconv.Itoa(i%1000) }
	name := func(i int) string { return "v.bench." + strconv.Itoa(i%1000) }
	ctx := t.Context()
	for i := range 1000 {
		set(t, b, key(i), value, 0)
		_, err := raw.PutString(ctx, name(i), value)
		require.NoError(t, err)
	}
	var rawCount, ourCount, rawAlone, ourAlone atomic.Int64
	for _, c := range []struct {
		name      string
		at        int // how many at a time
		n         int
		raw, ours func(i int) error
	}{
		{"get", 1, n / 4, func(i int) error { _, err := raw.Get(ctx, name(i)); return err }, func(i int) error { _, _, err := b.Get(ctx, key(i)); return err }},
		{"get", 32, n, func(i int) error { _, err := raw.Get(ctx, name(i)); return err }, func(i int) error { _, _, err := b.Get(ctx, key(i)); return err }},
		{
			"set / put", 1, n / 4, func(i int) error { _, err := raw.PutString(ctx, name(i), value); return err },
			func(i int) error { return b.Set(ctx, key(i), value, 0) },
		},
		{
			"set / put", 32, n, func(i int) error { _, err := raw.PutString(ctx, name(i), value); return err },
			func(i int) error { return b.Set(ctx, key(i), value, 0) },
		},
		{
			"set with a lifetime / put", 32, n, func(i int) error { _, err := raw.PutString(ctx, name(i), value); return err },
			func(i int) error { return b.Set(ctx, key(i), value, time.Hour) },
		},
		{
			"swap / get and update", 32, n / 2,
			func(i int) error { return casRaw(ctx, raw, name(i), func(v string) string { return v }) },
			func(i int) error { _, err := b.Swap(ctx, key(i), &value, value, 0); return err },
		},
		{
			"delete / purge", 32, n, func(i int) error { return raw.Purge(ctx, "d"+strconv.Itoa(i)) },
			func(i int) error { return b.Delete(ctx, "d"+strconv.Itoa(i)) },
		},
		{
			"increment, alone / get and update", 1, n / 8,
			func(int) error { rawAlone.Add(1); return casRaw(ctx, raw, "alone", plusOne) },
			func(int) error { ourAlone.Add(1); _, err := b.Increment(ctx, "alone", 1); return err },
		},
		{
			"increment of one key / get and update", 200, min(n, 1000),
			func(int) error { rawCount.Add(1); return casRaw(ctx, raw, "count", plusOne) },
			func(int) error { ourCount.Add(1); _, err := b.Increment(ctx, "count", 1); return err },
		},
	} {
		var raws, ours, ratios []float64
		for round := range rounds { // many short ones, each side first by turns: the machine is shared, and drifts
			var r, o float64
			if round%2 == 0 {
				r = rate(t, c.n, c.at, c.raw)
				o = rate(t, c.n, c.at, c.ours)
			} else {
				o = rate(t, c.n, c.at, c.ours)
				r = rate(t, c.n, c.at, c.raw)
			}
			raws, ours, ratios = append(raws, r), append(ours, o), append(ratios, o/r)
		}
		m := median(ratios)
		fmt.Printf("%-40s %4d at a time: raw %9.0f/s  ours %9.0f/s  ratio %.2f [%.2f..%.2f]\n", c.name, c.at, median(raws), median(ours),
			m, ratios[len(ratios)/4], ratios[len(ratios)*3/4])
	}
	has(t, b, "count", strconv.FormatInt(ourCount.Load(), 10))
	has(t, b, "alone", strconv.FormatInt(ourAlone.Load(), 10))
	e, err := raw.Get(ctx, "count")
	require.NoError(t, err)
	require.Equal(t, strconv.FormatInt(rawCount.Load(), 10), string(e.Value()))
}

// TestBenchChange measures 50 writers that change one value, in one process, where they take turns, and in five, which race.
func TestBenchChange(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	each, rounds := 4, 1
	if os.Getenv("JETCREW_BENCH") != "" {
		each, rounds = 40, 5
	}
	url := natstest.StartServer(t, natstest.ServerConfig{}).URL()
	for _, processes := range []int{1, 5} {
		spaces := make([]*kv.Space, processes)
		for i := range spaces {
			spaces[i] = kv.New(open(t, url, config()), kv.Options{}).Space("bench")
		}
		key := "by-" + strconv.Itoa(processes)
		var written, refused, slowest atomic.Int64
		var rates []float64
		for range rounds {
			from := time.Now()
			var all sync.WaitGroup
			for w := range 50 {
				all.Go(func() {
					for range each {
						asked := time.Now()
						_, err := kv.Change(t.Context(), spaces[w%processes], key, func(n *int) (*int, error) {
							if n == nil {
								n = new(int)
							}
							return new(*n + 1), nil
						}, nil)
						var busy *job.Refusal
						switch took := time.Since(asked).Nanoseconds(); {
						case errors.As(err, &busy):
							refused.Add(1)
						case err != nil:
							t.Error(err)
						default:
							written.Add(1)
							for most := slowest.Load(); took > most && !slowest.CompareAndSwap(most, took); most = slowest.Load() {
							}
						}
					}
				})
			}
			all.Wait()
			rates = append(rates, float64(50*each)/time.Since(from).Seconds())
		}
		slices.Sort(rates)
		fmt.Printf("change, 50 writers in %d process(es)      %d, %d refused, %.0f/s [%.0f..%.0f], slowest %s\n", processes, written.Load(),
			refused.Load(), median(rates), rates[0], rates[len(rates)-1], time.Duration(slowest.Load()).Round(time.Millisecond))
		n, ok, err := kv.Get[int64](t.Context(), spaces[0], key)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, written.Load(), n, "what was acknowledged, and nothing else")
	}
}

// TestBenchBulk measures what is done to very many keys.
func TestBenchBulk(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	n := 2000
	if os.Getenv("JETCREW_BENCH") != "" {
		n = 100_000
	}
	cfg := config()
	cfg.MarkerTTL = 5 * time.Second
	b := open(t, natstest.StartServer(t, natstest.ServerConfig{}).URL(), cfg)
	name := func(i int) string { return fmt.Sprintf("v/space%d/%d", i%10, i) }
	timed := func(what string, n int, do func()) {
		from := time.Now()
		do()
		took := time.Since(from)
		fmt.Printf("%-40s %d in %s, %.0f/s\n", what, n, took.Round(time.Millisecond), float64(n)/took.Seconds())
	}
	timed("set", n, func() { fill(t, b, n, name, strings.Repeat("x", 200)) })
	timed("keys", n, func() { require.Len(t, keysOf(t, b, "v/"), n) })
	timed("keys of a tenth", n/10, func() { require.Len(t, keysOf(t, b, "v/space3/"), n/10) })
	timed("keys, by the client library", n, func() {
		l, err := stock(t, b).ListKeys(t.Context())
		require.NoError(t, err)
		listed := 0
		for range l.Keys() {
			listed++
		}
		require.Equal(t, n, listed)
	})
	timed("wipe of a tenth", n/10, func() {
		wiped, err := b.Wipe(t.Context(), "v/space3/")
		require.NoError(t, err)
		require.Equal(t, n/10, wiped)
	})
	timed("wipe", n-n/10, func() {
		wiped, err := b.Wipe(t.Context(), "")
		require.NoError(t, err)
		require.Equal(t, n-n/10, wiped)
	})
	timed("until the bucket is empty", n, func() {
		natstest.Eventually(t, 2*time.Minute, func() bool {
			messages, _ := left(t, b)
			return messages == 0
		})
	})
}

func plusOne(v string) string {
	n, _ := strconv.Atoi(v) // "" is none
	return strconv.Itoa(n + 1)
}

// casRaw is a compare-and-set loop as one writes it with the client library.
func casRaw(ctx context.Context, store jetstream.KeyValue, key string, change func(string) string) error {
	for {
		e, err := store.Get(ctx, key)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			_, err = store.Create(ctx, key, []byte(change("")))
		} else if err == nil {
			_, err = store.Update(ctx, key, []byte(change(string(e.Value()))), e.Revision())
		}
		if !errors.Is(err, jetstream.ErrKeyExists) {
			return err
		}
	}
}

// rate does something n times, some at a time, and answers how often a second.
func rate(t *testing.T, n, at int, do func(i int) error) float64 {
	t.Helper()
	var next atomic.Int64
	var failed atomic.Value
	var all sync.WaitGroup
	from := time.Now()
	for range at {
		all.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				if err := do(int(i)); err != nil {
					failed.Store(err)
					return
				}
			}
		})
	}
	all.Wait()
	require.Nil(t, failed.Load())
	return float64(n) / time.Since(from).Seconds()
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}
