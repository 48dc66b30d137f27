package natstest

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// faultConn applies a FaultDialer's faults. As with any connection of a NATS
// client, one goroutine reads and one at a time writes.
type faultConn struct {
	net.Conn
	dialer *FaultDialer

	in      []byte // what one read of the socket takes
	reading frames
	ready   []byte // read and not dropped, not yet handed on

	writing frames
}

func (c *faultConn) Read(p []byte) (int, error) {
	for len(c.ready) == 0 {
		n, err := c.Conn.Read(c.in)
		c.reading.push(c.in[:n], func(frame []byte) {
			if !c.dialer.drops(&c.dialer.fromServer, frame) {
				c.ready = append(c.ready, frame...)
			}
		})
		if err != nil && len(c.ready) == 0 {
			return 0, err
		}
	}
	pass, reset := c.dialer.spend(&c.dialer.fromServer, min(len(p), len(c.ready)))
	n := copy(p, c.ready[:pass])
	c.ready = append(c.ready[:0], c.ready[n:]...)
	if reset {
		return n, c.reset()
	}
	return n, nil
}

func (c *faultConn) Write(p []byte) (int, error) {
	var out []byte
	c.writing.push(p, func(frame []byte) {
		if !c.dialer.drops(&c.dialer.toServer, frame) {
			out = append(out, frame...)
		}
	})
	pass, reset := c.dialer.spend(&c.dialer.toServer, len(out))
	if pass > 0 {
		if _, err := c.Conn.Write(out[:pass]); err != nil {
			return 0, err
		}
	}
	if reset {
		return 0, c.reset()
	}
	return len(p), nil
}

func (c *faultConn) Close() error {
	c.dialer.forget(c)
	return c.Conn.Close()
}

// reset closes the connection the hard way, and returns the error that its
// user sees.
func (c *faultConn) reset() error {
	abort(c.Conn)
	c.dialer.forget(c)
	return fmt.Errorf("natstest: scripted: %w", syscall.ECONNRESET)
}

// abort closes a connection the hard way; it may be closed already.
func abort(c net.Conn) {
	if f, ok := c.(*faultConn); ok {
		c = f.Conn
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // without it the end is only a softer one
	}
	_ = c.Close()
}

// reset reports whether a connection ended the hard way.
func reset(err error) bool { return errors.Is(err, syscall.ECONNRESET) }
