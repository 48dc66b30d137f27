package natstest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// Link is one process's way to a server: a port of its own, which passes each connection on. What a FaultDialer does
// to connections of the test's own, it does to those of a process that knows nothing of it.
type Link struct {
	FaultDialer

	target string
	port   net.Listener
	ending chan struct{}
	wg     sync.WaitGroup

	mu       sync.Mutex // guards what follows
	clients  map[net.Conn]struct{}
	least    time.Duration // how long what is sent is on its way, either way
	most     time.Duration
	accepted int
}

// StartLink opens a way to the server at a URL. It is closed when the test ends.
func StartLink(t testing.TB, server string) *Link {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatalf("natstest: link to %s: %v", server, err)
	}
	port, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("natstest: link to %s: %v", server, err)
	}
	l := &Link{target: u.Host, port: port, ending: make(chan struct{}), clients: make(map[net.Conn]struct{})}
	l.wg.Go(l.accept)
	t.Cleanup(l.close)
	return l
}

// StartLinks opens a way to each node of a cluster. The URL is theirs together.
func StartLinks(t testing.TB, c *Cluster) (links []*Link, urls string) {
	t.Helper()
	var all []string
	for _, p := range c.Nodes() {
		l := StartLink(t, p.URL())
		links = append(links, l)
		all = append(all, l.URL())
	}
	return links, strings.Join(all, ",")
}

// URL is where a process connects.
func (l *Link) URL() string { return fmt.Sprintf("nats://%s", l.port.Addr()) }

// Slow has everything that is sent take a time between least and most, either way. What was sent first comes first.
// Zero is at once.
func (l *Link) Slow(least, most time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.least, l.most = least, most
}

// Silence loses everything either way, until Heal.
func (l *Link) Silence() {
	l.BlackholeFromServer()
	l.BlackholeToServer()
}

// Connections is how many there are now.
func (l *Link) Connections() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.clients)
}

// Accepted is how many there have been.
func (l *Link) Accepted() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.accepted
}

func (l *Link) accept() {
	for {
		client, err := l.port.Accept()
		if err != nil {
			return // it was closed
		}
		server, err := l.Dial("tcp", l.target)
		if err != nil {
			abort(client)
			continue
		}
		if !l.joined(client) {
			abort(client)
			_ = server.Close()
			return
		}
		l.wg.Go(func() {
			var both sync.WaitGroup
			both.Go(func() { l.carry(client, server) })
			both.Go(func() { l.carry(server, client) })
			both.Wait()
			l.mu.Lock()
			delete(l.clients, client)
			l.mu.Unlock()
		})
	}
}

// joined takes note of a connection, unless the link is being closed.
func (l *Link) joined(client net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.ending:
		return false
	default:
	}
	l.clients[client] = struct{}{}
	l.accepted++
	return true
}

// parcel is what is on its way.
type parcel struct {
	due  time.Time
	data []byte
}

// carry brings what comes from one side to the other until either is closed, and then closes both.
func (l *Link) carry(from, to net.Conn) {
	way := make(chan parcel, 1<<12)
	var failed error // read when way is closed
	l.wg.Go(func() {
		defer close(way)
		var last time.Time
		for {
			buf := make([]byte, 32<<10)
			n, err := from.Read(buf)
			if n > 0 {
				if due := time.Now().Add(l.delay()); due.After(last) {
					last = due
				}
				way <- parcel{last, buf[:n]}
			}
			if err != nil {
				failed = err
				return
			}
		}
	})
	broken := false
	for p := range way {
		if broken || !l.until(p.due) {
			broken = true
			continue // the other goroutine has to come to its end
		}
		if _, err := to.Write(p.data); err != nil {
			broken = true
			abort(from)
		}
	}
	if reset(failed) {
		abort(to)
		return
	}
	_ = to.Close() // the client closes it as well
}

// until waits for an instant. It answers false if the link is closed before.
func (l *Link) until(due time.Time) bool {
	wait := time.Until(due)
	if wait <= 0 {
		return true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.ending:
		return false
	}
}

func (l *Link) delay() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.most <= l.least {
		return l.least
	}
	return l.least + rand.N(l.most-l.least)
}

func (l *Link) close() {
	_ = l.port.Close()
	l.mu.Lock()
	close(l.ending)
	for c := range l.clients {
		abort(c)
	}
	l.mu.Unlock()
	l.Cut()
	l.wg.Wait()
}
