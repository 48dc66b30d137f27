package streams

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/jetcrew/jetcrew/pkg/job"
)

const (
	// bulkWidth is how many operations are under way at a time.
	bulkWidth = 64
	// bulkPatience is how long one job is tried, and bulkGrace how much longer when the whole is broken off.
	bulkPatience = 30 * time.Second
	bulkGrace    = 5 * time.Second
	// tellEvery is how often progress is told at most.
	tellEvery = 100 * time.Millisecond
)

// Bulk does an operation to all jobs that a filter means as they are met. See job.Steerer.
//
// It walks the stream from the oldest to what was the newest when it began, so that what is requeued keeps its order,
// roughly; a job is met at the first of its documents, and is what the newest one says. Workers, and others who steer,
// go on meanwhile: every single operation decides for itself whether it comes first. It takes as long as it takes: it
// is the context that ends it, with what was done so far.
func (s *Store) Bulk(ctx context.Context, req job.BulkRequest) (job.BulkResult, error) {
	if err := req.Validate(); err != nil {
		return job.BulkResult{}, err
	}
	b := &bulk{s: s, req: &req, scope: scopeOf(&req.Filter, req.Operation.Statuses()), met: make(map[string]bool)}
	err := b.run(ctx)
	if err == nil {
		b.result.ToLook = b.result.Looked
	} else {
		err = fmt.Errorf("%s in bulk: %w", req.Operation, err)
	}
	b.tell()
	return b.result, err
}

// bulk is an operation on many jobs under way.
type bulk struct {
	s      *Store
	req    *job.BulkRequest
	scope  scope
	result job.BulkResult
	told   time.Time

	top uint64          // the stream's last sequence when it began
	met map[string]bool // tails of jobs that may be met once more: they had several documents
}

// errNotBegun: the whole was broken off before it came to a job.
var errNotBegun = errors.New("broken off")

// errEnough: as many jobs were changed as was asked for.
var errEnough = errors.New("enough")

func (b *bulk) run(ctx context.Context) error {
	if len(b.scope.states) == 0 {
		return nil
	}
	var all extent
	err := patiently(ctx, func() (err error) {
		all, err = b.s.extent(ctx)
		return err
	})
	if err != nil {
		return err
	}
	b.top = all.last
	var from, to uint64
	err = patiently(ctx, func() (err error) {
		from, to, err = b.s.narrow(ctx, &b.req.Filter, all.first, all.last+1)
		return err
	})
	if err != nil {
		return err
	}
	w := &scopeWalk{s: b.s, scope: b.scope, from: from, top: to - 1, msgs: all.msgs}
	if err := b.walk(ctx, w); err != nil {
		if errors.Is(err, errEnough) {
			return nil
		}
		return err
	}
	if err := b.moved(ctx); err != nil && !errors.Is(err, errEnough) {
		return err
	}
	return nil
}

// moved meets jobs that ran when it all began, and run still, but whose claim has been written again since, and has so
// stepped out of the walk's way: a claim is, when its handler reports.
func (b *bulk) moved(ctx context.Context) error {
	if !slices.Contains(b.scope.states, stateRunning) {
		return nil
	}
	var all extent
	err := patiently(ctx, func() (err error) {
		all, err = b.s.extent(ctx)
		return err
	})
	if err != nil || all.last <= b.top {
		return err
	}
	running := b.scope
	running.states = []state{stateRunning}
	return b.walk(ctx, &scopeWalk{s: b.s, scope: running, from: b.top + 1, top: all.last, msgs: all.msgs})
}

// walk meets the jobs on a walk.
func (b *bulk) walk(ctx context.Context, w *scopeWalk) error {
	before := b.result.Looked
	for more := true; more; {
		var msgs []message
		var err error
		if msgs, more, err = w.some(ctx, maxFilters); err != nil {
			return err
		}
		b.result.Looked, b.result.ToLook = before+w.looked, before+w.toLook()
		jobs, err := b.meet(ctx, msgs)
		if err != nil {
			return err
		}
		if err := b.each(ctx, jobs); err != nil {
			return err
		}
		if more && time.Since(b.told) >= tellEvery {
			b.tell()
		}
	}
	return nil
}

// meet answers the jobs that some documents are of, as they are now, if they are meant.
func (b *bulk) meet(ctx context.Context, msgs []message) ([]record, error) {
	if len(msgs) == 0 {
		return nil, ctx.Err()
	}
	recs, tails := make([]record, len(msgs)), make([]string, len(msgs))
	known := make([]*record, len(msgs))
	for i, m := range msgs {
		recs[i] = b.s.names.record(m)
		tails[i], known[i] = recs[i].tail, &recs[i]
	}
	var docs map[string][]record
	var upTo uint64
	err := patiently(ctx, func() (err error) {
		docs, upTo, err = b.s.documents(ctx, tails, known...)
		return err
	})
	if err != nil {
		return nil, err
	}
	var jobs []record
	for i := range recs {
		r := &recs[i]
		all := withRead(docs[r.tail], r, upTo)
		n := newest(all)
		if n == nil || b.met[r.tail] || !b.means(n, r) {
			continue
		}
		if len(all) > 1 || n.seq != r.seq {
			b.met[r.tail] = true
		}
		jobs = append(jobs, *n)
	}
	return jobs, nil
}

// means reports whether the newest document n of a job that was met at r is of a job that is meant.
func (b *bulk) means(n, r *record) bool {
	if !slices.Contains(b.scope.states, n.state) || !b.req.Filter.Fits(n.job(), job.Status(n.state)) {
		return false
	}
	if b.req.Operation == job.OpRequeue && n.requeuable(b.s.Now()) != nil {
		return false
	}
	switch {
	case n.seq <= b.top:
		return true
	case b.req.Operation == job.OpRequeue:
		return false // it has been requeued, and has ended, since
	case r.seq <= b.top:
		return true
	default: // it runs, or was flagged by this very operation; what it claims was there at the beginning, or was not
		return n.Claims != 0 && n.Claims <= b.top && !n.Job.CancelRequested
	}
}

// each does the operation to some jobs, in their order as they begin.
func (b *bulk) each(ctx context.Context, jobs []record) error {
	for len(jobs) > 0 {
		n := len(jobs)
		if b.req.Limit > 0 {
			n = min(n, b.req.Limit-b.result.Done)
		}
		if n == 0 {
			return errEnough
		}
		if err := b.some(ctx, jobs[:n]); err != nil {
			return err
		}
		jobs = jobs[n:]
	}
	if b.req.Limit > 0 && b.result.Done >= b.req.Limit {
		return errEnough
	}
	return nil
}

// some does the operation to all of some jobs, and waits for what became of them.
func (b *bulk) some(ctx context.Context, jobs []record) error {
	b.result.Matched += len(jobs)
	if b.req.DryRun {
		b.result.Done += len(jobs)
		return ctx.Err()
	}
	changed, errs := make([]job.Changed, len(jobs)), make([]error, len(jobs))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(bulkWidth, len(jobs)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(jobs)); i = next.Add(1) - 1 {
				changed[i], errs[i] = b.one(ctx, &jobs[i])
			}
		})
	}
	wg.Wait()
	var closed error
	for i, err := range errs {
		switch {
		case err == nil && changed[i].Done:
			b.result.Done++
		case err == nil, errors.Is(err, job.ErrNotFound), errors.Is(err, job.ErrNotRequeuable):
			b.result.Left++
		case errors.Is(err, errNotBegun):
			b.result.Matched--
		default:
			b.result.Fail(jobs[i].job().Key(), err)
			if errors.Is(err, nats.ErrConnectionClosed) {
				closed = err
			}
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return closed
}

func (b *bulk) one(ctx context.Context, r *record) (job.Changed, error) {
	if ctx.Err() != nil {
		return job.Changed{}, errNotBegun
	}
	key := r.job().Key()
	if key.Queue == "" {
		return job.Changed{}, errors.New("its queue is not known: it cannot be read, and its subject holds only a hash of it")
	}
	// What has been begun is brought to its end, and counted, also when the whole is broken off.
	one, cancel := lingering(ctx, bulkPatience, bulkGrace)
	defer cancel()
	for try := 0; ; try++ {
		out, err := b.s.operate(one, b.req.Operation, key)
		if !unanswered(err) {
			return out, err
		}
		if pause(one, try) != nil {
			return out, err
		}
	}
}

// unanswered reports whether an operation came to nothing because a read had no answer. Once it may have written, it is
// not done again: this very write would look like somebody else's.
func unanswered(err error) bool {
	return !errors.Is(err, job.ErrUnknown) && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrNoResponders) ||
		errors.Is(err, nats.ErrTimeout) || errors.Is(err, nats.ErrDisconnected) || errors.Is(err, errRetry))
}

func (b *bulk) tell() {
	if b.req.Progress == nil {
		return
	}
	b.told = time.Now()
	r := b.result
	r.Errors = slices.Clone(r.Errors)
	b.req.Progress(r)
}
