package httpapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// running is a Server that runs.
type running struct {
	address string
	stop    context.CancelFunc
	ended   chan error
}

func run(t *testing.T, s *Server) *running {
	t.Helper()
	l, err := Listen("127.0.0.1:0", false)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	r := &running{address: l.Addr().String(), stop: stop, ended: make(chan error, 1)}
	go func() { r.ended <- s.Run(ctx, l) }()
	t.Cleanup(func() {
		stop()
		r.end(t)
	})
	return r
}

// end answers how the server ended.
func (r *running) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.ended:
		r.ended <- err
		return err
	case <-time.After(soon):
		t.Fatal("the server has not ended")
		return nil
	}
}

func (r *running) dial(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", r.address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(soon)))
	return c
}

func handler(t *testing.T, s *store, adjust ...func(*Config)) http.Handler {
	t.Helper()
	cfg := Config{Jobs: s}
	for _, f := range adjust {
		f(&cfg)
	}
	h, err := New(cfg)
	require.NoError(t, err)
	return h
}

func TestAHeaderThatComesSlowlyIsNotWaitedFor(t *testing.T) {
	r := run(t, &Server{Handler: handler(t, newStore()), HeaderTimeout: 200 * time.Millisecond})
	began := time.Now()
	c := r.dial(t)
	_, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
	require.NoError(t, err)
	_, err = io.ReadAll(c) // until the server hangs up
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(began), 200*time.Millisecond)
}

func TestAConnectionWithoutRequestsIsNotKept(t *testing.T) {
	r := run(t, &Server{Handler: handler(t, newStore()), IdleTimeout: 200 * time.Millisecond})
	c := r.dial(t)
	_, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)
	b, err := io.ReadAll(c)
	require.NoError(t, err)
	require.Contains(t, string(b), "200 OK")
}

func TestAHeaderThatIsTooLargeIsRefused(t *testing.T) {
	r := run(t, &Server{Handler: handler(t, newStore())})
	c := r.dial(t)
	go func() {
		_, _ = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Large: "+strings.Repeat("x", 64<<10)+"\r\n\r\n")
	}()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, resp.StatusCode)
	require.NoError(t, resp.Body.Close())
}

func TestABodyThatComesSlowlyIsNotWaitedFor(t *testing.T) {
	s := newStore()
	r := run(t, &Server{Handler: handler(t, s, func(c *Config) { c.BodyTimeout = 200 * time.Millisecond })})
	c := r.dial(t)
	_, err := io.WriteString(c, "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"type\":")
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusRequestTimeout, resp.StatusCode)
	require.NoError(t, resp.Body.Close())
	require.Empty(t, s.jobs)
}

// gate is a store that lets nothing through before it is opened.
type gate struct {
	arrived chan struct{}
	open    chan struct{}
	gone    chan error // how the context of a request ended
}

func newGate(s *store) *gate {
	g := &gate{make(chan struct{}, 1), make(chan struct{}), make(chan error, 1)}
	s.fail = func(ctx context.Context, _ job.Key) error {
		g.arrived <- struct{}{}
		select {
		case <-g.open:
			return nil
		case <-ctx.Done():
			g.gone <- context.Cause(ctx)
			return fmt.Errorf("%w: %w", job.ErrUnknown, ctx.Err())
		}
	}
	return g
}

const rawRequest = "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"

func TestAStopWaitsForWhatRuns(t *testing.T) {
	s := newStore()
	g := newGate(s)
	r := run(t, &Server{Handler: handler(t, s)})
	c := r.dial(t)
	_, err := fmt.Fprintf(c, rawRequest, len(one), one)
	require.NoError(t, err)
	<-g.arrived
	r.stop()
	natstest.Eventually(t, soon, func() bool { // nobody new is let in
		conn, err := net.Dial("tcp", r.address)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	close(g.open)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, resp.StatusCode, "it comes to its end")
	require.NoError(t, resp.Body.Close())
	require.NoError(t, r.end(t))
	require.Len(t, s.jobs, 1)
}

func TestAStopDoesNotWaitForEver(t *testing.T) {
	s := newStore()
	g := newGate(s)
	r := run(t, &Server{Handler: handler(t, s), DrainTimeout: 100 * time.Millisecond})
	c := r.dial(t)
	_, err := fmt.Fprintf(c, rawRequest, len(one), one)
	require.NoError(t, err)
	<-g.arrived
	r.stop()
	require.ErrorContains(t, r.end(t), "still ran")
	select {
	case <-g.gone: // the request was told
	case <-time.After(soon):
		t.Fatal("the request runs on")
	}
}

func TestACallerWhoIsGoneIsNotServedOn(t *testing.T) {
	s := newStore()
	g := newGate(s)
	log := &logged{}
	r := run(t, &Server{Handler: handler(t, s, func(c *Config) { c.Timeout, c.Logger = time.Hour, zerolog.New(log) })})
	c := r.dial(t)
	_, err := fmt.Fprintf(c, rawRequest, len(one), one)
	require.NoError(t, err)
	<-g.arrived
	require.NoError(t, c.Close())
	select {
	case err := <-g.gone:
		require.ErrorIs(t, err, context.Canceled)
	case <-time.After(soon):
		t.Fatal("the request runs on")
	}
	natstest.Eventually(t, soon, func() bool { return strings.Contains(log.String(), `"status":499`) })
}

func TestAServerThatCannotServeSaysSo(t *testing.T) {
	l, err := Listen("127.0.0.1:0", false)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.Error(t, (&Server{Handler: http.NotFoundHandler()}).Run(t.Context(), l))
}

func TestReadinessIsAskedOnceASecondWhoeverAsks(t *testing.T) {
	asked := 0
	ready := NewReadiness(func(ctx context.Context) error {
		asked++
		_, bounded := ctx.Deadline()
		require.True(t, bounded)
		return errors.New("canary")
	})
	log := &logged{}
	r := run(t, &Server{Handler: Health(ready, nil, zerolog.New(log))})
	for range 20 {
		resp, err := http.Get("http://" + r.address + "/readyz")
		require.NoError(t, err)
		require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
		b, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.NotContains(t, string(b), "canary")
	}
	http.DefaultClient.CloseIdleConnections()
	require.Less(t, asked, 20)
	require.Contains(t, log.String(), "canary")
	resp, err := http.Get("http://" + r.address + "/v1/jobs/a/b")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusNotFound, resp.StatusCode, "health is all that is served")
	http.DefaultClient.CloseIdleConnections()
}

func TestWithoutNATSNothingIsPromised(t *testing.T) {
	srv := natstest.StartServer(t, natstest.ServerConfig{})
	c, err := client.Connect(t.Context(), client.Config{URLs: []string{srv.URL()}})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	connected := c.Conn().IsConnected
	s := serveTest(t, func(cfg *Config) {
		cfg.Jobs, cfg.Timeout, cfg.Connected = c, 2*time.Second, connected
	})
	require.Equal(t, 201, s.ask("POST", "/v1/jobs", one).status)
	require.Equal(t, 200, s.ask("GET", "/v1/jobs/default/welcome", "").status)
	require.Equal(t, 404, s.ask("GET", "/v1/jobs/default/nobody", "").status)
	large := `{"type":"t","id":"large","input":{"a":"` + strings.Repeat("x", 1<<20-100) + `"}}`
	a := s.ask("POST", "/v1/jobs", large)
	require.Equal(t, 413, a.status, a.body)

	srv.Pause() // it is there, and does not answer
	a = s.ask("POST", "/v1/jobs", `{"type":"t","id":"perhaps"}`)
	require.Equal(t, 503, a.status)
	p := a.problem(t)
	require.Equal(t, CodeOutcomeUnknown, p.Code)
	require.Equal(t, &Identity{"default", "default", "perhaps"}, p.Job)
	require.Equal(t, 503, s.ask("GET", "/v1/jobs/default/welcome", "").status)
	srv.Resume()
	natstest.Eventually(t, soon, func() bool { return s.ask("POST", "/v1/jobs", `{"type":"t","id":"perhaps"}`).status < 300 })

	srv.Kill()
	natstest.Eventually(t, soon, func() bool { return !connected() })
	a = s.ask("POST", "/v1/jobs", `{"type":"t","id":"no"}`)
	require.Equal(t, 503, a.status)
	require.Equal(t, CodeUnavailable, a.problem(t).Code, "it is known that nothing was stored")
	srv.Restart(t)
	natstest.Eventually(t, soon, func() bool { return s.ask("POST", "/v1/jobs", `{"type":"t","id":"no"}`).status == 201 })
}
