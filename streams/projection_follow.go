package streams

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/jetcrew/jetcrew/pkg/job"
)

const (
	// readShare bounds the part of its time that the projection spends on reading: the fiftieth part,
	readShare = 50
	// longestRest unless that would let it fall behind by more than so many intervals.
	longestRest = 20
	// behindTwice is how often in a row the stream has to end before what is known of it, until that is taken for the
	// loss of messages and not for the answer of a server that has been deposed.
	behindTwice = 3
	// refineAtOnce is how many jobs that are known from an event alone are read at a time, which takes about 5 ms.
	refineAtOnce = 200
)

// follow keeps the index up to date until the projection is closed.
func (p *Projection) follow() {
	for failed := 0; ; {
		rest, err := p.step(p.ctx)
		p.note(err)
		if err != nil {
			failed++
			rest = p.cfg.Interval * min(time.Duration(failed), longestRest)
		} else {
			failed = 0
		}
		if sleep(p.ctx, rest) != nil {
			return
		}
	}
}

// streamState is the stream as its leader knows it.
type streamState struct {
	created time.Time
	now     time.Time
	msgs    uint64
	first   uint64
	last    uint64
}

func (s *Store) streamState(ctx context.Context) (st streamState, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	msg, err := s.nc.RequestWithContext(ctx, apiPrefix+"STREAM.INFO."+s.names.stream(), nil)
	if err != nil {
		return st, fmt.Errorf("looking at the stream: %w", err)
	}
	var info struct {
		Created time.Time `json:"created"`
		TS      time.Time `json:"ts"`
		State   struct {
			Messages uint64 `json:"messages"`
			First    uint64 `json:"first_seq"`
			Last     uint64 `json:"last_seq"`
		} `json:"state"`
		Error *jetstream.APIError `json:"error"`
	}
	if err := job.Decode(msg.Data, &info); err != nil {
		return st, fmt.Errorf("looking at the stream: %w", err)
	}
	if info.Error != nil {
		return st, fmt.Errorf("looking at the stream: %w", info.Error)
	}
	return streamState{info.Created, info.TS, info.State.Messages, info.State.First, info.State.Last}, nil
}

// step looks at the stream once, and reads what is new. It answers how long to rest until the next look.
func (p *Projection) step(ctx context.Context) (time.Duration, error) {
	p.mu.RLock()
	known := max(p.next.top, p.next.covered.upTo) // before the leader is asked, so that it must know of that
	p.mu.RUnlock()
	st, err := p.s.streamState(ctx)
	if err != nil {
		return 0, err
	}
	x := p.target(st, known)
	began := time.Now()
	p.mu.Lock()
	p.last = st.last
	x.dropBelow(st.first)
	if st.last == 0 { // nothing was ever written
		x.at = st.now
	}
	p.mu.Unlock()
	if err := p.read(ctx, x, st); err != nil {
		return 0, err
	}
	caught := p.finishRead(x, st)
	if caught {
		if err := p.refine(ctx, x); err != nil {
			return 0, err
		}
	}
	if err := p.settleDoubts(ctx, x); err != nil {
		return 0, err
	}
	if caught {
		if err := p.reconcile(ctx, x, st); err != nil {
			return 0, err
		}
	}
	return max(p.cfg.Interval, min((readShare-1)*time.Since(began), longestRest*p.cfg.Interval)), nil
}

// target answers the index to go on with: another one where the stream is no longer the one that it was made from.
// known is the last sequence that was known of before the stream was looked at.
func (p *Projection) target(st streamState, known uint64) *index {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.next
	if x.created.IsZero() {
		x.created = st.created
	}
	if st.last >= known {
		p.behind = 0
	} else {
		p.behind++
	}
	if x.created.Equal(st.created) && p.behind < behindTwice {
		return x
	}
	why := "the stream was deleted and made again"
	if x.created.Equal(st.created) {
		why = "the stream has lost messages"
	}
	p.s.log.Warn().Str("reason", why).Uint64("seq", x.covered.upTo).Uint64("now", st.last).
		Msg("the index of jobs is built anew; until then jobs are listed as they were")
	p.behind = 0
	p.rebuilt++
	clear(p.suspects)
	p.next = newIndex()
	p.next.created = st.created
	return p.next
}

// finishRead says for which instant the index is true, and shows it where it was built anew.
func (p *Projection) finishRead(x *index, st streamState) (caught bool) {
	now := p.s.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	x.expire(now)
	x.tidy(now)
	if x.covered.upTo < st.last {
		return false
	}
	x.at = st.now
	if p.shown != x {
		p.shown = x
		p.s.log.Info().Int("jobs", x.jobs.visible()).Uint64("seq", x.covered.upTo).Msg("the index of jobs was built anew")
	}
	return true
}

func (p *Projection) caughtUp() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return !p.next.at.IsZero()
}

// refine reads some of the jobs that are known from an event alone.
func (p *Projection) refine(ctx context.Context, x *index) error {
	p.mu.Lock()
	seqs := x.toRead(refineAtOnce)
	p.mu.Unlock()
	if len(seqs) == 0 {
		return nil
	}
	msgs, missing, err := p.s.read.single(ctx, seqs)
	if err != nil {
		p.mu.Lock()
		x.told = append(x.told, seqs...) // another time
		p.mu.Unlock()
		return err
	}
	p.take(x, msgs, nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	x.jobs.sort()
	for _, seq := range missing { // it has gone since, or the answer came from a server that is behind
		if i, ok := x.jobs.bySeq(seq); ok {
			e := x.jobs.entry(int(x.jobs.row(i).pos))
			x.doubt(e.ident)
		}
	}
	return nil
}

// doubtsAtOnce is how many jobs that contradict what is known are read at a time.
const doubtsAtOnce = 8 * (maxFilters - 1)

// settleDoubts reads all documents of the jobs that contradict what is known. Whatever they say is the truth.
func (p *Projection) settleDoubts(ctx context.Context, x *index) error {
	p.mu.RLock()
	tails := make([]string, 0, min(len(x.doubts), doubtsAtOnce))
	for t := range x.doubts {
		if len(tails) == doubtsAtOnce {
			break
		}
		tails = append(tails, t)
	}
	p.mu.RUnlock()
	byLeader := maxFilters
	for len(tails) > 0 {
		part := tails[:min(len(tails), maxFilters-1)]
		tails = tails[len(part):]
		if err := p.settlePart(ctx, x, part, &byLeader); err != nil {
			return err
		}
	}
	return nil
}

func (p *Projection) settlePart(ctx context.Context, x *index, tails []string, byLeader *int) error {
	p.mu.Lock()
	need := max(x.top, x.covered.upTo)
	x.jobs.sort()
	ask := tails
	// An answer that finds nothing does not say how much its replica has: one that is there is asked for as well.
	for i := x.jobs.order.len() - 1; i >= 0; i-- {
		if x.jobs.order.class[i] != 0 {
			e := x.jobs.entry(i)
			ask = append(ask[:len(ask):len(ask)], e.tail())
			break
		}
	}
	p.mu.Unlock()
	docs, upTo, err := p.s.documents(ctx, ask)
	if err != nil && !errors.Is(err, errRetry) {
		return err
	}
	if err != nil || upTo < need { // the replica is behind, or has found nothing at all
		for _, t := range tails {
			if *byLeader--; *byLeader < 0 {
				return nil // later
			}
			recs, err := p.s.fromLeader(ctx, t)
			if err != nil {
				return err
			}
			p.force(x, t, recs, need)
		}
		return nil
	}
	for _, t := range tails {
		p.force(x, t, docs[t], upTo)
	}
	return nil
}

// force takes in what a job's documents say.
func (p *Projection) force(x *index, tail string, recs []record, upTo uint64) {
	id, ok := identOf(tail)
	var e *entry
	if n := newest(recs); n != nil {
		v, _ := n.entry()
		v.told = true // its message also says when it goes
		e = &v
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(x.doubts, tail)
	if ok {
		x.force(id, e, upTo)
		if e != nil && last(recs) > e.seq {
			x.under[tail] = struct{}{}
		}
	}
}

// take takes in messages that were read, and answers how many jobs changed by that; then calls done, where given, under
// the same lock.
func (p *Projection) take(x *index, msgs []message, done func()) (changed int) {
	entries := make([]entry, 0, len(msgs))
	for _, m := range msgs {
		if e, ok := p.s.names.entryOf(m); ok {
			entries = append(entries, e)
		}
	}
	now := p.s.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range entries {
		if x.apply(&entries[i]) {
			changed++
		}
	}
	if done != nil {
		done()
	}
	x.tidy(now)
	return changed
}
