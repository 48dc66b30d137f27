package httpapi

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/worker"
)

// TestWaitsOutlastTheServersTimeouts: a server's deadlines for reading and writing, and that for the body, end neither a
// call that waits nor a stream that is open; and a server that stops waits for neither.
func TestWaitsOutlastTheServersTimeouts(t *testing.T) {
	f := newFleet(t)
	const timeout = 200 * time.Millisecond
	begun, enough := make(chan struct{}), make(chan struct{})
	f.works(t, map[string]worker.Handler{
		"slow": func(ctx context.Context, _ *job.Job) (any, error) {
			close(begun)
			<-enough
			return "done", nil
		},
	})
	cfg := Config{Tokens: testTokens(t), BodyTimeout: timeout}
	f.all(&cfg)
	f.calling(t)(&cfg)
	f.telling(t, func(c *EventsConfig) { c.Heartbeat = timeout })(&cfg)
	h, err := New(cfg)
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() {
		over <- (&Server{Handler: h, ReadTimeout: timeout, WriteTimeout: timeout, DrainTimeout: 4 * soon}).Run(ctx, l)
	}()
	s := &served{t: t, url: "http://" + l.Addr().String()}
	stream := s.listen("", "")
	stream.until("watching")
	call := func(body string) <-chan answer {
		answered := make(chan answer, 1)
		go func() {
			defer close(answered) // also where asking has failed the test
			answered <- s.ask("POST", "/v1/calls?wait=5m", body)
		}()
		return answered
	}
	answered := call(`{"type":"slow"}`)
	<-begun
	for beats := 0; beats < 4; { // so long
		require.True(t, stream.lines.Scan())
		if stream.lines.Text() == ":" {
			beats++
		}
	}
	select {
	case a := <-answered:
		require.Fail(t, "the call ended early", a)
	default:
	}
	close(enough)
	require.Equal(t, 200, (<-answered).status)
	stream.until("succeeded")

	answered = call(`{"type":"nobody","queue":"nobody"}`)
	require.Eventually(t, func() bool { return len(cfg.Calls.cfg.Guards.Active()) == 1 }, soon, 5*time.Millisecond)
	stop()
	cfg.Events.Close()
	cfg.Calls.Close()
	require.Equal(t, 202, (<-answered).status)
	require.NoError(t, <-over)
	for stream.lines.Scan() { // to its end
		continue
	}
	require.NoError(t, stream.lines.Err())
}
