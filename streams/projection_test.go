package streams

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// atLast is soon for what takes several looks at a server that has much else to do.
const atLast = 3 * soon

// quick has the projection look often, so that tests need not wait.
func quick() ProjectionConfig {
	return ProjectionConfig{Interval: 10 * time.Millisecond, Reconcile: 100 * time.Millisecond}
}

func (n *node) project(cfg ProjectionConfig) *Projection {
	n.t.Helper()
	p, err := n.NewProjection(n.t.Context(), cfg)
	require.NoError(n.t, err)
	n.t.Cleanup(p.Close)
	return p
}

// agrees waits until the projection says what the stream says.
func (n *node) agrees(p *Projection, reqs ...job.ListRequest) {
	n.t.Helper()
	if len(reqs) == 0 {
		reqs = []job.ListRequest{{}, {Bare: true, Ascending: true}}
	}
	for i := range reqs {
		if len(reqs[i].Filter.Spaces) == 0 {
			reqs[i].Filter.AllSpaces = true
		}
	}
	natstest.Eventually(n.t, atLast, func() error { return n.same(p, reqs...) })
}

// somebody does random things to random jobs.
func (n *node) somebody(c map[string]*consumer, steps int) error {
	ctx := n.t.Context()
	for range steps {
		q := []string{"a", "b"}[rand.IntN(2)]
		key := job.Key{Queue: q, Space: []string{"default", "other"}[rand.IntN(2)], ID: fmt.Sprint("j", rand.IntN(60))}
		var err error
		switch rand.IntN(9) {
		case 0, 1, 2:
			s := job.Spec{Queue: q, Space: key.Space, ID: key.ID, Type: []string{"x", "y"}[rand.IntN(2)]}
			switch rand.IntN(4) {
			case 0:
				s.Delay = time.Duration(rand.IntN(50)) * time.Millisecond
			case 1:
				s.Delay = time.Hour
			case 2:
				s.DueAt = n.Now().Add(-time.Hour)
			}
			_, err = n.Enqueue(ctx, s)
		case 3, 4:
			err = n.runOne(c[q])
		case 5:
			_, err = n.Cancel(ctx, key)
		case 6:
			_, err = n.Requeue(ctx, key)
		case 7:
			_, err = n.RunNow(ctx, key)
		case 8:
			_, err = n.Delete(ctx, key)
		}
		if err != nil && !errors.Is(err, job.ErrNotFound) && !errors.Is(err, job.ErrNotRequeuable) {
			return err
		}
	}
	return nil
}

// runOne takes a job if there is one, and settles it somehow.
func (n *node) runOne(c *consumer) error {
	ctx, cancel := context.WithTimeout(n.t.Context(), 20*time.Millisecond)
	defer cancel()
	cl, err := c.Claim(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	if err != nil {
		return err
	}
	if rand.IntN(4) == 0 {
		cl.(*claim).writeClaim() // as if it had run for long
	}
	o := outcomes[rand.IntN(len(outcomes))]
	o.RunID = nuid.Next()
	_, err = cl.Settle(n.t.Context(), o)
	if errors.Is(err, job.ErrLeaseLost) {
		return nil
	}
	return err
}

// Whatever is done to the jobs, and however many of the events are lost, the projection answers as if it had read all
// of them.
func TestAProjectionSaysWhatTheStreamSays(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]float64{"all events arrive": 0, "some events are lost": 0.3, "no event arrives": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := server(t).open(t)
			cfg := quick()
			cfg.hear = func(*nats.Msg) bool { return rand.Float64() >= lost }
			early := n.project(cfg)
			c := map[string]*consumer{"a": n.work("a", "wa"), "b": n.work("b", "wb")}
			rounds := 3
			if testing.Short() {
				rounds = 1
			}
			for range rounds {
				fail := make(chan error, 3)
				for range 3 {
					go func() { fail <- n.somebody(c, 60) }()
				}
				for range 20 { // while they are at it
					_, err := early.List(t.Context(), randomRequest(nil))
					require.NoError(t, err)
				}
				for range 3 {
					require.NoError(t, <-fail)
				}
				n.publish(n.names.job(stateReady, "a.default."+nuid.Next()), `{"type":"x"}`)
				n.publish(n.names.job(stateDue, "a.other.garbage"+nuid.Next()), `{"type`)
				late := n.project(cfg)
				for _, x := range []*Projection{early, late} {
					natstest.Eventually(t, atLast, func() error {
						truth := n.truth()
						reqs := []job.ListRequest{{Filter: job.Filter{AllSpaces: true}}}
						for range 15 {
							reqs = append(reqs, randomRequest(truth))
						}
						return n.same(x, reqs...)
					})
				}
				late.Close()
			}
			require.Zero(t, early.Stats().Rebuilds)
		})
	}
}

// An event alone is enough, and a change is shown before anything is read.
func TestAProjectionTakesEventsAtOnce(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	p := n.project(ProjectionConfig{Interval: time.Hour})
	key := n.enqueue(job.Spec{Queue: "q", ID: "1", Type: "mail"})
	natstest.Eventually(t, atLast, func() error {
		page, err := p.List(t.Context(), job.ListRequest{Filter: job.Filter{AllSpaces: true}, Bare: true})
		if err != nil {
			return err
		}
		if len(page.Jobs) != 1 || page.Total != 1 {
			return fmt.Errorf("%+v", page)
		}
		j := page.Jobs[0]
		require.Equal(t, key, j.Key())
		require.Equal(t, "mail", j.Type)
		require.Equal(t, job.Pending, j.Status)
		require.WithinDuration(t, n.Now(), j.UpdatedAt, soon)
		return nil
	})
	require.Equal(t, 1, p.Stats().Unread, "nothing was read")
}

func TestAProjectionReadsWhatNoEventTellsOf(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	p := n.project(quick())
	// Many, so that they are read in a batch; then few, one by one; with gaps between them.
	for _, many := range []int{300, 3} {
		for i := range many {
			seq := n.publish(n.names.job(stateReady, fmt.Sprintf("q.default.%d-%d", many, i)), `{"type":"x"}`)
			if i%3 == 0 {
				require.NoError(t, n.remove(t.Context(), seq))
			}
		}
		n.publish(n.names.wake("q.default.nobody"), "")
		n.agrees(p)
	}
	require.Equal(t, 200+2, p.Stats().Jobs)
}

func TestAProjectionKnowsNoJobThatIsDeleted(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	p := n.project(quick())
	key := n.enqueue(spec("q", "1"))
	n.agrees(p)
	n.steer(job.OpDelete, key)
	n.agrees(p)
	require.Zero(t, p.Stats().Jobs)
	n.enqueue(spec("q", "1"))
	n.agrees(p)
	require.Equal(t, 1, p.Stats().Jobs)
}

// An older document that appears again changes nothing; one that stands because the newer one has gone does.
func TestAProjectionBelievesTheNewestRev(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	p := n.project(quick())
	end := n.publish(n.names.job(stateSucceeded, "q.default.1"), `{"rev":5,"type":"x"}`)
	n.agrees(p)
	n.publish(n.names.job(stateDue, "q.default.1"), `{"rev":2,"type":"x","runAt":"2030-01-01T00:00:00.000Z"}`)
	n.publish(n.names.job(stateReady, "q.default.1"), `{"type":"x"}`)
	n.agrees(p)
	require.Equal(t, 1, p.Totals().Succeeded)
	require.NoError(t, n.remove(t.Context(), end))
	n.publish(n.names.job(stateReady, "q.default.1"), `{"rev":1,"type":"x"}`) // over the one that was there
	n.agrees(p)
	require.Equal(t, 1, p.Totals().Due)
	// On one subject there is one document, whatever their revs.
	n.publish(n.names.job(stateDue, "q.default.1"), `{"type":"y","runAt":"2031-01-01T00:00:00.000Z"}`)
	n.agrees(p)
}

func TestAProjectionDropsAnEndWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	m := nats.NewMsg(n.names.job(stateSucceeded, "q.default.1"))
	m.Data = []byte(`{"rev":3,"type":"x"}`)
	m.Header.Set(jetstream.MsgTTLHeader, "2")
	ack, err := n.js.PublishMsg(t.Context(), m)
	require.NoError(t, err)
	msgs, err := n.read.sequences(t.Context(), ack.Sequence, ack.Sequence+1)
	require.NoError(t, err)
	goes := msgs[0].time.Add(2 * time.Second)
	cfg := quick()
	cfg.count = func(context.Context) (*job.Counts, error) { return nil, errors.New("not here") }
	p := n.project(cfg)
	natstest.Eventually(t, atLast, func() error {
		before := n.Now()
		page, err := p.List(t.Context(), job.ListRequest{Filter: job.Filter{AllSpaces: true}, Bare: true})
		require.NoError(t, err)
		if before.Before(goes.Add(-100 * time.Millisecond)) {
			if after := n.Now(); after.Before(goes.Add(-100 * time.Millisecond)) {
				require.Equal(t, 1, page.Total, "it goes only at its instant")
			}
			return errors.New("too early")
		}
		if page.Total != 0 {
			require.True(t, before.Before(goes.Add(100*time.Millisecond)), "it goes at its instant")
			return errors.New("still there")
		}
		return nil
	})
}

// What goes without a message is found by counting, whichever state it was in.
func TestAProjectionFindsWhatIsGoneWithoutATrace(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	cfg := quick()
	cfg.hear = func(*nats.Msg) bool { return false }
	var remove []uint64
	for i := range 300 {
		st := []state{stateReady, stateDue, stateSucceeded, stateDead}[i%4]
		seq := n.publish(n.names.job(st, fmt.Sprintf("q%d.default.%d", i%3, i)), `{"rev":3,"type":"x","runAt":"2030-01-01T00:00:00.000Z"}`)
		if i%5 == 0 {
			remove = append(remove, seq)
		}
	}
	for _, q := range []string{"q0", "q1", "q2"} {
		require.NoError(t, n.ensureQueue(t.Context(), q))
	}
	p := n.project(cfg)
	n.agrees(p)
	require.NoError(t, n.remove(t.Context(), remove...))
	n.agrees(p)
	require.Equal(t, 240, p.Stats().Jobs)

	// All that there is.
	stream, err := n.js.Stream(t.Context(), n.names.stream())
	require.NoError(t, err)
	require.NoError(t, stream.Purge(t.Context(), jetstream.WithPurgeSubject(n.names.job("*", "q1.>"))))
	n.agrees(p)
	require.NoError(t, stream.Purge(t.Context()))
	n.agrees(p)
	require.Zero(t, p.Stats().Jobs)
	require.Zero(t, p.Stats().Rebuilds)
	n.publish(n.names.job(stateReady, "q.default.new"), `{"type":"x"}`)
	n.agrees(p)
}

// Two documents of a job make the store count one more than there are jobs: that is looked at once.
func TestAProjectionLooksOnceAtWhatOnlySeemsToDiffer(t *testing.T) {
	t.Parallel()
	srv := server(t)
	n, log := srv.openLogged(t, srv.config())
	n.publish(n.names.job(stateDead, "q.default.1"), `{"rev":2,"type":"x"}`)
	n.publish(n.names.job(stateSucceeded, "q.default.1"), `{"rev":3,"type":"x"}`)
	var counted atomic.Int64
	cfg := quick()
	cfg.count = func(ctx context.Context) (*job.Counts, error) {
		counted.Add(1)
		return n.Count(ctx)
	}
	p := n.project(cfg)
	natstest.Eventually(t, atLast, func() bool { return counted.Load() >= 6 })
	n.agrees(p)
	require.Equal(t, 1, log.lines("differs from the store's count"))
}

// Queues without retention: a job ends by an ack alone, and only an event says so.
func TestAProjectionForgetsJobsThatLeaveNoRecord(t *testing.T) {
	t.Parallel()
	for _, heard := range []bool{true, false} {
		t.Run(fmt.Sprint("heard ", heard), func(t *testing.T) {
			t.Parallel()
			p := server(t)
			cfg := p.config()
			cfg.Retention = Retention{Succeeded: NoRetention}
			n := p.openAs(t, cfg)
			pcfg := quick()
			pcfg.hear = func(*nats.Msg) bool { return heard }
			x := n.project(pcfg)
			c := n.work("q", "w")
			for i := range 20 {
				n.enqueue(spec("q", fmt.Sprint(i)))
			}
			n.agrees(x)
			for range 20 {
				settle(t, claimOne(t, c), job.Succeed(nil))
			}
			natstest.Eventually(t, atLast, func() bool { return len(n.truth()) == 0 })
			n.agrees(x)
			require.Zero(t, x.Stats().Jobs)
		})
	}
}

// The event of an enqueue that comes after the one of the job's end brings nothing back.
func TestAProjectionIsNotFooledByLateEvents(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	x := newIndex()
	id := ident{"q", "default", "1"}
	x.ended(id, 2)
	x.apply(&entry{ident: id, state: stateReady, seq: 7, rev: 1, told: true})
	require.Zero(t, x.jobs.live())
	x.apply(&entry{ident: id, state: stateReady, seq: 7, rev: 1})
	require.Contains(t, x.doubts, id.tail(), "a document that was read is looked at again")
	later := n.Now()
	x.tidy(later)
	x.tidy(later.Add(2 * graveAge))
	x.tidy(later.Add(4 * graveAge))
	x.apply(&entry{ident: id, state: stateReady, seq: 9, rev: 1, told: true})
	require.Equal(t, 1, x.jobs.live(), "the id may be used anew")
}

func TestAProjectionKnowsTheNamesOfHashedQueues(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	p := n.project(quick())
	queue := strings.Repeat("é", 90)
	require.True(t, strings.HasPrefix(queueToken(queue), hashMark))
	for i := range 3 {
		n.enqueue(spec(queue, fmt.Sprint(i)))
		n.agrees(p, job.ListRequest{Filter: job.Filter{Queue: queue}}, job.ListRequest{Bare: true})
	}
	require.Equal(t, 3, p.Totals().Queues[queue].Ready)
}

func TestAProjectionRefusesForeignCursors(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	for i := range 5 {
		n.enqueue(spec("q", fmt.Sprint(i)))
	}
	p := n.project(quick())
	req := job.ListRequest{Filter: job.Filter{Spaces: []string{"default"}}, Limit: 2}
	page, err := p.List(t.Context(), req)
	require.NoError(t, err)
	require.NotEmpty(t, page.Next)
	for name, change := range map[string]func(*job.ListRequest){
		"another space":  func(r *job.ListRequest) { r.Filter.Spaces = []string{"other"} },
		"more spaces":    func(r *job.ListRequest) { r.Filter.Spaces = []string{"default", "other"} },
		"another queue":  func(r *job.ListRequest) { r.Filter.Queue = "q" },
		"another status": func(r *job.ListRequest) { r.Filter.Statuses = []job.Status{job.Due} },
		"another time":   func(r *job.ListRequest) { r.Filter.From = time.Unix(1, 0) },
		"another order":  func(r *job.ListRequest) { r.Order = job.ByRun },
		"turned round":   func(r *job.ListRequest) { r.Ascending = true },
		"garbage":        func(r *job.ListRequest) { r.Cursor = "garbage" },
		"cut":            func(r *job.ListRequest) { r.Cursor = r.Cursor[:20] },
		"longer":         func(r *job.ListRequest) { r.Cursor += "AA" },
		"another kind":   func(r *job.ListRequest) { r.Cursor = "A" + r.Cursor[1:] },
	} {
		r := req
		r.Cursor = page.Next
		change(&r)
		_, err := p.List(t.Context(), r)
		var f *job.FieldError
		require.ErrorAs(t, err, &f, name)
		require.Equal(t, "cursor", f.Field)
	}
	req.Cursor = page.Next
	req.Limit = 50 // how many are asked for does not matter
	page, err = p.List(t.Context(), req)
	require.NoError(t, err)
	require.Len(t, page.Jobs, 3)
	require.Empty(t, page.Next)
	require.Equal(t, 5, page.Total)

	page, err = p.List(t.Context(), job.ListRequest{})
	require.NoError(t, err)
	require.Empty(t, page.Jobs, "an empty list of spaces answers nothing")
	require.Zero(t, page.Total)
	_, err = p.List(t.Context(), job.ListRequest{Limit: job.MaxPage + 1})
	require.ErrorAs(t, err, new(*job.FieldError))
}

// While others change meanwhile, a walk by cursor meets every job that does not exactly once.
func TestAProjectionsPagesMeetEveryUnchangedJobOnce(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	const jobs = 60
	for i := range jobs {
		n.enqueue(spec("q", fmt.Sprint(i)))
	}
	for _, req := range []job.ListRequest{{}, {Ascending: true}, {Order: job.ByCreated}, {Order: job.ByRun, Ascending: true}} {
		p := n.project(quick())
		n.agrees(p)
		req.Filter.AllSpaces, req.Limit = true, 7
		met, changed := make(map[string]int), make(map[string]bool)
		for turn := 0; ; turn++ {
			page, err := p.List(t.Context(), req)
			require.NoError(t, err)
			for _, j := range page.Jobs {
				met[j.ID]++
			}
			if page.Next == "" {
				break
			}
			req.Cursor = page.Next
			if id := fmt.Sprint(turn * 13 % jobs); !changed[id] {
				changed[id] = true
				n.steer(job.OpDelete, keyOf("q", id))
				n.enqueue(spec("q", id))
			}
		}
		for i := range jobs {
			if id := fmt.Sprint(i); !changed[id] {
				require.Equal(t, 1, met[id], "job %s, listed %+v", id, req)
			}
		}
		p.Close()
	}
}

// A row whose record has changed since is shown as the index knows it.
func TestAProjectionsPageAndTotalAgree(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	key := n.enqueue(job.Spec{Queue: "q", ID: "1", Type: "x", Input: []byte(`{"a":1}`)})
	cfg := ProjectionConfig{Interval: time.Hour, hear: func(*nats.Msg) bool { return false }}
	p := n.project(cfg)
	req := job.ListRequest{Filter: job.Filter{AllSpaces: true, Statuses: []job.Status{job.Ready}}}
	page, err := p.List(t.Context(), req)
	require.NoError(t, err)
	require.JSONEq(t, `{"a":1}`, string(page.Jobs[0].Input))
	n.steer(job.OpCancel, key)
	page, err = p.List(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, 1, page.Total)
	require.Len(t, page.Jobs, 1)
	require.Equal(t, job.Pending, page.Jobs[0].Status)
	require.Nil(t, page.Jobs[0].Input)
}

func TestAProjectionRefusesWhatItCannotBe(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	_, err := n.NewProjection(t.Context(), ProjectionConfig{Interval: time.Millisecond})
	require.ErrorContains(t, err, "interval")
	_, err = n.NewProjection(t.Context(), ProjectionConfig{Reconcile: time.Millisecond})
	require.ErrorContains(t, err, "reconcile")
	require.NoError(t, n.js.DeleteStream(t.Context(), n.names.stream()))
	_, err = n.NewProjection(t.Context(), ProjectionConfig{})
	require.ErrorIs(t, err, ErrTopology)
	require.ErrorContains(t, err, "stream not found")
}

func TestAProjectionTellsOfItsProgress(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	for i := range 2000 {
		require.NoError(t, n.nc.Publish(n.names.job(stateReady, fmt.Sprint("q.default.", i)), []byte(`{"type":"x"}`)))
	}
	natstest.Eventually(t, atLast, func() bool { return len(n.truth()) == 2000 })
	var done, total uint64
	p := n.project(ProjectionConfig{Progress: func(d, t uint64) { done, total = d, t }})
	require.Equal(t, uint64(2000), done)
	require.Equal(t, uint64(2000), total)
	st := p.Stats()
	require.Equal(t, 2000, st.Jobs)
	require.Positive(t, st.BytesPerJob)
	require.Zero(t, st.Behind)
	p.Close()
	p.Close()
	page, err := p.List(t.Context(), job.ListRequest{Filter: job.Filter{AllSpaces: true}, Bare: true})
	require.NoError(t, err)
	require.Equal(t, 2000, page.Total)
}
