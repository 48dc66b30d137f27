package streams

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// truth reads every job's newest document, the oldest first.
func (n *node) truth() []*record {
	n.t.Helper()
	byTail := make(map[string][]record)
	for from := uint64(1); ; {
		msgs, left, err := n.read.batch(n.t.Context(), from, n.names.ns+".job.>", 1000)
		require.NoError(n.t, err)
		for _, m := range msgs {
			r := n.names.record(m)
			byTail[r.tail] = append(byTail[r.tail], r)
			from = m.seq + 1
		}
		if left == 0 {
			break
		}
	}
	var all []*record
	for t, recs := range byTail {
		if _, ok := identOf(t); ok {
			if r := newest(recs); r.state != stateDeleted {
				all = append(all, r)
			}
		}
	}
	slices.SortFunc(all, func(a, b *record) int { return cmp.Compare(a.seq, b.seq) })
	return all
}

// expected is what a listing answers, as the slowest implementation has it.
func expected(req job.ListRequest, truth []*record) []*job.Job {
	var fit []*record
	for _, r := range truth {
		if req.Filter.Fits(r.public(), job.Status(r.state)) {
			fit = append(fit, r)
		}
	}
	key := func(r *record) int64 {
		switch req.Order {
		case job.ByCreated:
			return r.public().CreatedAt.UnixMilli()
		case job.ByRun:
			return r.public().RunAt.UnixMilli()
		}
		return 0
	}
	slices.SortStableFunc(fit, func(a, b *record) int { return cmp.Compare(key(a), key(b)) })
	if !req.Ascending {
		slices.Reverse(fit)
	}
	jobs := make([]*job.Job, len(fit))
	for i, r := range fit {
		jobs[i] = r.public()
	}
	return jobs
}

// same says where a projection differs from the stream.
func (n *node) same(p *Projection, reqs ...job.ListRequest) error {
	if st := p.Stats(); st.Unread > 0 || st.Behind > 0 {
		return fmt.Errorf("not at rest: %+v", st)
	}
	truth := n.truth()
	for _, req := range reqs {
		if err := n.sameList(p, req, expected(req, truth)); err != nil {
			return fmt.Errorf("%+v: %w", req, err)
		}
	}
	return nil
}

func (n *node) sameList(p *Projection, req job.ListRequest, want []*job.Job) error {
	page, err := p.List(n.t.Context(), req)
	if err != nil {
		return err
	}
	if page.Total != len(want) {
		return fmt.Errorf("a total of %d, want %d", page.Total, len(want))
	}
	rest := want[min(req.Offset, len(want)):]
	req.Offset = 0
	for pages := 0; ; pages++ {
		for i, j := range page.Jobs {
			if i >= len(rest) {
				return fmt.Errorf("page %d: more jobs than there are: %s", pages, j.Key())
			}
			if err := sameJob(rest[i], j, req.Bare); err != nil {
				return fmt.Errorf("page %d, row %d: %w", pages, i, err)
			}
		}
		rest = rest[len(page.Jobs):]
		if page.Next == "" {
			break
		}
		req.Cursor = page.Next
		if page, err = p.List(n.t.Context(), req); err != nil {
			return err
		}
	}
	if len(rest) > 0 {
		return fmt.Errorf("%d jobs are missing, the first is %s", len(rest), rest[0].Key())
	}
	return nil
}

func sameJob(want, got *job.Job, bare bool) error {
	w := *want
	if bare {
		w = job.Job{
			ID: w.ID, Space: w.Space, Queue: w.Queue, Type: w.Type, Status: w.Status, Attempts: w.Attempts,
			MaxAttempts: w.MaxAttempts, CreatedAt: w.CreatedAt, UpdatedAt: w.UpdatedAt, RunAt: w.RunAt,
		}
	}
	a, err := job.Encode(w)
	if err != nil {
		return err
	}
	b, err := job.Encode(got)
	if err != nil {
		return err
	}
	if string(a) != string(b) {
		return fmt.Errorf("\n got %s\nwant %s", b, a)
	}
	return nil
}

func randomRequest(truth []*record) job.ListRequest {
	pick := func(names ...string) string { return names[rand.IntN(len(names))] }
	req := job.ListRequest{
		Limit: 1 + rand.IntN(20), Ascending: rand.IntN(2) == 0, Bare: rand.IntN(2) == 0,
		Order: []job.Order{"", job.ByUpdated, job.ByCreated, job.ByRun}[rand.IntN(4)],
		Filter: job.Filter{
			Queue: pick("", "", "a", "b", "nobody"), Type: pick("", "", "x", "y", "z"), AllSpaces: rand.IntN(2) == 0,
		},
	}
	if !req.Filter.AllSpaces {
		req.Filter.Spaces = [][]string{{"default"}, {"default", "other"}, {"other", "nowhere"}}[rand.IntN(3)]
	}
	for range rand.IntN(3) {
		req.Filter.Statuses = append(req.Filter.Statuses, job.FilterStatuses[rand.IntN(len(job.FilterStatuses))])
	}
	if len(truth) > 1 && rand.IntN(3) == 0 {
		i := rand.IntN(len(truth) - 1)
		req.Filter.From = truth[i].public().UpdatedAt
		if to := truth[i+1+rand.IntN(len(truth)-i-1)].public().UpdatedAt; to.After(req.Filter.From) && rand.IntN(2) == 0 {
			req.Filter.To = to
		}
	}
	if rand.IntN(4) == 0 {
		req.Offset = rand.IntN(len(truth) + 2)
	}
	return req
}
