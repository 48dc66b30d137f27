package streams

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jetcrew/jetcrew/pkg/failpoint"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// enqueue is one job on its way into the store.
type enqueue struct {
	key    job.Key
	tail   string
	state  state
	doc    document
	due    time.Time // zero where it may run now
	unsure bool      // an earlier try may have been stored

	messageID string   // where a job that has ended leaves no record
	over      []record // what is left of a deleted job of the same id
}

// newEnqueue makes the first document of a job. Its writer is its origin: by that an answer that was lost is
// found out later.
func (s *Store) newEnqueue(spec job.Spec) (*enqueue, error) {
	if err := spec.Normalize(); err != nil {
		return nil, err
	}
	e := &enqueue{key: spec.Key(), tail: tail(spec.Key()), state: stateReady}
	writer := newWriter()
	e.doc = document{V: version, Rev: 1, Writer: writer, Origin: []string{writer}, Job: fields(*spec.Job())}
	switch {
	case spec.Delay > 0:
		e.due = job.CeilMillis(s.Now().Add(spec.Delay))
	case spec.DueAt.After(s.Now()):
		e.due = job.CeilMillis(spec.DueAt)
	}
	if !e.due.IsZero() {
		e.state = stateDue
		e.doc.Job.DueAt, e.doc.Job.RunAt = e.due, e.due
	}
	return e, nil
}

func (e *enqueue) write() write {
	return write{tail: e.tail, state: e.state, doc: &e.doc, guard: last(e.over), spare: spare, id: e.messageID}
}

// replaces has the job take the place of one that was deleted, if that is all that stands in its way.
func (e *enqueue) replaces(recs []record) bool {
	n := newest(recs)
	if n == nil || n.state != stateDeleted {
		return false
	}
	e.over, e.doc.Rev = recs, n.Rev+1
	return true
}

// replaced deletes what was left of a deleted job, now that another stands in its place. What stays goes by itself.
func (s *Store) replaced(ctx context.Context, e *enqueue) {
	if len(e.over) == 0 {
		return
	}
	if err := s.remove(ctx, older(e.over, e.doc.Rev, 0)...); err != nil {
		s.log.Debug().Err(err).Stringer("job", e.key).Msg("what was left of a deleted job stays a while")
	}
}

// identify gives a job a message id where its record, by which a second enqueue is known, may be gone at once, and where
// two are expected to enqueue it: a schedule's fire. It costs the server memory for each job of the last two minutes, so
// others have none.
func (s *Store) identify(e *enqueue) {
	if e.doc.Job.Trigger == job.TriggerSchedule || s.leavesNothing(e.doc.job()) {
		e.messageID = e.tail
	}
}

// Enqueue stores a job. See job.Queue.
func (s *Store) Enqueue(ctx context.Context, spec job.Spec) (job.Enqueued, error) {
	e, err := s.newEnqueue(spec)
	if err != nil {
		return job.Enqueued{}, err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	if err := s.ensureQueue(ctx, e.key.Queue); err != nil {
		return job.Enqueued{Key: e.key}, err
	}
	s.identify(e)
	created, err := s.store(ctx, e)
	if err != nil {
		err = fmt.Errorf("enqueue %s: %w", e.key, err)
	}
	return job.Enqueued{Key: e.key, Created: created, Err: err}, err
}

// store writes a job's first document until it knows what became of it.
func (s *Store) store(ctx context.Context, e *enqueue) (created bool, err error) {
	for try := 0; ; try++ {
		err := s.storeOnce(ctx, e)
		if err == nil {
			return true, nil
		}
		created, done, err := s.judge(ctx, e, err)
		if done {
			return created, err
		}
		if pause(ctx, try) != nil {
			return false, e.doubt(err)
		}
	}
}

// storeOnce makes one try.
func (s *Store) storeOnce(ctx context.Context, e *enqueue) error {
	if _, err := s.put(ctx, e.write()); err != nil {
		return err
	}
	s.replaced(ctx, e)
	if err := noAnswer(failpoint.AfterEnqueue); err != nil {
		return err
	}
	return s.at(AfterEnqueue)
}

// judge decides what an error of a try means: that the job is there already, that it is there by our own
// doing, that nothing is known yet and the try is to be repeated, or that it failed for good.
func (s *Store) judge(ctx context.Context, e *enqueue, err error) (created, done bool, _ error) {
	switch {
	case errors.Is(err, job.ErrUnknown):
		e.unsure = true
		if ctx.Err() != nil {
			return false, true, err
		}
		return false, false, err
	case errors.Is(err, errGuard), errors.Is(err, errDuplicate):
		recs, rerr := s.fromLeader(ctx, e.tail)
		switch {
		case rerr != nil:
			return false, ctx.Err() != nil, fmt.Errorf("%w: %w", job.ErrUnknown, rerr)
		case s.ours(recs, e):
			return true, true, nil
		case e.replaces(recs):
			e.messageID = "" // the id is in use by a job that was deleted
			return false, ctx.Err() != nil, err
		case len(recs) > 0:
			return false, true, nil
		case e.unsure:
			// It was stored, came to its end, and its record has gone since.
			return true, true, nil
		case errors.Is(err, errDuplicate): // another was, and has
			return false, true, nil
		default: // what stood in the way has gone: it is not a job any more
			return false, ctx.Err() != nil, err
		}
	case errors.Is(err, errBusy) && !errors.Is(err, job.ErrFull): // room does not come in an instant
		return false, ctx.Err() != nil, e.doubt(err)
	default:
		return false, true, e.doubt(err)
	}
}

// doubt makes an error of the last try say what is true of all tries: one of them may have been stored.
func (e *enqueue) doubt(err error) error {
	if e.unsure && !errors.Is(err, job.ErrUnknown) {
		return fmt.Errorf("%w: %w", job.ErrUnknown, err)
	}
	return err
}

// ours reports whether a job's documents descend from this very enqueue.
func (s *Store) ours(recs []record, e *enqueue) bool {
	for i := range recs {
		if slices.Contains(recs[i].Origin, e.doc.Writer) {
			return true
		}
	}
	return false
}

// window is how many jobs of a bulk call are on their way at a time.
const window = 2048

// EnqueueMany stores each job by itself. See job.Queue.
func (s *Store) EnqueueMany(ctx context.Context, specs []job.Spec) ([]job.Enqueued, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	out := make([]job.Enqueued, len(specs))
	jobs := make([]*enqueue, len(specs))
	for i, spec := range specs {
		e, err := s.newEnqueue(spec)
		if err != nil {
			out[i].Err = fmt.Errorf("job %d: %w", i, err)
			continue
		}
		out[i].Key, jobs[i] = e.key, e
		if err := s.ensureQueue(ctx, e.key.Queue); err != nil {
			out[i].Err, jobs[i] = err, nil
			continue
		}
		s.identify(e)
	}
	var failed sync.WaitGroup
	tokens := make(chan struct{}, 64) // jobs whose first try needs a second look
	for start := 0; start < len(jobs); start += window {
		end := min(start+window, len(jobs))
		s.enqueueWindow(ctx, jobs[start:end], func(i int, err error) {
			i += start
			if err == nil {
				out[i].Created = true
				return
			}
			failed.Go(func() {
				tokens <- struct{}{}
				defer func() { <-tokens }()
				out[i].Created, out[i].Err = s.retry(ctx, jobs[i], err)
			})
		})
	}
	failed.Wait()
	for i := range out {
		if out[i].Err != nil {
			return out, out[i].Err
		}
	}
	return out, nil
}

// retry goes on with a job whose first try ended in err.
func (s *Store) retry(ctx context.Context, e *enqueue, err error) (bool, error) {
	created, done, err := s.judge(ctx, e, err)
	if !done {
		created, err = s.store(ctx, e)
	}
	if err != nil {
		err = fmt.Errorf("enqueue %s: %w", e.key, err)
	}
	return created, err
}

// enqueueWindow pipelines the first tries of a number of jobs, and tells of each how it ended.
func (s *Store) enqueueWindow(ctx context.Context, jobs []*enqueue, tell func(int, error)) {
	flights := make([]*flight, len(jobs))
	errs := make([]error, len(jobs))
	for i, e := range jobs {
		if e != nil {
			flights[i], errs[i] = s.launch(e.write())
		}
	}
	for i, e := range jobs {
		if e == nil {
			continue
		}
		if errs[i] == nil {
			_, errs[i] = s.land(ctx, flights[i])
		}
		if errs[i] == nil {
			errs[i] = noAnswer(failpoint.AfterEnqueue)
		}
		tell(i, errs[i])
	}
}
