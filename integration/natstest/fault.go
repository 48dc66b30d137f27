package natstest

import (
	"fmt"
	"net"
	"sync"
	"syscall"

	"github.com/nats-io/nats.go"
)

// FaultDialer makes connections whose faults a test scripts. Whole protocol
// messages are dropped, never parts of one, so that a connection stays sound
// and loses just what was meant. The zero value has no faults. It may serve
// several connections, which then share the faults; not for TLS or websockets.
type FaultDialer struct {
	mu         sync.Mutex
	conns      map[*faultConn]struct{}
	fromServer direction
	toServer   direction
	refuse     bool
}

// direction is what happens to the bytes of one direction.
type direction struct {
	drops   []dropRule
	dropped int
	budget  int // bytes that still pass before a reset
	limited bool
}

type dropRule struct {
	left  int // messages still to drop; negative: all of them
	match func(frame []byte) bool
}

// Option has a client dial with it.
func (d *FaultDialer) Option() nats.Option {
	return nats.SetCustomDialer(d)
}

// Dial connects; the client calls it.
func (d *FaultDialer) Dial(network, address string) (net.Conn, error) {
	d.mu.Lock()
	refuse := d.refuse
	d.mu.Unlock()
	if refuse {
		return nil, fmt.Errorf("natstest: scripted: dial %s: %w", address, syscall.ECONNREFUSED)
	}
	raw, err := (&net.Dialer{}).Dial(network, address)
	if err != nil {
		return nil, err
	}
	c := &faultConn{Conn: raw, dialer: d, in: make([]byte, 32<<10)}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conns == nil {
		d.conns = map[*faultConn]struct{}{}
	}
	d.conns[c] = struct{}{}
	return c, nil
}

// BlackholeFromServer loses everything that the server sends, until Heal.
func (d *FaultDialer) BlackholeFromServer() { d.DropFromServer(-1, nil) }

// BlackholeToServer loses everything that the client sends, until Heal.
func (d *FaultDialer) BlackholeToServer() { d.DropToServer(-1, nil) }

// DropFromServer loses the next n protocol messages from the server that match,
// such as IsPubAck; any, if match is nil; all until Heal, if n is negative.
func (d *FaultDialer) DropFromServer(n int, match func(frame []byte) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fromServer.drops = append(d.fromServer.drops, dropRule{left: n, match: match})
}

// DropToServer is DropFromServer for what the client sends.
func (d *FaultDialer) DropToServer(n int, match func(frame []byte) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.toServer.drops = append(d.toServer.drops, dropRule{left: n, match: match})
}

// ResetFromServer resets the connection when n more bytes have come from the
// server.
func (d *FaultDialer) ResetFromServer(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fromServer.budget, d.fromServer.limited = n, true
}

// ResetToServer resets the connection when n more bytes have gone to the
// server.
func (d *FaultDialer) ResetToServer(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.toServer.budget, d.toServer.limited = n, true
}

// Refuse lets no new connection come about, until Heal.
func (d *FaultDialer) Refuse() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refuse = true
}

// Cut resets all connections now. The client may connect again: see Refuse.
func (d *FaultDialer) Cut() {
	d.mu.Lock()
	conns := make([]*faultConn, 0, len(d.conns))
	for c := range d.conns {
		conns = append(conns, c)
	}
	d.mu.Unlock()
	for _, c := range conns {
		_ = c.reset()
	}
}

// Heal ends all faults. What was dropped stays lost.
func (d *FaultDialer) Heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, dir := range []*direction{&d.fromServer, &d.toServer} {
		dir.drops, dir.limited = nil, false
	}
	d.refuse = false
}

// Dropped is how many protocol messages were lost so far, from and to the
// server.
func (d *FaultDialer) Dropped() (from, to int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fromServer.dropped, d.toServer.dropped
}

func (d *FaultDialer) drops(dir *direction, frame []byte) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range dir.drops {
		r := &dir.drops[i]
		if r.left == 0 || r.match != nil && !r.match(frame) {
			continue
		}
		if r.left > 0 {
			r.left--
		}
		dir.dropped++
		return true
	}
	return false
}

// spend takes n bytes from what may pass; it returns how many may, and whether
// the connection is to be reset after them. A reset happens once.
func (d *FaultDialer) spend(dir *direction, n int) (pass int, reset bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !dir.limited || n < dir.budget {
		dir.budget -= n
		return n, false
	}
	dir.limited = false
	return dir.budget, true
}

func (d *FaultDialer) forget(c *faultConn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.conns, c)
}
