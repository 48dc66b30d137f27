package streams

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// part is a part of the jobs that the store can count exactly: what waits and runs in a queue, or what is due or has
// come to one of the ends.
type part struct {
	queue string // its token
	state state
}

// suspicion is a difference between the index and the store.
type suspicion struct {
	by    int  // the index has so many more
	times int  // how often in a row
	known bool // the part was read, and nothing was wrong with it
}

// twice: a difference has to be found so often in a row before a part is read.
const twice = 2

// countShare bounds the part of its time that the projection spends on having the store count: a tenth.
const countShare = 10

// reconcileSoon is when a difference is looked at again.
const reconcileSoon = time.Second

// reconcile compares the index with the store's exact counts now and then. Where they differ twice in a row by more
// than what went on meanwhile explains, it reads that part of the stream.
func (p *Projection) reconcile(ctx context.Context, x *index, before streamState) error {
	every := p.cfg.Reconcile
	for _, s := range p.suspects {
		if !s.known {
			every = min(every, reconcileSoon)
		}
	}
	if time.Since(p.reconciled) < every {
		return nil
	}
	began := time.Now()
	p.reconciled = began
	counts, err := p.cfg.count(ctx)
	if err != nil { // what is listed stays as good as it is
		if ctx.Err() == nil && !p.uncounted {
			p.uncounted = true
			p.s.log.Warn().Err(err).Msg("the index of jobs cannot be compared with the store's count")
		}
		return nil
	}
	p.uncounted = false
	p.restFrom(countShare * time.Since(began))
	after, err := p.s.streamState(ctx)
	if err != nil {
		return err
	}
	p.mu.Lock()
	x.expire(p.s.Now())
	have := x.jobs.totals()
	// Every message changes a count by one at most, and has others go; and the server lets go of ends late.
	busy := int(2*(after.last-min(before.last, x.covered.upTo, after.last))) + x.lapsed()
	p.mu.Unlock()
	differ := differences(have, counts)
	for pt := range p.suspects {
		if _, ok := differ[pt]; !ok {
			delete(p.suspects, pt)
		}
	}
	for pt, by := range differ {
		s := p.suspects[pt]
		explained := 0
		if s.known { // there is an older document beside a newer one, or the like
			explained = s.by
		}
		switch off := by - explained; {
		case max(off, -off) <= busy:
			if !s.known {
				delete(p.suspects, pt)
			}
			continue
		case s.known || (s.by > 0) != (by > 0):
			s = suspicion{}
		}
		s.by = by
		if s.times++; s.times >= twice {
			p.s.log.Warn().Str("state", string(pt.state)).Str("queue", pt.queue).Int("more", by).
				Msg("the index of jobs differs from the store's count; reading that part again")
			reading := time.Now()
			changed, err := p.readAgain(ctx, x, pt)
			if err != nil {
				return err
			}
			p.restFrom(readShare * time.Since(reading))
			if changed {
				delete(p.suspects, pt)
				continue
			}
			s = suspicion{by: by, known: true}
		}
		p.suspects[pt] = s
	}
	return nil
}

// restFrom has what takes long done seldom.
func (p *Projection) restFrom(comparing time.Duration) {
	p.reconciled = p.reconciled.Add(min(comparing, 10*p.cfg.Reconcile))
}

// differences are the parts of which the index has more, or fewer, than the store counts.
func differences(have, count *job.Counts) map[part]int {
	out := make(map[part]int)
	for _, st := range states {
		if st == stateReady || st == stateRunning || st == stateDeleted {
			continue
		}
		if by := have.Of(job.Status(st)) - count.Of(job.Status(st)); by != 0 {
			out[part{state: st}] = by
		}
	}
	// What a worker holds is running to the store's count, and here only once it has a claim.
	queues := make(map[string]int)
	for name, q := range have.Queues {
		queues[countedToken(name)] += q.Ready + q.Running
	}
	for name, q := range count.Queues {
		queues[countedToken(name)] -= q.Ready + q.Running
	}
	for token, by := range queues {
		if by != 0 {
			out[part{token, stateReady}] = by
		}
	}
	return out
}

// countedToken is the token of a queue that was counted, which may be all that is known of its name.
func countedToken(name string) string {
	if strings.HasPrefix(name, hashMark) && len(name) == len(hashMark)+32 {
		return name
	}
	return queueToken(name)
}

// readAgain reads a part of the stream, takes in what was not known, and has looked at what is not there any more. It
// reports whether there was any of that.
func (p *Projection) readAgain(ctx context.Context, x *index, pt part) (changed bool, err error) {
	read := []state{pt.state}
	if pt.queue != "" {
		read = []state{stateReady, stateRunning}
	}
	for _, st := range read {
		p.mu.RLock()
		_, n := x.jobs.classes.of(st, pt.queue)
		all, upTo := x.jobs.live(), x.covered.upTo
		p.mu.RUnlock()
		filter := p.s.names.stateFilter(st)
		if pt.queue != "" {
			filter = p.s.names.job(st, pt.queue+".>")
		}
		// For every batch the server counts what the filter matches, or, at a fifth of that for each, everything.
		size := batchOf(uint64(n))
		if batchesOf(n)*5*n > batchesOf(all)*all {
			filter, size = "", batchOf(uint64(all))
		}
		var seen []uint64
		for from := uint64(1); ; {
			msgs, left, err := p.s.read.batch(ctx, from, filter, size)
			if err != nil {
				return changed, err
			}
			changed = p.take(x, msgs, nil) > 0 || changed
			for _, m := range msgs {
				seen = append(seen, m.seq)
			}
			if len(msgs) == 0 || left == 0 {
				break
			}
			from = msgs[len(msgs)-1].seq + 1
			if err := p.keepUp(ctx, x); err != nil {
				return changed, err
			}
		}
		changed = p.doubtUnseen(x, st, pt.queue, seen, upTo) > 0 || changed
	}
	return changed, nil
}

func batchesOf(n int) int { return n/batchOf(uint64(n)) + 1 }

// keepUp reads what is new while something else takes long.
func (p *Projection) keepUp(ctx context.Context, x *index) error {
	st, err := p.s.streamState(ctx)
	if err != nil || !st.created.Equal(x.created) {
		return err // the next look finds out
	}
	if err := p.read(ctx, x, st); err != nil {
		return err
	}
	p.finishRead(x, st)
	return nil
}

// of says of each class whether it is one of a state, and of a queue where one is named, and counts its jobs.
func (c *classes) of(st state, queue string) (match []bool, n int) {
	match = make([]bool, len(c.list))
	for i := range c.list {
		k := &c.list[i]
		if match[i] = k.n > 0 && states[k.state] == st && (queue == "" || c.queues.names[k.queue] == queue); match[i] {
			n += k.n
		}
	}
	return match, n
}

// doubtUnseen has looked at the jobs of a state whose documents, up to a sequence, are not among those that were read.
func (p *Projection) doubtUnseen(x *index, st state, queue string, seen []uint64, upTo uint64) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x.jobs.sort()
	match, _ := x.jobs.classes.of(st, queue)
	for pos, class := range x.jobs.order.class {
		if !match[class] || x.jobs.order.seq[pos] > upTo {
			continue
		}
		if _, ok := slices.BinarySearch(seen, x.jobs.order.seq[pos]); !ok {
			e := x.jobs.entry(pos)
			x.doubt(e.ident)
			n++
		}
	}
	return n
}
