package streams

import (
	"cmp"
	"slices"
	"sync"
)

// mostLossQueues is how many queues losses are counted for by name; those of all further ones are counted together, as
// OtherQueues: producers may make up names.
const mostLossQueues = 200

// OtherQueues stands for the queues that are too many to be named.
const OtherQueues = "other"

// Losses counts what this store wrote about jobs of a queue in place of a worker that should have, or since no worker
// could have run them. No outcome of an attempt tells of it. The writes are guarded, so that of all stores one counts each;
// one that never learned of its own write, since the answer was lost for good, may leave it out.
type Losses struct {
	Queue string

	Lost          uint64 // attempts whose workers vanished
	LostDead      uint64 // jobs that are dead since the last of their attempts was such a one
	LostCancelled uint64 // jobs that are cancelled since they were to be, when their worker vanished
	TooLarge      uint64 // jobs that are dead since they do not fit the server's limit
	SetAside      uint64 // messages that are no job, and were put out of the way as dead
}

func (l *Losses) add(o Losses) {
	l.Lost += o.Lost
	l.LostDead += o.LostDead
	l.LostCancelled += o.LostCancelled
	l.TooLarge += o.TooLarge
	l.SetAside += o.SetAside
}

// lostAs is the loss of an attempt after which its job goes on in the given state.
func lostAs(st state) Losses {
	switch st {
	case stateDead:
		return Losses{Lost: 1, LostDead: 1}
	case stateCancelled:
		return Losses{Lost: 1, LostCancelled: 1}
	}
	return Losses{Lost: 1}
}

// lossBook is what a store remembers of losses.
type lossBook struct {
	mu     sync.Mutex // guards queues
	queues map[string]*Losses
}

// count adds what happened to a queue's; nothing has the queue listed.
func (b *lossBook) count(queue string, happened Losses) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.queues == nil {
		b.queues = make(map[string]*Losses)
	}
	if b.queues[queue] == nil && len(b.queues) >= mostLossQueues {
		queue = OtherQueues
	}
	if b.queues[queue] == nil {
		b.queues[queue] = &Losses{Queue: queue}
	}
	b.queues[queue].add(happened)
}

// Losses are those of each queue that this store consumes from or has counted something for, by the queue's name.
func (s *Store) Losses() []Losses {
	s.losses.mu.Lock()
	defer s.losses.mu.Unlock()
	all := make([]Losses, 0, len(s.losses.queues))
	for _, l := range s.losses.queues {
		all = append(all, *l)
	}
	slices.SortFunc(all, func(a, b Losses) int { return cmp.Compare(a.Queue, b.Queue) })
	return all
}
