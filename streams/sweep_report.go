package streams

import "iter"

// SweepReport counts what housekeeping repaired, and what it found that it must leave to people.
type SweepReport struct {
	LostReady int // claims whose ready message, lease and holder were gone
	LateDue   int // due documents that no alarm had moved
	Older     int // documents older than their job's newest
	Undone    int // messages that a crashed server brought back, or would never have delivered
	Stuck     int // ready documents that their queue's consumer had passed by, written anew
	Queues    int // queues with something to do that had no consumers, which were made
	Garbage   int // documents that are no job's: told of once each, and left alone
}

// Kinds are the counts with their names, in one order. What only was told of is among them.
func (r SweepReport) Kinds() iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		for _, k := range []struct {
			name string
			n    int
		}{
			{"lostReady", r.LostReady},
			{"lateDue", r.LateDue},
			{"older", r.Older},
			{"undone", r.Undone},
			{"stuck", r.Stuck},
			{"queues", r.Queues},
			{"garbage", r.Garbage},
		} {
			if !yield(k.name, k.n) {
				return
			}
		}
	}
}

// Repaired is the number of repairs.
func (r SweepReport) Repaired() int {
	return r.LostReady + r.LateDue + r.Older + r.Undone + r.Stuck + r.Queues
}

func (r *SweepReport) add(o SweepReport) {
	r.LostReady += o.LostReady
	r.LateDue += o.LateDue
	r.Older += o.Older
	r.Undone += o.Undone
	r.Stuck += o.Stuck
	r.Queues += o.Queues
	r.Garbage += o.Garbage
}

// SweepTotals counts what all rounds of this store's housekeeping have done. It never waits for one under way.
func (s *Store) SweepTotals() SweepReport {
	s.sweep.count.Lock()
	defer s.sweep.count.Unlock()
	return s.sweep.totals
}
