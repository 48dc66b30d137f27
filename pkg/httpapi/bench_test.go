package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/guard"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/worker"
)

const (
	benchRounds  = 5
	benchCallers = 16
	benchJobs    = 3000
	benchCalls   = 1500
	benchStreams = 500
)

// spread is a median with its least and most.
type spread []float64

func (s spread) String() string {
	slices.Sort(s)
	return fmt.Sprintf("%.4g [%.4g..%.4g]", s[len(s)/2], s[0], s[len(s)-1])
}

// concurrently does n things, some at a time, and answers how many a second, and how long each took.
func concurrently(n int, do func(i int)) (rate float64, took []time.Duration) {
	took = make([]time.Duration, n)
	var next atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for range benchCallers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				at := time.Now()
				do(i)
				took[i] = time.Since(at)
			}
		})
	}
	wg.Wait()
	rate = float64(n) / time.Since(began).Seconds()
	slices.Sort(took)
	return rate, took
}

// posting keeps its connections, as a program does.
func (s *served) posting(t testing.TB) func(path, body string, want int) {
	tr := &http.Transport{MaxIdleConnsPerHost: benchCallers}
	t.Cleanup(tr.CloseIdleConnections)
	return func(path, body string, want int) {
		req, err := http.NewRequest("POST", s.url+path, strings.NewReader(body))
		require.NoError(t, err)
		bearing(secretAll)(req)
		req.Header.Set("Content-Type", "application/json")
		resp, err := tr.RoundTrip(req)
		require.NoError(t, err)
		require.Equal(t, want, resp.StatusCode)
		require.NoError(t, resp.Body.Close())
	}
}

// TestBenchHTTP measures the API beside its own client in the same process, on the same server: what HTTP costs.
func TestBenchHTTP(t *testing.T) {
	if os.Getenv("JETCREW_BENCH") == "" {
		t.Skip("set JETCREW_BENCH to measure (make bench-http)")
	}
	f := newFleet(t)
	var direct, over, ratio, p50, p99, bare50, bare99, streamKiB, fan spread
	s := serveTest(t, f.all, f.calling(t, func(c *guard.Config) { c.Poll = guard.DefaultPoll }), f.telling(t, func(c *EventsConfig) { c.look = streamLook }))
	post := s.posting(t)
	ms := func(d []time.Duration, part float64) float64 { return float64(d[int(float64(len(d)-1)*part)]) / 1e6 }
	for round := range benchRounds {
		d, _ := concurrently(benchJobs, func(i int) {
			_, err := f.EnqueueSpec(t.Context(), job.Spec{Type: "t", Queue: "parked", ID: fmt.Sprintf("d%d-%d", round, i)})
			require.NoError(t, err)
		})
		o, _ := concurrently(benchJobs, func(i int) {
			post("/v1/jobs", fmt.Sprintf(`{"type":"t","queue":"parked","id":"h%d-%d"}`, round, i), 201)
		})
		direct, over, ratio = append(direct, d), append(over, o), append(ratio, o/d)
	}
	f.works(t, map[string]worker.Handler{"noop": func(context.Context, *job.Job) (any, error) { return nil, nil }})
	for round := range benchRounds {
		_, took := concurrently(benchCalls, func(i int) {
			spec := job.Spec{Type: "noop", ID: fmt.Sprintf("c%d-%d", round, i)}
			_, err := f.EnqueueSpec(t.Context(), spec)
			require.NoError(t, err)
			_, err = f.Wait(t.Context(), job.Key{Queue: "default", ID: spec.ID})
			require.NoError(t, err)
		})
		bare50, bare99 = append(bare50, ms(took, .5)), append(bare99, ms(took, .99))
		_, took = concurrently(benchCalls, func(int) { post("/v1/calls", `{"type":"noop"}`, 200) })
		p50, p99 = append(p50, ms(took, .5)), append(p99, ms(took, .99))
	}
	for round := range benchRounds {
		was, goroutines := inUse(), runtime.NumGoroutine()
		all := make([]*listener, benchStreams)
		for i := range all {
			all[i] = s.listen("?queue=fan", "")
			all[i].until("watching")
		}
		streamKiB = append(streamKiB, float64(inUse()-was)/benchStreams/1024)
		if round == 0 {
			t.Logf("goroutines of a stream, both ends: %.1f", float64(runtime.NumGoroutine()-goroutines)/benchStreams)
		}
		began := time.Now()
		_, err := f.EnqueueSpec(t.Context(), job.Spec{Type: "t", Queue: "fan", ID: strconv.Itoa(round)})
		require.NoError(t, err)
		for _, l := range all {
			l.until("ready")
		}
		fan = append(fan, float64(time.Since(began))/1e6)
		for _, l := range all {
			l.close()
		}
	}
	t.Logf("enqueue, %d at a time: over HTTP %s/s, by the client %s/s, %s of it", benchCallers, over, direct, ratio)
	t.Logf("a no-op, put in and waited for, %d at a time, ms: over HTTP p50 %s p99 %s, by the client p50 %s p99 %s", benchCallers, p50, p99, bare50, bare99)
	t.Logf("%d streams: %s KiB each, both ends; an event at all of them after %s ms", benchStreams, streamKiB, fan)
}

func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}
