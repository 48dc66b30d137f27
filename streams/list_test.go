package streams

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// crowd stores documents as a long life of many jobs may have left them.
type crowd struct {
	n   *node
	rnd *rand.Rand
	ids int
}

var (
	crowdQueues = []string{"mail", "p d f", strings.Repeat("long.", 38)}
	crowdSpaces = []string{"default", "a.b", "ü"}
	crowdTypes  = []string{"t", "u"}
)

// send stores a message like any client, without waiting for the answer.
func (c *crowd) send(m *nats.Msg) {
	c.n.t.Helper()
	if c.n.js.PublishAsyncPending() > maxInFlight/2 {
		c.flush()
	}
	_, err := c.n.js.PublishMsgAsync(m)
	require.NoError(c.n.t, err)
}

// flush waits until all is stored that was sent.
func (c *crowd) flush() {
	c.n.t.Helper()
	select {
	case <-c.n.js.PublishAsyncComplete():
	case <-time.After(soon):
		require.Fail(c.n.t, "not all was stored")
	}
}

func (c *crowd) doc(key job.Key, typ string, st state, rev uint64) {
	c.n.t.Helper()
	d := document{V: version, Rev: rev, Writer: newWriter()}
	d.Job.Queue, d.Job.Space, d.Job.ID, d.Job.Type, d.Job.Status = key.Queue, key.Space, key.ID, typ, st.status()
	if st == stateDeleted {
		d.Job.Status = ""
	}
	d.Job.Input = []byte(`{"n":1}`)
	d.Job.Error = "something"
	d.Job.Result = []byte(`1`)
	if st == stateDue {
		d.Job.RunAt = c.n.Now().Add(24 * time.Hour)
	}
	body, err := job.Encode(&d)
	require.NoError(c.n.t, err)
	c.send(&nats.Msg{Subject: c.n.names.job(st, tail(key)), Data: body})
}

func (c *crowd) key() job.Key {
	c.ids++
	return job.Key{
		Queue: pick(c.rnd, crowdQueues), Space: pick(c.rnd, crowdSpaces), ID: fmt.Sprint("job ", c.ids),
	}
}

// plainKey is a key of one queue and space.
func (c *crowd) plainKey() job.Key {
	c.ids++
	return keyOf("q", fmt.Sprint(c.ids))
}

func pick[E any](rnd *rand.Rand, of []E) E { return of[rnd.IntN(len(of))] }

// grow adds jobs in all states, left-overs and garbage among them, with holes between the sequences.
func (c *crowd) grow(jobs, holes int) {
	c.n.t.Helper()
	for range jobs {
		key, typ := c.key(), pick(c.rnd, crowdTypes)
		if c.rnd.IntN(10) > 0 {
			c.doc(key, typ, pick(c.rnd, states[:]), 1)
		} else { // several documents, of which any may be the newest
			rev := uint64(c.rnd.IntN(3))
			for range 1 + c.rnd.IntN(3) {
				c.doc(key, typ, pick(c.rnd, states[:]), rev)
				rev = uint64(max(0, int(rev)+c.rnd.IntN(4)-1))
			}
		}
		switch st := pick(c.rnd, states[:]); c.rnd.IntN(60) {
		case 0:
			c.send(&nats.Msg{Subject: c.n.names.job(st, tail(c.key())), Data: []byte("no job")})
		case 1:
			c.send(&nats.Msg{Subject: c.n.names.job(st, "mail.only"), Data: []byte(`{"type":"t"}`)})
		case 2:
			c.send(&nats.Msg{Subject: c.n.names.job("nowhere", tail(c.key())), Data: []byte(`{"type":"t"}`)})
		case 3:
			c.send(&nats.Msg{Subject: c.n.names.alarm(tail(key), newWriter())})
		case 4:
			c.send(&nats.Msg{
				Subject: c.n.names.job(stateDead, tail(c.key())), Data: []byte("set aside"),
				Header: nats.Header{headerSetAside: {"it is no job"}, headerRev: {"1"}},
			})
		}
	}
	for range holes {
		c.send(&nats.Msg{Subject: c.n.names.wake("mail.default.hole")})
	}
}

// stored are all messages, as the leader has them.
func (n *node) stored() []message {
	n.t.Helper()
	var out []message
	for seq := uint64(1); ; {
		m, err := n.leaderNext(n.t.Context(), ">", seq)
		if errors.Is(err, job.ErrNotFound) {
			return out
		}
		require.NoError(n.t, err)
		out = append(out, m)
		seq = m.seq + 1
	}
}

// jobsOf are the newest documents of all jobs that can be seen, the newest update first.
func (n *node) jobsOf(msgs []message) []record {
	byTail := make(map[string][]record)
	for _, m := range msgs {
		if _, err := n.names.parse(m.subject); err == nil {
			r := n.names.record(m)
			byTail[r.tail] = append(byTail[r.tail], r)
		}
	}
	var out []record
	for _, recs := range byTail {
		if r := newest(recs); r.state != stateDeleted {
			out = append(out, *r)
		}
	}
	slices.SortFunc(out, func(a, b record) int { return cmp.Compare(b.seq, a.seq) })
	return out
}

// workLong makes a consumer whose lease a busy machine does not let lapse.
func (n *node) workLong(queue, worker string) *consumer {
	n.t.Helper()
	c, err := n.Consume(n.t.Context(), job.ConsumerConfig{Queue: queue, WorkerID: worker, Slots: 4, Lease: 10 * time.Second})
	require.NoError(n.t, err)
	n.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second) // the test's own has ended
		defer cancel()
		require.NoError(n.t, c.Close(ctx))
	})
	return c.(*consumer)
}

func fitting(all []record, f *job.Filter) []record {
	var out []record
	for i := range all {
		if f.Fits(all[i].job(), job.Status(all[i].state)) {
			out = append(out, all[i])
		}
	}
	return out
}

func publicOf(recs []record) []*job.Job {
	out := make([]*job.Job, len(recs))
	for i := range recs {
		out[i] = recs[i].public()
	}
	return out
}

// listAll lists page after page.
func listAll(ctx context.Context, l job.Lister, req job.ListRequest) ([]*job.Job, error) {
	var out []*job.Job
	for {
		page, err := l.List(ctx, req)
		if err != nil {
			return nil, err
		}
		if len(page.Jobs) > req.Limit || len(page.Jobs) < req.Limit && page.Next != "" && !page.Stopped {
			return nil, fmt.Errorf("a page of %d jobs, of %d, going on with %q", len(page.Jobs), req.Limit, page.Next)
		}
		out = append(out, page.Jobs...)
		if page.Next == "" {
			return out, nil
		}
		req.Cursor = page.Next
	}
}

func drawFilter(t *rapid.T, all []record) job.Filter {
	f := job.Filter{
		Queue:    rapid.SampledFrom(append([]string{"", "", "none"}, crowdQueues...)).Draw(t, "queue"),
		Type:     rapid.SampledFrom(append([]string{"", "", "none"}, crowdTypes...)).Draw(t, "type"),
		Statuses: rapid.SliceOfN(rapid.SampledFrom(job.FilterStatuses), 0, 3).Draw(t, "statuses"),
	}
	if f.Spaces = rapid.SliceOfN(rapid.SampledFrom(append([]string{"none"}, crowdSpaces...)), 0, 3).Draw(t, "spaces"); len(f.Spaces) == 0 {
		f.AllSpaces = rapid.IntRange(0, 9).Draw(t, "all") > 0
	}
	at := func(name string) time.Time {
		if rapid.Bool().Draw(t, name) {
			return time.Time{}
		}
		i := rapid.IntRange(0, len(all)-1).Draw(t, name+" of")
		return all[i].Job.UpdatedAt.Add(time.Duration(rapid.IntRange(-1, 1).Draw(t, name+" off")) * 500 * time.Microsecond)
	}
	if f.From, f.To = at("from"), at("to"); !f.From.IsZero() && !f.To.IsZero() && !f.From.Before(f.To) {
		f.From = time.Time{}
	}
	return f
}

func TestListingAnswersWhatIsThere(t *testing.T) {
	t.Parallel()
	for name, holes := range map[string]int{"dense": 0, "with holes": 800} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := server(t).open(t)
			c := &crowd{n: n, rnd: rand.New(rand.NewPCG(rand.Uint64(), 0))}
			for range 4 {
				c.grow(300, holes)
			}
			c.flush()
			all := n.jobsOf(n.stored())
			require.Greater(t, len(all), 800)
			rapid.Check(t, func(rt *rapid.T) {
				f := drawFilter(rt, all)
				want := fitting(all, &f)
				limit := rapid.IntRange(max(1, len(want)/10), job.MaxPage).Draw(rt, "limit")
				got, err := listAll(t.Context(), n, job.ListRequest{Filter: f, Limit: limit})
				if err != nil {
					rt.Fatal(err)
				}
				require.Equal(rt, publicOf(want), append([]*job.Job{}, got...))
			})
		})
	}
}

// Whichever way the stream is read, what is found is the same.
func TestEveryWayToReadFindsTheSame(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	c := &crowd{n: n, rnd: rand.New(rand.NewPCG(rand.Uint64(), 0))}
	for range 3 {
		c.grow(400, 700)
	}
	c.flush()
	all := n.jobsOf(n.stored())
	for way, begin := range map[string]func(*listing){
		"windows":  func(l *listing) { l.dense = true },
		"all":      func(l *listing) { l.gets = pageGets - 1 }, // so many that anything costs less
		"filtered": func(l *listing) { l.density, l.target = 0.01, 40 },
		"thin":     func(l *listing) { l.density, l.target = 1e-9, 40 }, // a density that is far too low
		"thick":    func(l *listing) { l.density, l.target = 0.25, 1024 },
	} {
		t.Run(way, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				f := drawFilter(rt, all)
				if len(f.Spaces) == 0 {
					f.AllSpaces = true
				}
				want := fitting(all, &f)
				var got []*job.Job
				for below := nothing; ; {
					req := job.ListRequest{Filter: f, Limit: rapid.IntRange(max(1, len(want)/4), job.MaxPage).Draw(rt, "limit")}
					l := n.listing(&req)
					begin(l)
					require.NoError(rt, l.run(t.Context(), below))
					got = append(got, l.page.Jobs...)
					if below = l.below; below <= l.low {
						break
					}
				}
				require.Equal(rt, publicOf(want), append([]*job.Job{}, got...))
			})
		})
	}
}

func TestARareFilterFindsItsJobsAtOnce(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	c := &crowd{n: n, rnd: rand.New(rand.NewPCG(1, 2))}
	const jobs = 6000
	for i := range jobs {
		key := keyOf("q", fmt.Sprint(i))
		st := stateSucceeded
		if i%600 == 1 {
			st = stateDead
		}
		if i%3 == 0 && i < jobs-2000 {
			st = stateFailed // a third, but none among the newest
		}
		c.doc(key, "t", st, 1)
	}
	c.flush()
	find := func(limit int, statuses ...job.Status) *listing {
		t.Helper()
		req := job.ListRequest{Limit: limit, Filter: job.Filter{AllSpaces: true, Statuses: statuses}}
		l := n.listing(&req)
		require.NoError(t, l.run(t.Context(), nothing))
		require.False(t, l.page.Stopped)
		return l
	}
	l := find(50, job.Cancelled)
	require.Empty(t, l.page.Jobs)
	require.Less(t, l.gets, uint64(1000))
	require.Equal(t, l.low, l.below, "nothing more")

	l = find(50, job.Dead)
	require.Len(t, l.page.Jobs, 10)
	require.Less(t, l.gets, uint64(1000))

	l = find(50, job.Failed)
	require.Len(t, l.page.Jobs, 50)
	require.Equal(t, fmt.Sprint((jobs-2001)/3*3), l.page.Jobs[0].ID)
	require.Positive(t, l.density, "there are too many for one answer, so the server filtered")
	require.Less(t, l.page.Looked, 2000)
}

// What subjects cannot tell has to be looked for, and a page ends before that takes too long.
func TestALongSearchStopsAndGoesOn(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	c := &crowd{n: n}
	const jobs, most = 2000, 600
	for i := range jobs {
		typ := "t"
		if i == 5 {
			typ = "rare"
		}
		c.doc(keyOf("q", fmt.Sprint(i)), typ, stateSucceeded, 1)
	}
	c.flush()
	req := job.ListRequest{Filter: job.Filter{AllSpaces: true, Type: "rare"}, Limit: job.DefaultPage}
	looked := 0
	for below, pages := nothing, 1; ; pages++ {
		l := n.listing(&req)
		l.most = most
		require.NoError(t, l.run(t.Context(), below))
		if looked += l.page.Looked; len(l.page.Jobs) > 0 {
			require.Equal(t, "5", l.page.Jobs[0].ID)
			require.False(t, l.page.Stopped)
			require.Equal(t, l.low, l.below, "nothing more")
			require.Equal(t, jobs, looked, "nothing is looked at twice")
			require.GreaterOrEqual(t, pages, 2)
			return
		}
		require.True(t, l.page.Stopped)
		require.GreaterOrEqual(t, l.page.Looked, most)
		j, err := n.Get(t.Context(), keyOf("q", fmt.Sprint(jobs-looked)))
		require.NoError(t, err)
		require.Equal(t, j.UpdatedAt, l.page.LookedTo)
		below = l.below
	}
}

func TestJobsThatChangeBetweenPages(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	rnd := rand.New(rand.NewPCG(rand.Uint64(), 0))
	c := &crowd{n: n, rnd: rnd}
	const jobs = 400
	key := func(i int) job.Key { return keyOf("q", fmt.Sprint(i)) }
	rev := make([]uint64, jobs)
	for i := range jobs {
		rev[i] = 1
		c.doc(key(i), "t", stateReady, 1)
		if i%4 == 0 {
			rev[i] = 2
			c.doc(key(i), "t", stateRunning, 2)
		}
	}
	c.flush()
	changed, listed := make(map[string]bool), make(map[string]int)
	req := job.ListRequest{Filter: job.Filter{AllSpaces: true}, Limit: 20}
	for first := true; first || req.Cursor != ""; first = false {
		page, err := n.List(t.Context(), req)
		require.NoError(t, err)
		for i, j := range page.Jobs {
			listed[j.ID]++
			require.False(t, i > 0 && page.Jobs[i-1].UpdatedAt.Before(j.UpdatedAt))
		}
		req.Cursor = page.Next
		for range 10 { // some go on, some with what they were left behind
			i := rnd.IntN(jobs)
			rev[i]++
			changed[fmt.Sprint(i)] = true
			c.doc(key(i), "t", pick(rnd, states[:7]), rev[i])
		}
		c.doc(keyOf("q", newWriter()), "t", stateReady, 1)
		c.flush()
	}
	for i := range jobs {
		id := fmt.Sprint(i)
		require.LessOrEqual(t, listed[id], 1, "%s is listed twice", id)
		if !changed[id] {
			require.Equal(t, 1, listed[id], "%s did not change", id)
		}
	}
	require.Greater(t, jobs-len(changed), jobs/4)
}

// As workers leave it, and not as a test imagines it.
func TestListingShowsJobsAsTheirLivesWent(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	w := n.workLong("q", "w")
	waits := n.enqueue(job.Spec{Queue: "q", ID: "waits", Type: "t", Delay: time.Hour})
	ran := n.enqueue(spec("q", "ran"))
	settle(t, claimOne(t, w), job.Succeed([]byte(`"x"`)))
	failed := n.enqueue(spec("q", "failed"))
	settle(t, claimOne(t, w), job.Fail(time.Hour, "no luck"))
	n.publish("jetcrew.job.ready.q.default.junk", "junk")
	junk := n.see(keyOf("q", "junk"), job.Dead).Key()
	running := n.enqueue(spec("q", "running"))
	cl := claimOne(t, w)
	n.see(running, job.Running)
	ready := n.enqueue(spec("other", "ready"))

	for _, c := range []struct {
		f    job.Filter
		want []job.Key
	}{
		{job.Filter{AllSpaces: true}, []job.Key{ready, running, junk, failed, ran, waits}},
		{job.Filter{Spaces: []string{"default"}, Queue: "q"}, []job.Key{running, junk, failed, ran, waits}},
		{job.Filter{AllSpaces: true, Statuses: []job.Status{job.Ready}}, []job.Key{ready}},
		{job.Filter{AllSpaces: true, Statuses: []job.Status{job.Due, job.Running}}, []job.Key{running, failed, waits}},
		{job.Filter{AllSpaces: true, Statuses: []job.Status{job.Pending}}, []job.Key{ready, failed, waits}},
		{job.Filter{AllSpaces: true, Statuses: []job.Status{job.Dead}}, []job.Key{junk}},
		{job.Filter{Spaces: []string{"another"}}, nil},
	} {
		natstest.Eventually(t, soon, func() error { // the clean-up after a settlement goes on beside it
			page, err := n.List(t.Context(), job.ListRequest{Filter: c.f})
			if err != nil {
				return err
			}
			var got []job.Key
			for _, j := range page.Jobs {
				one, err := n.Get(t.Context(), j.Key())
				if err != nil {
					return err
				}
				if !slices.Equal([]any{one.Status, one.Error, one.UpdatedAt, string(one.Raw)}, []any{j.Status, j.Error, j.UpdatedAt, string(j.Raw)}) {
					return fmt.Errorf("listed %+v, got %+v", j, one)
				}
				got = append(got, j.Key())
			}
			if !slices.Equal(got, c.want) {
				return fmt.Errorf("%+v: %v, want %v", c.f, got, c.want)
			}
			return nil
		})
	}
	settle(t, cl, job.Succeed(nil))
}

func TestABarePageLeavesOutWhatIsLong(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	c := &crowd{n: n}
	c.doc(keyOf("q", "1"), "t", stateFailed, 1)
	c.flush()
	req := job.ListRequest{Filter: job.Filter{AllSpaces: true}}
	page, err := n.List(t.Context(), req)
	require.NoError(t, err)
	j := *page.Jobs[0]
	require.NotEmpty(t, j.Input)
	require.NotEmpty(t, j.Result)
	require.NotEmpty(t, j.Error)
	req.Bare = true
	page, err = n.List(t.Context(), req)
	require.NoError(t, err)
	j.Input, j.Result, j.Error = nil, nil, ""
	require.Equal(t, j, *page.Jobs[0])
}

func TestOnlyItsOwnCursorGoesOn(t *testing.T) {
	t.Parallel()
	p := server(t)
	n := p.open(t)
	for i := range 5 {
		n.enqueue(spec("q", fmt.Sprint(i)))
	}
	f := job.Filter{Spaces: []string{"default", "other"}, Statuses: []job.Status{job.Ready, job.Dead}}
	page, err := n.List(t.Context(), job.ListRequest{Filter: f, Limit: 2})
	require.NoError(t, err)
	require.NotEmpty(t, page.Next)

	same := job.Filter{Spaces: []string{"other", "default"}, Statuses: []job.Status{job.Dead, job.Ready}}
	next, err := n.List(t.Context(), job.ListRequest{Filter: same, Limit: 100, Bare: true, Cursor: page.Next})
	require.NoError(t, err)
	require.Len(t, next.Jobs, 3)
	require.Empty(t, next.Next)

	p.ns = "elsewhere"
	elsewhere := p.open(t)
	now := n.Now()
	for name, try := range map[string]func() (*job.Page, error){
		"another filter": func() (*job.Page, error) {
			return n.List(t.Context(), job.ListRequest{Filter: job.Filter{AllSpaces: true}, Cursor: page.Next})
		},
		"another instant": func() (*job.Page, error) {
			g := f
			g.To = now
			return n.List(t.Context(), job.ListRequest{Filter: g, Cursor: page.Next})
		},
		"no space": func() (*job.Page, error) {
			return n.List(t.Context(), job.ListRequest{Cursor: page.Next})
		},
		"another namespace": func() (*job.Page, error) {
			return elsewhere.List(t.Context(), job.ListRequest{Filter: f, Cursor: page.Next})
		},
		"garbage": func() (*job.Page, error) { return n.List(t.Context(), job.ListRequest{Filter: f, Cursor: "äöü"}) },
		"cut off": func() (*job.Page, error) {
			return n.List(t.Context(), job.ListRequest{Filter: f, Cursor: page.Next[:len(page.Next)-3]})
		},
		"no cursor": func() (*job.Page, error) {
			return n.List(t.Context(), job.ListRequest{Filter: f, Cursor: base64.RawURLEncoding.EncodeToString([]byte(`{}`))})
		},
	} {
		_, err := try()
		var wrong *job.FieldError
		require.ErrorAs(t, err, &wrong, name)
		require.Equal(t, "cursor", wrong.Field, name)
	}
}

func TestWhatNeedsAnIndexIsRefused(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	for field, req := range map[string]job.ListRequest{
		"order": {Order: job.ByCreated}, "ascending": {Ascending: true}, "offset": {Offset: 1}, "limit": {Limit: job.MaxPage + 1},
		"status": {Filter: job.Filter{Statuses: []job.Status{"lost"}}},
	} {
		_, err := n.List(t.Context(), req)
		var wrong *job.FieldError
		require.ErrorAs(t, err, &wrong, field)
		require.Equal(t, field, wrong.Field)
	}
}

func TestNoSpaceHasNoJobs(t *testing.T) {
	t.Parallel()
	var d natstest.FaultDialer
	n := server(t).open(t, d.Option())
	n.enqueue(spec("q", "1"))
	d.BlackholeToServer() // nobody is asked
	page, err := n.List(t.Context(), job.ListRequest{})
	require.NoError(t, err)
	require.Equal(t, &job.Page{At: page.At}, page)
	require.WithinDuration(t, n.Now(), page.At, time.Second)
	d.Heal()
}

func TestAPageSaysWhatItIsTrueFor(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	seq := n.publish("jetcrew.job.ready.q.default.1", `{"type":"t"}`)
	page, err := n.List(t.Context(), job.ListRequest{Filter: job.Filter{AllSpaces: true}})
	require.NoError(t, err)
	require.Equal(t, seq, page.Seq)
	require.WithinDuration(t, n.Now(), page.At, 5*time.Second)
	require.Equal(t, 1, page.Looked)
	require.Equal(t, page.Jobs[0].UpdatedAt, page.LookedTo)
}

func TestListingInACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three processes")
	}
	t.Parallel()
	p := &place{ns: "jetcrew", replicas: 3}
	for _, n := range natstest.StartCluster(t, 3).Nodes() {
		p.urls = append(p.urls, n.URL())
	}
	n, other := p.open(t), p.open(t)
	c := &crowd{n: n, rnd: rand.New(rand.NewPCG(rand.Uint64(), 0))}
	c.grow(300, 500)
	c.flush()
	all := n.jobsOf(n.stored())
	for _, f := range []job.Filter{
		{AllSpaces: true}, {AllSpaces: true, Statuses: []job.Status{job.Dead}}, {Spaces: crowdSpaces[:2], Type: "u", From: all[200].Job.UpdatedAt},
	} {
		want := publicOf(fitting(all, &f))
		natstest.Eventually(t, soon, func() error { // a replica may be behind
			got, err := listAll(t.Context(), other, job.ListRequest{Filter: f, Limit: 17})
			if err == nil && !slices.EqualFunc(got, want, func(a, b *job.Job) bool { return a.Key() == b.Key() && a.UpdatedAt.Equal(b.UpdatedAt) }) {
				err = fmt.Errorf("%+v: %d jobs, want %d", f, len(got), len(want))
			}
			return err
		})
	}
}
