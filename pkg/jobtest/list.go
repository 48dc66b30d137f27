package jobtest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// List answers a page of the jobs that a filter means, in any order. See job.Lister.
func (q *Queue) List(ctx context.Context, req job.ListRequest) (*job.Page, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := req.Normalize(); err != nil {
		return nil, err
	}
	from, err := q.parseCursor(&req)
	if err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	fit := make([]*entry, 0)
	for _, e := range q.jobs {
		if req.Filter.Fits(&e.job, e.half()) {
			fit = append(fit, e)
		}
	}
	slices.SortFunc(fit, func(a, b *entry) int { return compare(&req, a.place(req.Order), b.place(req.Order)) })
	page := &job.Page{Total: len(fit), Seq: q.count, At: job.Millis(now), Looked: len(q.jobs)}
	rest := fit[min(req.Offset, len(fit)):]
	if from != nil {
		i := slices.IndexFunc(fit, func(e *entry) bool { return compare(&req, e.place(req.Order), *from) > 0 })
		if i < 0 {
			i = len(fit)
		}
		rest = fit[i:]
	}
	n := min(req.Limit, len(rest))
	for _, e := range rest[:n] {
		j := clone(&e.job)
		if req.Bare {
			j.Input, j.Result, j.Error, j.History, j.Log, j.Progress, j.Raw = nil, nil, "", nil, nil, nil, nil
		}
		page.Jobs = append(page.Jobs, &j)
	}
	if n < len(rest) {
		page.Next = q.cursor(&req, rest[n-1].place(req.Order))
	}
	return page, nil
}

// place is where a job stands in an order.
type place struct {
	At time.Time `json:"at"`
	N  uint64    `json:"n"` // among those of the same instant

	For []byte `json:"for,omitzero"` // in a cursor: the listing that it is of
}

func (e *entry) place(o job.Order) place {
	switch o {
	case job.ByCreated:
		return place{At: e.job.CreatedAt, N: e.created}
	case job.ByRun:
		return place{At: e.job.RunAt, N: e.created}
	default:
		return place{At: e.job.UpdatedAt, N: e.changed}
	}
}

func compare(req *job.ListRequest, a, b place) int {
	c := cmp.Or(a.At.Compare(b.At), cmp.Compare(a.N, b.N))
	if req.Ascending {
		return c
	}
	return -c
}

// cursor writes where a page ended.
func (q *Queue) cursor(req *job.ListRequest, p place) string {
	p.For = q.listing(req)
	b, err := job.Encode(p)
	if err != nil {
		panic(err) // an instant of the queue's clock and a number can be written
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func (q *Queue) parseCursor(req *job.ListRequest) (*place, error) {
	if req.Cursor == "" {
		return nil, nil
	}
	var p place
	b, err := base64.RawURLEncoding.DecodeString(req.Cursor)
	if err != nil || job.Decode(b, &p) != nil {
		return nil, &job.FieldError{Field: "cursor", Reason: "is not one that this queue gave out"}
	}
	if !slices.Equal(p.For, q.listing(req)) {
		return nil, &job.FieldError{Field: "cursor", Reason: "is of another listing: its queue, filter or order is not the same"}
	}
	return &p, nil
}

// listing tells one listing from others.
func (q *Queue) listing(req *job.ListRequest) []byte {
	f := req.Filter
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %t %q %t %q %q %q %d %d", q.id, req.Order, req.Ascending,
		f.Spaces, f.AllSpaces, f.Queue, f.Type, f.Statuses, f.From.UnixNano(), f.To.UnixNano()))
	return sum[:8]
}
