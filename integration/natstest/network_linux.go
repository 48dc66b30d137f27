package natstest

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Network is a bridge with hosts on it, each a network namespace of its own. The test is on the bridge as well, and
// so are the processes that it starts without more ado: Outside is their host. Nothing leads to anywhere else. It
// takes root on Linux and the program ip.
type Network struct {
	t       testing.TB
	outside *Host
	hosts   []*Host
	prefix  string // of the addresses
}

// Host is a place on a Network.
type Host struct {
	name   string // of its namespace; "" for the test's own
	device string
	addr   string
}

// StartNetwork makes a network of n hosts, which is taken down when the test ends. Where that is not possible the
// test is skipped.
func StartNetwork(t testing.TB, n int) *Network {
	t.Helper()
	bridge := kernelName()
	prefix := freePrefix()
	w := &Network{t: t, prefix: prefix, outside: &Host{device: bridge, addr: prefix + "1"}}
	t.Cleanup(w.down)
	for _, args := range [][]string{
		{"link", "add", bridge, "type", "bridge"},
		{"addr", "add", w.outside.addr + "/24", "dev", bridge},
		{"link", "set", bridge, "up"},
	} {
		if _, err := command("ip", args...); err != nil {
			t.Skipf("no network can be made: %v", err)
		}
	}
	for i := range n {
		w.add(fmt.Sprintf("%s%d", prefix, i+2))
	}
	return w
}

// Outside is where the test is.
func (w *Network) Outside() *Host { return w.outside }

// Host is the host with an index from 0.
func (w *Network) Host(i int) *Host { return w.hosts[i] }

// HostOf is the host of a server that StartCluster started.
func (w *Network) HostOf(p *Process) *Host {
	for _, h := range w.hosts {
		if h.addr == p.host {
			return h
		}
	}
	w.t.Fatalf("natstest: server %s is not on this network", p.name)
	return nil
}

// StartCluster starts a cluster with a server on each host.
func (w *Network) StartCluster(adjust ...func(*ServerConfig)) *Cluster {
	w.t.Helper()
	i := 0
	return StartCluster(w.t, len(w.hosts), append(adjust, func(cfg *ServerConfig) {
		h := w.hosts[i%len(w.hosts)] // it may have to start once more
		i++
		cfg.Host, cfg.Within = h.addr, []string{"ip", "netns", "exec", h.name}
	})...)
}

// Cut loses without a word whatever two hosts send each other, until Join.
func (w *Network) Cut(a, b *Host) {
	w.t.Helper()
	w.Mute(a, b)
	w.Mute(b, a)
}

// Mute loses without a word whatever one host sends to another, and not what that one sends, until Join.
//
// It is sent to a machine that nobody is: a route that is refused would tell the sender at once.
func (w *Network) Mute(from, to *Host) {
	w.t.Helper()
	from.ip(w.t, "neigh", "replace", to.addr, "lladdr", "02:00:00:00:00:fe", "nud", "permanent", "dev", from.device)
}

// Isolate cuts a host off from all others, but not from those that are excepted.
func (w *Network) Isolate(h *Host, except ...*Host) {
	w.t.Helper()
	for _, o := range w.others(h) {
		cut := true
		for _, e := range except {
			cut = cut && e != o
		}
		if cut {
			w.Cut(h, o)
		}
	}
}

// Join ends what keeps two hosts apart.
func (w *Network) Join(a, b *Host) {
	w.t.Helper()
	a.hear(w.t, b)
	b.hear(w.t, a)
}

// Heal ends whatever keeps hosts apart.
func (w *Network) Heal() {
	w.t.Helper()
	all := append([]*Host{w.outside}, w.hosts...)
	for i, a := range all {
		for _, b := range all[:i] {
			w.Join(a, b)
		}
	}
}

func (w *Network) others(h *Host) []*Host {
	var out []*Host
	for _, o := range append([]*Host{w.outside}, w.hosts...) {
		if o != h {
			out = append(out, o)
		}
	}
	return out
}

// hear has a host find out anew which machine another one is.
func (h *Host) hear(t testing.TB, o *Host) {
	t.Helper()
	if strings.Contains(h.ip(t, "neigh", "show", "to", o.addr, "dev", h.device), "PERMANENT") {
		h.ip(t, "neigh", "del", o.addr, "dev", h.device)
	}
}

func (h *Host) ip(t testing.TB, args ...string) string {
	t.Helper()
	if h.name != "" {
		args = append([]string{"-n", h.name}, args...)
	}
	return must(t, "ip", args...)
}

func (w *Network) add(addr string) {
	w.t.Helper()
	h := &Host{name: kernelName(), device: "eth0", addr: addr}
	if _, err := command("ip", "netns", "add", h.name); err != nil {
		w.t.Skipf("no network can be made: %v", err)
	}
	w.hosts = append(w.hosts, h)
	if _, err := command("ip", "link", "add", h.name, "type", "veth", "peer", "name", h.device, "netns", h.name); err != nil {
		w.t.Skipf("no network can be made: %v", err)
	}
	must(w.t, "ip", "link", "set", h.name, "master", w.outside.device, "up")
	h.ip(w.t, "addr", "add", addr+"/24", "dev", h.device)
	h.ip(w.t, "link", "set", "lo", "up")
	h.ip(w.t, "link", "set", h.device, "up")
}

// down takes away what there is. A host's link goes with its namespace, and that when no process is left in it.
func (w *Network) down() {
	for _, h := range w.hosts {
		if _, err := command("ip", "netns", "del", h.name); err != nil {
			w.t.Errorf("natstest: %v", err)
		}
		_, _ = command("ip", "link", "del", h.name) // it may be gone by now
	}
	_, _ = command("ip", "link", "del", w.outside.device) // where it could not be made, that has been said
}

var prefixes sync.Mutex

// freePrefix is the beginning of 254 addresses that nobody here has: those that are set aside for tests of networks.
func freePrefix() string {
	prefixes.Lock()
	defer prefixes.Unlock()
	addrs, err := net.InterfaceAddrs()
	taken := func(prefix string) bool {
		for _, a := range addrs {
			if strings.HasPrefix(a.String(), prefix) {
				return true
			}
		}
		return false
	}
	n := syscall.Getpid()*7 + int(made.Add(1))
	prefix := ""
	for range 512 {
		n++
		if prefix = fmt.Sprintf("198.%d.%d.", 18+n/256%2, n%256); err != nil || !taken(prefix) {
			break
		}
	}
	return prefix
}

func tidyNetworks() {
	spaces, err := command("ip", "netns", "list")
	if err != nil {
		return
	}
	for line := range strings.Lines(spaces) {
		if name, _, _ := strings.Cut(strings.TrimSpace(line), " "); orphaned(name) {
			_, _ = command("ip", "netns", "del", name)
		}
	}
	links, err := net.Interfaces()
	if err != nil {
		return
	}
	for _, l := range links {
		if orphaned(l.Name) {
			_, _ = command("ip", "link", "del", l.Name)
		}
	}
}
