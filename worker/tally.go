package worker

import "sync"

// tally counts what a worker is doing, and tells when there is nothing left to wait for.
type tally struct {
	mu       sync.Mutex
	slots    int // goroutines that take jobs
	running  int // handlers
	stuck    int // of them
	settling int // writes going on beside the slots
	idle     chan struct{}
}

func (t *tally) stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Stats{Running: t.running, Stuck: t.stuck, Settling: t.settling}
}

func (t *tally) add(slots, running, stuck, settling int) (stuckNow int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.slots += slots
	t.running += running
	t.stuck += stuck
	t.settling += settling
	t.tell()
	return t.stuck
}

// awaitIdle answers a channel that is closed once no slot works, stuck ones aside, and nothing is being
// settled. It is meant for a time when slots do not start anew.
func (t *tally) awaitIdle() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	idle := make(chan struct{})
	t.idle = idle
	t.tell()
	return idle
}

func (t *tally) tell() {
	if t.idle != nil && t.slots == t.stuck && t.settling == 0 {
		close(t.idle)
		t.idle = nil
	}
}
