package streams

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jetcrew/jetcrew/pkg/failpoint"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// Settle ends the attempt. See job.Claim.
//
// It writes the next document first, then deletes the older ones by sequence, and acks last: the ready message
// is what makes somebody finish what a crash left undone.
func (cl *claim) Settle(ctx context.Context, o job.Outcome) (*job.Job, error) {
	if !o.Status.Terminal() && o.Status != job.Pending {
		return nil, &job.FieldError{Field: "status", Reason: fmt.Sprintf("a claim cannot be settled as %q", o.Status)}
	}
	if o.Result != nil && !o.Result.IsValid() {
		return nil, &job.FieldError{Field: "result", Reason: "is not valid JSON"}
	}
	key := cl.rec.job().Key()
	if err := noAnswer(failpoint.BeforeSettle); err != nil {
		return nil, err
	}
	if err := cl.c.s.at(BeforeSettle); err != nil {
		return nil, err
	}
	if err := cl.beginSettle(); err != nil {
		return nil, fmt.Errorf("settle %s: %w", key, err)
	}
	if err := cl.lock(ctx); err != nil { // a claim that is being written is resolved first
		cl.notSettled()
		return nil, fmt.Errorf("settle %s: %w", key, err)
	}
	defer cl.unlock()
	if failpoint.Broken(failpoint.AckBeforeSettle) {
		_ = cl.ackSync(ctx)
	}
	if cl.leavesNothing(o) {
		if rec, err := cl.settleByAck(ctx, o); rec != nil || err != nil {
			return rec, err
		}
	}
	seq, w, recs, err := cl.writeOutcome(ctx, o)
	if errors.Is(err, job.ErrTooLarge) && o.Status == job.Pending {
		// As it is, it could be neither tried again nor left alone.
		o = job.Outcome{Status: job.Dead, Error: "cannot be tried again: " + err.Error() + ": " + o.Error, RunID: o.RunID}
		seq, w, recs, err = cl.writeOutcome(ctx, o)
	}
	if err == nil {
		err = noAnswer(failpoint.AfterSettle)
	}
	if err != nil {
		// An earlier call may have written it without hearing so.
		if r := written(recs, cl.unsure...); errors.Is(err, job.ErrLeaseLost) && r != nil {
			seq, w, err = r.seq, write{tail: r.tail, state: r.state, doc: &r.document}, nil
		} else {
			cl.unsure = append(cl.unsure, w.doc.Writer)
		}
	}
	switch {
	case errors.Is(err, job.ErrLeaseLost):
		cl.lost(recs)
		return nil, fmt.Errorf("settle %s: %w", key, err)
	case err != nil:
		cl.notSettled()
		return nil, fmt.Errorf("settle %s: %w", key, err)
	}
	if err := cl.c.s.at(AfterSettle); err != nil {
		cl.drop()
		return nil, err
	}
	rec := record{document: *w.doc, state: w.state, seq: seq, time: w.doc.Job.UpdatedAt}
	return rec.public(), cl.finishSettle(ctx, w, seq, recs)
}

func (cl *claim) beginSettle() error {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.over != nil {
		return cl.over
	}
	if cl.settling {
		return errSettled
	}
	cl.settling = true
	cl.stopTimer()
	if !cl.begun.IsZero() {
		cl.c.ran(time.Since(cl.begun))
	}
	return nil
}

// notSettled takes back beginSettle: the claim is held as before.
func (cl *claim) notSettled() {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.settling = false
	cl.startTimer()
}

// writeOutcome writes the document that follows from an outcome, until it is known to stand or to have lost.
func (cl *claim) writeOutcome(ctx context.Context, o job.Outcome) (uint64, write, []record, error) {
	cl.mu.Lock()
	w := cl.outcome(o)
	cl.mu.Unlock()
	return cl.c.s.settled(ctx, w, func(recs []record) (write, bool) {
		n := newest(recs)
		cl.mu.Lock()
		defer cl.mu.Unlock()
		switch {
		case cl.mine(n):
			if n.Rev >= w.doc.Rev { // flagged, or the claim's own write is only known now
				cl.base, cl.run, cl.claimed = n.document, n.seq, true
				w = cl.outcome(o)
			}
		case cl.cancelledYoung(n):
			cl.base = n.document
			w = cl.afterCancel(o)
		case !cl.stillReady(recs):
			return w, false
		}
		cl.guard = last(recs)
		w.guard = cl.guard
		return w, true
	})
}

// outcome is the write that an outcome asks for. Called with mu held.
func (cl *claim) outcome(o job.Outcome) write {
	s := cl.c.s
	d := cl.base.next(newWriter())
	j := d.job()
	cl.said.keep(j)
	j.Conclude(o, job.Run{Attempts: cl.attempts, WorkerID: cl.c.cfg.WorkerID, StartedAt: cl.started}, s.Now())
	w := write{tail: cl.rec.tail, state: state(j.Status), doc: &d, guard: cl.guard}
	switch {
	case j.Status.Terminal():
		w.ttl, w.brief = s.ttl(j, w.state)
	case o.Delay > 0:
		w.state = stateDue
	default:
		w.state = stateReady
	}
	// Handed back, it stays suspect: whoever had it before may have vanished while running it.
	d.ClaimFirst = j.Status == job.Pending && o.Refund && !cl.claimed && (cl.count > 1 || cl.rec.ClaimFirst)
	return w
}

// afterCancel is the write for an attempt that was under way when an operator cancelled its job, before its claim could
// be read: the job has ended, and what became of the attempt goes into its history. Called with mu held.
func (cl *claim) afterCancel(o job.Outcome) write {
	d := cl.base.next(newWriter())
	j := d.job()
	cl.said.keep(j)
	if !o.Refund {
		run := job.Run{Attempts: cl.attempts, WorkerID: cl.c.cfg.WorkerID, StartedAt: cl.started}
		j.Conclude(job.Outcome{Status: job.Cancelled, Error: o.Error, RunID: o.RunID}, run, cl.c.s.Now())
		if o.Status == job.Succeeded {
			j.History[len(j.History)-1].Status = job.AttemptSucceeded
		}
	}
	w := write{tail: cl.rec.tail, state: stateCancelled, doc: &d}
	w.ttl, w.brief = cl.c.s.ttl(j, w.state)
	return w
}

// finishSettle does what a redelivery would do as well: it deletes what is older, and acks. The settlement
// stands, whatever becomes of that.
func (cl *claim) finishSettle(ctx context.Context, w write, seq uint64, recs []record) error {
	defer cl.end(nil)
	s := cl.c.s
	cl.mu.Lock()
	old := cl.old
	if cl.claimed {
		old = append(old, cl.run)
	}
	cl.mu.Unlock()
	if recs != nil {
		old = older(recs, w.doc.Rev, cl.seq)
	}
	err := s.remove(ctx, old...)
	if failpoint.Broken(failpoint.ClaimsBySubject) && len(old) > 0 {
		filter := `{"filter":"` + s.names.job(stateRunning, cl.rec.tail) + `"}`
		_, err = s.nc.RequestWithContext(ctx, apiPrefix+"STREAM.PURGE."+s.names.stream(), []byte(filter))
	}
	if err != nil {
		cl.c.log.Debug().Err(err).Stringer("job", cl.rec.job().Key()).Msg("clean-up goes on at the next delivery")
		return nil
	}
	if err := s.at(BeforeAck); err != nil {
		return err
	}
	if !w.brief {
		cl.ack()
		_ = failpoint.At(failpoint.AfterAck) // an ack has no answer that could be lost
		return s.at(AfterAck)
	}
	// The end may go only when the ready message is known to be gone.
	err = cl.ackSync(ctx)
	if err == nil {
		err = s.remove(ctx, seq)
	}
	if err != nil {
		cl.c.log.Debug().Err(err).Stringer("job", cl.rec.job().Key()).Msg("a record that is not to be kept stays a while")
	}
	return s.at(AfterAck)
}

// leavesNothing reports whether an outcome can be settled by an ack alone: nothing is to be kept of it, and nobody but
// this worker can have had the job since it was checked.
func (cl *claim) leavesNothing(o job.Outcome) bool {
	if o.Status != job.Succeeded || cl.c.s.keep(cl.rec.job(), stateSucceeded) > 0 || cl.lapsed() {
		return false
	}
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return !cl.claimed && cl.wrote == "" && !cl.hint && len(cl.old) == 0 && len(cl.unsure) == 0
}

// settleByAck ends the job by taking its ready message away. Where it cannot be known for sure that this did it, it
// answers nothing, and the end has to be written like any other.
func (cl *claim) settleByAck(ctx context.Context, o job.Outcome) (*job.Job, error) {
	s := cl.c.s
	cl.mu.Lock()
	w := cl.outcome(o)
	cl.mu.Unlock()
	for try := 0; ; try++ {
		err := cl.ackSync(ctx)
		if err == nil {
			break
		}
		recs, rerr := s.fromLeader(ctx, w.tail)
		switch {
		case rerr == nil && len(recs) == 0: // it arrived
		case rerr == nil && !cl.isStillReady(recs) || cl.lapsed():
			return nil, nil
		case pause(ctx, try) != nil:
			cl.notSettled()
			return nil, fmt.Errorf("settle %s: %w: %w", cl.rec.job().Key(), job.ErrUnknown, err)
		default:
			continue
		}
		break
	}
	s.announce(w, 0)
	cl.end(nil)
	rec := record{document: *w.doc, state: w.state, time: w.doc.Job.UpdatedAt}
	return rec.public(), s.at(AfterAck)
}

// handBack gives an unstarted job to whoever comes next: refunded, at once.
func (cl *claim) handBack(why string) {
	if cl.lapsed() || cl.rec.bad != nil {
		cl.drop()
		return
	}
	ctx, cancel := context.WithTimeout(cl.c.ctx, cl.c.lease())
	defer cancel()
	cl.returnUnstarted(ctx, why)
}

// returnUnstarted writes that the job was not started, unless it is somebody else's by now.
func (cl *claim) returnUnstarted(ctx context.Context, why string) {
	_, err := cl.Settle(ctx, job.HandBack(0, "not started: "+why))
	if err != nil {
		if !errors.Is(err, job.ErrLeaseLost) {
			cl.c.log.Warn().Err(err).Msg("a job could not be handed back; it goes on when its lease is over")
		}
		cl.drop()
	}
}
