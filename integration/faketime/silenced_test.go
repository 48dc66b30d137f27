package faketime

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/worker"
)

// silenced is a way to the server on which, once it is told so, nothing arrives any more that the client sends. What the
// server sends still does.
type silenced struct {
	srv  nats.InProcessConnProvider
	lost atomic.Bool
}

func (s *silenced) InProcessConn() (net.Conn, error) {
	c, err := s.srv.InProcessConn()
	return silencedConn{c, s}, err
}

type silencedConn struct {
	net.Conn
	way *silenced
}

func (c silencedConn) Write(p []byte) (int, error) {
	if c.way.lost.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// Nothing that a worker says arrives any more, its heartbeats least of all, while it hears and sees nothing wrong. It
// has its handler stop by its own clock, before another worker may begin the job.
func TestAWorkerThatIsNotHeardStopsBeforeAnotherBegins(t *testing.T) {
	const lease = 30 * time.Second
	for _, held := range []time.Duration{0, time.Second, 5 * time.Second, 14 * time.Second, 47 * time.Second, 10 * time.Minute} {
		t.Run(fmt.Sprint("silenced after ", held), func(t *testing.T) {
			bubble(t, func(w *world) {
				t := w.t
				setLease := func(c *worker.Config) { c.Lease = lease }
				way := &silenced{srv: w.srv}
				stopped := make(chan time.Time, 1)
				w.work("victim", w.open(w.connect(nats.InProcessServer(way))), func(ctx context.Context, _ *job.Job) (any, error) {
					<-ctx.Done()
					stopped <- time.Now()
					return nil, context.Cause(ctx)
				}, setLease)
				key := w.enqueue(job.Spec{})
				time.Sleep(time.Second) // for its claim to be written
				require.Equal(t, "victim", w.get(key).WorkerID)
				heir := w.work("heir", w.open(w.connect()), ok, setLease)
				time.Sleep(held)
				way.lost.Store(true)
				silent := time.Now()
				j := w.ended(key)
				require.Equal(t, job.Succeeded, j.Status)
				require.Equal(t, "heir", j.WorkerID)
				require.Equal(t, 2, j.Attempts)
				began := heir.began()
				require.Len(t, began, 1)
				require.NotEmpty(t, stopped, "the handler was not stopped when another began")
				at := <-stopped
				t.Logf("stopped %s after the silence began, the other began %s later", at.Sub(silent), began[0].Sub(at))
				require.True(t, at.Before(began[0]))
				within(t, silent.Add(lease*2/3), began[0], 2*lease+time.Second) // the first to be asked may be who is not heard
				way.lost.Store(false)
			})
		})
	}
}
