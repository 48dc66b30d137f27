package faketime

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// link makes connections to the server that can be frozen: what is sent meanwhile, either way, arrives when they thaw, in
// order. So a process is cut off without knowing it, and what it was just writing arrives hours late.
type link struct {
	srv *server.Server

	mu     sync.Mutex
	moved  *sync.Cond
	frozen bool
}

func (w *world) link() *link {
	l := &link{srv: w.srv}
	l.moved = sync.NewCond(&l.mu)
	w.t.Cleanup(l.thaw)
	return l
}

func (l *link) freeze() { l.set(true) }
func (l *link) thaw()   { l.set(false) }

func (l *link) set(frozen bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frozen = frozen
	l.moved.Broadcast()
}

// errFrozen is why nobody connects at the moment.
var errFrozen = errors.New("frozen")

// InProcessConn connects; the client calls it.
func (l *link) InProcessConn() (net.Conn, error) {
	l.mu.Lock()
	frozen := l.frozen
	l.mu.Unlock()
	if frozen {
		return nil, errFrozen
	}
	conn, err := l.srv.InProcessConn()
	if err != nil {
		return nil, err
	}
	c := &linkConn{Conn: conn, link: l}
	go c.pumpIn()
	go c.pumpOut()
	return c, nil
}

// linkConn is one connection. What follows the link is guarded by its mutex.
type linkConn struct {
	net.Conn
	link    *link
	in, out []byte
	closed  bool  // by the client
	err     error // of the server's side
}

// pumpIn takes what the server sends, frozen or not, so that the server sees no slow client.
func (c *linkConn) pumpIn() {
	buf := make([]byte, 32<<10)
	for {
		n, err := c.Conn.Read(buf)
		c.link.mu.Lock()
		c.in = append(c.in, buf[:n]...)
		c.err = err
		c.link.moved.Broadcast()
		c.link.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// pumpOut passes on what the client sends, once the link is not frozen. What it sent before it closed the connection comes
// to the server all the same, and before the end.
func (c *linkConn) pumpOut() {
	defer c.Conn.Close()
	for {
		c.link.mu.Lock()
		for c.err == nil && (c.link.frozen || len(c.out) == 0 && !c.closed) {
			c.link.moved.Wait()
		}
		out, err := c.out, c.err
		c.out = nil
		c.link.mu.Unlock()
		if err != nil || len(out) == 0 {
			return
		}
		if _, err := c.Conn.Write(out); err != nil {
			return
		}
	}
}

func (c *linkConn) Read(p []byte) (int, error) {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	for !c.closed && (c.link.frozen || c.err == nil && len(c.in) == 0) {
		c.link.moved.Wait()
	}
	switch {
	case c.closed:
		return 0, net.ErrClosed
	case len(c.in) == 0:
		return 0, c.err
	}
	n := copy(p, c.in)
	c.in = c.in[n:]
	return n, nil
}

func (c *linkConn) Write(p []byte) (int, error) {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	if c.closed {
		return 0, net.ErrClosed
	}
	c.out = append(c.out, p...)
	c.link.moved.Broadcast()
	return len(p), nil
}

func (c *linkConn) Close() error {
	c.link.mu.Lock()
	defer c.link.mu.Unlock()
	c.closed = true
	c.link.moved.Broadcast()
	return nil
}

// A frozen connection shows in nothing but silence: neither side's deadlines are told to it.

func (c *linkConn) SetDeadline(time.Time) error      { return nil }
func (c *linkConn) SetReadDeadline(time.Time) error  { return nil }
func (c *linkConn) SetWriteDeadline(time.Time) error { return nil }
