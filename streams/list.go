package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
)

const (
	// pageLook is how many records are looked at for one page.
	pageLook = 20_000
	// pageGets is how many sequences are asked for, one by one, for one page: most of a stream's hold nothing any more.
	pageGets = 60_000
	// maxWindow is how many sequences are asked for at once, and leastWindow how many still where answers are late.
	maxWindow   = 4096
	leastWindow = 64
	// windowBytes is about how much of the stream is held at once.
	windowBytes = 16 << 20
	// rareMatches is how many documents a filter may match, by an estimate, for the server to be asked for all of them:
	// writers wait while it finds them.
	rareMatches = 20_000
	// countPatience is how long a page waits for its total.
	countPatience = time.Second
)

var _ job.Lister = (*Store)(nil)

// List answers a page of the jobs that a filter means, the newest update first. See job.Lister.
//
// It has no index, but reads the stream backwards: other orders and offsets need one, and are refused. A job that does
// not change from the first page to the last is listed exactly once. One that changes meanwhile moves up, out of what is
// still to be listed: it may be missed, but is not listed twice. In a cluster, a page may lack what was written in the
// last moments, or show it as it was before, where a replica answered that is behind.
//
// A filter that subjects can tell of (state, queue, space) finds a few jobs among a million at once; one of a type, or
// of instants far apart, may have to look at many records: then a page is Stopped.
func (s *Store) List(ctx context.Context, req job.ListRequest) (*job.Page, error) {
	if err := req.Normalize(); err != nil {
		return nil, err
	}
	switch {
	case req.Order != job.ByUpdated:
		return nil, &job.FieldError{Field: "order", Reason: fmt.Sprintf("%s needs an index: without one there is only %s, the newest first", req.Order, job.ByUpdated)}
	case req.Ascending:
		return nil, &job.FieldError{Field: "ascending", Reason: "needs an index: without one there is only the newest first"}
	case req.Offset > 0:
		return nil, &job.FieldError{Field: "offset", Reason: "needs an index: without one, go on by cursors"}
	}
	of, err := s.names.listingOf(&req)
	if err != nil {
		return nil, err
	}
	below := nothing
	if req.Cursor != "" {
		c, err := readCursor(req.Cursor, of)
		if err != nil {
			return nil, err
		}
		below = c.Below
	}
	if sc := scopeOf(&req.Filter, nil); len(sc.states) == 0 {
		return &job.Page{At: job.Millis(s.Now())}, nil
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	l := s.listing(&req)
	if err := l.run(ctx, below); err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	if l.below > l.low {
		if l.page.Next, err = (cursor{V: cursorVersion, Below: l.below, Of: of}).text(); err != nil {
			return nil, err
		}
	}
	return &l.page, nil
}

// listing is one page under way.
type listing struct {
	s     *Store
	req   *job.ListRequest
	scope scope
	most  int // records are looked at, and then the page is Stopped
	page  job.Page

	all        extent
	low, below uint64          // what is left to be looked at: from one sequence up to, not including, another
	listed     map[string]bool // tails of the jobs on the page

	window    uint64 // how many sequences the next read asks for
	widest    uint64 // and how many at the most
	gets      uint64 // so many were asked for
	met, hits uint64 // messages that were found, and those of them that were in scope
	bytes     uint64 // of these messages

	dense   bool    // the server is not asked to filter any more
	density float64 // documents in scope to a sequence, once it is; 0 before
	target  float64 // how many of them the next filtered read is to find
}

func (s *Store) listing(req *job.ListRequest) *listing {
	return &listing{s: s, req: req, scope: scopeOf(&req.Filter, nil), most: pageLook, listed: make(map[string]bool)}
}

func (l *listing) run(ctx context.Context, below uint64) error {
	var err error
	if l.all, err = l.s.extent(ctx); err != nil {
		return err
	}
	l.page.Seq, l.page.At = l.all.last, l.all.at
	l.page.Total = l.count(ctx)
	if l.low, l.below, err = l.s.narrow(ctx, &l.req.Filter, l.all.first, min(below, l.all.last+1)); err != nil {
		return err
	}
	l.window, l.widest = min(max(2*uint64(l.req.Limit), leastWindow), 512), maxWindow
	for l.left() > 0 && l.below > l.low {
		if l.page.Looked >= l.most || l.gets >= pageGets {
			l.page.Stopped = true
			return nil
		}
		msgs, down, err := l.read(ctx)
		if err != nil {
			return err
		}
		if err := l.take(ctx, msgs, down); err != nil {
			return err
		}
	}
	return nil
}

// count is how many jobs fit in all, where that is known without looking: of statuses alone. The consumers that count
// take a job that a worker holds for running even before its claim can be read, and an older document of a job for one
// more, until it is cleaned up.
func (l *listing) count(ctx context.Context) int {
	f := &l.req.Filter
	if !f.AllSpaces || f.Queue != "" || f.Type != "" || !f.From.IsZero() || !f.To.IsZero() {
		return job.Uncounted
	}
	ctx, cancel := context.WithTimeout(ctx, countPatience)
	defer cancel()
	counts, err := l.s.Count(ctx)
	if err != nil { // a page is of use without it
		l.s.log.Debug().Err(err).Msg("a page of a listing goes without its total")
		return job.Uncounted
	}
	n := 0
	for _, st := range l.scope.states {
		n += counts.Of(job.Status(st))
	}
	return n
}

// left is how many jobs there is room for on the page.
func (l *listing) left() int { return l.req.Limit - len(l.page.Jobs) }

// take lists what is to be listed of some messages, the newest first, which are all that there is in scope down to a
// sequence.
func (l *listing) take(ctx context.Context, msgs []message, down uint64) error {
	for i := 0; i < len(msgs); {
		var recs []record
		for ; i < len(msgs) && len(recs) < min(l.left(), maxFilters); i++ {
			m := &msgs[i]
			l.page.Looked++
			l.page.LookedTo = job.Millis(m.time)
			if !l.s.names.scoped(&l.scope, m) {
				continue
			}
			if r := l.s.names.record(*m); !l.listed[r.tail] && l.req.Filter.Fits(r.job(), job.Status(r.state)) {
				recs = append(recs, r)
			}
		}
		// Any document may have a newer one below it or above it: a claim above its ready message, an end above what a
		// crash left.
		current, err := l.s.current(ctx, recs)
		if err != nil {
			return err
		}
		for k := range recs {
			if current[k] {
				l.list(&recs[k])
			}
		}
		if l.left() == 0 && i < len(msgs) {
			l.below = msgs[i-1].seq
			return nil
		}
	}
	l.below = down
	return nil
}

func (l *listing) list(r *record) {
	j := r.public()
	if l.req.Bare {
		j.Input, j.Result, j.Error, j.Raw = nil, nil, "", nil
		j.History, j.Log, j.Progress = nil, nil, nil
	}
	l.listed[r.tail] = true
	l.page.Jobs = append(l.page.Jobs, j)
}

// read answers messages below what was looked at, the newest first, and down to which sequence they are all that is in
// scope, by whichever way costs the server least.
func (l *listing) read(ctx context.Context) ([]message, uint64, error) {
	if l.density == 0 && !l.dense && l.sparse() {
		msgs, err := l.readAll(ctx)
		if !errors.Is(err, errTooMany) {
			return msgs, l.low, err
		}
		l.density = l.matches() / float64(l.all.last-l.all.first+1)
		l.target = float64(max(2*l.left(), 128))
	}
	if l.density > 0 && !l.dense {
		if msgs, down, err := l.readFiltered(ctx); err != nil || !l.dense {
			return msgs, down, err
		}
	}
	return l.readWindow(ctx)
}

// matches is about how many documents in scope there are, by those that were found.
func (l *listing) matches() float64 {
	return float64(l.hits+1) / float64(l.met+1) * float64(l.all.msgs)
}

// sparse reports whether what is in scope seems to be so little that asking the server for it costs less than reading
// on until the page is full.
func (l *listing) sparse() bool {
	if l.gets == 0 {
		return false // nothing is known yet
	}
	gets := float64(l.left()) * float64(l.gets) / float64(len(l.page.Jobs)+1)
	gets = min(gets, float64(l.below-l.low))
	n := l.matches()
	return n <= rareMatches && 2*n*costMatch < gets*costGet
}

// readWindow reads a window of sequences. It is a larger one every time.
func (l *listing) readWindow(ctx context.Context) ([]message, uint64, error) {
	down := l.low
	if l.below-l.low > l.window {
		down = l.below - l.window
	}
	msgs, err := l.s.read.sequences(ctx, down, l.below)
	switch {
	case err == nil:
	case ctx.Err() != nil || l.window <= leastWindow:
		return nil, 0, err
	default: // it may be more than a slow connection carries in the time of a request
		l.widest = max(l.window/4, leastWindow)
		l.window = l.widest
		return l.readWindow(ctx)
	}
	slices.Reverse(msgs)
	l.gets += l.below - down
	l.met += uint64(len(msgs))
	for i := range msgs {
		l.bytes += uint64(len(msgs[i].data))
		if l.s.names.scoped(&l.scope, &msgs[i]) {
			l.hits++
		}
	}
	if len(msgs) == 0 {
		if down, err = l.s.gap(ctx, l.low, down, l.window); err != nil {
			return nil, 0, err
		}
	}
	l.window = min(2*l.window, l.widest, max(windowBytes/(l.bytes/max(l.met, 1)+1), 16))
	return msgs, down, nil
}

// readAll reads all that is in scope, in one request. The server refuses to answer more than 1,024 messages.
func (l *listing) readAll(ctx context.Context) ([]message, error) {
	msgs, _, err := l.s.read.multiLast(ctx, l.scope.filters(l.s.names, 32))
	if err != nil {
		return nil, err
	}
	msgs = slices.DeleteFunc(msgs, func(m message) bool { return m.seq < l.low || m.seq >= l.below })
	newestFirst(msgs)
	return msgs, nil
}

// filteredBatch is how many messages one read by a filter takes.
const filteredBatch = 2048

// readFiltered has the server filter a range of sequences that should hold target documents. Where it holds many more,
// the filter is not worth what it costs, and the listing becomes dense.
func (l *listing) readFiltered(ctx context.Context) ([]message, uint64, error) {
	for {
		width := l.target / l.density
		if width < 4*l.target {
			l.dense = true
			return nil, 0, nil
		}
		down := l.low
		if float64(l.below-l.low) > width {
			down = l.below - uint64(width)
		}
		msgs, upTo, err := l.filtered(ctx, down)
		if err != nil {
			return nil, 0, err
		}
		if upTo < l.below { // there are too many of them to hold
			l.density = float64(len(msgs)) / float64(max(upTo-min(down, upTo), 1))
			l.target = max(l.target/2, 32)
			continue
		}
		if len(msgs) == 0 {
			l.density /= 8
		} else {
			l.density = float64(len(msgs)) / float64(l.below-down)
		}
		l.target = min(2*l.target, filteredBatch/2)
		newestFirst(msgs)
		return msgs, down, nil
	}
}

// filtered reads what the filters match from a sequence on, and answers up to where that is all there is: less than
// what was to be read where it is too much at once.
func (l *listing) filtered(ctx context.Context, from uint64) (msgs []message, upTo uint64, err error) {
	for _, f := range l.scope.filters(l.s.names, 32) {
		for next := from; next < l.below; {
			part, left, err := l.s.read.batch(ctx, next, f, filteredBatch)
			if err != nil {
				return nil, 0, err
			}
			for _, m := range part {
				if m.seq < l.below {
					msgs = append(msgs, m)
				}
			}
			if len(part) == 0 || left == 0 {
				break
			}
			next = part[len(part)-1].seq + 1
			if len(msgs) > 2*filteredBatch && next < l.below {
				return msgs, next, nil
			}
		}
	}
	return msgs, l.below, nil
}

func newestFirst(msgs []message) {
	slices.SortFunc(msgs, func(a, b message) int { return cmp.Compare(b.seq, a.seq) })
}
