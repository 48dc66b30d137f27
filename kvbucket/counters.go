package kvbucket

import (
	"context"
	"sync"
	"time"
)

// knownCounters is how many counters a process remembers the value of between increments.
const knownCounters = 1024

// knownFor is for how long. Others are read anew: nothing else tells of a bucket that was deleted and made anew.
const knownFor = 100 * time.Millisecond

// sum is what a write of this process left a counter at.
type sum struct {
	*entry
	era uint64
	at  time.Time
}

// holds reports whether a sum can still be taken for what is there. A write over one that can not is refused nearly always,
// but not where another stream has come to the same sequence.
func (b *Bucket) holds(s *sum) bool {
	return s != nil && s.era == b.era() && time.Since(s.at) < knownFor
}

// counters gather the increments of each key, so that those that come while a write is under way go together in the next.
type counters struct {
	mu     sync.Mutex
	keys   map[string]*counter // those at work, by subject
	known  map[string]*sum     // what others were left at, by subject
	closed bool
}

// counter is a key at work: one goroutine writes it.
type counter struct {
	waiting []*addition
}

// addition is one caller's part. What is not its caller's alone is guarded by counters.mu.
type addition struct {
	amount int64
	sum    int64 // set before done is closed, as is err
	err    error
	done   chan struct{}
	flight *flight // that took it along
	left   bool    // its caller was answered: it is of no more interest
}

// flight is the additions that are tried together.
type flight struct {
	aboard  int  // whose callers wait
	sent    bool // a write is under way: what becomes of it is open
	abandon context.CancelFunc
}

// join has an addition made. Where nobody is at work on its key, work is to begin: it must not block.
func (cs *counters) join(subject string, a *addition, work func()) error {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.closed {
		return ErrClosed
	}
	c := cs.keys[subject]
	if c == nil {
		if cs.keys == nil {
			cs.keys, cs.known = make(map[string]*counter), make(map[string]*sum)
		}
		c = &counter{}
		cs.keys[subject] = c
		work()
	}
	c.waiting = append(c.waiting, a)
	return nil
}

// board takes along all that wait, beside those of batch whose callers are still there. Where there are none, the work
// on the key is over, and what is known of it is kept for the next time.
func (cs *counters) board(subject string, batch []*addition, f *flight, known *sum) []*addition {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c := cs.keys[subject]
	var aboard []*addition
	for _, a := range append(batch, c.waiting...) {
		if !a.left {
			a.flight = f
			aboard = append(aboard, a)
		}
	}
	c.waiting = nil
	f.aboard, f.sent = len(aboard), false
	if len(aboard) == 0 {
		delete(cs.keys, subject)
		cs.remember(subject, known)
	}
	return aboard
}

// launch notes that the write of a flight is under way from now on.
func (cs *counters) launch(f *flight) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	f.sent = true
}

// leave takes a caller away whose context has ended. It answers false if the sum is there, and otherwise whether it is
// open if the addition was made.
func (cs *counters) leave(a *addition) (left, open bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	select {
	case <-a.done:
		return false, false
	default:
	}
	a.left = true
	if a.flight == nil {
		return true, false
	}
	a.flight.disembark()
	return true, a.flight.sent
}

// disembark is for one who needs a flight no more. When nobody does, it is given up.
func (f *flight) disembark() {
	if f.aboard--; f.aboard == 0 {
		f.abandon()
	}
}

// answer tells an addition's caller what became of it.
func (cs *counters) answer(a *addition, sum int64, err error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if a.left {
		return
	}
	a.left = true
	a.sum, a.err = sum, err
	close(a.done)
	a.flight.disembark()
}

func (cs *counters) remember(subject string, known *sum) {
	if known == nil {
		delete(cs.known, subject)
		return
	}
	if _, ok := cs.known[subject]; !ok && len(cs.known) >= knownCounters {
		for other := range cs.known { // any of them
			delete(cs.known, other)
			break
		}
	}
	cs.known[subject] = known
}

func (cs *counters) recall(subject string) *sum {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.known[subject]
}

func (cs *counters) close() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.closed = true
}
