package kvbucket

import (
	"sync"
	"sync/atomic"
)

// memory is what a process knows of the bucket's sequences. It is of one era: a stream that was made anew, or put back to
// an older state, gives the same sequences to something else. So an era ends with each reconnect, since no server is put
// back without one, and when an answer shows that the sequences have begun anew.
type memory struct {
	last   atomic.Uint64 // the highest sequence that was heard of
	recent recent

	turn       sync.RWMutex // shared by who learns, alone for who begins an era
	reconnects uint64       // of the connection, when the era began
	era        uint64
}

// now is the present era: what an answer tells belongs to the one in which it was asked for.
func (m *memory) now(reconnects uint64) uint64 {
	m.turn.RLock()
	era, same := m.era, m.reconnects == reconnects
	m.turn.RUnlock()
	if same {
		return era
	}
	m.turn.Lock()
	defer m.turn.Unlock()
	if reconnects > m.reconnects {
		m.reconnects = reconnects
		m.begin()
	}
	return m.era
}

// anew ends an era, if it has not ended yet, because of a sequence of the next one.
func (m *memory) anew(era, seq uint64) {
	m.turn.Lock()
	defer m.turn.Unlock()
	if era == m.era {
		m.begin()
		m.last.Store(seq)
	}
}

func (m *memory) begin() {
	m.era++
	m.last.Store(0)
	m.recent.forget()
}

// learn notes the revision of a key, or only that there is such a sequence.
func (m *memory) learn(era uint64, subject string, seq uint64, replicated bool) {
	m.turn.RLock()
	defer m.turn.RUnlock()
	if era != m.era {
		return
	}
	for last := m.last.Load(); seq > last && !m.last.CompareAndSwap(last, seq); last = m.last.Load() {
	}
	if replicated {
		m.recent.learn(subject, seq)
	}
}

// era is the present one.
func (b *Bucket) era() uint64 { return b.memory.now(b.nc.Stats().Reconnects) }
