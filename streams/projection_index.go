package streams

import (
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// index is what is known of one stream: its jobs, up to where that is everything, and what has to be looked at again.
type index struct {
	jobs    *jobs
	expiry  expiries
	gone    graves
	covered coverage
	top     uint64 // the highest sequence that is known of
	first   uint64 // nothing below it is there any more
	created time.Time
	at      time.Time // the stream ended at covered.upTo then

	unread int                 // jobs that are known from an event alone
	told   []uint64            // their sequences, and those of some that have changed since; the newest last
	doubts map[string]struct{} // tails of jobs that contradict what is known: their documents have to be read
	under  map[string]struct{} // tails of those that have a document which is older although it came later
}

func newIndex() *index {
	return &index{
		jobs: newJobs(), gone: newGraves(), covered: coverage{seen: make(map[uint64]struct{})}, doubts: make(map[string]struct{}),
		under: make(map[string]struct{}),
	}
}

// entryOf is what the index keeps of a message; ok is false for one that is no job's document.
func (n names) entryOf(m message) (e entry, ok bool) {
	if !strings.HasPrefix(m.subject, n.ns+".job.") {
		return e, false
	}
	r := n.record(m)
	if e, ok = r.entry(); !ok {
		return e, false
	}
	if ttl := messageTTL(header(m.header, jetstream.MsgTTLHeader)); ttl > 0 {
		e.expires = m.time.Add(ttl).UnixMilli()
	}
	return e, true
}

// entry is what the index keeps of a document. The record does not say when it expires.
func (r *record) entry() (entry, bool) {
	id, ok := identOf(r.tail)
	if !ok || !r.state.valid() {
		return entry{}, false
	}
	j := r.public()
	return entry{
		ident: id, name: j.Queue, state: r.state, typ: j.Type, seq: r.seq, rev: r.Rev, attempts: j.Attempts, max: j.MaxAttempts,
		updated: millis(j.UpdatedAt), created: millis(j.CreatedAt), run: millis(j.RunAt), bad: r.bad != nil,
	}, true
}

// messageTTL reads a message's TTL as the server does; 0 if it has none.
func messageTTL(s string) time.Duration {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return time.Duration(n) * time.Second
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0 // such as "never"
	}
	return d
}

// newer reports whether a document tells the truth rather than the one that is known. See record.newer.
func (e *entry) newer(r *row, seq uint64) bool {
	if bad := r.max&rowBad != 0; e.bad != bad {
		return bad
	}
	return e.rev > uint64(r.rev) || e.rev == uint64(r.rev) && e.seq > seq
}

// apply takes in a document that was read or told of, and reports whether that was news. What fits no rule is looked at
// again: an older document that comes after a newer one may be a plain producer's, or the newer one has gone meanwhile.
func (x *index) apply(e *entry) (news bool) {
	if e.seq < x.first {
		return false // told of late
	}
	x.top = max(x.top, e.seq)
	i, ok := x.jobs.find(e.ident)
	if !ok {
		if g, ok := x.gone.find(e.ident); ok && (e.seq <= g.seq || e.rev < g.rev) {
			return !e.told && x.doubt(e.ident)
		}
		x.noted(x.jobs.insert(e), e)
		return true
	}
	r := x.jobs.row(i)
	seq := x.jobs.order.seq[r.pos]
	same := states[x.jobs.classes.list[x.jobs.order.class[r.pos]].state] == e.state
	newer := e.newer(r, seq)
	switch {
	case e.seq == seq:
		x.refine(i, e)
		return false
	case e.seq > seq && newer:
		x.replace(i, e)
		return true
	case e.seq > seq && same: // the subject holds one message, but another one may hold a newer document
		x.replace(i, e)
		return x.doubt(e.ident)
	case e.seq < seq && (same || !newer):
		return false
	}
	return x.doubt(e.ident)
}

// refine takes in what the message itself says of which an event told.
func (x *index) refine(i uint32, e *entry) {
	r := x.jobs.row(i)
	if e.told || r.max&rowTold == 0 {
		return
	}
	x.unread--
	timed := r.max & rowTimed
	x.jobs.refine(i, e)
	if r.max |= timed; timed == 0 {
		x.noted(i, e)
	}
}

// force takes in a job's newest document as it was read when the stream ended at upTo; none: there is no such job.
func (x *index) force(id ident, e *entry, upTo uint64) {
	i, ok := x.jobs.find(id)
	if ok && x.jobs.order.seq[x.jobs.row(i).pos] > upTo {
		return // something was told of since
	}
	switch {
	case e == nil && ok:
		x.bury(i)
	case e == nil:
	case !ok:
		x.noted(x.jobs.insert(e), e)
	case x.jobs.order.seq[x.jobs.row(i).pos] == e.seq:
		if x.jobs.row(i).max&rowTold != 0 {
			x.told = append(x.told, e.seq) // it could not be read
		}
	default:
		x.replace(i, e)
	}
}

func (x *index) replace(i uint32, e *entry) {
	x.wasTold(i)
	x.jobs.replace(i, e)
	x.noted(i, e)
}

// bury forgets a job, and for a while ignores what is said of it late.
func (x *index) bury(i uint32) {
	e := x.jobs.entry(int(x.jobs.row(i).pos))
	x.gone.add(e.ident, grave{seq: e.seq})
	x.remove(i)
}

func (x *index) remove(i uint32) {
	if len(x.under) > 0 {
		e := x.jobs.entry(int(x.jobs.row(i).pos))
		if t := e.tail(); x.isUnder(t) {
			delete(x.under, t)
			x.doubts[t] = struct{}{} // that one is the truth now
		}
	}
	x.wasTold(i)
	x.jobs.remove(i)
}

func (x *index) isUnder(tail string) bool { _, ok := x.under[tail]; return ok }

func (x *index) wasTold(i uint32) {
	if x.jobs.row(i).max&rowTold != 0 {
		x.unread--
	}
}

// noted remembers what has to be done about a document later.
func (x *index) noted(i uint32, e *entry) {
	if e.expires != 0 {
		x.expiry.push(expiring{e.expires, e.seq})
		x.jobs.row(i).max |= rowTimed
	}
	if e.told {
		x.unread++
		x.told = append(x.told, e.seq)
	}
}

// ended takes in that a job has come to its end without leaving a record.
func (x *index) ended(id ident, rev uint64) {
	i, ok := x.jobs.find(id)
	switch {
	case !ok:
		x.gone.add(id, grave{rev: rev})
	case uint64(x.jobs.row(i).rev) < rev:
		x.bury(i)
	}
}

// doubt has a job's documents read, and reports whether that is likely to be of use.
func (x *index) doubt(id ident) bool {
	t := id.tail()
	x.doubts[t] = struct{}{}
	return !x.isUnder(t)
}

// expire forgets the ends whose time is over.
func (x *index) expire(now time.Time) {
	ms := now.UnixMilli()
	if len(x.expiry) == 0 || x.expiry[0].at > ms {
		return
	}
	x.jobs.sort()
	for len(x.expiry) > 0 && x.expiry[0].at <= ms {
		if i, ok := x.jobs.bySeq(x.expiry.pop().seq); ok {
			x.remove(i)
			x.gone.lapsed++
		}
	}
}

// dropBelow forgets what the stream's first sequence shows to be gone.
func (x *index) dropBelow(first uint64) {
	if first <= x.first {
		return
	}
	x.first = first
	x.jobs.sort()
	o := &x.jobs.order
	for i := range o.search(first) {
		if o.class[i] != 0 {
			x.remove(o.row[i])
		}
	}
}

// tidy is to be called after every few changes.
func (x *index) tidy(now time.Time) {
	x.jobs.tidy()
	x.gone.age(now)
	if len(x.told) > 1024 && len(x.told) > 2*x.unread {
		x.jobs.sort()
		keep := x.told[:0]
		for _, seq := range x.told {
			if i, ok := x.jobs.bySeq(seq); ok && x.jobs.row(i).max&rowTold != 0 {
				keep = append(keep, seq)
			}
		}
		x.told = keep
	}
}

// toRead takes up to n sequences of jobs that are known from an event alone, the newest first.
func (x *index) toRead(n int) (seqs []uint64) {
	x.jobs.sort()
	for len(x.told) > 0 && len(seqs) < n {
		seq := x.told[len(x.told)-1]
		x.told = x.told[:len(x.told)-1]
		if i, ok := x.jobs.bySeq(seq); ok && x.jobs.row(i).max&rowTold != 0 {
			seqs = append(seqs, seq)
		}
	}
	return seqs
}

func (x *index) bytes() int {
	return x.jobs.bytes() + cap(x.expiry)*16 + cap(x.told)*8 + x.gone.len()*48 + len(x.covered.seen)*24
}
