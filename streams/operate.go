package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// Cancel ends a waiting job, or has a running one stopped. See job.Steerer.
func (s *Store) Cancel(ctx context.Context, key job.Key) (job.Changed, error) {
	return s.steer(ctx, job.OpCancel, key)
}

// Requeue has a job that has ended run again. See job.Steerer.
func (s *Store) Requeue(ctx context.Context, key job.Key) (job.Changed, error) {
	return s.steer(ctx, job.OpRequeue, key)
}

// RunNow has a job start that waits for its instant. See job.Steerer.
func (s *Store) RunNow(ctx context.Context, key job.Key) (job.Changed, error) {
	return s.steer(ctx, job.OpRunNow, key)
}

// Delete removes a job's record. See job.Steerer.
//
// Something empty is left of it for ten minutes, which nobody sees: it keeps what a server's crash brings back of the
// job from being run.
func (s *Store) Delete(ctx context.Context, key job.Key) (job.Changed, error) {
	return s.steer(ctx, job.OpDelete, key)
}

// steer finds the job that a key means, and does the operation to it.
func (s *Store) steer(ctx context.Context, op job.Operation, key job.Key) (job.Changed, error) {
	key.Space = cmp.Or(key.Space, job.DefaultSpace)
	ctx, cancel := bounded(ctx)
	defer cancel()
	if key.Queue == "" {
		n, err := s.find(ctx, key)
		if err != nil {
			return job.Changed{Key: key}, fmt.Errorf("%s %s/%s: %w", op, key.Space, key.ID, err)
		}
		key.Queue = n.Job.Queue
	} else if err := validateKey(key); err != nil {
		return job.Changed{Key: key}, err
	}
	return s.operate(ctx, op, key)
}

func validateKey(k job.Key) error {
	for _, f := range []struct{ name, value string }{{"queue", k.Queue}, {"space", k.Space}, {"id", k.ID}} {
		if err := job.ValidateName(f.name, f.value, job.MaxName); err != nil {
			return err
		}
	}
	return nil
}

// operate does one operation to one job, whose key is whole.
func (s *Store) operate(ctx context.Context, op job.Operation, key job.Key) (job.Changed, error) {
	out, err := s.operation(op, key).do(ctx)
	if err != nil {
		err = fmt.Errorf("%s %s: %w", op, key, err)
	}
	return out, err
}

// operation is one operation on one job under way.
type operation struct {
	s    *Store
	op   job.Operation
	key  job.Key
	tail string

	unsure []write // that may have been stored
}

func (s *Store) operation(op job.Operation, key job.Key) *operation {
	return &operation{s: s, op: op, key: key, tail: tail(key)}
}

// do makes the operation's write until it is known what became of it.
func (o *operation) do(ctx context.Context) (job.Changed, error) {
	if o.op == job.OpCancel { // it writes an end, and the queue may say how long that is kept
		if err := o.s.learnQueue(ctx, o.key.Queue); err != nil {
			return job.Changed{Key: o.key}, err
		}
	}
	docs, _, err := o.s.documents(ctx, []string{o.tail})
	if err != nil {
		return job.Changed{Key: o.key}, err
	}
	recs, sure := docs[o.tail], false
	for try := 0; ; try++ {
		w, ok, err := o.plan(recs)
		switch {
		case !ok && !sure: // a replica that is behind may have answered
			if recs, err = o.s.fromLeader(ctx, o.tail); err != nil {
				return job.Changed{Key: o.key}, o.doubt(err)
			}
			sure = true
			continue
		case err != nil:
			return job.Changed{Key: o.key}, o.doubt(err)
		case !ok:
			return o.changed(newest(recs), false), nil
		}
		if err := o.prepare(ctx, recs); err != nil {
			return job.Changed{Key: o.key}, o.doubt(err)
		}
		seq, err := o.s.put(ctx, w)
		if err == nil {
			return o.finish(ctx, recs, w, seq)
		}
		if !errors.Is(err, errGuard) && !retryable(err) {
			return job.Changed{Key: o.key}, o.doubt(err)
		}
		if errors.Is(err, job.ErrUnknown) {
			o.unsure = append(o.unsure, w)
		}
		for {
			if perr := pause(ctx, try); perr != nil {
				return job.Changed{Key: o.key}, o.doubt(fmt.Errorf("%w (last: %w)", perr, err))
			}
			if recs, err = o.s.fromLeader(ctx, o.tail); err == nil {
				break
			}
			try++
		}
		sure = true
		if w, r, err := o.recognize(recs); err != nil {
			return job.Changed{Key: o.key}, err
		} else if w != nil {
			return o.finish(ctx, recs, *w, r)
		}
	}
}

// doubt makes an error of the last try say what is true of all tries: one of them may have been stored.
func (o *operation) doubt(err error) error {
	if len(o.unsure) > 0 && !errors.Is(err, job.ErrUnknown) {
		return fmt.Errorf("%w: %w", job.ErrUnknown, err)
	}
	return err
}

// recognize finds out whether one of the writes whose outcome was unknown was stored. Of each rev there is one
// write: where another's stands at the rev of ours, ours was not stored. Where the job has gone on since, only a
// requeue can still be told, by its origin.
func (o *operation) recognize(recs []record) (*write, uint64, error) {
	n := newest(recs)
	for i := range o.unsure {
		w := &o.unsure[i]
		if r := written(recs, w.doc.Writer); r != nil {
			return w, r.seq, nil
		}
		if o.op == job.OpRequeue {
			if n != nil && slices.Contains(n.Origin, w.doc.Writer) {
				return w, 0, nil
			}
			continue
		}
		if n == nil || n.Rev > w.doc.Rev {
			return nil, 0, fmt.Errorf("%w: somebody else has changed the job since", job.ErrUnknown)
		}
	}
	return nil, 0, nil
}

// plan is the write that the operation asks for, as the job is; ok is false where there is nothing to do. An error is
// final, and says that ok is false.
func (o *operation) plan(recs []record) (w write, ok bool, err error) {
	n := newest(recs)
	if n == nil || n.state == stateDeleted {
		return w, false, job.ErrNotFound
	}
	w = write{tail: o.tail, guard: last(recs)}
	switch o.op {
	case job.OpCancel:
		ok = o.cancel(n, &w)
	case job.OpRequeue:
		if n.state.terminal() {
			err = o.requeue(n, &w)
			ok = err == nil
		}
	case job.OpRunNow:
		ok = o.runNow(n, &w)
	case job.OpDelete:
		ok = o.remove(n, &w)
	default:
		err = &job.FieldError{Field: "operation", Reason: fmt.Sprintf("there is none called %q", o.op)}
	}
	return w, ok, err
}

// cancel ends what waits, with its alarm, and flags what runs.
func (o *operation) cancel(n *record, w *write) bool {
	switch {
	case n.bad != nil:
		return false
	case n.state == stateRunning && !n.Job.CancelRequested:
		d := n.document // it stays the same claim
		d.Rev++
		d.Writer = newWriter()
		d.Job.CancelRequested = true
		d.Job.UpdatedAt = job.Millis(o.s.Now())
		w.state, w.doc = stateRunning, &d
		return true
	case n.state == stateReady || n.state == stateDue:
		d := n.next(newWriter())
		// A worker may hold it already, and have started it: it then writes down what became of its attempt.
		d.Claims = n.seq
		d.Job.WorkerID = ""
		d.Job.UpdatedAt = job.Millis(o.s.Now())
		w.state, w.doc = stateCancelled, &d
		w.ttl, w.brief = o.s.ttl(d.job(), stateCancelled)
		o.purgeAlarm(n, w)
		return true
	}
	return false
}

// purgeAlarm takes a due document's alarm along in the same write.
func (o *operation) purgeAlarm(n *record, w *write) {
	if n.state == stateDue && n.Writer != "" { // a plain producer sets none
		w.purge = o.s.names.alarm(o.tail, n.Writer)
	}
}

// requeuable says why what is left of a job that has ended cannot be run again, if that is so.
func (r *record) requeuable(now time.Time) error {
	switch j := r.job(); {
	case r.bad != nil:
		return fmt.Errorf("%w: %w", job.ErrNotRequeuable, r.bad)
	case j.Raw != nil || j.Type == "":
		return fmt.Errorf("%w: it is a message that could not be read as a job", job.ErrNotRequeuable)
	case r.Shed:
		return fmt.Errorf("%w: its input did not fit into its record and was left out", job.ErrNotRequeuable)
	case !j.Deadline.IsZero() && !now.Before(j.Deadline):
		return fmt.Errorf("%w: its deadline was %s", job.ErrNotRequeuable, j.Deadline.Format(job.TimeFormat))
	}
	return nil
}

// requeue begins a job anew.
func (o *operation) requeue(n *record, w *write) error {
	now := o.s.Now()
	if err := n.requeuable(now); err != nil {
		return err
	}
	d := n.next(newWriter())
	d.Origin = append(d.Origin, d.Writer)
	j := d.job()
	j.Attempts = 0
	j.CancelRequested = false
	j.Error, j.WorkerID = "", ""
	j.Result, j.Progress = nil, nil
	j.RunAt, j.UpdatedAt = job.Millis(now), job.Millis(now)
	w.state, w.doc = stateReady, &d
	return nil
}

// runNow starts what waits for its instant.
func (o *operation) runNow(n *record, w *write) bool {
	if n.state != stateDue || n.bad != nil {
		return false
	}
	d := n.next(newWriter())
	d.ClaimFirst = n.ClaimFirst
	now := job.Millis(o.s.Now())
	d.Job.RunAt, d.Job.UpdatedAt = now, now
	w.state, w.doc = stateReady, &d
	o.purgeAlarm(n, w)
	return true
}

// remove empties the record. What waits is taken out of its queue by the same write.
func (o *operation) remove(n *record, w *write) bool {
	if n.state == stateRunning && n.bad == nil {
		return false
	}
	d := document{V: version, Rev: n.Rev + 1, Writer: newWriter()}
	d.Job.Queue, d.Job.Space, d.Job.ID = o.key.Queue, o.key.Space, o.key.ID
	w.state, w.doc, w.ttl = stateDeleted, &d, MinRetention
	o.purgeAlarm(n, w)
	return true
}

// prepare does what has to be done before the write.
func (o *operation) prepare(ctx context.Context, recs []record) error {
	switch o.op {
	case job.OpRequeue, job.OpRunNow:
		return o.s.ensureQueue(ctx, o.key.Queue)
	case job.OpDelete:
		// What is older first: were it to stand when what is left of the job has gone, it would be the job again.
		n := newest(recs)
		return o.s.remove(ctx, older(recs, n.Rev, 0)...)
	}
	return nil
}

// finish tells whom it concerns, and deletes what is older than the write. The operation stands, whatever becomes of
// that: a delivery or housekeeping goes on from here.
func (o *operation) finish(ctx context.Context, recs []record, w write, seq uint64) (job.Changed, error) {
	s := o.s
	if o.op == job.OpCancel || o.op == job.OpDelete {
		_ = s.nc.Publish(s.names.cancelHint(o.tail), nil) // a hint: the next heartbeat looks
	}
	out := o.changed(&record{document: *w.doc, state: w.state}, true)
	if err := s.at(AfterOperation); err != nil {
		return out, err
	}
	old := older(recs, w.doc.Rev, 0)
	if w.state == stateRunning {
		old = nil // the ready message under the claim stays
	}
	// Whoever asked may have gone since the write.
	ctx, cancel := lingering(ctx, requestTimeout, requestTimeout)
	defer cancel()
	err := s.remove(ctx, old...)
	if err == nil && w.brief && seq != 0 {
		err = s.remove(ctx, seq)
	}
	if err != nil {
		s.log.Debug().Err(err).Stringer("job", o.key).Msg("older documents not deleted yet; a delivery or housekeeping does")
	}
	return out, nil
}

// changed says how the job is, or was found.
func (o *operation) changed(n *record, done bool) job.Changed {
	out := job.Changed{Key: o.key, Done: done, Status: n.state.status(), CancelRequested: n.Job.CancelRequested}
	if n.state == stateDeleted {
		out.Status = ""
	}
	return out
}
