package streams

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
)

func (n *node) bulk(req job.BulkRequest) job.BulkResult {
	n.t.Helper()
	r, err := n.Bulk(n.t.Context(), req)
	require.NoError(n.t, err)
	return r
}

// begin stores jobs of one state, in their order.
func (c *crowd) begin(st state, jobs int) []job.Key {
	c.n.t.Helper()
	keys := make([]job.Key, jobs)
	for i := range keys {
		keys[i] = c.plainKey()
		c.doc(keys[i], "t", st, 1)
	}
	c.flush()
	return keys
}

// now is where jobs stand, by the leader.
func (n *node) now() []record {
	n.t.Helper()
	return n.jobsOf(n.stored())
}

func TestBulkChangesWhatItsFilterMeans(t *testing.T) {
	t.Parallel()
	for _, op := range []job.Operation{job.OpCancel, job.OpRequeue, job.OpRunNow, job.OpDelete} {
		t.Run(string(op), func(t *testing.T) {
			t.Parallel()
			n := server(t).open(t)
			c := &crowd{n: n, rnd: rand.New(rand.NewPCG(rand.Uint64(), 0))}
			c.grow(400, 200)
			c.flush()
			f := job.Filter{Spaces: crowdSpaces[1:], Type: "t", Statuses: []job.Status{job.Pending, job.Failed, job.Dead}}
			meant := func(r *record) bool {
				within := job.Filter{Statuses: op.Statuses()}
				return f.Fits(r.job(), job.Status(r.state)) && within.FitsStatus(r.Job.Status, job.Status(r.state))
			}
			before := n.now()
			want := make(map[string]bool)
			for i := range before {
				if meant(&before[i]) {
					want[before[i].tail] = true
				}
			}
			require.NotEmpty(t, want)

			req := job.BulkRequest{Operation: op, Filter: f, DryRun: true}
			dry := n.bulk(req)
			require.Equal(t, len(want), dry.Done)
			require.Equal(t, len(want), dry.Matched)
			require.Equal(t, before, n.now(), "a dry run changes nothing")

			var told job.BulkResult
			req.DryRun = false
			req.Progress = func(r job.BulkResult) { told = r }
			r := n.bulk(req)
			require.Empty(t, r.Errors)
			require.Equal(t, len(want), r.Done)
			require.Equal(t, job.BulkResult{Looked: r.Looked, ToLook: r.Looked, Matched: r.Done, Done: r.Done}, r)
			require.Equal(t, r, told, "the last word is the result")

			after := make(map[string]*record)
			for _, r := range n.now() {
				after[r.tail] = &r
			}
			for i := range before {
				was, is := &before[i], after[before[i].tail]
				switch {
				case !want[was.tail]:
					require.Equal(t, was, is)
				case op == job.OpDelete:
					require.Nil(t, is)
				default:
					require.Equal(t, map[job.Operation]state{
						job.OpCancel: stateCancelled, job.OpRequeue: stateReady, job.OpRunNow: stateReady,
					}[op], is.state)
				}
			}

			r = n.bulk(req)
			require.Zero(t, r.Done+r.Failed, "nothing is left to be done: %+v", r)
		})
	}
}

// What cannot be changed is named, and does not keep the others from it.
func TestBulkNamesWhatItCouldNotDo(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	c := &crowd{n: n}
	good := c.begin(stateDead, 10)
	n.publish(n.names.job(stateDead, tail(keyOf("q", "junk"))), "junk")
	nameless := job.Key{Queue: strings.Repeat("long.", 38), Space: "default"} // its name stands in no subject
	for i := range job.MaxBulkErrors + 5 {
		nameless.ID = fmt.Sprint("junk ", i)
		n.publish(n.names.job(stateDead, tail(nameless)), "junk")
	}
	for _, dry := range []bool{true, false} {
		r := n.bulk(job.BulkRequest{Operation: job.OpRequeue, Filter: job.Filter{AllSpaces: true}, DryRun: dry})
		require.Equal(t, len(good), r.Matched, "what cannot be run again is not meant")
		require.Equal(t, len(good), r.Done)
	}
	r := n.bulk(job.BulkRequest{Operation: job.OpDelete, Filter: job.Filter{AllSpaces: true}})
	require.Equal(t, len(good)+1, r.Done)
	require.Equal(t, job.MaxBulkErrors+5, r.Failed)
	require.Len(t, r.Errors, job.MaxBulkErrors)
	for _, e := range r.Errors {
		require.Contains(t, e.Key.ID, "junk ")
		require.Contains(t, e.Error, "queue is not known")
	}
	require.Equal(t, r.Matched, r.Done+r.Left+r.Failed)
}

func TestARequeueInBulkKeepsTheOrder(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	c := &crowd{n: n, rnd: rand.New(rand.NewPCG(rand.Uint64(), 0))}
	const jobs = 5 * maxFilters
	place := make(map[string]int)
	for i := range jobs {
		key := c.plainKey()
		place[key.ID] = i
		c.doc(key, "t", pick(c.rnd, []state{stateFailed, stateDead, stateCancelled, stateSucceeded}), 1)
	}
	c.flush()
	r := n.bulk(job.BulkRequest{Operation: job.OpRequeue, Filter: job.Filter{AllSpaces: true}})
	require.Equal(t, jobs, r.Done)
	now := n.now()
	slices.Reverse(now)
	require.Len(t, now, jobs)
	for i, r := range now {
		require.Equal(t, place[r.Job.ID]/maxFilters, i/maxFilters, "the %dth job is now the %dth", place[r.Job.ID], i)
	}
}

func TestBulkStopsAtItsLimit(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	c := &crowd{n: n}
	keys := c.begin(stateReady, 300)
	const limit = 137
	req := job.BulkRequest{Operation: job.OpCancel, Filter: job.Filter{AllSpaces: true}, Limit: limit, DryRun: true}
	require.Equal(t, limit, n.bulk(req).Done)
	req.DryRun = false
	require.Equal(t, limit, n.bulk(req).Done)
	cancelled := make(map[string]bool)
	for _, r := range n.now() {
		if r.state == stateCancelled {
			cancelled[r.Job.ID] = true
		}
	}
	require.Len(t, cancelled, limit)
	for _, k := range keys[:limit] {
		require.True(t, cancelled[k.ID], "the oldest come first")
	}
	require.Equal(t, limit, n.bulk(req).Done)
	require.Equal(t, len(keys)-2*limit, n.bulk(req).Done)
}

func TestBulkLeavesWhatComesLater(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	c := &crowd{n: n}
	keys := c.begin(stateReady, 3*maxFilters)
	var later []job.Key
	told, began := 0, time.Now()
	r := n.bulk(job.BulkRequest{
		Operation: job.OpCancel, Filter: job.Filter{AllSpaces: true},
		Progress: func(job.BulkResult) {
			told++
			later = append(later, n.enqueue(spec("q", fmt.Sprint("later ", told))))
		},
	})
	require.Equal(t, len(keys), r.Done, "%+v", r)
	require.GreaterOrEqual(t, told, 2)
	require.LessOrEqual(t, told, int(time.Since(began)/tellEvery)+2, "not too often")
	for _, k := range later {
		require.Equal(t, job.Pending, n.see(k, job.Pending).Status)
	}
}

func TestBulkBringsToAnEndWhatItHasBegun(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	c := &crowd{n: n}
	keys := c.begin(stateReady, 5*maxFilters)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var heard atomic.Int32
	sub, err := n.nc.Subscribe(n.names.event(stateCancelled, ">"), func(*nats.Msg) {
		if heard.Add(1) == bulkWidth/2 { // in the middle of others
			cancel()
		}
	})
	require.NoError(t, err)
	defer func() { _ = sub.Unsubscribe() }()
	r, err := n.Bulk(ctx, job.BulkRequest{Operation: job.OpCancel, Filter: job.Filter{AllSpaces: true}})
	require.ErrorIs(t, err, context.Canceled)
	require.Less(t, r.Done, len(keys))
	require.Equal(t, r.Matched, r.Done+r.Left+r.Failed)
	done := 0
	for _, key := range keys {
		docs := n.docs(key)
		require.Len(t, docs, 1, "what is older has been deleted")
		if docs[0].state == stateCancelled {
			done++
		}
	}
	require.Equal(t, r.Done, done)
}

func TestBulkEndsWithItsContext(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	c := &crowd{n: n}
	keys := c.begin(stateReady, 5*maxFilters)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := n.Bulk(ctx, job.BulkRequest{
		Operation: job.OpCancel, Filter: job.Filter{AllSpaces: true}, Progress: func(job.BulkResult) { cancel() },
	})
	require.ErrorIs(t, err, context.Canceled)
	require.Positive(t, r.Done)
	require.Less(t, r.Done, len(keys))
	require.Zero(t, r.Failed)
	done := 0
	for _, r := range n.now() {
		if r.state == stateCancelled {
			done++
		}
	}
	require.Equal(t, r.Done, done)
	require.Equal(t, len(keys)-r.Done, n.bulk(job.BulkRequest{Operation: job.OpCancel, Filter: job.Filter{AllSpaces: true}}).Done)
}

func TestBulkRefusesWhatCannotBeMeant(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	key := n.enqueue(spec("q", "1"))
	for field, req := range map[string]job.BulkRequest{
		"operation": {Operation: "explode"}, "limit": {Operation: job.OpCancel, Limit: -1},
		"spaces": {Operation: job.OpCancel, Filter: job.Filter{AllSpaces: true, Spaces: []string{"a"}}},
	} {
		_, err := n.Bulk(t.Context(), req)
		var wrong *job.FieldError
		require.ErrorAs(t, err, &wrong, field)
		require.Equal(t, field, wrong.Field)
	}
	told := 0
	for _, f := range []job.Filter{{}, {AllSpaces: true, Statuses: []job.Status{job.Succeeded}}, {AllSpaces: true, From: n.Now().Add(time.Hour)}} {
		r := n.bulk(job.BulkRequest{Operation: job.OpCancel, Filter: f, Progress: func(job.BulkResult) { told++ }})
		require.Zero(t, r)
	}
	require.Equal(t, 3, told)
	n.see(key, job.Pending)
}

func TestBulkKeepsToItsInstants(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	c := &crowd{n: n}
	for range 3 {
		c.begin(stateDead, 40)
		now := n.now()[0].Job.UpdatedAt
		natstest.Eventually(t, soon, func() bool { return n.Now().After(now.Add(2 * time.Millisecond)) })
	}
	now := n.now()
	f := job.Filter{AllSpaces: true, From: now[79].Job.UpdatedAt, To: now[39].Job.UpdatedAt}
	want := fitting(now, &f)
	require.NotEmpty(t, want)
	require.Less(t, len(want), 80)
	r := n.bulk(job.BulkRequest{Operation: job.OpDelete, Filter: f})
	require.Equal(t, len(want), r.Done)
	require.Equal(t, r.Done, r.Looked, "nothing else is looked at")
	require.Len(t, n.now(), len(now)-r.Done)
}

// A claim steps out of a walk's way when it is written again.
func TestBulkFindsClaimsThatMoved(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	w := n.workLong("q", "w")
	claimed := func(id string) (job.Key, *claim) {
		key := n.enqueue(spec("q", id))
		cl := claimOne(t, w)
		n.see(key, job.Running)
		return key, cl
	}
	stays, a := claimed("stays")
	moves, b := claimed("moves")
	begun, err := n.extent(t.Context())
	require.NoError(t, err)
	later, c := claimed("later")
	top := newest(n.docs(moves))
	d := top.document
	d.Rev++
	d.Writer = newWriter()
	_, err = n.put(t.Context(), write{tail: top.tail, state: stateRunning, doc: &d, guard: last(n.docs(moves))})
	require.NoError(t, err)

	req := job.BulkRequest{Operation: job.OpCancel, Filter: job.Filter{AllSpaces: true, Statuses: []job.Status{job.Running}}}
	do := &bulk{s: n.Store, req: &req, scope: scopeOf(&req.Filter, req.Operation.Statuses()), met: make(map[string]bool), top: begun.last}
	require.NoError(t, do.moved(t.Context()))
	require.Equal(t, job.BulkResult{Looked: 2, ToLook: do.result.ToLook, Matched: 1, Done: 1}, do.result)
	for key, want := range map[job.Key]bool{stays: false, moves: true, later: false} {
		require.Equal(t, want, n.see(key, job.Running).CancelRequested, key)
	}
	r := n.bulk(req)
	require.Equal(t, 2, r.Done)
	for _, cl := range []*claim{a, b, c} {
		settle(t, cl, job.Outcome{Status: job.Cancelled})
	}
}

// Two operators cancel all of a queue that workers drain: every job ends once, one way or the other.
func TestBulkRacesWorkers(t *testing.T) {
	t.Parallel()
	p := server(t)
	n := p.open(t)
	const jobs = 600
	specs := make([]job.Spec, jobs)
	for i := range specs {
		specs[i] = spec("q", fmt.Sprint(i))
	}
	_, err := n.EnqueueMany(t.Context(), specs)
	require.NoError(t, err)

	var mu sync.Mutex
	ended := make(map[string][]job.Status) // as workers were told
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var workers, operators sync.WaitGroup
	for i := range 3 {
		c := p.open(t).workLong("q", fmt.Sprint("w", i))
		for range 4 {
			workers.Go(func() {
				for {
					cl, err := c.Claim(ctx)
					if err != nil {
						return
					}
					o := job.Succeed(nil)
					if rand.IntN(20) == 0 { // some run long enough to be seen running
						told := make(chan struct{})
						cl.Notify(func(error) { close(told) })
						select {
						case <-told:
							o = job.Outcome{Status: job.Cancelled}
						case <-time.After(300 * time.Millisecond):
						}
					}
					j, err := cl.Settle(t.Context(), o)
					if err != nil {
						if !errors.Is(err, job.ErrLeaseLost) {
							t.Errorf("settling %s: %v", cl.Job().ID, err)
						}
						continue
					}
					mu.Lock()
					ended[j.ID] = append(ended[j.ID], j.Status)
					mu.Unlock()
				}
			})
		}
	}
	results := make([]job.BulkResult, 2)
	errs := make([]error, 2)
	for i := range results {
		o := p.open(t)
		operators.Go(func() {
			results[i], errs[i] = o.Bulk(t.Context(), job.BulkRequest{Operation: job.OpCancel, Filter: job.Filter{AllSpaces: true, Queue: "q"}})
		})
	}
	operators.Wait()
	n.clean("q", jobs)
	stop()
	workers.Wait()
	done, cancelled := 0, 0
	for i, r := range results {
		require.NoError(t, errs[i])
		require.Empty(t, r.Errors)
		require.Equal(t, r.Matched, r.Done+r.Left)
		done += r.Done
	}
	require.LessOrEqual(t, done, jobs, "no job is cancelled twice")
	require.Positive(t, done)
	for i := range jobs {
		id := fmt.Sprint(i)
		j, err := n.Get(t.Context(), keyOf("q", id))
		require.NoError(t, err)
		require.LessOrEqual(t, len(ended[id]), 1, "%s ended more than once", id)
		if len(ended[id]) == 1 {
			require.Equal(t, ended[id][0], j.Status)
		} else {
			require.Equal(t, job.Cancelled, j.Status, "nobody else ended %s", id)
		}
		if j.Status == job.Cancelled {
			cancelled++
		}
	}
	require.LessOrEqual(t, cancelled, done, "only operators cancel")
}

func TestBulkGoesOnAfterTheConnectionWasLost(t *testing.T) {
	t.Parallel()
	p := server(t)
	var d natstest.FaultDialer
	n, other := p.open(t, d.Option()), p.open(t)
	c := &crowd{n: other}
	keys := c.begin(stateReady, 8*maxFilters)
	req := job.BulkRequest{Operation: job.OpCancel, Filter: job.Filter{AllSpaces: true}}
	cuts := 0
	req.Progress = func(job.BulkResult) {
		if cuts++; cuts <= 3 {
			d.Cut()
		}
	}
	natstest.Eventually(t, 4*soon, func() error { // what failed is done when it is asked for again
		r, err := n.Bulk(t.Context(), req)
		if err == nil && r.Done+r.Failed > 0 {
			err = fmt.Errorf("%+v", r)
		}
		return err
	})
	require.GreaterOrEqual(t, cuts, 2)
	now := other.now()
	require.Len(t, now, len(keys))
	for _, r := range now {
		require.Equal(t, stateCancelled, r.state)
		require.Equal(t, uint64(2), r.Rev, "it was cancelled once")
	}
}

func TestBulkInACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three processes")
	}
	t.Parallel()
	p := &place{ns: "jetcrew", replicas: 3}
	cluster := natstest.StartCluster(t, 3)
	for _, n := range cluster.Nodes() {
		p.urls = append(p.urls, n.URL())
	}
	n := p.open(t)
	for round := range 3 {
		c := &crowd{n: n, ids: 1000 * round}
		keys := c.begin(stateDead, 300)
		r := p.open(t).bulk(job.BulkRequest{Operation: job.OpRequeue, Filter: job.Filter{AllSpaces: true}})
		require.Empty(t, r.Errors)
		require.Equal(t, len(keys), r.Done, "also what a replica does not have yet is met: %+v", r)
	}
}
