package queuetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// outcomes are what the workers of a test were answered about its jobs.
type outcomes struct {
	e    *env
	jobs int
	ctx  context.Context
	stop context.CancelFunc

	mu   sync.Mutex // guards what follows
	told map[string]job.Status
	runs map[string]int
}

func (e *env) watch(jobs int) *outcomes {
	o := &outcomes{e: e, jobs: jobs, told: make(map[string]job.Status), runs: make(map[string]int)}
	o.ctx, o.stop = context.WithTimeout(e.Context(), soon)
	e.Cleanup(o.stop)
	return o
}

// run is a slot of a worker: what it claims succeeds, some of it after others can see the claim.
func (o *outcomes) run(w job.Consumer, slot int) {
	for n := slot; ; n++ {
		cl, err := w.Claim(o.ctx)
		if err != nil {
			return
		}
		id := cl.Job().ID
		if n%5 == 0 {
			_ = cl.Heartbeat(o.ctx) // it may have been cancelled
		}
		j, err := cl.Settle(o.e.ctx(), job.Succeed(nil))
		if err != nil && !errors.Is(err, job.ErrLeaseLost) {
			o.e.Error(err)
		}
		o.mu.Lock()
		o.runs[id]++
		if err == nil {
			o.told[id] = j.Status
		}
		o.mu.Unlock()
	}
}

// rest waits for every job's end, and holds the records against what the workers were told.
func (o *outcomes) rest() map[job.Status]int {
	e := o.e
	e.Helper()
	count := make(map[job.Status]int)
	for i := range o.jobs {
		j, err := e.q.Wait(e.ctx(), job.Key{Queue: e.queue, ID: fmt.Sprint(i)})
		require.NoError(e, err)
		count[j.Status]++
	}
	o.stop()
	for i := range o.jobs {
		id := fmt.Sprint(i)
		j := e.get(job.Key{Queue: e.queue, ID: id})
		o.mu.Lock()
		told, ran, runs := o.told[id], o.runs[id] > 0, o.runs[id]
		o.mu.Unlock()
		require.LessOrEqual(e, runs, 1, "%s was handed out twice", id)
		require.Contains(e, []job.Status{job.Succeeded, job.Cancelled}, j.Status)
		switch {
		case told != "":
			require.Equal(e, told, j.Status, "%s: its worker was told so", id)
		case ran:
			require.Equal(e, job.Cancelled, j.Status, "%s: its worker was told that it is not its own", id)
		}
		require.LessOrEqual(e, len(j.History), 1)
	}
	return count
}

func bulk(e *env) {
	o := e.op()
	ours := job.Filter{AllSpaces: true, Queue: e.queue}
	var specs []job.Spec
	for i := range 30 {
		s := e.spec(fmt.Sprint(i))
		s.Delay = time.Hour
		if i%3 == 0 {
			s.Type = "u"
		}
		specs = append(specs, s)
	}
	_, err := e.q.EnqueueMany(e.ctx(), specs)
	require.NoError(e, err)
	e.lists(job.Filter{AllSpaces: true, Queue: e.queue, Type: "u"}, "27", "24", "21", "18", "15", "12", "9", "6", "3", "0")
	do := func(req job.BulkRequest) job.BulkResult {
		e.Helper()
		r, err := o.Bulk(e.ctx(), req)
		require.NoError(e, err)
		require.Zero(e, r.Failed, "%+v", r.Errors)
		require.Empty(e, r.Errors)
		require.GreaterOrEqual(e, r.Looked, r.Matched)
		return r
	}
	has := func(s job.Status, n int) {
		e.Helper()
		f := ours
		f.Statuses = []job.Status{s}
		e.eventually(func() error {
			ids, err := e.pages(o, job.ListRequest{Filter: f})
			if err == nil && len(ids) != n {
				err = fmt.Errorf("%d jobs are %s, not %d", len(ids), s, n)
			}
			return err
		})
	}
	has(job.Due, 30)

	r := do(job.BulkRequest{Operation: job.OpCancel, Filter: ours, DryRun: true})
	require.Equal(e, []int{30, 30}, []int{r.Matched, r.Done})
	has(job.Due, 30)
	r = do(job.BulkRequest{Operation: job.OpCancel, Filter: ours, DryRun: true, Limit: 4})
	require.Equal(e, 4, r.Done)
	r = do(job.BulkRequest{Operation: job.OpCancel, Filter: ours, Limit: 7})
	require.Equal(e, 7, r.Done)
	has(job.Cancelled, 7)
	calls := 0
	r = do(job.BulkRequest{Operation: job.OpCancel, Filter: ours, Progress: func(p job.BulkResult) {
		calls++
		require.LessOrEqual(e, p.Done, 23)
	}})
	require.Equal(e, 23, r.Done)
	require.NotZero(e, calls, "it tells how far it has come")
	has(job.Cancelled, 30)
	require.Zero(e, do(job.BulkRequest{Operation: job.OpCancel, Filter: ours}).Done, "asking again changes nothing")

	u := ours
	u.Type = "u"
	require.Equal(e, 10, do(job.BulkRequest{Operation: job.OpDelete, Filter: u}).Done)
	has(job.Cancelled, 20)
	require.Zero(e, do(job.BulkRequest{Operation: job.OpRunNow, Filter: ours}).Done)
	f := ours
	f.Statuses = []job.Status{job.Dead}
	require.Zero(e, do(job.BulkRequest{Operation: job.OpRequeue, Filter: f}).Done)
	require.Equal(e, 20, do(job.BulkRequest{Operation: job.OpRequeue, Filter: ours}).Done)
	has(job.Ready, 20)
	require.Zero(e, do(job.BulkRequest{Operation: job.OpRequeue, Filter: ours}).Done)
}

func bulkRunNow(e *env) {
	e.calm(calm)
	w := e.worker("w")
	var specs []job.Spec
	for i := range 10 {
		s := e.spec(fmt.Sprint(i))
		s.Delay = time.Hour
		specs = append(specs, s)
	}
	_, err := e.q.EnqueueMany(e.ctx(), specs)
	require.NoError(e, err)
	e.see(job.Key{Queue: e.queue, ID: "9"}, is(job.Pending))
	e.nothing(w, while)
	done := 0
	e.eventually(func() error {
		r, err := e.second().Bulk(e.ctx(), job.BulkRequest{Operation: job.OpRunNow, Filter: job.Filter{AllSpaces: true, Queue: e.queue}})
		if done += r.Done; err == nil && done != len(specs) {
			err = fmt.Errorf("%d of %d jobs", done, len(specs))
		}
		return err
	})
	seen := make(map[string]bool)
	for range specs {
		cl := e.claim(w)
		seen[cl.Job().ID] = true
		e.settle(cl, job.Succeed(nil))
	}
	require.Len(e, seen, len(specs))
	e.nothing(w, while)
}

func bulkRace(e *env) {
	e.calm(calm)
	const jobs = 150
	var specs []job.Spec
	for i := range jobs {
		specs = append(specs, e.spec(fmt.Sprint(i)))
	}
	_, err := e.q.EnqueueMany(e.ctx(), specs)
	require.NoError(e, err)
	e.see(job.Key{Queue: e.queue, ID: fmt.Sprint(jobs - 1)}, is(job.Pending))
	outcomes := e.watch(jobs)
	w := []job.Consumer{e.worker("w1"), e.worker("w2")}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() { outcomes.run(w[i%2], i) })
	}
	bulk := []job.Operator{e.op(), e.second()}
	var mu sync.Mutex
	done := 0
	together(2, func(i int) {
		r, err := bulk[i].Bulk(e.ctx(), job.BulkRequest{Operation: job.OpCancel, Filter: job.Filter{AllSpaces: true, Queue: e.queue}})
		if err != nil || r.Failed > 0 {
			e.Errorf("%+v: %v", r, err)
		}
		mu.Lock()
		defer mu.Unlock()
		done += r.Done
	})
	count := outcomes.rest()
	wg.Wait()
	require.LessOrEqual(e, count[job.Cancelled], done, "each was cancelled by one of them")
	e.nothing(w[0], while)
	r, err := e.op().Bulk(e.ctx(), job.BulkRequest{Operation: job.OpCancel, Filter: job.Filter{AllSpaces: true, Queue: e.queue}})
	require.NoError(e, err)
	require.Zero(e, r.Done)
}

func bulkRefusals(e *env) {
	ours := job.Filter{AllSpaces: true, Queue: e.queue}
	for field, req := range map[string]job.BulkRequest{
		"operation": {Operation: "explode", Filter: ours},
		"limit":     {Operation: job.OpCancel, Filter: ours, Limit: -1},
		"status":    {Operation: job.OpCancel, Filter: job.Filter{AllSpaces: true, Statuses: []job.Status{"lost"}}},
		"queue":     {Operation: job.OpCancel, Filter: job.Filter{AllSpaces: true, Queue: emoji(191)}},
	} {
		_, err := e.op().Bulk(e.ctx(), req)
		require.Error(e, err, field)
		e.fieldError(err, field)
	}
	e.get(e.enqueue(e.spec("1")))
	ctx, cancel := context.WithCancel(e.Context())
	cancel()
	r, err := e.op().Bulk(ctx, job.BulkRequest{Operation: job.OpCancel, Filter: ours})
	require.ErrorIs(e, err, context.Canceled)
	require.Zero(e, r.Done)
}
