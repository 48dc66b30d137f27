package jobtest

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// progressEvery is after how many records Bulk tells how far it has come.
const progressEvery = 100

// Bulk does an operation to all jobs that a filter means. See job.Steerer.
func (q *Queue) Bulk(ctx context.Context, req job.BulkRequest) (job.BulkResult, error) {
	var r job.BulkResult
	if err := req.Validate(); err != nil {
		return r, err
	}
	keys := q.meant(&req)
	r.ToLook = len(keys)
	tell := func() {
		if req.Progress != nil {
			req.Progress(r)
		}
	}
	defer tell()
	for _, key := range keys {
		if err := ctx.Err(); err != nil {
			return r, err
		}
		if req.Limit > 0 && r.Done == req.Limit {
			break
		}
		if r.Looked++; r.Looked%progressEvery == 0 {
			tell()
		}
		r.Matched++
		if req.DryRun {
			r.Done++
			continue
		}
		switch changed, err := q.operate(ctx, req.Operation, key); {
		case changed.Done:
			r.Done++
		case err == nil || errors.Is(err, job.ErrNotFound):
			r.Left++
		case ctx.Err() != nil:
			return r, err
		default:
			r.Fail(key, err)
		}
	}
	return r, nil
}

// meant are the jobs that a request means, in the order of their last change.
func (q *Queue) meant(req *job.BulkRequest) []job.Key {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.now()
	var fit []*entry
	for _, e := range q.jobs {
		if req.Filter.Fits(&e.job, e.half()) && e.takes(req.Operation) &&
			(req.Operation != job.OpRequeue || requeuable(&e.job, now) == nil) {
			fit = append(fit, e)
		}
	}
	slices.SortFunc(fit, func(a, b *entry) int { return cmp.Compare(a.changed, b.changed) })
	keys := make([]job.Key, len(fit))
	for i, e := range fit {
		keys[i] = e.job.Key()
	}
	return keys
}
