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
	places, key, total, more := x.jobs.choose(req, after)
	page.Total = total
	for _, pos := range places {
		e := x.jobs.entry(pos)
		found = append(found, e)
		page.Jobs = append(page.Jobs, x.jobs.record(&e))
	}
	if more {
		last := places[len(places)-1]
		page.Next = bookmark{key: key(last), seq: x.jobs.order[last].seq}.encode(req)
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

// choose finds the places of a page, and the key by which it is sorted. The order has to be sorted.
func (x *jobs) choose(req *job.ListRequest, after *bookmark) (places []int, key func(pos int) int64, total int, more bool) {
	key = x.keyOf(req.Order)
	f := &req.Filter
	match, total := x.classes.fitting(f)
	if total == 0 {
		return nil, key, 0, false
	}
	s := scan{x: x, match: match, from: math.MinInt64, to: math.MaxInt64, asc: req.Ascending}
	if !f.From.IsZero() {
		s.from, s.timed = ceilMillis(f.From), true
	}
	if !f.To.IsZero() {
		s.to, s.timed = ceilMillis(f.To), true
	}
	limit := req.Limit + 1
	if req.Order == job.ByUpdated {
		places, total = s.inOrder(after, req.Offset, limit, total)
	} else {
		places, total = s.byKey(key, after, req.Offset, limit, total)
	}
	if len(places) == limit {
		return places[:req.Limit], key, total, true
	}
	return places, key, total, false
}

// ceilMillis is the first millisecond that is not before an instant.
func ceilMillis(t time.Time) int64 {
	ms := t.UnixMilli()
	if t.After(time.UnixMilli(ms)) {
		ms++
	}
	return ms
}

func (x *jobs) keyOf(o job.Order) func(pos int) int64 {
	switch o {
	case job.ByCreated:
		return func(pos int) int64 { return x.row(x.order[pos].row).created }
	case job.ByRun:
		return func(pos int) int64 { return x.row(x.order[pos].row).run }
	default:
		return func(int) int64 { return 0 }
	}
}

// scan goes over the jobs in the order of their last updates.
type scan struct {
	x        *jobs
	match    []bool // by class
	timed    bool
	from, to int64 // last updated at from or later, and before to
	asc      bool
}

func (s *scan) inTime(p slot) bool {
	u := s.x.row(p.row).updated
	return s.from <= u && u < s.to
}

// inOrder finds up to limit places after a cursor, and counts what fits where instants are asked for.
func (s *scan) inOrder(after *bookmark, offset, limit, total int) (places []int, _ int) {
	order := s.x.order
	at, end, by := len(order)-1, -1, -1
	if s.asc {
		at, end, by = 0, len(order), 1
	}
	if after != nil && !s.timed {
		if at = s.x.search(after.seq); !s.asc {
			at--
		} else if at < len(order) && order[at].seq == after.seq {
			at++
		}
	}
	if s.timed {
		total = 0
	}
	for ; at != end; at += by {
		p := order[at]
		if !s.match[p.class] {
			continue
		}
		if s.timed {
			if !s.inTime(p) {
				continue
			}
			total++
			if after != nil && (s.asc && p.seq <= after.seq || !s.asc && p.seq >= after.seq) {
				continue
			}
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
	return places, total
}

// ranked is a place with what it is sorted by: the lowest come first.
type ranked struct {
	key int64
	seq uint64
	pos int
}

func (a ranked) less(b ranked) bool { return a.key < b.key || a.key == b.key && a.seq < b.seq }

// rank turns the order round where the highest are to come first.
func (s *scan) rank(key int64, seq uint64, pos int) ranked {
	if s.asc {
		return ranked{key, seq, pos}
	}
	return ranked{^key, ^seq, pos}
}

// byKey finds up to limit places after a cursor by another order, and counts what fits where instants are asked for.
// It keeps the best that it has met so far, and twice as many at most.
func (s *scan) byKey(key func(int) int64, after *bookmark, offset, limit, total int) (places []int, _ int) {
	order := s.x.order
	if s.timed {
		total = 0
	}
	var floor ranked
	if after != nil {
		floor = s.rank(after.key, after.seq, 0)
	}
	keep := min(offset+limit, len(order))
	var best []ranked
	full, worst := false, ranked{}
	at, end, by := len(order)-1, -1, -1
	if s.asc {
		at, end, by = 0, len(order), 1
	}
	for ; at != end; at += by {
		p := order[at]
		if !s.match[p.class] {
			continue
		}
		if s.timed {
			if !s.inTime(p) {
				continue
			}
			total++
		}
		r := s.rank(key(at), p.seq, at)
		if full && !r.less(worst) || after != nil && !floor.less(r) {
			continue
		}
		best = append(best, r)
		if len(best) >= max(2*keep, 1024) {
			selectLowest(best, keep)
			best = best[:keep]
			worst, full = slices.MaxFunc(best, compareRanked), true
		}
	}
	if len(best) > keep {
		selectLowest(best, keep)
		best = best[:keep]
	}
	if offset >= len(best) {
		return nil, total
	}
	if offset > 0 {
		selectLowest(best, offset)
		best = best[offset:]
	}
	slices.SortFunc(best, compareRanked)
	for _, r := range best {
		places = append(places, r.pos)
	}
	return places, total
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
