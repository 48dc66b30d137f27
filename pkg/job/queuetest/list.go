package queuetest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// pages reads a listing to its end, and answers the ids in order. It holds what must hold for every page.
func (e *env) pages(req job.ListRequest) ([]string, error) {
	var ids []string
	for {
		p, err := e.op().List(e.ctx(), req)
		if err != nil {
			return nil, err
		}
		limit := cmp.Or(req.Limit, job.DefaultPage)
		require.LessOrEqual(e, len(p.Jobs), limit)
		if p.Next != "" && !p.Stopped {
			require.Len(e, p.Jobs, limit, "a page is full if there are more, or says why not")
		}
		for _, j := range p.Jobs {
			ids = append(ids, j.ID)
		}
		if p.Next == "" {
			return ids, nil
		}
		req.Cursor = p.Next
		req.Offset = 0
	}
}

// lists checks that a filter means these jobs, in that order.
func (e *env) lists(f job.Filter, want ...string) {
	e.Helper()
	e.eventually(func() error { // another replica may answer a moment late
		got, err := e.pages(job.ListRequest{Filter: f})
		if err != nil {
			return err
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("%+v lists %q, not %q", f, got, want)
		}
		return nil
	})
}

func listFilters(e *env) {
	s1, s2 := "s-"+uuid.NewString(), "s-"+uuid.NewString()
	w := e.worker("w")
	in := func(space, id, typ string) job.Spec { return job.Spec{Queue: e.queue, Space: space, ID: id, Type: typ} }
	for _, s := range ends { // updated last: cancelled
		e.enqueue(in(s1, string(s), "t"))
		e.see(e.settle(e.claim(w), job.Outcome{Status: s}).Key(), is(s))
	}
	e.pass(4 * skew) // so that instants tell what was before from what comes after
	e.enqueue(in(s2, "running", "t"))
	e.claim(w)
	running := e.seen(job.Key{Queue: e.queue, Space: s2, ID: "running"})
	e.pass(4 * skew)
	e.enqueue(in(s1, "ready", "u"))
	due := in(s2, "due", "u")
	due.Delay = time.Hour
	e.enqueue(due)
	other := in(s1, "elsewhere", "t")
	other.Queue += ".b"
	e.enqueue(other)

	ours := job.Filter{Spaces: []string{s1, s2}}
	with := func(change func(*job.Filter)) job.Filter {
		f := ours
		change(&f)
		return f
	}
	of := func(s ...job.Status) job.Filter { return with(func(f *job.Filter) { f.Statuses = s }) }
	all := []string{"elsewhere", "due", "ready", "running", "cancelled", "dead", "failed", "succeeded"}
	e.lists(ours, all...)
	e.lists(job.Filter{AllSpaces: true, Queue: e.queue}, all[1:]...)
	e.lists(job.Filter{Spaces: []string{s1}}, "elsewhere", "ready", "cancelled", "dead", "failed", "succeeded")
	e.lists(job.Filter{Spaces: []string{s2}}, "due", "running")
	e.lists(job.Filter{Spaces: []string{uuid.NewString()}})
	e.lists(with(func(f *job.Filter) { f.Queue = e.queue + ".b" }), "elsewhere")
	e.lists(with(func(f *job.Filter) { f.Type = "u" }), "due", "ready")
	e.lists(with(func(f *job.Filter) { f.Type, f.Queue, f.Statuses = "u", e.queue, []job.Status{job.Due, job.Dead} }), "due")
	e.lists(of(job.Pending), "elsewhere", "due", "ready")
	e.lists(of(job.Ready), "elsewhere", "ready")
	e.lists(of(job.Due), "due")
	e.lists(of(job.Running), "running")
	for _, s := range ends {
		e.lists(of(s), string(s))
	}
	e.lists(of(job.Failed, job.Due, job.Running), "due", "running", "failed")
	e.lists(with(func(f *job.Filter) { f.To = running.UpdatedAt }), "cancelled", "dead", "failed", "succeeded")
	e.lists(with(func(f *job.Filter) { f.From = running.UpdatedAt }), "elsewhere", "due", "ready", "running")
	e.lists(with(func(f *job.Filter) { f.From, f.To = running.UpdatedAt, running.UpdatedAt.Add(time.Millisecond) }), "running")
}

// pass waits for the store's clock.
func (e *env) pass(d time.Duration) {
	e.Helper()
	until := e.q.Now().Add(d)
	e.eventually(func() error {
		if e.q.Now().Before(until) {
			return errNotYet
		}
		return nil
	})
}

func listRecords(e *env) {
	w := e.worker("w")
	f := job.Filter{AllSpaces: true, Queue: e.queue}
	e.lists(f)
	s := e.spec("1")
	s.Input, s.RunID, s.Missed = []byte(`{"n":1}`), "r", 2
	key := e.enqueue(s)
	e.settle(e.claim(w), job.Outcome{Status: job.Failed, Error: "no"})
	want := e.see(key, is(job.Failed))
	e.lists(f, "1")
	p, err := e.op().List(e.ctx(), job.ListRequest{Filter: f})
	require.NoError(e, err)
	require.Equal(e, []*job.Job{want}, p.Jobs, "the whole record")
	require.Contains(e, []int{1, job.Uncounted}, p.Total)
	require.Empty(e, p.Next)
	require.NotZero(e, p.Seq)
	require.WithinDuration(e, e.q.Now(), p.At, soon)
	p, err = e.op().List(e.ctx(), job.ListRequest{Filter: f, Bare: true})
	require.NoError(e, err)
	require.Len(e, p.Jobs, 1)
	j := p.Jobs[0]
	require.Equal(e, []any{want.Key(), want.Type, want.Status, want.UpdatedAt, want.CreatedAt, want.RunAt, want.Attempts},
		[]any{j.Key(), j.Type, j.Status, j.UpdatedAt, j.CreatedAt, j.RunAt, j.Attempts})
}

func listOrder(e *env) {
	w := e.worker("w")
	f := job.Filter{AllSpaces: true, Queue: e.queue}
	for i := range 5 {
		s := e.spec(fmt.Sprint(i))
		s.Delay = time.Hour
		e.enqueue(s)
	}
	e.lists(f, "4", "3", "2", "1", "0")
	key := func(id string) job.Key { return job.Key{Queue: e.queue, ID: id} }
	e.changed(job.OpCancel, key("1"), job.Cancelled)
	e.lists(f, "1", "4", "3", "2", "0")
	e.changed(job.OpRunNow, key("3"), job.Pending)
	e.lists(f, "3", "1", "4", "2", "0")
	cl := e.claim(w)
	e.seen(cl.Job().Key())
	e.changed(job.OpRequeue, key("1"), job.Pending)
	e.lists(f, "1", "3", "4", "2", "0")
	e.settle(cl, job.Succeed(nil))
	e.lists(f, "3", "1", "4", "2", "0")
}

func listCursor(e *env) {
	f := job.Filter{AllSpaces: true, Queue: e.queue}
	var specs []job.Spec
	for i := range 20 {
		specs = append(specs, e.spec(fmt.Sprintf("%02d", i)))
	}
	_, err := e.q.EnqueueAll(e.ctx(), specs)
	require.NoError(e, err)
	var first []string
	e.eventually(func() (err error) {
		if first, err = e.pages(job.ListRequest{Filter: f, Limit: 3}); err == nil && len(first) != 20 {
			err = errNotYet
		}
		return err
	})
	require.Equal(e, "19", first[0])
	require.IsDecreasing(e, first)

	req := job.ListRequest{Filter: f, Limit: 3}
	seen := make(map[string]int)
	for n := 0; ; n++ {
		p, err := e.op().List(e.ctx(), req)
		require.NoError(e, err)
		require.Contains(e, []int{20 + min(n, 4)/2, job.Uncounted}, p.Total)
		for _, j := range p.Jobs {
			seen[j.ID]++
		}
		switch n { // a page was read; what it listed changes, and what it did not
		case 0:
			e.changed(job.OpCancel, job.Key{Queue: e.queue, ID: "19"}, job.Cancelled)
			e.changed(job.OpCancel, job.Key{Queue: e.queue, ID: "05"}, job.Cancelled)
		case 1, 3:
			e.enqueue(e.spec(fmt.Sprint("new", n)))
		}
		if req.Cursor = p.Next; req.Cursor == "" {
			break
		}
	}
	for _, s := range specs {
		if s.ID != "05" {
			require.Equal(e, 1, seen[s.ID], s.ID)
		}
	}
	require.LessOrEqual(e, seen["05"], 1)
}

func listIndex(e *env) {
	f := job.Filter{AllSpaces: true, Queue: e.queue}
	for i, id := range []string{"b", "c", "a"} {
		s := e.spec(id)
		s.Delay = time.Duration(3-i) * time.Hour
		e.enqueue(s)
	}
	e.lists(f, "a", "c", "b")
	_, err := e.op().List(e.ctx(), job.ListRequest{Filter: f, Order: job.ByCreated})
	if err != nil {
		e.fieldError(err, "order")
		e.Skip("it has no index")
	}
	e.changed(job.OpCancel, job.Key{Queue: e.queue, ID: "c"}, job.Cancelled)
	for _, c := range []struct {
		req  job.ListRequest
		want []string
	}{
		{job.ListRequest{Order: job.ByUpdated, Limit: 1}, []string{"c", "a", "b"}},
		{job.ListRequest{Order: job.ByUpdated, Ascending: true, Limit: 2}, []string{"b", "a", "c"}},
		{job.ListRequest{Order: job.ByCreated, Limit: 1}, []string{"a", "c", "b"}},
		{job.ListRequest{Order: job.ByCreated, Ascending: true}, []string{"b", "c", "a"}},
		{job.ListRequest{Order: job.ByRun, Limit: 2}, []string{"b", "c", "a"}},
		{job.ListRequest{Order: job.ByRun, Ascending: true, Limit: 1}, []string{"a", "c", "b"}},
		{job.ListRequest{Offset: 1}, []string{"a", "b"}},
		{job.ListRequest{Offset: 1, Limit: 1}, []string{"a", "b"}},
		{job.ListRequest{Offset: 3}, nil},
		{job.ListRequest{Offset: 30}, nil},
	} {
		c.req.Filter = f
		e.eventually(func() error {
			got, err := e.pages(c.req)
			if err == nil && !slices.Equal(got, c.want) {
				err = fmt.Errorf("%+v lists %q, not %q", c.req, got, c.want)
			}
			return err
		})
		p, err := e.op().List(e.ctx(), c.req)
		require.NoError(e, err)
		require.Equal(e, 3, p.Total, "a listing with an index counts")
	}
}

func listRefusals(e *env) {
	f := job.Filter{AllSpaces: true, Queue: e.queue}
	for i := range 3 {
		e.enqueue(e.spec(fmt.Sprint(i)))
	}
	var cursor string
	e.eventually(func() error {
		p, err := e.op().List(e.ctx(), job.ListRequest{Filter: f, Limit: 1})
		if err == nil && p.Next == "" {
			err = errNotYet
		}
		if err == nil {
			cursor = p.Next
		}
		return err
	})
	other := f
	other.Type = "other"
	for _, c := range []struct {
		field string
		req   job.ListRequest
	}{
		{"cursor", job.ListRequest{Filter: f, Cursor: "nonsense"}},
		{"cursor", job.ListRequest{Filter: f, Cursor: "=" + cursor}},
		{"cursor", job.ListRequest{Filter: f, Cursor: uuid.NewString()}},
		{"cursor", job.ListRequest{Filter: other, Cursor: cursor}},
		{"offset", job.ListRequest{Filter: f, Cursor: cursor, Offset: 1}},
		{"offset", job.ListRequest{Filter: f, Offset: -1}},
		{"limit", job.ListRequest{Filter: f, Limit: job.MaxPage + 1}},
		{"limit", job.ListRequest{Filter: f, Limit: -1}},
		{"order", job.ListRequest{Filter: f, Order: "name"}},
		{"status", job.ListRequest{Filter: job.Filter{AllSpaces: true, Statuses: []job.Status{"lost"}}}},
		{"spaces", job.ListRequest{Filter: job.Filter{AllSpaces: true, Spaces: []string{"s"}}}},
		{"space", job.ListRequest{Filter: job.Filter{Spaces: []string{""}}}},
		{"queue", job.ListRequest{Filter: job.Filter{AllSpaces: true, Queue: emoji(191)}}},
		{"to", job.ListRequest{Filter: job.Filter{AllSpaces: true, From: e.q.Now(), To: e.q.Now().Add(-time.Hour)}}},
	} {
		_, err := e.op().List(e.ctx(), c.req)
		require.Error(e, err, "%+v", c.req)
		e.fieldError(err, c.field)
	}
}

func listNoSpace(e *env) {
	e.get(e.enqueue(e.spec("1")))
	for _, f := range []job.Filter{{}, {Queue: e.queue}, {Spaces: []string{}, Queue: e.queue, Statuses: []job.Status{job.Pending}}} {
		p, err := e.op().List(e.ctx(), job.ListRequest{Filter: f})
		require.NoError(e, err)
		require.Empty(e, p.Jobs)
		require.Empty(e, p.Next)
		require.Contains(e, []int{0, job.Uncounted}, p.Total)
		r, err := e.op().Bulk(e.ctx(), job.BulkRequest{Operation: job.OpCancel, Filter: f})
		require.NoError(e, err)
		require.Zero(e, r.Done)
	}
	e.lists(job.Filter{AllSpaces: true, Queue: e.queue}, "1")
}

func otherSpace(e *env) {
	space, id := "s-"+uuid.NewString(), uuid.NewString()
	s := e.spec(id)
	s.Space = space
	key := e.enqueue(s)
	e.get(key)
	for _, k := range []job.Key{
		{Queue: e.queue, Space: space + "x", ID: id},
		{Space: space + "x", ID: id},
		{Queue: e.queue, ID: id},
		{ID: id}, // in the default space
		{Queue: e.queue + "x", Space: space, ID: id},
	} {
		_, err := e.q.Get(e.ctx(), k)
		require.ErrorIs(e, err, job.ErrNotFound, k)
		for _, op := range operations {
			changed, err := e.operate(e.op(), op, k)
			require.ErrorIs(e, err, job.ErrNotFound, "%s %s", op, k)
			require.False(e, changed.Done)
		}
	}
	require.Equal(e, job.Pending, e.get(key).Status)
}
