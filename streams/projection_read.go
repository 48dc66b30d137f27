package streams

import (
	"context"
	"errors"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
)

const (
	// A batch asks for the fortieth part of the messages, within these: the server counts the whole stream for each.
	leastRead, mostRead = 10_000, 50_000
	// longestGap is how many sequences may not be accounted for to be asked for one by one.
	longestGap = 1 << 15
	// singlesAtOnce is how many single messages are asked for before the first is awaited.
	singlesAtOnce = 512
	// leaderAtOnce is how many messages are read from the leader, one after another, where the other replicas do not
	// have them yet. By the next look they will.
	leaderAtOnce = 64
)

// What the server takes for an answer, roughly (2.15.2).
const (
	readCostSingle = 30 * time.Microsecond
	readCostCount  = 100 * time.Nanosecond // a batch, for each message that the stream has
	readCostBatch  = 5 * time.Microsecond  // for each message that it hands out
)

// read takes in what the index does not account for, up to where the stream ended when it was looked at. A message
// counts for gone only where that is certain: not when a replica does not have it, which may be behind, but when one
// does not have it and has a later one, or when the leader does not have it.
func (p *Projection) read(ctx context.Context, x *index, st streamState) error {
	p.mu.RLock()
	upTo := x.covered.upTo
	var seqs []uint64
	small := st.last <= upTo+longestGap
	if small {
		seqs = x.covered.missing(st.last)
	}
	p.mu.RUnlock()
	if st.last <= upTo {
		return nil
	}
	batch := time.Duration(st.msgs)*readCostCount + time.Duration(min(st.last-upTo, st.msgs))*readCostBatch
	if small && time.Duration(len(seqs))*readCostSingle <= batch {
		return p.readSingly(ctx, x, seqs)
	}
	return p.readBatches(ctx, x, st)
}

// readSingly asks for each message by its number.
func (p *Projection) readSingly(ctx context.Context, x *index, seqs []uint64) error {
	for len(seqs) > 0 {
		part := seqs[:min(len(seqs), singlesAtOnce)]
		seqs = seqs[len(part):]
		msgs, missing, err := p.s.read.single(ctx, part)
		if err != nil {
			return err
		}
		p.take(x, msgs, func() {
			for _, m := range msgs {
				x.covered.add(m.seq)
			}
		})
		runs := runsOf(missing)
		for len(runs) > 0 {
			if runs, err = p.proveGone(ctx, x, runs); err != nil {
				return err
			}
		}
	}
	return nil
}

// run is a number of consecutive sequences.
type run struct{ from, to uint64 }

func runsOf(seqs []uint64) (runs []run) {
	for _, s := range seqs {
		if n := len(runs); n > 0 && runs[n-1].to+1 == s {
			runs[n-1].to = s
		} else {
			runs = append(runs, run{s, s})
		}
	}
	return runs
}

// proveGone asks for what follows each run: whoever has that had all before it. It answers what remains to be proved.
func (p *Projection) proveGone(ctx context.Context, x *index, runs []run) (rest []run, err error) {
	reqs := make([]directRequest, len(runs))
	for i, r := range runs {
		reqs[i] = directRequest{Seq: r.from, NextFor: ">"}
	}
	answers, err := p.s.read.all(ctx, reqs)
	if err != nil {
		return nil, err
	}
	for i, r := range runs {
		if len(answers[i]) == 0 {
			if err := p.readLeader(ctx, x, r); err != nil {
				return nil, err
			}
			continue
		}
		m := answers[i][0]
		found := answers[i]
		if m.seq > r.to {
			found = nil // accounted for by itself
		}
		p.take(x, found, func() { x.cover(r.from, min(m.seq, r.to)) })
		if m.seq < r.to {
			rest = append(rest, run{m.seq + 1, r.to})
		}
	}
	return rest, nil
}

// cover accounts for all of a run.
func (x *index) cover(from, to uint64) {
	if from <= x.covered.upTo+1 {
		x.covered.through(to)
		return
	}
	for s := from; s <= to; s++ {
		x.covered.add(s)
	}
}

// readLeader reads a run from the leader, which no answer lags behind.
func (p *Projection) readLeader(ctx context.Context, x *index, r run) error {
	for range leaderAtOnce {
		m, err := p.s.leaderNext(ctx, ">", r.from)
		none := errors.Is(err, job.ErrNotFound)
		if err != nil && !none {
			return err
		}
		if none || m.seq > r.to {
			p.take(x, nil, func() { x.cover(r.from, r.to) })
			return nil
		}
		p.take(x, []message{m}, func() { x.cover(r.from, m.seq) })
		if r.from = m.seq + 1; r.from > r.to {
			return nil
		}
	}
	return nil
}

func batchOf(msgs uint64) int { return int(min(max(msgs/40, leastRead), mostRead)) }

// fetched is a batch.
type fetched struct {
	msgs []message
	left uint64
	err  error
}

// readBatches reads on in batches, the next one while the last one is taken in. A replica that has a message had all
// before it, so a batch accounts for everything up to its last message.
func (p *Projection) readBatches(ctx context.Context, x *index, st streamState) error {
	ctx, cancel := context.WithCancel(ctx)
	fetch := func(from uint64) <-chan fetched {
		out := make(chan fetched, 1)
		p.wg.Go(func() {
			var f fetched
			f.msgs, f.left, f.err = p.s.read.batch(ctx, from, "", batchOf(st.msgs))
			out <- f
		})
		return out
	}
	p.mu.RLock()
	from := x.covered.upTo + 1
	p.mu.RUnlock()
	next := fetch(from)
	defer func() {
		cancel()
		if next != nil {
			<-next
		}
	}()
	said := time.Now()
	var done uint64
	for {
		f := <-next
		next = nil
		if f.err != nil {
			return f.err
		}
		if len(f.msgs) == 0 {
			break
		}
		last := f.msgs[len(f.msgs)-1].seq
		from = last + 1
		if f.left > 0 && last < st.last {
			next = fetch(from)
		}
		p.take(x, f.msgs, func() { x.covered.through(last) })
		done += uint64(len(f.msgs))
		if p.cfg.Progress != nil {
			p.cfg.Progress(min(done, max(st.msgs, done)), max(st.msgs, done))
		}
		if time.Since(said) > 5*time.Second {
			said = time.Now()
			p.s.log.Info().Uint64("read", done).Uint64("of", st.msgs).Msg("the index of jobs is being built")
		}
		if next == nil {
			break
		}
	}
	if from > st.last {
		return nil
	}
	return p.readLeader(ctx, x, run{from, st.last})
}

// single asks for messages by their numbers, all at once, and says which were not found.
func (r *reader) single(ctx context.Context, seqs []uint64) (msgs []message, missing []uint64, err error) {
	reqs := make([]directRequest, len(seqs))
	for i, s := range seqs {
		reqs[i].Seq = s
	}
	answers, err := r.all(ctx, reqs)
	if err != nil {
		return nil, nil, err
	}
	for i, a := range answers {
		if len(a) == 0 {
			missing = append(missing, seqs[i])
		}
		msgs = append(msgs, a...)
	}
	return msgs, missing, nil
}

// all makes direct gets of one message each, all at once.
func (r *reader) all(ctx context.Context, reqs []directRequest) ([][]message, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	calls := make([]*call, len(reqs))
	for i, req := range reqs {
		c, forget, err := r.ask(req)
		if err != nil {
			return nil, err
		}
		defer forget()
		calls[i] = c
	}
	out := make([][]message, len(reqs))
	for i, c := range calls {
		if err := c.wait(ctx); err != nil {
			return nil, err
		}
		out[i] = c.msgs
	}
	return out, nil
}
