package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// What reads cost the server, in microseconds: measured at a million messages, and no more than the choice between
// them needs.
const (
	costGet   = 15  // of one message by its number
	costMatch = 0.5 // of each message that the filter of a batch, or of a multi-subject get, matches, wherever it is
	costCount = 0.1 // of each message of the stream's, in a batch without a filter
	costMove  = 5   // of each message that a batch hands out
)

// scope is what subjects tell of a filter: a job that the filter means has its newest document in it.
type scope struct {
	states []state
	queue  string   // token; empty: any
	spaces []string // tokens; nil: any
}

// scopeOf is the scope of a filter, within the statuses that are given, if any are. It has no states if nothing can be
// meant.
func scopeOf(f *job.Filter, within []job.Status) scope {
	var sc scope
	if !f.AllSpaces && len(f.Spaces) == 0 {
		return sc
	}
	of := job.Filter{Statuses: within}
	for _, st := range states {
		if status, half := st.status(), job.Status(st); st != stateDeleted && f.FitsStatus(status, half) && of.FitsStatus(status, half) {
			sc.states = append(sc.states, st)
		}
	}
	if f.Queue != "" {
		sc.queue = queueToken(f.Queue)
	}
	if !f.AllSpaces {
		for _, s := range distinct(f.Spaces) {
			sc.spaces = append(sc.spaces, escape(s))
		}
	}
	return sc
}

// has reports whether a subject is in scope.
func (sc *scope) has(sub subject) bool {
	queue, rest, _ := strings.Cut(sub.tail, ".")
	space, _, _ := strings.Cut(rest, ".")
	return slices.Contains(sc.states, sub.state) &&
		(sc.queue == "" || sc.queue == queue) &&
		(sc.spaces == nil || slices.Contains(sc.spaces, space))
}

// filters match what is in scope, each something else, and perhaps a little more, where that takes fewer than limit.
func (sc *scope) filters(n names, limit int) []string {
	in := sc.states
	if len(in) == len(states)-1 { // all that there is to see
		in = []state{"*"}
	}
	spaces := sc.spaces
	if spaces == nil || len(in)*len(spaces) > limit {
		spaces = []string{"*"}
	}
	var out []string
	for _, st := range in {
		for _, sp := range spaces {
			out = append(out, n.job(st, cmp.Or(sc.queue, "*")+"."+sp+".*"))
		}
	}
	return out
}

// scoped reads what a message's subject says, and whether it is a document in scope.
func (n names) scoped(sc *scope, m *message) bool {
	sub, err := n.parse(m.subject)
	return err == nil && sc.has(sub)
}

// extent is how much of the stream there is.
type extent struct {
	first, last uint64 // sequences
	msgs        uint64
	at          time.Time
}

// extent asks the stream's leader.
func (s *Store) extent(ctx context.Context) (extent, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	msg, err := s.nc.RequestWithContext(ctx, apiPrefix+"STREAM.INFO."+s.names.stream(), nil)
	if err != nil {
		return extent{}, fmt.Errorf("asking for the stream: %w", err)
	}
	var info struct {
		TS    time.Time `json:"ts"`
		State struct {
			Msgs  uint64 `json:"messages"`
			First uint64 `json:"first_seq"`
			Last  uint64 `json:"last_seq"`
		} `json:"state"`
		Error *jetstream.APIError `json:"error"`
	}
	if err := job.Decode(msg.Data, &info); err != nil {
		return extent{}, fmt.Errorf("asking for the stream: %w", err)
	}
	if info.Error != nil {
		return extent{}, fmt.Errorf("asking for the stream: %w", info.Error)
	}
	return extent{first: max(info.State.First, 1), last: info.State.Last, msgs: info.State.Msgs, at: job.Millis(info.TS)}, nil
}

// nothing is the sequence of what is not there.
const nothing = uint64(math.MaxUint64)

// sequenceFrom answers the first sequence from one on that holds a message, or nothing.
func (s *Store) sequenceFrom(ctx context.Context, seq uint64) (uint64, error) {
	c, err := s.read.get(ctx, directRequest{Seq: max(seq, 1), NextFor: ">"})
	if err != nil || len(c.msgs) == 0 {
		return nothing, err
	}
	return c.msgs[0].seq, nil
}

// sequenceAt answers the first sequence whose message was stored at an instant or later, or nothing. The server finds
// it by bisection: times grow with sequences, but for what the clocks of a cluster's servers differ by.
func (s *Store) sequenceAt(ctx context.Context, at time.Time) (uint64, error) {
	body, err := job.Encode(struct {
		StartTime time.Time `json:"start_time"`
		NextFor   string    `json:"next_by_subj"` // without it, one that was deleted meanwhile would look like the end
	}{at, ">"})
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	msg, err := s.nc.RequestWithContext(ctx, apiPrefix+"DIRECT.GET."+s.names.stream(), body)
	if err != nil {
		return 0, fmt.Errorf("looking for an instant: %w", err)
	}
	switch status := header(msg.Header, "Status"); status {
	case "":
	case "404":
		return nothing, nil
	default:
		return 0, fmt.Errorf("looking for an instant: %s %s", status, header(msg.Header, "Description"))
	}
	m, err := directMessage(msg)
	return m.seq, err
}

// narrow cuts a range of sequences, from one up to and not including another, to what a filter's instants leave of it.
func (s *Store) narrow(ctx context.Context, f *job.Filter, from, to uint64) (uint64, uint64, error) {
	if !f.From.IsZero() {
		seq, err := s.sequenceAt(ctx, job.Millis(f.From)) // instants on record are cut to milliseconds
		if err != nil {
			return 0, 0, err
		}
		from = max(from, seq)
	}
	if !f.To.IsZero() {
		seq, err := s.sequenceAt(ctx, job.CeilMillis(f.To))
		if err != nil {
			return 0, 0, err
		}
		to = min(to, seq)
	}
	return min(from, to), to, nil
}

// gap answers down to where the stream holds nothing below a sequence, give or take width, by as few gets as a
// bisection takes.
func (s *Store) gap(ctx context.Context, low, below, width uint64) (uint64, error) {
	empty, found := below, uint64(0)
	for w := width; ; w *= 2 {
		at := low
		if below-low > w {
			at = below - w
		}
		seq, err := s.sequenceFrom(ctx, at)
		if err != nil {
			return 0, err
		}
		if seq < below {
			found = seq
			break
		}
		if empty = at; at == low {
			return low, nil
		}
	}
	for empty-found > width {
		mid := found + (empty-found)/2
		seq, err := s.sequenceFrom(ctx, mid)
		if err != nil {
			return 0, err
		}
		if seq < empty {
			found = seq
		} else {
			empty = mid
		}
	}
	return empty, nil
}

// current finds out which of some documents, as they were just read, are their jobs' newest.
func (s *Store) current(ctx context.Context, recs []record) ([]bool, error) {
	out := make([]bool, 0, len(recs))
	for part := range slices.Chunk(recs, maxFilters) {
		tails, known := make([]string, len(part)), make([]*record, len(part))
		for i := range part {
			tails[i], known[i] = part[i].tail, &part[i]
		}
		docs, upTo, err := s.documents(ctx, tails, known...)
		if err != nil {
			return nil, err
		}
		for i := range part {
			n := newest(withRead(docs[part[i].tail], &part[i], upTo))
			out = append(out, n != nil && n.seq == part[i].seq)
		}
	}
	return out, nil
}

// withRead adds a document that was read before to a later read of its job's: a replica may have answered that does
// not have it yet. Where the replica should have it, it is gone.
func withRead(recs []record, r *record, upTo uint64) []record {
	if r.seq > upTo && !slices.ContainsFunc(recs, func(o record) bool { return o.seq == r.seq }) {
		recs = append(recs, *r)
	}
	return recs
}

const (
	// walkBatch is how many messages one read of a walk takes.
	walkBatch = 10_000
	// leastBatch is how many it still takes after reads have failed.
	leastBatch = 50
)

// scopeWalk reads the documents in a scope from one sequence up to another, the oldest first: by filters, while that
// costs the server less than handing out everything.
type scopeWalk struct {
	s     *Store
	scope scope
	from  uint64
	top   uint64 // the last sequence to be read
	msgs  uint64 // in the stream

	sources []*source
	looked  int
}

// source is what one filter of a walk matches.
type source struct {
	filter string // empty: everything
	batch  int
	buf    []message
	next   uint64
	left   uint64 // by the last answer; those beyond the walk's end are counted too
	dry    bool   // nothing was left, by the last answer
	ended  bool
}

func (w *scopeWalk) open(ctx context.Context) error {
	filters := w.scope.filters(w.s.names, 8)
	matched, cost := uint64(0), 0.0
	for _, f := range filters {
		src := &source{filter: f, batch: walkBatch / len(filters), next: w.from}
		if err := w.fill(ctx, src); err != nil {
			return err
		}
		n := uint64(len(src.buf)) + src.left
		matched += n
		cost += walkCost(n, src.batch, costMatch*float64(n))
		w.sources = append(w.sources, src)
	}
	if matched > uint64(walkBatch) && walkCost(w.msgs, walkBatch, costCount*float64(w.msgs)) < cost {
		w.sources = []*source{{batch: walkBatch, next: w.from, left: w.msgs}}
	}
	return nil
}

// walkCost is what it costs to read n messages, each batch of them at a price of its own.
func walkCost(n uint64, batch int, each float64) float64 {
	return float64(n)*costMove + float64(n)/float64(batch)*each
}

// toLook is how many messages are to be looked at in all, as far as is known.
func (w *scopeWalk) toLook() int {
	n := w.looked
	for _, src := range w.sources {
		n += len(src.buf)
		if !src.ended {
			n += int(src.left)
		}
	}
	return n
}

// some answers up to n of the documents in scope that come next; it may answer none and have more. It looks at a batch
// of messages at most.
func (w *scopeWalk) some(ctx context.Context, n int) (msgs []message, more bool, err error) {
	if w.sources == nil {
		if err := w.open(ctx); err != nil {
			return nil, false, err
		}
	}
	for looked := 0; len(msgs) < n && looked < walkBatch; looked++ {
		var first *source
		for _, src := range w.sources {
			if err := w.fill(ctx, src); err != nil {
				return nil, false, err
			}
			if len(src.buf) > 0 && (first == nil || src.buf[0].seq < first.buf[0].seq) {
				first = src
			}
		}
		if first == nil {
			return msgs, false, nil
		}
		m := first.buf[0]
		first.buf = first.buf[1:]
		w.looked++
		if w.s.names.scoped(&w.scope, &m) {
			msgs = append(msgs, m)
		}
	}
	return msgs, true, nil
}

// fill sees to it that a source has a message, if there is one.
func (w *scopeWalk) fill(ctx context.Context, src *source) error {
	for try := 0; len(src.buf) == 0 && !src.ended; try++ {
		if src.next > w.top {
			src.ended = true
			return nil
		}
		if src.dry {
			if err := w.confirm(ctx, src); err != nil || src.ended {
				return err
			}
			if err := pause(ctx, try); err != nil {
				return err
			}
		}
		err := patiently(ctx, func() (err error) {
			src.buf, src.left, err = w.s.read.batch(ctx, src.next, src.filter, src.batch)
			if err != nil { // it may be more than a slow connection carries in the time of a request
				src.batch = max(src.batch/2, min(src.batch, leastBatch))
			}
			return err
		})
		if err != nil {
			return err
		}
		src.dry = src.left == 0
		if n := len(src.buf); n > 0 {
			src.next = src.buf[n-1].seq + 1
			i, _ := slices.BinarySearchFunc(src.buf, w.top+1, func(m message, seq uint64) int { return cmp.Compare(m.seq, seq) })
			src.buf = src.buf[:i]
		}
	}
	return nil
}

// confirm asks the leader whether a source has ended: a replica that is behind may have said so.
func (w *scopeWalk) confirm(ctx context.Context, src *source) error {
	return patiently(ctx, func() error {
		m, err := w.s.leaderNext(ctx, cmp.Or(src.filter, ">"), src.next)
		if errors.Is(err, job.ErrNotFound) {
			src.ended = true
			return nil
		}
		src.ended = err == nil && m.seq > w.top
		return err
	})
}

// readPatience is how long a read of a long piece of work is tried again: a cluster that elects a leader answers
// nothing for some seconds.
const readPatience = 30 * time.Second

// patiently reads, again and again if need be. Its error is the context's if that ended.
func patiently(ctx context.Context, read func() error) error {
	began := time.Now()
	for try := 0; ; try++ {
		err := read()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, nats.ErrConnectionClosed), time.Since(began) > readPatience:
			return err
		}
		if err := pause(ctx, try); err != nil {
			return err
		}
	}
}
