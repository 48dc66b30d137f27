package streams

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// List answers a page of jobs. See job.Lister.
//
// ByUpdated is the order of the stream. Where a record has changed between the index's answer and the reading of it, or
// cannot be read at the moment, it is shown bare, as the index knows it: key, type, status, attempts and instants. A
// listing that goes on by cursor shows every job that does not change meanwhile exactly once.
func (p *Projection) List(ctx context.Context, req job.ListRequest) (*job.Page, error) {
	if err := req.Normalize(); err != nil {
		return nil, err
	}
	var after *bookmark
	if req.Cursor != "" {
		c, err := parseBookmark(req.Cursor, &req)
		if err != nil {
			return nil, err
		}
		after = &c
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	page, found, failing := p.choose(&req, after)
	if req.Bare || failing || len(found) == 0 {
		return page, nil
	}
	if err := p.fillIn(ctx, page, found); err != nil {
		return nil, err
	}
	return page, nil
}

// choose finds the page in the index.
func (p *Projection) choose(req *job.ListRequest, after *bookmark) (page *job.Page, found []entry, failing bool) {
	now := p.s.Now()
	p.mu.Lock()
	p.shown.expire(now)
	p.shown.jobs.sort()
	p.mu.Unlock()
	p.mu.RLock()
	defer p.mu.RUnlock()
	x := p.shown
	page = &job.Page{Jobs: []*job.Job{}, Seq: x.covered.upTo, At: x.at}
	places, total, more := x.jobs.choose(req, after)
	page.Total = total
	for _, pos := range places {
		e := x.jobs.entry(pos)
		found = append(found, e)
		page.Jobs = append(page.Jobs, x.jobs.record(&e))
	}
	if more {
		last := places[len(places)-1]
		page.Next = bookmark{key: x.jobs.keys(req.Order).at(last), seq: x.jobs.order.seq[last]}.encode(req)
	}
	return page, found, p.failing.tries > 0
}

// fillIn puts the records in the place of what the index knows.
func (p *Projection) fillIn(ctx context.Context, page *job.Page, found []entry) error {
	tails := make([]string, len(found))
	for i := range found {
		tails[i] = found[i].tail()
	}
	docs, _, err := p.s.documents(ctx, tails)
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("list: %w", ctx.Err())
		}
		p.s.log.Debug().Err(err).Msg("a page's records cannot be read; it is shown without")
		return nil
	}
	for i := range found {
		recs := docs[tails[i]]
		if n := slices.IndexFunc(recs, func(r record) bool { return r.seq == found[i].seq }); n >= 0 {
			page.Jobs[i] = recs[n].public()
		}
	}
	return nil
}

// choose finds the places of a page, and tells how many jobs fit and whether there are more pages. The order has to be
// sorted.
func (x *jobs) choose(req *job.ListRequest, after *bookmark) (places []int, total int, more bool) {
	f := &req.Filter
	match, total := x.classes.fitting(f)
	if total == 0 {
		return nil, 0, false
	}
	s := scan{order: &x.order, match: match, from: math.MinInt64, to: math.MaxInt64, asc: req.Ascending, total: total}
	if !f.From.IsZero() {
		s.from, s.timed = ceilMillis(f.From), true
	}
	if !f.To.IsZero() {
		s.to, s.timed = ceilMillis(f.To), true
	}
	if s.timed {
		s.total = 0
	}
	limit := req.Limit + 1
	if req.Order == job.ByUpdated {
		places = s.inOrder(after, req.Offset, limit)
	} else {
		places = s.byKey(x.keys(req.Order), after, req.Offset, limit)
	}
	if len(places) == limit {
		return places[:req.Limit], s.total, true
	}
	return places, s.total, false
}

// ceilMillis is the first millisecond that is not before an instant.
func ceilMillis(t time.Time) int64 {
	ms := t.UnixMilli()
	if t.After(time.UnixMilli(ms)) {
		ms++
	}
	return ms
}

// keys are what a listing is sorted by, before the sequence.
type keys struct {
	x   *jobs
	run bool
	key bool // otherwise by the sequence alone
}

func (x *jobs) keys(o job.Order) keys { return keys{x, o == job.ByRun, o != job.ByUpdated} }

func (k keys) at(pos int) int64 {
	if !k.key {
		return 0
	}
	i := k.x.order.row[pos]
	c := k.x.chunks[i/rowChunk]
	if k.run {
		return c.run[i%rowChunk]
	}
	return c.created[i%rowChunk]
}

// scan goes over the jobs in the order of their last updates.
type scan struct {
	order    *order
	match    []bool // by class
	timed    bool
	from, to int64 // last updated at from or later, and before to
	asc      bool
	total    int // how many fit; counted where instants are asked for
}

// begin answers where to begin, where to end, and in which direction.
func (s *scan) begin() (at, end, by int) {
	if s.asc {
		return 0, s.order.len(), 1
	}
	return s.order.len() - 1, -1, -1
}

// fits reports whether the job at a place is meant, and counts those whose instants fit.
func (s *scan) fits(at int) bool {
	if !s.match[s.order.class[at]] {
		return false
	}
	if s.timed {
		if u := s.order.updated[at]; u < s.from || u >= s.to {
			return false
		}
		s.total++
	}
	return true
}

// inOrder finds up to limit places after a cursor.
func (s *scan) inOrder(after *bookmark, offset, limit int) (places []int) {
	at, end, by := s.begin()
	next := at // what comes before has been on a page
	if after != nil {
		next = s.before(after.seq)
		if s.asc {
			next++
		}
		if !s.timed {
			at = next
		}
	}
	class, match := s.order.class, s.match
	for ; at != end; at += by {
		if !match[class[at]] || s.timed && !s.fits(at) || by*at < by*next {
			continue
		}
		if offset > 0 {
			offset--
			continue
		}
		if len(places) < limit {
			places = append(places, at)
		}
		if len(places) == limit && !s.timed {
			break
		}
	}
	return places
}

// before answers the last place that comes, for a list that is read upwards, not after a sequence, or, for one that is
// read downwards, below it.
func (s *scan) before(seq uint64) int {
	i := s.order.search(seq)
	if !s.asc {
		return i - 1
	}
	for i < s.order.len() && s.order.seq[i] == seq {
		i++
	}
	return i - 1
}

// ranked is a place with what it is sorted by: the lowest come first.
type ranked struct {
	key int64
	pos int64
}

func (a ranked) less(b ranked) bool { return a.key < b.key || a.key == b.key && a.pos < b.pos }

// rank turns the order round where the highest are to come first. Among equals the sequence decides, and with it the
// place.
func (s *scan) rank(key int64, pos int) ranked {
	if s.asc {
		return ranked{key, int64(pos)}
	}
	return ranked{^key, ^int64(pos)}
}

// byKey finds up to limit places after a cursor by another order. It keeps the best that it has met so far, and twice
// as many at most.
func (s *scan) byKey(keys keys, after *bookmark, offset, limit int) (places []int) {
	floor := ranked{math.MinInt64, math.MinInt64}
	if after != nil {
		pos := s.before(after.seq)
		if !s.asc {
			pos++
		}
		floor = s.rank(after.key, pos)
	}
	keep := min(offset+limit, s.order.len())
	var best []ranked
	worst := ranked{math.MaxInt64, math.MaxInt64}
	for at, end, by := s.begin(); at != end; at += by {
		if !s.fits(at) {
			continue
		}
		r := s.rank(keys.at(at), at)
		if !r.less(worst) || !floor.less(r) {
			continue
		}
		best = append(best, r)
		if len(best) >= max(2*keep, 1024) {
			selectLowest(best, keep)
			best = best[:keep]
			worst = slices.MaxFunc(best, compareRanked)
		}
	}
	if len(best) > keep {
		selectLowest(best, keep)
		best = best[:keep]
	}
	if offset >= len(best) {
		return nil
	}
	if offset > 0 {
		selectLowest(best, offset)
		best = best[offset:]
	}
	slices.SortFunc(best, compareRanked)
	for _, r := range best {
		pos := r.pos
		if !s.asc {
			pos = ^pos
		}
		places = append(places, int(pos))
	}
	return places
}

func compareRanked(a, b ranked) int {
	switch {
	case a.less(b):
		return -1
	case b.less(a):
		return 1
	}
	return 0
}

// selectLowest brings the k lowest to the front, in any order. No two are equal.
func selectLowest(s []ranked, k int) {
	for lo, hi := 0, len(s)-1; lo < hi; {
		// The median of three, so that what is sorted already is no worst case.
		mid := lo + (hi-lo)/2
		if s[mid].less(s[lo]) {
			s[mid], s[lo] = s[lo], s[mid]
		}
		if s[hi].less(s[lo]) {
			s[hi], s[lo] = s[lo], s[hi]
		}
		if s[hi].less(s[mid]) {
			s[hi], s[mid] = s[mid], s[hi]
		}
		pivot := s[mid]
		i, j := lo, hi
		for i <= j {
			for s[i].less(pivot) {
				i++
			}
			for pivot.less(s[j]) {
				j--
			}
			if i <= j {
				s[i], s[j] = s[j], s[i]
				i++
				j--
			}
		}
		switch {
		case k <= j:
			hi = j
		case k > i:
			lo = i
		default:
			return
		}
	}
}
