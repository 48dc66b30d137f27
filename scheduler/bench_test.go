package scheduler

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

// many puts n schedules.
func (b *bench) many(n int, spec Spec) {
	b.t.Helper()
	errs := make([]error, n)
	var all sync.WaitGroup
	for w := range 32 {
		all.Go(func() {
			for i := w; i < n; i += 32 {
				s := spec
				s.Name, s.Type = fmt.Sprint("schedule-", i), "work"
				_, _, errs[i] = b.store.Put(context.Background(), "", s)
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		require.NoError(b.t, err)
	}
}

// BenchmarkDueAtOneInstant is 10,000 schedules due at one instant, until all are enqueued and moved on.
func BenchmarkDueAtOneInstant(b *testing.B) {
	const n = 10000
	e := newBench(b, "2030-01-01 00:00:00")
	e.many(n, Cron("0 * * * *", Spec{}))
	o := e.fire(e.jobs)
	natstest.Eventually(b, patience, func() bool { return o.signs.Load() > 1 })
	var last time.Duration
	for i := 1; b.Loop(); i++ {
		began := time.Now()
		e.clock.set(instant(b, "2030-01-01 00:00:00").Add(time.Duration(i) * time.Hour))
		o.wait(b, i*n)
		last = max(last, time.Since(began))
	}
	b.ReportMetric(last.Seconds(), "s/worst")
}

// BenchmarkBoard is what a leader's memory of a schedule takes.
func BenchmarkBoard(b *testing.B) {
	const n = 10000
	for _, input := range []string{"", `{"customer":"c-4711","report":"monthly","formats":["pdf","csv"]}`} {
		b.Run(fmt.Sprintf("input=%d", len(input)), func(b *testing.B) {
			e := newBench(b, "2030-01-01 00:00:00")
			spec := Cron("0 * * * *", Spec{})
			if input != "" {
				spec.Input = jsontext.Value(input)
			}
			e.many(n, spec)
			var per float64
			for b.Loop() {
				f := NewFirer(e.store, e.jobs, FirerConfig{})
				before := heapInUse()
				ctx, stop := context.WithCancel(context.Background())
				var l *lookout
				l = f.lookOut(func() {
					if len(l.known.items) > 0 { // it has read all
						stop()
					}
				})
				l.run(ctx)
				require.Len(b, l.known.items, n)
				per = max(per, float64(heapInUse()-before)/n)
				runtime.KeepAlive(l)
			}
			b.ReportMetric(per, "B/schedule")
		})
	}
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkLateness is how late jobs are made of 10,000 schedules that are spread over each minute, by the real clock and
// on a server process. It takes a minute and a half, and so runs only if JETCREW_BENCH_LATENESS is set.
func BenchmarkLateness(b *testing.B) {
	if os.Getenv("JETCREW_BENCH_LATENESS") == "" {
		b.Skip("set JETCREW_BENCH_LATENESS=1: it takes a minute and a half")
	}
	const n = 10000
	srv := natstest.StartServer(b, natstest.ServerConfig{})
	e := benchAt(b, srv.URL(), "2030-01-01 00:00:00")
	store, err := OpenStore(context.Background(), natstest.Connect(b, srv.URL()), StoreConfig{Clock: e.jobs})
	require.NoError(b, err)
	e.store = store
	e.many(n, Cron("* * * * *", Spec{Jitter: time.Minute - time.Second}))
	o := e.fireFrom(store, e.jobs)
	for b.Loop() {
		from := e.jobs.Now().Add(2 * time.Second) // what came due before the leader did is none of it
		until := time.Now().Add(80 * time.Second) // and the reading anew once a minute is
		natstest.Eventually(b, 5*time.Minute, func() bool { return time.Now().After(until) })
		var late []time.Duration
		for _, f := range o.seen() {
			require.NoError(b, f.Err)
			if f.Created && f.At.After(from) {
				late = append(late, f.Late)
			}
		}
		slices.Sort(late)
		require.Greater(b, len(late), n)
		b.ReportMetric(float64(len(late)), "fires")
		for _, q := range []struct {
			name string
			of   float64
		}{{"p50-ms", 0.5}, {"p99-ms", 0.99}, {"p999-ms", 0.999}, {"worst-ms", 1}} {
			b.ReportMetric(float64(late[int(q.of*float64(len(late)-1))].Microseconds())/1000, q.name)
		}
	}
}
