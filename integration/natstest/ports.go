package natstest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Ports are taken below the range from which systems take the ports of
// outgoing connections, so that none of those sits on a server's port while it
// restarts.
const (
	firstPort = 15000
	lastPort  = 30000
)

// reservePorts finds n free loopback ports and keeps them for the test, also
// while no server listens on them: the reservation is a UDP socket on the same
// number, which the kernel grants to one process at a time.
func reservePorts(t testing.TB, n int) []int {
	t.Helper()
	ports := make([]int, 0, n)
	for try := 0; len(ports) < n; try++ {
		if try == 1000 {
			t.Fatalf("natstest: found no free port in %d tries", try)
		}
		port := firstPort + rand.IntN(lastPort-firstPort)
		if reservation, ok := reservePort(port); ok {
			t.Cleanup(func() { _ = reservation.Close() })
			ports = append(ports, port)
		}
	}
	return ports
}

func reservePort(port int) (net.PacketConn, bool) {
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	reservation, err := net.ListenPacket("udp4", addr)
	if err != nil {
		return nil, false
	}
	l, err := net.Listen("tcp4", addr)
	if err != nil {
		_ = reservation.Close()
		return nil, false
	}
	_ = l.Close()
	return reservation, true
}
