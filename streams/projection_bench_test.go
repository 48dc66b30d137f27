package streams

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// BenchmarkProjection lists from an index of 10,000 jobs, or of JETCREW_BENCH_JOBS, and says what it takes to make one.
func BenchmarkProjection(b *testing.B) {
	jobs := 10_000
	if s := os.Getenv("JETCREW_BENCH_JOBS"); s != "" {
		var err error
		jobs, err = strconv.Atoi(s)
		require.NoError(b, err)
	}
	nc := natstest.Connect(b, natstest.StartServer(b, natstest.ServerConfig{}).URL())
	s, err := Open(b.Context(), nc, Config{})
	require.NoError(b, err)
	b.Cleanup(s.Close)
	publishJobs(b, s, jobs)
	before := heapInUse()
	began := time.Now()
	p, err := s.NewProjection(b.Context(), ProjectionConfig{})
	require.NoError(b, err)
	b.Cleanup(p.Close)
	took, memory := time.Since(began), heapInUse()-before
	st := p.Stats()
	require.Equal(b, jobs, st.Jobs)
	b.Run("catch_up", func(b *testing.B) { // once, whatever the benchmark's time
		for b.Loop() {
		}
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(jobs)/took.Seconds(), "jobs/s")
		b.ReportMetric(float64(memory)/float64(jobs), "B/job")
		b.ReportMetric(float64(st.BytesPerJob), "estimated-B/job")
	})

	list := func(name string, req job.ListRequest) {
		req.Filter.AllSpaces = len(req.Filter.Spaces) == 0
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := p.List(b.Context(), req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	list("page1", job.ListRequest{})
	list("page1/bare", job.ListRequest{Bare: true})
	list("page100/offset", job.ListRequest{Bare: true, Offset: 99 * job.DefaultPage})
	list("last_page/offset", job.ListRequest{Bare: true, Offset: jobs - job.DefaultPage})
	page, err := p.List(b.Context(), job.ListRequest{Filter: job.Filter{AllSpaces: true}, Offset: jobs / 2, Bare: true})
	require.NoError(b, err)
	require.Len(b, page.Jobs, job.DefaultPage)
	list("middle/cursor", job.ListRequest{Bare: true, Cursor: page.Next})
	list("rare_type", job.ListRequest{Bare: true, Filter: job.Filter{Type: "rare"}})
	list("space_and_queue", job.ListRequest{Bare: true, Filter: job.Filter{Spaces: []string{"s7"}, Queue: "q3"}})
	list("ready", job.ListRequest{Bare: true, Filter: job.Filter{Statuses: []job.Status{job.Ready}}})
	list("since", job.ListRequest{Bare: true, Filter: job.Filter{From: page.Jobs[0].UpdatedAt}})
	list("by_created", job.ListRequest{Bare: true, Order: job.ByCreated})
	list("by_created/ascending", job.ListRequest{Bare: true, Order: job.ByCreated, Ascending: true})
	list("by_run", job.ListRequest{Bare: true, Order: job.ByRun})
	list("by_run/middle", job.ListRequest{Bare: true, Order: job.ByRun, Offset: jobs / 2})
	b.Run("totals", func(b *testing.B) {
		for b.Loop() {
			p.Totals()
		}
	})
}

func heapInUse() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// publishJobs stores jobs of 10 queues and 50 spaces, most of them ended; one in twenty is overwritten later, so that
// the stream has gaps.
func publishJobs(b *testing.B, s *Store, jobs int) {
	b.Helper()
	pending := make([]jetstream.PubAckFuture, 0, 4096)
	flush := func() {
		for _, f := range pending {
			select {
			case <-f.Ok():
			case err := <-f.Err():
				require.NoError(b, err)
			}
		}
		pending = pending[:0]
	}
	at := time.Now().Add(-time.Hour)
	put := func(i int, id string, rev int) {
		st := []state{stateSucceeded, stateSucceeded, stateSucceeded, stateDead, stateDue, stateReady, stateSucceeded, stateSucceeded}[i%8]
		typ := fmt.Sprint("type", i%7)
		if i%(jobs/20+1) == 3 {
			typ = "rare"
		}
		created := at.Add(time.Duration(i) * time.Millisecond)
		body := fmt.Sprintf(`{"v":1,"rev":%d,"writer":%q,"type":%q,"maxAttempts":3,"createdAt":%q,"runAt":%q,"input":{"x":"%064d"}}`,
			rev, nuid.Next(), typ, created.UTC().Format(job.TimeFormat),
			created.Add(time.Duration(i*7919%100_000)*time.Second).UTC().Format(job.TimeFormat), i)
		m := nats.NewMsg(s.names.job(st, fmt.Sprintf("q%d.s%d.%s", i%10, i%50, id)))
		m.Data = []byte(body)
		if st.terminal() {
			m.Header.Set(jetstream.MsgTTLHeader, "86400")
		}
		f, err := s.js.PublishMsgAsync(m)
		require.NoError(b, err)
		if pending = append(pending, f); len(pending) == cap(pending) {
			flush()
		}
	}
	for i := range jobs {
		id := fmt.Sprintf("%08d-7000-4000-8000-%012d", i, i)
		put(i, id, 1)
		if i%20 == 0 && i > 0 {
			put(i-20, fmt.Sprintf("%08d-7000-4000-8000-%012d", i-20, i-20), 2)
		}
	}
	flush()
}
