package streams

import "time"

// grave says what is not to be believed of a job that has gone: documents up to a sequence, or under an older rev.
type grave struct{ seq, rev uint64 }

// graves keep for a few seconds which jobs have gone: the event of an enqueue may come after the one of the job's
// end, since each has a writer of its own.
type graves struct {
	young, old         map[ident]grave
	lapsed, lapsedOnce int // how many ends have expired meanwhile
	since              time.Time
}

const graveAge = 5 * time.Second

func newGraves() graves {
	return graves{young: make(map[ident]grave), old: make(map[ident]grave)}
}

func (g *graves) add(id ident, what grave) { g.young[id] = what }

func (g *graves) find(id ident) (grave, bool) {
	if v, ok := g.young[id]; ok {
		return v, true
	}
	v, ok := g.old[id]
	return v, ok
}

func (g *graves) age(now time.Time) {
	if now.Sub(g.since) >= graveAge {
		g.young, g.old, g.since = make(map[ident]grave), g.young, now
		g.lapsed, g.lapsedOnce = 0, g.lapsed
	}
}

// lapsed is how many ends have expired in the last seconds.
func (x *index) lapsed() int { return x.gone.lapsed + x.gone.lapsedOnce }

func (g *graves) len() int { return len(g.young) + len(g.old) }
