package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
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

// calling serves calls, and is a process of its own as far as the guards are concerned.
func (f *fleetOf) calling(t testing.TB, adjust ...func(*guard.Config)) func(*Config) {
	t.Helper()
	store, err := f.OpenKV(t.Context())
	require.NoError(t, err)
	cfg := guard.Config{Store: store, Poll: guard.MinPoll}
	for _, a := range adjust {
		a(&cfg)
	}
	g, err := guard.New(cfg)
	require.NoError(t, err)
	c := NewCalls(CallsConfig{Guards: g, Jobs: f, lostAfter: soon})
	t.Cleanup(c.Close)
	return func(cfg *Config) { cfg.Calls = c }
}

func replaying(c *guard.Config) { c.ReplayWindow = time.Hour }

// works runs a worker with handlers by type until the test ends.
func (f *fleetOf) works(t testing.TB, handlers map[string]worker.Handler) {
	t.Helper()
	w, err := worker.New(f.Store(), worker.Config{Queues: map[string]int{"default": 8}, Retry: worker.RetryPolicy{Base: time.Millisecond, Max: time.Millisecond}})
	require.NoError(t, err)
	for typ, h := range handlers {
		worker.Handle(w, typ, func(ctx context.Context, j *job.Job, _ map[string]any) (any, error) { return h(ctx, j) })
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})
}

// latch is a handler that waits to be let through, and counts.
type latch struct {
	open chan struct{}
	runs atomic.Int64
}

func newLatch() *latch { return &latch{open: make(chan struct{})} }

func (g *latch) handle(ctx context.Context, j *job.Job) (any, error) {
	g.runs.Add(1)
	select {
	case <-g.open:
		return map[string]string{"id": j.ID}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func echo(_ context.Context, j *job.Job) (any, error) { return j.Input, nil }

func named(key string) with { return header("Idempotency-Key", key) }

func (a answer) called(t testing.TB) Called {
	t.Helper()
	var c Called
	require.NoError(t, json.Unmarshal([]byte(a.body), &c), a.body)
	return c
}

func TestACallIsAnsweredWithWhatWasWrittenForIt(t *testing.T) {
	f := newFleet(t)
	f.works(t, map[string]worker.Handler{
		"echo": echo,
		"refuses": func(context.Context, *job.Job) (any, error) {
			return nil, job.Refuse("declined", "the card was declined")
		},
		"fails": func(context.Context, *job.Job) (any, error) { return nil, errors.New("secret-host:5432 is down") },
	})
	s := serveTest(t, f.all, f.calling(t))

	a := s.ask("POST", "/v1/calls", `{"type":"echo","input":{"x":[1,"two"]}}`)
	require.Equal(t, 200, a.status, a.body)
	c := a.called(t)
	require.JSONEq(t, fmt.Sprintf(`{"queue":"default","space":"default","id":%q,"runId":%q,"status":"succeeded","result":{"x":[1,"two"]}}`, c.ID, c.RunID), a.body)
	require.Equal(t, 200, s.ask("GET", a.header.Get("Location"), "").status)
	j, err := f.Get(t.Context(), job.Key{ID: c.ID})
	require.NoError(t, err)
	require.Equal(t, job.TriggerCall, j.Trigger)

	a = s.ask("POST", "/v1/calls", `{"type":"refuses"}`)
	p := a.problem(t)
	require.Equal(t, []any{409, CodeRefused, "the card was declined", ""}, []any{a.status, p.Code, p.Detail, p.ErrorID})

	a = s.ask("POST", "/v1/calls", `{"type":"fails","maxAttempts":1}`)
	p = a.problem(t)
	require.Equal(t, []any{500, CodeJobFailed}, []any{a.status, p.Code})
	require.NotContains(t, a.body, "secret-host")
	require.NotEmpty(t, p.ErrorID)
	require.NotNil(t, p.Job)
	require.Eventually(t, func() bool {
		return strings.Contains(s.log.String(), p.ErrorID) && strings.Contains(s.log.String(), "secret-host")
	}, soon, 5*time.Millisecond, "the operator is told")
}

func TestACallThatTakesLongerIsToldWhereItsJobIs(t *testing.T) {
	f, g := newFleet(t), newLatch()
	f.works(t, map[string]worker.Handler{"slow": g.handle})
	s := serveTest(t, f.all, f.calling(t))
	a := s.ask("POST", "/v1/calls?wait=1ms", `{"type":"slow"}`)
	require.Equal(t, 202, a.status, a.body)
	c := a.called(t)
	runs := s.ask("GET", "/v1/runs", "")
	require.Contains(t, runs.body, `"runId":"`+c.RunID+`"`)
	require.JSONEq(t, `{"runs":[]}`, s.ask("GET", "/v1/runs", "", bearing(secretAcme)).body)
	close(g.open)
	require.Eventually(t, func() bool {
		return strings.Contains(s.ask("GET", a.header.Get("Location"), "").body, `"succeeded"`)
	}, soon, 10*time.Millisecond)
	require.Eventually(t, func() bool { return s.ask("GET", "/v1/runs", "").body == "{\"runs\":[]}\n" }, soon, 10*time.Millisecond)
}

func TestACallerThatGoesAwayCancelsNothing(t *testing.T) {
	f, g := newFleet(t), newLatch()
	f.works(t, map[string]worker.Handler{"slow": g.handle})
	s := serveTest(t, f.all, f.calling(t, replaying))
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", s.url+"/v1/calls?wait=5m", strings.NewReader(`{"type":"slow"}`))
	require.NoError(t, err)
	for _, w := range []with{bearing(secretAll), header("Content-Type", "application/json"), named("k")} {
		w(req)
	}
	gone := make(chan error, 1)
	go func() {
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err == nil {
			resp.Body.Close()
		}
		gone <- err
	}()
	require.Eventually(t, func() bool { return g.runs.Load() == 1 }, soon, 5*time.Millisecond)
	leave()
	require.ErrorIs(t, <-gone, context.Canceled)
	close(g.open)
	require.Eventually(t, func() bool {
		a := s.ask("POST", "/v1/calls", `{"type":"slow"}`, named("k"))
		return a.status == 200 && a.header.Get("Idempotency-Replayed") == "true"
	}, soon, 10*time.Millisecond)
	require.EqualValues(t, 1, g.runs.Load())
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

func TestANamedCallIsAnsweredAgainForItsOwnCallerOnly(t *testing.T) {
	f := newFleet(t)
	var runs atomic.Int64
	f.works(t, map[string]worker.Handler{
		"count": func(context.Context, *job.Job) (any, error) { return runs.Add(1), nil },
		"refuses": func(context.Context, *job.Job) (any, error) {
			runs.Add(1)
			return nil, job.Refuse("no", "not today")
		},
	})
	guarded := f.calling(t, replaying)
	s := serveTest(t, f.all, guarded)
	body := `{"type":"count","space":"acme","input":{"a":1,"b":2}}`
	first := s.ask("POST", "/v1/calls", body, named("k"))
	require.Equal(t, 200, first.status, first.body)
	require.Empty(t, first.header.Get("Idempotency-Replayed"))
	for _, same := range []string{body, `{"space":"acme", "input":{"b":2,"a":1},"type":"count","queue":"default"}`} {
		again := s.ask("POST", "/v1/calls", same, named("k"))
		require.Equal(t, "true", again.header.Get("Idempotency-Replayed"))
		require.Equal(t, []any{first.status, first.body, first.header.Get("Location")}, []any{again.status, again.body, again.header.Get("Location")})
	}
	require.EqualValues(t, 1, runs.Load())
	for _, other := range []string{`{"type":"count","space":"acme"}`, `{"type":"count","space":"acme","input":{"a":1,"b":2},"maxAttempts":9}`} {
		a := s.ask("POST", "/v1/calls", other, named("k"))
		require.Equal(t, []any{422, CodeKeyReused}, []any{a.status, a.problem(t).Code})
	}
	require.Equal(t, 200, s.ask("POST", "/v1/calls", body, named("k"), bearing(secretAcme)).status)
	require.EqualValues(t, 2, runs.Load(), "another token's key is another key")
	require.Equal(t, 200, s.ask("POST", "/v1/calls", `{"type":"count","input":{"a":1,"b":2}}`, named("k")).status)
	require.EqualValues(t, 3, runs.Load(), "in another space it is another key")

	refused := s.ask("POST", "/v1/calls", `{"type":"refuses"}`, named("r"))
	again := s.ask("POST", "/v1/calls", `{"type":"refuses"}`, named("r"))
	require.Equal(t, []any{409, refused.body}, []any{again.status, again.body})
	require.EqualValues(t, 4, runs.Load())

	off := serveTest(t, f.all, f.calling(t)) // without a window, a name only keeps two from going on at once
	for range 2 {
		require.Equal(t, 200, off.ask("POST", "/v1/calls", `{"type":"count"}`, named("off")).status)
	}
	require.EqualValues(t, 6, runs.Load())
}

func TestAThousandCallersOfOneKeyAreOneRun(t *testing.T) {
	f, g := newFleet(t), newLatch()
	f.works(t, map[string]worker.Handler{"slow": g.handle})
	s := serveTest(t, f.all, f.calling(t, replaying))
	const callers = 1000
	got := make(chan answer, callers)
	var wg sync.WaitGroup
	turn := make(chan struct{}, 50) // so many at once
	for range callers {
		wg.Go(func() {
			turn <- struct{}{}
			a := s.ask("POST", "/v1/calls?wait=5m", `{"type":"slow"}`, named("k"))
			<-turn
			got <- a
		})
	}
	var id string
	for range callers - 1 {
		select {
		case a := <-got:
			require.Equal(t, 409, a.status, a.body)
			p := a.problem(t)
			require.Equal(t, CodeDuplicate, p.Code)
			require.NotEmpty(t, a.header.Get("Retry-After"))
			require.NotNil(t, p.Job)
			require.True(t, id == "" || id == p.Job.ID)
			id = p.Job.ID
		case <-time.After(2 * soon):
			t.Fatal("not all were answered")
		}
	}
	close(g.open)
	a := <-got
	wg.Wait()
	require.Equal(t, 200, a.status, a.body)
	require.Equal(t, id, a.called(t).ID)
	require.EqualValues(t, 1, g.runs.Load())
}

func TestAnotherProcessTakesACallOver(t *testing.T) {
	f, g := newFleet(t), newLatch()
	f.works(t, map[string]worker.Handler{"slow": g.handle})
	dying, living := f.calling(t, replaying), f.calling(t, replaying)
	var one, two Config
	dying(&one)
	living(&two)
	a := serveTest(t, f.all, dying).ask("POST", "/v1/calls?wait=0s", `{"type":"slow"}`, named("k"))
	require.Equal(t, 202, a.status, a.body)
	one.Calls.Close() // it ends no run, as if it had been killed
	s := serveTest(t, f.all, living)
	b := s.ask("POST", "/v1/calls", `{"type":"slow"}`, named("k"))
	require.Equal(t, CodeDuplicate, b.problem(t).Code, b.body)
	require.Equal(t, a.called(t).ID, b.problem(t).Job.ID)
	require.Equal(t, CodeKeyReused, s.ask("POST", "/v1/calls", `{"type":"slow","input":{"x":1}}`, named("k")).problem(t).Code)
	close(g.open)
	require.Eventually(t, func() bool {
		b = s.ask("POST", "/v1/calls", `{"type":"slow"}`, named("k"))
		return b.status == 200
	}, soon, 10*time.Millisecond)
	require.Equal(t, a.called(t).ID, b.called(t).ID)
	require.EqualValues(t, 1, g.runs.Load())

	// One that died before it put its job in.
	spec, p := decodeCall([]byte(`{"type":"slow"}`))
	require.Nil(t, p)
	key, err := callKey("all", "early", &spec)
	require.NoError(t, err)
	dead, die := context.WithCancel(t.Context())
	_, err = one.Calls.cfg.Guards.Begin(dead, guard.Request{
		Space: "default", Type: "slow", Caller: "all", Key: key, RunID: spec.RunID, Job: spec.Key(), Timeout: time.Hour,
	})
	require.NoError(t, err)
	die()
	two.Calls.cfg.lostAfter = 50 * time.Millisecond
	b = s.ask("POST", "/v1/calls", `{"type":"slow"}`, named("early"))
	require.Equal(t, 200, b.status, b.body)
	require.Equal(t, spec.ID, b.called(t).ID, "it is the same job")
}

func TestOnlyItsCallerCancelsARunFromAnyProcess(t *testing.T) {
	f, g := newFleet(t), newLatch()
	here, there := serveTest(t, f.all, f.calling(t)), serveTest(t, f.all, f.calling(t))
	body := `{"type":"slow","space":"acme"}`
	a := here.ask("POST", "/v1/calls?wait=0s", body) // nobody works yet
	require.Equal(t, 202, a.status, a.body)
	path := "/v1/runs/acme/" + a.called(t).RunID + "/cancel"
	for _, s := range []*served{here, there} {
		b := s.ask("POST", path, "", bearing(secretAcme))
		require.Equal(t, 404, b.status)
		require.Equal(t, s.ask("POST", "/v1/runs/acme/none/cancel", "", bearing(secretAcme)).problem(t), b.problem(t))
	}
	b := there.ask("POST", path, "")
	require.Equal(t, 200, b.status, b.body)
	require.Contains(t, b.body, `"status":"cancelled"`)

	f.works(t, map[string]worker.Handler{"slow": g.handle})
	answered := make(chan answer, 1)
	go func() { answered <- here.ask("POST", "/v1/calls?wait=5m", body) }()
	var list RunList
	require.Eventually(t, func() bool {
		_ = json.Unmarshal([]byte(here.ask("GET", "/v1/runs?space=acme", "").body), &list)
		return g.runs.Load() == 1 && len(list.Runs) == 1
	}, soon, 10*time.Millisecond)
	require.Equal(t, 200, there.ask("POST", "/v1/runs/acme/"+list.Runs[0].RunID+"/cancel", "").status)
	require.Equal(t, CodeCancelled, (<-answered).problem(t).Code)
}

func TestCallsAreCappedAndEndWithTheirProcess(t *testing.T) {
	f := newFleet(t)
	capped := f.calling(t, func(c *guard.Config) { c.CallsPerSpace, c.Calls = 1, 2 })
	var cfg Config
	capped(&cfg)
	s := serveTest(t, f.all, capped)
	require.Equal(t, 202, s.ask("POST", "/v1/calls?wait=0s", `{"type":"t"}`).status)
	for range 2 {
		a := s.ask("POST", "/v1/calls?wait=0s", `{"type":"t"}`)
		require.Equal(t, []any{503, CodeOverCapacity}, []any{a.status, a.problem(t).Code})
		require.NotEmpty(t, a.header.Get("Retry-After"))
	}
	waits := make(chan answer, 1)
	go func() { waits <- s.ask("POST", "/v1/calls?wait=5m", `{"type":"t","space":"acme"}`) }()
	require.Eventually(t, func() bool { return strings.Contains(s.ask("GET", "/v1/runs", "").body, `"acme"`) }, soon, 10*time.Millisecond)
	require.Equal(t, CodeOverCapacity, s.ask("POST", "/v1/calls", `{"type":"t","space":"third"}`).problem(t).Code)
	cfg.Calls.Close()
	require.Equal(t, 202, (<-waits).status, "whoever waits is told where the job is")
	require.Equal(t, 503, s.ask("POST", "/v1/calls", `{"type":"t","space":"fourth"}`).status)
}

func TestCallsThatAreRefusedNameTheField(t *testing.T) {
	f := newFleet(t)
	s := serveTest(t, f.all, f.calling(t))
	for _, c := range []struct {
		query, body, field string
		with               []with
	}{
		{"?wait=-1", one, "wait", nil},
		{"?wait=-1s", one, "wait", nil},
		{"?wait=301s", one, "wait", nil},
		{"?wiat=1s", one, "wiat", nil},
		{"", `[]`, "", nil},
		{"", `{}`, "/type", nil},
		{"", one, "/id", nil},
		{"", `{"type":"t","delay":"1s"}`, "/delay", nil},
		{"", `{"type":"t","retry":{"bse":"1s"}}`, "/retry/bse", nil},
		{"", `{"type":"t"}`, "Idempotency-Key", []with{named(strings.Repeat("k", 300))}},
		{"", `{"type":"t"}`, "Idempotency-Key", []with{named("\u00e9")}},
		{"", `{"type":"t"}`, "Idempotency-Key", []with{func(r *http.Request) { r.Header["Idempotency-Key"] = []string{"a", "b"} }}},
		{"", `{"type":"t"}`, "Idempotency-Key", []with{func(r *http.Request) { r.Header["Idempotency-Key"] = []string{""} }}},
	} {
		a := s.ask("POST", "/v1/calls"+c.query, c.body, c.with...)
		require.Equal(t, 422, a.status, "%v: %s", c, a.body)
		p := a.problem(t)
		require.NotEmpty(t, p.Errors, c)
		require.Equal(t, c.field, p.Errors[0].Field, "%v", c)
	}
	require.JSONEq(t, `{"runs":[]}`, s.ask("GET", "/v1/runs", "").body)

	// No client sends a line's end in a header.
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "POST /v1/calls HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nIdempotency-Key: a\r\nb\r\nContent-Length: 0\r\n\r\n", secretAll)
	require.NoError(t, err)
	b := make([]byte, 12)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(soon)))
	_, err = conn.Read(b)
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 400", string(b))
}
