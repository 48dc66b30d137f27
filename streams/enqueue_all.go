package streams

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/jetcrew/jetcrew/pkg/failpoint"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// MaxAll is how many jobs can be enqueued all or nothing: the server's limit for one atomic batch.
const MaxAll = 1000

// EnqueueAll stores all jobs or none. See job.Queue.
func (s *Store) EnqueueAll(ctx context.Context, specs []job.Spec) ([]job.Enqueued, error) {
	if len(specs) == 0 {
		return nil, nil
	}
	if len(specs) > MaxAll {
		return nil, &job.FieldError{Field: "jobs", Reason: fmt.Sprintf("at most %d can be enqueued all or nothing, not %d", MaxAll, len(specs))}
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	jobs := make([]*enqueue, len(specs))
	out := make([]job.Enqueued, len(specs))
	seen := make(map[job.Key]int, len(specs))
	for i, spec := range specs {
		e, err := s.newEnqueue(spec)
		if err != nil {
			return nil, fmt.Errorf("job %d: %w", i, err)
		}
		if first, twice := seen[e.key]; twice {
			return nil, &job.FieldError{Field: "id", Reason: fmt.Sprintf("jobs %d and %d are both %s", first, i, e.key)}
		}
		seen[e.key] = i
		if err := s.ensureQueue(ctx, e.key.Queue); err != nil {
			return nil, err
		}
		jobs[i], out[i] = e, job.Enqueued{Key: e.key, Created: true}
	}
	for try := 0; ; try++ {
		err := s.storeBatch(ctx, jobs)
		if err == nil {
			return out, nil
		}
		done, err := s.judgeBatch(ctx, jobs, err)
		if done {
			if err != nil {
				return nil, err
			}
			return out, nil
		}
		if pause(ctx, try) != nil {
			return nil, fmt.Errorf("enqueue %d jobs: %w", len(jobs), err)
		}
	}
}

// storeBatch makes one try: the alarms, which harm nobody if it fails, then the documents as one batch.
func (s *Store) storeBatch(ctx context.Context, jobs []*enqueue) error {
	if len(jobs) == 1 {
		return s.storeOnce(ctx, jobs[0])
	}
	var alarms []jetstream.PubAckFuture
	for _, e := range jobs {
		if e.state != stateDue {
			continue
		}
		f, err := s.sendAsync(s.alarm(e.tail, e.doc.Writer, e.due))
		if err != nil {
			return err
		}
		alarms = append(alarms, f)
	}
	for _, f := range alarms {
		if _, err := s.await(ctx, f); err != nil {
			return fmt.Errorf("%w: %w", errBusy, err)
		}
	}
	if err := s.at(AfterAlarm); err != nil {
		return err
	}
	batch, err := jetstreamext.NewBatchPublisher(s.js)
	if err != nil {
		return err
	}
	var first uint64
	for i, e := range jobs {
		m, err := s.message(e.write())
		if err != nil {
			_ = batch.Discard() // only marks it as ended; the server lets it go by itself
			return fmt.Errorf("job %d: %w", i, err)
		}
		if i == len(jobs)-1 {
			ctx, cancel := context.WithTimeout(ctx, requestTimeout)
			defer cancel()
			ack, err := batch.CommitMsg(ctx, m)
			if err != nil {
				return publishError(err)
			}
			first = ack.Sequence - uint64(i) // a batch is stored in one piece
			break
		}
		if err := batch.AddMsg(m); err != nil {
			return batchError(err)
		}
	}
	for i, e := range jobs {
		s.announce(e.write(), first+uint64(i))
		s.replaced(ctx, e)
		if e.state == stateDue && !s.Now().Before(e.due) {
			s.rearm(ctx, e.tail, e.doc.Writer, e.due)
		}
	}
	if err := noAnswer(failpoint.AfterEnqueue); err != nil {
		return err
	}
	return s.at(AfterEnqueue)
}

// batchError is the error of a batch that was not committed: whatever it was, nothing was stored.
func batchError(err error) error {
	if perr := publishError(err); !errors.Is(perr, job.ErrUnknown) {
		return perr
	}
	return fmt.Errorf("%w: %w", errBusy, err)
}

// judgeBatch is judge for a batch.
func (s *Store) judgeBatch(ctx context.Context, jobs []*enqueue, err error) (done bool, _ error) {
	switch {
	case errors.Is(err, job.ErrUnknown):
		for _, e := range jobs {
			e.unsure = true
		}
		return ctx.Err() != nil, err
	case errors.Is(err, errGuard):
		return s.findConflicts(ctx, jobs, err)
	case errors.Is(err, errBusy) && !errors.Is(err, job.ErrFull):
		return ctx.Err() != nil, err
	default:
		return true, err
	}
}

// findConflicts names the jobs that stood in the way of a batch.
func (s *Store) findConflicts(ctx context.Context, jobs []*enqueue, err error) (bool, error) {
	conflict := &job.ConflictError{}
	replaces := false
	for _, e := range jobs {
		recs, rerr := s.fromLeader(ctx, e.tail)
		if rerr != nil {
			return ctx.Err() != nil, fmt.Errorf("%w: %w", job.ErrUnknown, rerr)
		}
		if s.ours(recs, e) {
			return true, nil // an earlier try was stored, and so all of it
		}
		if e.replaces(recs) {
			replaces = true
		} else if len(recs) > 0 {
			conflict.Keys = append(conflict.Keys, e.key)
		}
	}
	if len(conflict.Keys) > 0 {
		return true, conflict
	}
	if jobs[0].unsure && !replaces { // stored, ended and gone
		return true, nil
	}
	return ctx.Err() != nil, err
}
