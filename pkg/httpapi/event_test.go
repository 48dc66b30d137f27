package httpapi

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/worker"
)

// telling serves events.
func (f *fleetOf) telling(t testing.TB, adjust ...func(*EventsConfig)) func(*Config) {
	t.Helper()
	cfg := EventsConfig{Feed: f, look: 50 * time.Millisecond}
	for _, a := range adjust {
		a(&cfg)
	}
	e := NewEvents(cfg)
	t.Cleanup(e.Close)
	return func(c *Config) { c.Events = e }
}

// told is an event as a stream has it.
type told struct {
	id         uint64
	name, data string
}

// listener reads a stream.
type listener struct {
	t      testing.TB
	status int
	resp   *http.Response
	leave  context.CancelFunc
	lines  *bufio.Scanner
}

// listen opens a stream; last is the Last-Event-ID, if any.
func (s *served) listen(query, last string, adjust ...with) *listener {
	s.t.Helper()
	ctx, leave := context.WithTimeout(context.Background(), 4*soon)
	req, err := http.NewRequestWithContext(ctx, "GET", s.url+"/v1/events"+query, nil)
	require.NoError(s.t, err)
	bearing(secretAll)(req)
	header("Last-Event-ID", last)(req)
	for _, f := range adjust {
		f(req)
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	require.NoError(s.t, err)
	l := &listener{t: s.t, status: resp.StatusCode, resp: resp, leave: leave, lines: bufio.NewScanner(resp.Body)}
	l.lines.Buffer(nil, 4<<20)
	s.t.Cleanup(l.close)
	return l
}

func (l *listener) close() {
	l.leave()
	_ = l.resp.Body.Close()
}

// next is the next event; false if the stream has ended.
func (l *listener) next() (e told, ok bool) {
	for l.lines.Scan() {
		field, value, _ := strings.Cut(l.lines.Text(), ": ")
		switch field {
		case "id":
			e.id, _ = strconv.ParseUint(value, 10, 64)
		case "event":
			e.name = value
		case "data":
			e.data = value
		case "":
			if e.name != "" {
				return e, true
			}
			e = told{}
		}
	}
	return e, false
}

// until reads up to an event of a name.
func (l *listener) until(name string) (all []told) {
	l.t.Helper()
	require.Equal(l.t, 200, l.status)
	for {
		e, ok := l.next()
		require.True(l.t, ok, "the stream has ended without %s: %v", name, all)
		if all = append(all, e); e.name == name {
			return all
		}
	}
}

func names(all []told) (out []string) {
	for _, e := range all {
		out = append(out, e.name)
	}
	return out
}

func TestAJobsLifeIsTold(t *testing.T) {
	f := newFleet(t)
	s := serveTest(t, f.all, f.telling(t))
	require.Equal(t, 201, s.ask("POST", "/v1/jobs", `{"type":"echo","id":"a"}`).status)
	require.Equal(t, 201, s.ask("POST", "/v1/jobs", `{"type":"echo","id":"b"}`).status)
	l := s.listen("?space=default&id=a", "")
	require.Equal(t, "text/event-stream", l.resp.Header.Get("Content-Type"))
	all := l.until("watching")
	require.Equal(t, []string{"ready", "watching"}, names(all), "a stream of a job begins with what it is")
	require.Contains(t, all[0].data, `"id":"a"`)
	f.works(t, map[string]worker.Handler{"echo": echo})
	all = l.until("succeeded")
	require.NotContains(t, fmt.Sprint(all), `"id":"b"`)
	last := all[len(all)-1]
	require.Contains(t, last.data, `"status":"succeeded"`)
	require.NotZero(t, last.id)
	l.close()

	again := s.listen("?space=default&id=a", strconv.FormatUint(last.id, 10))
	require.Equal(t, []string{"watching"}, names(again.until("watching")), "it was read up to there")
	require.Equal(t, 200, s.ask("DELETE", "/v1/jobs/default/a", "").status)
	require.Equal(t, []string{"deleted"}, names(again.until("deleted")))
}

func TestStreamsAreOfOnesOwnSpaces(t *testing.T) {
	f := newFleet(t)
	s := serveTest(t, f.all, f.telling(t))
	acme := s.listen("", "", bearing(secretAcme))
	acme.until("watching")
	mail := s.listen("?queue=mail", "0")
	mail.until("watching")
	for i, space := range []string{"other", "acme", "other", "acme"} {
		body := fmt.Sprintf(`{"type":"t","id":"%d","space":%q,"queue":%q}`, i, space, []string{"default", "mail"}[i/2])
		require.Equal(t, 201, s.ask("POST", "/v1/jobs", body).status)
	}
	for _, id := range []string{"1", "3"} {
		e, ok := acme.next()
		require.True(t, ok)
		require.Contains(t, e.data, `"space":"acme","id":"`+id+`"`)
	}
	for _, id := range []string{"2", "3"} {
		e, ok := mail.next()
		require.True(t, ok)
		require.Contains(t, e.data, `"id":"`+id+`"`)
	}
	require.Equal(t, 404, s.ask("GET", "/v1/events?space=other", "", bearing(secretAcme)).status)
	require.Equal(t, 404, s.ask("GET", "/v1/events?space=default&id=none", "").status)
	for query, field := range map[string]string{"?id=x": "space", "?spcae=x": "spcae", "?space=": "space", "?queue=" + strings.Repeat("q", 200): "queue"} {
		a := s.ask("GET", "/v1/events"+query, "")
		require.Equal(t, 422, a.status, query)
		require.Equal(t, field, a.problem(t).Errors[0].Field)
	}
	for _, garbage := range []string{"x", "-1", "1.5", "99999999999999999999"} {
		a := s.ask("GET", "/v1/events", "", header("Last-Event-ID", garbage))
		require.Equal(t, 422, a.status, garbage)
		require.Equal(t, "Last-Event-ID", a.problem(t).Errors[0].Field)
	}
}

func TestAStreamSaysWhatItCannotTell(t *testing.T) {
	f := newFleet(t)
	s := serveTest(t, f.all, f.telling(t))
	for i := range 3 {
		require.Equal(t, 201, s.ask("POST", "/v1/jobs", fmt.Sprintf(`{"type":"t","id":"%d"}`, i)).status)
	}
	f.works(t, map[string]worker.Handler{"t": echo})
	require.Eventually(t, func() bool {
		first, last, err := f.Bounds(t.Context())
		return err == nil && last >= 6 && first > 2
	}, soon, 10*time.Millisecond)
	for _, last := range []string{"1", "1000000"} { // too long ago, and of another store
		all := s.listen("?space=default", last).until("watching")
		require.Equal(t, "missed", all[0].name)
		require.Equal(t, []string{"succeeded", "succeeded", "succeeded"}, names(all[1:len(all)-1]), "what is there now is told")
	}
}

// deaf tells nothing of what happens.
type deaf struct{ *fleetOf }

func (d deaf) Watch(ctx context.Context, _ client.WatchRequest, fn func(client.Event) error) error {
	if err := fn(client.Event{Kind: client.EventWatching}); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

func TestNoEndIsMissedWhereNoEventArrives(t *testing.T) {
	f := newFleet(t)
	f.works(t, map[string]worker.Handler{"t": echo})
	s := serveTest(t, f.all, f.telling(t, func(c *EventsConfig) { c.Feed = deaf{f} }))
	l := s.listen("", "")
	l.until("watching")
	for i := range 20 {
		require.Equal(t, 201, s.ask("POST", "/v1/jobs", fmt.Sprintf(`{"type":"t","id":"%d"}`, i)).status)
	}
	ended := make(map[string]bool)
	for len(ended) < 20 {
		e, ok := l.next()
		require.True(t, ok)
		if e.name == "succeeded" {
			_, id, _ := strings.Cut(e.data, `"id":"`)
			ended[id[:2]] = true
		}
	}
}

// TestNothingIsLostOverDisconnects reads through many streams that break at random, with delayed jobs and several writers
// between, and finds each job's end, once, in the order of ids.
func TestNothingIsLostOverDisconnects(t *testing.T) {
	f := newFleet(t)
	f.works(t, map[string]worker.Handler{"t": echo})
	s := serveTest(t, f.all, f.telling(t), func(c *Config) { c.MaxReady = 0 })
	const jobs = 300
	// The stream begins with what stays: else its beginning may go as the first jobs move on, which is told as missed.
	_, err := f.EnqueueSpec(t.Context(), job.Spec{Type: "t", ID: "stays", Delay: time.Hour})
	require.NoError(t, err)
	first := s.listen("?space=default", "")
	last := first.until("watching")[0].id
	first.close()
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			for i := w; i < jobs; i += 3 {
				spec := job.Spec{Type: "t", ID: strconv.Itoa(i)}
				if i%5 == 0 {
					spec.Delay = time.Duration(i) * time.Millisecond
				}
				_, err := f.EnqueueSpec(context.Background(), spec)
				assert.NoError(t, err)
			}
		})
	}
	ended := make(map[string]int)
	streams := 0
	for len(ended) < jobs {
		l := s.listen("?space=default", strconv.FormatUint(last, 10))
		streams++
		for range 1 + rand.IntN(40) {
			e, ok := l.next()
			require.True(t, ok)
			require.NotEqual(t, "missed", e.name)
			if e.name == "watching" {
				require.GreaterOrEqual(t, e.id, last)
				last = e.id
				continue
			}
			require.Greater(t, e.id, last)
			last = e.id
			if e.name == "succeeded" {
				_, id, _ := strings.Cut(e.data, `"id":"`)
				id, _, _ = strings.Cut(id, `"`)
				ended[id]++
				if len(ended) == jobs {
					break
				}
			}
		}
		l.close()
	}
	wg.Wait()
	require.Greater(t, streams, 5)
	for id, n := range ended {
		require.Equal(t, 1, n, id)
	}
}

func TestASlowReaderIsCutOff(t *testing.T) {
	f := newFleet(t)
	var events *Events
	telling := f.telling(t, func(c *EventsConfig) { c.queue, c.writeTimeout = 8, 100*time.Millisecond })
	s := serveTest(t, f.all, telling, func(c *Config) { events = c.Events })
	l := s.listen("", "")
	l.until("watching")
	other := s.listen("?queue=none", "")
	other.until("watching")
	spec := job.Spec{Type: "t", Queue: strings.Repeat("q", 190), Space: strings.Repeat("s", 190)}
	require.Eventually(t, func() bool {
		specs := make([]job.Spec, 500)
		for i := range specs {
			specs[i] = spec
		}
		_, err := f.EnqueueMany(t.Context(), specs)
		require.NoError(t, err)
		events.mu.Lock()
		defer events.mu.Unlock()
		return len(events.subs) == 1
	}, 4*soon, time.Millisecond, "whoever takes nothing is not waited for")
}

func TestFiveHundredStreamsAreOneSubscription(t *testing.T) {
	f := newFleet(t)
	var events *Events
	s := serveTest(t, f.all, f.telling(t), func(c *Config) { events = c.Events })
	require.Equal(t, 201, s.ask("POST", "/v1/jobs", `{"type":"t"}`).status) // which subscribes to the answers of writes
	const streams = 500
	before, goroutines := f.Conn().NumSubscriptions(), runtime.NumGoroutine()
	var heap runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&heap)
	was := heap.HeapInuse + heap.StackInuse
	all := make([]*listener, streams)
	for i := range all {
		all[i] = s.listen("?space=default", "")
		all[i].until("watching")
	}
	runtime.GC()
	runtime.ReadMemStats(&heap)
	t.Logf("%d streams, both ends: %d KiB and %.1f goroutines each", streams, (heap.HeapInuse+heap.StackInuse-was)/streams>>10, float64(runtime.NumGoroutine()-goroutines)/streams)
	require.Equal(t, before+1, f.Conn().NumSubscriptions())
	require.Equal(t, 201, s.ask("POST", "/v1/jobs", one).status)
	for _, l := range all {
		require.Contains(t, l.until("ready")[0].data, "welcome")
	}
	events.Close()
	for _, l := range all {
		_, ok := l.next()
		require.False(t, ok, "streams end with their process")
	}
	require.Equal(t, 503, s.ask("GET", "/v1/events", "").status)
	require.Equal(t, before, f.Conn().NumSubscriptions())
}

func TestStreamsAreBounded(t *testing.T) {
	f := newFleet(t)
	s := serveTest(t, f.all, f.telling(t, func(c *EventsConfig) {
		c.MaxStreams, c.Heartbeat, c.MaxAge = 1, 10*time.Millisecond, 300*time.Millisecond
	}))
	l := s.listen("", "")
	l.until("watching")
	a := s.ask("GET", "/v1/events", "")
	require.Equal(t, []any{503, CodeOverCapacity}, []any{a.status, a.problem(t).Code})
	var comments, retries int
	for l.lines.Scan() {
		if strings.HasPrefix(l.lines.Text(), ":") {
			comments++
		}
		if l.lines.Text() == "retry: 1000" {
			retries++
		}
	}
	require.Greater(t, comments, 1, "heartbeats")
	require.Equal(t, 1, retries, "a stream that has lasted its time ends, and its reader comes again")
	require.Eventually(t, func() bool {
		l := s.listen("", "")
		defer l.close()
		return l.status == 200
	}, soon, 10*time.Millisecond)
}
