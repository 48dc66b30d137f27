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

// listers are all by which jobs can be listed: the queue itself, and an index where it has one beside it.
func (e *env) listers() []job.Lister {
	all := []job.Lister{e.op()}
	if x, ok := e.h.(Indexed); ok {
		if e.index == nil {
			e.index = x.Index(e.T)
		}
		all = append(all, e.index)
	}
	return all
}

// pages reads a listing to its end, and answers the ids in order. It holds what must hold for every page.
func (e *env) pages(l job.Lister, req job.ListRequest) ([]string, error) {
	var ids []string
	for {
		p, err := l.List(e.ctx(), req)
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
	for _, l := range e.listers() {
		e.pagesAre(l, job.ListRequest{Filter: f}, want)
	}
}

func (e *env) pagesAre(l job.Lister, req job.ListRequest, want []string) {
	e.Helper()
	e.eventually(func() error { // another replica, or an index, may answer a moment late
		got, err := e.pages(l, req)
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("%T lists %q for %+v, not %q", l, got, req, want)
		}
		return err
	})
}

func listFilters(e *env) {
	e.calm(calm)
	s1, s2 := "s-"+uuid.NewString(), "s-"+uuid.NewString()
	w := e.worker("w")
	// A worker may take a job ahead, and hand it back: so what waits is in a queue that has none.
	idle := e.queue + ".idle"
	in := func(queue, space, id, typ string) job.Spec {
		return job.Spec{Queue: queue, Space: space, ID: id, Type: typ}
	}
	for _, s := range ends { // updated last: cancelled
		e.enqueue(in(e.queue, s1, string(s), "t"))
		e.see(e.settle(e.claim(w), job.Outcome{Status: s}).Key(), is(s))
	}
	e.pass(4 * skew) // so that instants tell what was before from what comes after
	e.enqueue(in(e.queue, s2, "running", "t"))
	e.claim(w)
	running := e.seen(job.Key{Queue: e.queue, Space: s2, ID: "running"})
	e.pass(4 * skew)
	e.enqueue(in(idle, s1, "ready", "u"))
	due := in(idle, s2, "due", "u")
	due.Delay = time.Hour
	e.enqueue(due)
	e.enqueue(in(idle, s1, "other", "t"))

	ours := job.Filter{Spaces: []string{s1, s2}}
	with := func(change func(*job.Filter)) job.Filter {
		f := ours
		change(&f)
		return f
	}
	of := func(s ...job.Status) job.Filter { return with(func(f *job.Filter) { f.Statuses = s }) }
	e.lists(ours, "other", "due", "ready", "running", "cancelled", "dead", "failed", "succeeded")
	e.lists(job.Filter{AllSpaces: true, Queue: idle}, "other", "due", "ready")
	e.lists(job.Filter{Spaces: []string{s1}}, "other", "ready", "cancelled", "dead", "failed", "succeeded")
	e.lists(job.Filter{Spaces: []string{s2}}, "due", "running")
	e.lists(job.Filter{Spaces: []string{uuid.NewString()}})
	e.lists(with(func(f *job.Filter) { f.Queue = e.queue }), "running", "cancelled", "dead", "failed", "succeeded")
	e.lists(with(func(f *job.Filter) { f.Type = "u" }), "due", "ready")
	e.lists(with(func(f *job.Filter) { f.Type, f.Queue, f.Statuses = "u", idle, []job.Status{job.Due, job.Dead} }), "due")
	e.lists(of(job.Pending), "other", "due", "ready")
	e.lists(of(job.Ready), "other", "ready")
	e.lists(of(job.Due), "due")
	e.lists(of(job.Running), "running")
	for _, s := range ends {
		e.lists(of(s), string(s))
	}
	e.lists(of(job.Failed, job.Due, job.Running), "due", "running", "failed")
	e.lists(with(func(f *job.Filter) { f.To = running.UpdatedAt }), "cancelled", "dead", "failed", "succeeded")
	e.lists(with(func(f *job.Filter) { f.From = running.UpdatedAt }), "other", "due", "ready", "running")
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
	e.calm(calm)
	w := e.worker("w")
	f := job.Filter{AllSpaces: true, Queue: e.queue}
	e.lists(f)
	s := e.spec("1")
	s.Input, s.RunID, s.Missed = []byte(`{"n":1}`), "r", 2
	key := e.enqueue(s)
	e.settle(e.claim(w), job.Outcome{Status: job.Failed, Error: "no"})
	want := e.see(key, is(job.Failed))
	e.lists(f, "1")
	for _, l := range e.listers() {
		p, err := l.List(e.ctx(), job.ListRequest{Filter: f})
		require.NoError(e, err)
		require.Equal(e, []*job.Job{want}, p.Jobs, "the whole record")
		require.Contains(e, []int{1, job.Uncounted}, p.Total)
		require.Empty(e, p.Next)
		require.NotZero(e, p.Seq)
		require.WithinDuration(e, e.q.Now(), p.At, soon)
		e.eventually(func() error { // an index may know an instant from its writer alone for a moment
			p, err := l.List(e.ctx(), job.ListRequest{Filter: f, Bare: true})
			if err != nil {
				return err
			}
			require.Len(e, p.Jobs, 1)
			got, want := bare(p.Jobs[0]), bare(want)
			if got != want {
				return fmt.Errorf("%T: %s, not %s", l, got, want)
			}
			return nil
		})
	}
}

// bare is what every record in a listing has.
func bare(j *job.Job) string {
	return fmt.Sprint(j.Key(), j.Type, j.Status, j.UpdatedAt, j.CreatedAt, j.RunAt, j.Attempts)
}

func listOrder(e *env) {
	e.calm(calm)
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
	e.changed(job.OpRequeue, key("1"), job.Pending)
	e.lists(f, "1", "3", "4", "2", "0")
	w := e.worker("w")
	require.Equal(e, "3", e.settle(e.claim(w), job.Succeed(nil)).ID)
	require.Equal(e, "1", e.settle(e.claim(w), job.Succeed(nil)).ID)
	e.lists(f, "1", "3", "4", "2", "0")
}

func listCursor(e *env) {
	var specs []job.Spec
	var want []string
	for i := range 20 {
		specs = append(specs, e.spec(fmt.Sprintf("%02d", i)))
		want = append(want, fmt.Sprintf("%02d", 19-i))
	}
	_, err := e.q.EnqueueAll(e.ctx(), specs)
	require.NoError(e, err)
	for i, l := range e.listers() {
		req := job.ListRequest{Filter: job.Filter{AllSpaces: true, Queue: e.queue}, Limit: 3}
		e.pagesAre(l, req, want)
		seen := make(map[string]int)
		for n := 0; ; n++ {
			p, err := l.List(e.ctx(), req)
			require.NoError(e, err)
			for _, j := range p.Jobs {
				seen[j.ID]++
			}
			switch n { // a page was read; what it listed changes, and what it did not
			case 0:
				e.changed(job.OpCancel, job.Key{Queue: e.queue, ID: want[0]}, job.Cancelled)
				e.changed(job.OpCancel, job.Key{Queue: e.queue, ID: want[14]}, job.Cancelled)
			case 1, 3:
				e.enqueue(e.spec(fmt.Sprintf("new-%d-%d", i, n)))
			}
			if req.Cursor = p.Next; req.Cursor == "" {
				break
			}
		}
		for k, id := range want {
			if k != 14 {
				require.Equal(e, 1, seen[id], "%T: %s", l, id)
			}
		}
		require.LessOrEqual(e, seen[want[14]], 1)
		// As they are for the next one, by their last update.
		want = slices.Concat(
			[]string{fmt.Sprintf("new-%d-3", i), fmt.Sprintf("new-%d-1", i), want[14], want[0]}, want[1:14], want[15:])
	}
}

func listIndex(e *env) {
	f := job.Filter{AllSpaces: true, Queue: e.queue}
	for i, id := range []string{"b", "c", "a"} {
		s := e.spec(id)
		s.Delay = time.Duration(3-i) * time.Hour
		e.enqueue(s)
		e.pass(4 * skew) // no two of the same instant
	}
	e.lists(f, "a", "c", "b")
	var index job.Lister
	for _, l := range e.listers() {
		if _, err := l.List(e.ctx(), job.ListRequest{Filter: f, Order: job.ByCreated}); err == nil {
			index = l
		} else {
			e.fieldError(err, "order")
		}
	}
	if index == nil {
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
		e.pagesAre(index, c.req, c.want)
		p, err := index.List(e.ctx(), c.req)
		require.NoError(e, err)
		require.Equal(e, 3, p.Total, "a listing with an index counts")
	}
}

func listRefusals(e *env) {
	f := job.Filter{AllSpaces: true, Queue: e.queue}
	for i := range 3 {
		e.enqueue(e.spec(fmt.Sprint(i)))
	}
	e.lists(f, "2", "1", "0")
	for _, l := range e.listers() {
		refuses(e, l, f)
	}
}

func refuses(e *env, l job.Lister, f job.Filter) {
	p, err := l.List(e.ctx(), job.ListRequest{Filter: f, Limit: 1})
	require.NoError(e, err)
	cursor := p.Next
	require.NotEmpty(e, cursor)
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
		_, err := l.List(e.ctx(), c.req)
		require.Error(e, err, "%T: %+v", l, c.req)
		e.fieldError(err, c.field)
	}
}

func listNoSpace(e *env) {
	e.get(e.enqueue(e.spec("1")))
	for _, f := range []job.Filter{{}, {Queue: e.queue}, {Spaces: []string{}, Queue: e.queue, Statuses: []job.Status{job.Pending}}} {
		for _, l := range e.listers() {
			p, err := l.List(e.ctx(), job.ListRequest{Filter: f})
			require.NoError(e, err)
			require.Empty(e, p.Jobs)
			require.Empty(e, p.Next)
			require.Contains(e, []int{0, job.Uncounted}, p.Total)
		}
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
