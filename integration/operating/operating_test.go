package operating

import (
	"context"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/streams"
)

func TestMain(m *testing.M) { natstest.Main(m) }

const (
	pageSize = 50
	queues   = 10
	drained  = 20_000
)

// bed is a server full of records, and a client of it.
type bed struct {
	t       *testing.T
	records int
	measure bool // figures are wanted, and not only right answers
	server  *natstest.Process
	nc      *nats.Conn
	js      jetstream.JetStream
	store   *streams.Store

	backlogs int
}

func TestOperatingOnManyRecords(t *testing.T) {
	b := &bed{t: t, records: 2_000}
	if v := os.Getenv("JETCREW_BENCH_RECORDS"); v != "" {
		var err error
		b.records, err = strconv.Atoi(v)
		require.NoError(t, err)
		require.GreaterOrEqual(t, b.records, 2_000)
		b.measure = true
	}
	b.server = natstest.StartServer(t, natstest.ServerConfig{})
	b.nc = natstest.Connect(t, b.server.URL())
	var err error
	b.js, err = jetstream.New(b.nc, jetstream.WithPublishAsyncMaxPending(4096))
	require.NoError(t, err)
	b.store, err = streams.Open(t.Context(), b.nc, streams.Config{})
	require.NoError(t, err)
	t.Cleanup(b.store.Close)
	b.fill()
	b.counts()
	b.windows()
	b.single()

	everything := job.ListRequest{Filter: job.Filter{AllSpaces: true}}
	rates := make(map[string][]float64)
	b.drains(rates, map[string]func(){
		nobody:                               func() {},
		"drain, counts each second":          func() { _, _ = b.store.Count(t.Context()) },
		"drain, a page each second, windows": func() { _, _ = b.store.List(t.Context(), everything) },
	})
	b.tellDrains(rates)
	p := b.projection()
	clear(rates)
	b.drains(rates, map[string]func(){
		"drain, a page each second, projection": func() { _, _ = p.List(t.Context(), everything) },
	})
	p.Close()
	b.drains(rates, map[string]func(){nobody: func() {}})
	b.tellDrains(rates)
}

// figure tells a measured value.
func (b *bed) figure(name, format string, args ...any) {
	if b.measure {
		fmt.Printf("%-44s %s\n", name, fmt.Sprintf(format, args...))
	}
}

// timed does something often, and tells the median and the spread.
func (b *bed) timed(name string, times int, do func(i int)) {
	b.t.Helper()
	if !b.measure {
		times = min(times, 2)
	}
	took := make([]time.Duration, times)
	for i := range times {
		began := time.Now()
		do(i)
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	b.figure(name, "%s [%s..%s]", round(took[times/2]), round(took[0]), round(took[times-1]))
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

// state is the state of the n-th record: a fleet's that has been working for a day.
func state(n int) string {
	switch {
	case n%100 == 7:
		return "dead"
	case n%100 == 57:
		return "failed"
	default:
		return "succeeded"
	}
}

// fill writes records as workers leave them, and deletes some in the middle.
func (b *bed) fill() {
	before, began := b.resident(), time.Now()
	result := strings.Repeat("r", 100)
	for n := range b.records {
		st := state(n)
		body := fmt.Sprintf(`{"v":1,"rev":2,"writer":"w%d","origin":["o%d"],"type":"type-%d","queue":"q%d","space":"default",`+
			`"id":"018f4c2e-0000-7000-8000-%012d","input":{"to":"somebody@example.org"},"status":"%s","attempts":1,`+
			`"createdAt":"2026-01-01T00:00:00.000Z","result":"%s"}`, n, n, n%5, n%queues, n, st, result)
		m := nats.NewMsg(fmt.Sprintf("jetcrew.job.%s.q%d.default.018f4c2e-0000-7000-8000-%012d", st, n%queues, n))
		m.Data = []byte(body)
		m.Header[jetstream.MsgTTLHeader] = []string{"86400"}
		_, err := b.js.PublishMsgAsync(m, jetstream.WithStallWait(time.Minute))
		require.NoError(b.t, err)
	}
	select {
	case <-b.js.PublishAsyncComplete():
	case <-time.After(5 * time.Minute):
		require.Fail(b.t, "the records were not stored")
	}
	stream, err := b.js.Stream(b.t.Context(), "JETCREW_JOBS")
	require.NoError(b.t, err)
	removed := 0
	for n := 1; n < b.records; n += max(b.records/100, 20) {
		if state(n) == "succeeded" {
			require.NoError(b.t, stream.DeleteMsg(b.t.Context(), uint64(n+1)))
			removed++
		}
	}
	b.figure("records", "%d, written at %.0f/s", b.records, float64(b.records)/time.Since(began).Seconds())
	if before > 0 {
		b.figure("memory of the server per record", "%d B", (b.resident()-before)/int64(b.records))
	}
	b.records -= removed
}

// resident is the server's memory; 0 where that cannot be read.
func (b *bed) resident() int64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", b.server.PID()))
	if err != nil {
		return 0
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(raw), &size, &pages); err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

func (b *bed) counts() {
	b.timed("counts", 50, func(int) {
		c, err := b.store.Count(b.t.Context())
		require.NoError(b.t, err)
		require.Equal(b.t, b.records, c.Total())
		require.Positive(b.t, c.Dead)
	})
}

// page asks for one page, which has to be full.
func (b *bed) page(l job.Lister, req job.ListRequest) *job.Page {
	b.t.Helper()
	req.Filter.AllSpaces = true
	req.Limit = pageSize
	page, err := l.List(b.t.Context(), req)
	require.NoError(b.t, err)
	return page
}

func (b *bed) windows() {
	pages := min(100, b.records/pageSize/2)
	first := job.ListRequest{}
	b.timed("windows: first page", 20, func(int) {
		require.Len(b.t, b.page(b.store, first).Jobs, pageSize)
	})
	next := first
	for range pages - 1 {
		next.Cursor = b.page(b.store, next).Next
		require.NotEmpty(b.t, next.Cursor)
	}
	b.timed(fmt.Sprintf("windows: page %d", pages), 20, func(int) {
		require.Len(b.t, b.page(b.store, next).Jobs, pageSize)
	})
	dead := job.ListRequest{Filter: job.Filter{Statuses: []job.Status{job.Dead}}}
	b.timed("windows: first page of the dead", 20, func(int) {
		page := b.page(b.store, dead)
		require.NotEmpty(b.t, page.Jobs)
		require.Equal(b.t, job.Dead, page.Jobs[0].Status)
	})
}

func (b *bed) single() {
	id := func(i int) string { return fmt.Sprintf("018f4c2e-0000-7000-8000-%012d", 100*(i%10)+7) }
	b.timed("get, by queue, space and id", 50, func(i int) {
		_, err := b.store.Get(b.t.Context(), job.Key{Queue: "q7", Space: "default", ID: id(i)})
		require.NoError(b.t, err)
	})
	b.timed("get, by space and id", 20, func(i int) {
		_, err := b.store.Get(b.t.Context(), job.Key{Space: "default", ID: id(i)})
		require.NoError(b.t, err)
	})
	for i := range 50 {
		_, err := b.store.Enqueue(b.t.Context(), job.Spec{Queue: "q1", Type: "t", ID: fmt.Sprintf("due-%d", i), Delay: 24 * time.Hour})
		require.NoError(b.t, err)
		b.records++
	}
	b.timed("cancel of a job that waits", 50, func(i int) {
		out, err := b.store.Cancel(b.t.Context(), job.Key{Queue: "q1", Space: "default", ID: fmt.Sprintf("due-%d", i)})
		require.NoError(b.t, err)
		require.True(b.t, out.Done)
	})
}

func (b *bed) projection() *streams.Projection {
	before, began := heap(), time.Now()
	p, err := b.store.NewProjection(b.t.Context(), streams.ProjectionConfig{})
	require.NoError(b.t, err)
	b.t.Cleanup(p.Close)
	b.figure("projection: catching up", "%s, %.0f records/s", time.Since(began).Round(time.Millisecond), float64(b.records)/time.Since(began).Seconds())
	b.figure("projection: memory per record", "%d B", (heap()-before)/int64(b.records))
	first := b.page(p, job.ListRequest{})
	require.Equal(b.t, b.records, first.Total)
	deep := 100 * pageSize
	if deep > b.records-pageSize {
		deep = b.records / 2
	}
	for _, x := range []struct {
		name string
		req  job.ListRequest
	}{
		{"first page", job.ListRequest{}},
		{"first page, without bodies", job.ListRequest{Bare: true}},
		{"page 100", job.ListRequest{Offset: deep}},
		{"first page of the dead", job.ListRequest{Filter: job.Filter{Statuses: []job.Status{job.Dead}}}},
		{"first page of a queue and type", job.ListRequest{Filter: job.Filter{Queue: "q3", Type: "type-3"}}},
		{"first page by creation", job.ListRequest{Order: job.ByCreated, Ascending: true}},
	} {
		b.timed("projection: "+x.name, 30, func(int) {
			page := b.page(p, x.req)
			require.NotEmpty(b.t, page.Jobs)
			require.Positive(b.t, page.Total)
		})
	}
	return p
}

// heap is what this process holds on to.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// drains works backlogs off, by turns with nobody looking and with those who look once a second.
func (b *bed) drains(rates map[string][]float64, looks map[string]func()) {
	rounds, jobs := 3, drained
	if !b.measure {
		rounds, jobs = 1, 200
	}
	for range rounds {
		for _, name := range slices.Sorted(maps.Keys(looks)) {
			b.backlogs++
			rates[name] = append(rates[name], b.drainOnce(fmt.Sprintf("drain-%d", b.backlogs), jobs, looks[name]))
			b.records += jobs
		}
	}
}

const nobody = "drain, nobody looking"

// tellDrains tells how fast the drains were.
func (b *bed) tellDrains(rates map[string][]float64) {
	slices.Sort(rates[nobody])
	alone := rates[nobody][len(rates[nobody])/2]
	for _, name := range slices.Sorted(maps.Keys(rates)) {
		r := rates[name]
		slices.Sort(r)
		b.figure(name, "%.0f/s [%.0f..%.0f], %.2f of nobody looking", r[len(r)/2], r[0], r[len(r)-1], r[len(r)/2]/alone)
	}
}

func (b *bed) drainOnce(queue string, jobs int, look func()) float64 {
	specs := make([]job.Spec, jobs)
	for i := range specs {
		specs[i] = job.Spec{Queue: queue, Type: "t", ID: strconv.Itoa(i)}
	}
	ctx, cancel := context.WithTimeout(b.t.Context(), 5*time.Minute)
	defer cancel()
	_, err := b.store.EnqueueMany(ctx, specs)
	require.NoError(b.t, err)
	c, err := b.store.Consume(ctx, job.ConsumerConfig{Queue: queue, WorkerID: "w-" + queue, Slots: 100})
	require.NoError(b.t, err)
	var left atomic.Int64
	left.Store(int64(jobs))
	done := make(chan struct{})
	var wg, looking sync.WaitGroup
	looking.Go(func() {
		t := time.NewTicker(time.Second)
		defer t.Stop()
		for {
			look()
			select {
			case <-t.C:
			case <-done:
				return
			}
		}
	})
	began := time.Now()
	claiming, stop := context.WithCancel(ctx)
	for range 100 {
		wg.Go(func() {
			for {
				cl, err := c.Claim(claiming)
				if err != nil {
					return
				}
				if _, err := cl.Settle(ctx, job.Succeed(nil)); err != nil {
					b.t.Errorf("settle: %v", err)
					return
				}
				if left.Add(-1) == 0 {
					close(done)
				}
			}
		})
	}
	select {
	case <-done:
	case <-ctx.Done():
		require.Fail(b.t, "not drained", "%d jobs left", left.Load())
	}
	rate := float64(jobs) / time.Since(began).Seconds()
	stop()
	wg.Wait()
	looking.Wait()
	require.NoError(b.t, c.Close(ctx))
	return rate
}
