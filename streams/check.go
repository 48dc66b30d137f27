package streams

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jetcrew/jetcrew/pkg/failpoint"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// check compares deliveries with their jobs' documents, all that came together with one read.
func (c *consumer) check() {
	for {
		var batch []*claim
		select {
		case <-c.ctx.Done():
			return
		case cl := <-c.arrived:
			batch = append(batch, cl)
		}
	more:
		for len(batch) < maxFilters {
			select {
			case cl := <-c.arrived:
				batch = append(batch, cl)
			default:
				break more
			}
		}
		c.checkBatch(batch)
		c.jobs.poke()
	}
}

func (c *consumer) checkBatch(batch []*claim) {
	tails := make([]string, 0, len(batch))
	todo := batch[:0:0]
	var known []*record
	for _, cl := range batch {
		switch {
		case cl.gone():
			continue
		case cl.lapsed():
			cl.giveUp()
			continue
		case cl.unreadable():
			// Its subject is no job's, so no documents belong to it.
			c.wg.Go(func() { c.setAside(cl, nil) })
			continue
		case failpoint.Broken(failpoint.NoCheckBeforeStart) && cl.rec.bad == nil:
			cl.mu.Lock()
			cl.checkedAt, cl.epoch, cl.hint = time.Now(), c.epoch.Load(), false
			cl.mu.Unlock()
			c.offer(cl)
			continue
		}
		tails = append(tails, cl.rec.tail)
		known = append(known, &cl.rec)
		todo = append(todo, cl)
	}
	if len(todo) == 0 {
		return
	}
	epoch, at := c.epoch.Load(), time.Now()
	docs, _, err := c.s.documents(c.ctx, tails, known...)
	if err != nil {
		if c.ctx.Err() == nil {
			c.log.Debug().Err(err).Int("jobs", len(todo)).Msg("jobs could not be checked; trying again")
		}
		c.later(todo)
		return
	}
	for _, cl := range todo {
		cl.mu.Lock()
		cl.checkedAt, cl.epoch, cl.hint = at, epoch, false
		cl.mu.Unlock()
		c.decide(cl, docs[cl.rec.tail])
	}
}

// gone reports whether the claim was let go, or is being handed back.
func (cl *claim) gone() bool {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.over != nil || cl.settling || cl.unwanted
}

// later checks deliveries again in a while. Their leases are renewed meanwhile, and where that fails for a
// whole lease they are dropped.
func (c *consumer) later(todo []*claim) {
	c.wg.Go(func() {
		if sleep(c.ctx, 100*time.Millisecond) != nil {
			return
		}
		for _, cl := range todo {
			c.queueCheck(cl)
		}
	})
}

// unreadable reports whether not even the subject of a delivery can be read.
func (cl *claim) unreadable() bool { return cl.rec.bad != nil && cl.rec.Job.ID == "" }

// decide does what the delivery table says about one delivery.
func (c *consumer) decide(cl *claim, recs []record) {
	if cl.doubtful || !holds(recs, cl.seq) && cl.rec.bad == nil {
		// It may have gone, or a follower that is behind may have answered.
		c.wg.Go(func() {
			ctx, cancel := context.WithTimeout(c.ctx, requestTimeout)
			defer cancel()
			recs, err := c.s.fromLeader(ctx, cl.rec.tail)
			if err != nil {
				c.later([]*claim{cl})
				return
			}
			c.act(cl, recs)
		})
		return
	}
	c.act(cl, recs)
}

func (c *consumer) act(cl *claim, recs []record) {
	if cl.gone() {
		return
	}
	n := newest(recs)
	// The answer to a claim or an end that this delivery wrote was lost, and the write was stored.
	if n != nil && cl.wrote != "" && n.Writer == cl.wrote {
		cl.countLosses()
		if n.state == stateRunning {
			cl.adopt(&n.document, n.seq)
			c.offer(cl)
		} else {
			c.wg.Go(func() { c.cleanUp(cl, recs) })
		}
		return
	}
	f := facts{now: c.s.Now()}
	var stands time.Time // how long the claim of somebody else does
	if n != nil && n.state == stateRunning {
		stands = n.Job.LeaseUntil
		if n.lapsed(f.now) {
			var err error
			if stands, err = c.s.reported(c.ctx, n); err != nil {
				c.later([]*claim{cl})
				return
			}
			f.reported = f.now.Before(stands)
		}
	}
	v := decide(delivery{seq: cl.seq, count: cl.count, bad: cl.rec.bad != nil}, recs, f)
	if v.action == actStart && cl.stale() {
		// The look took so long that it is too old to start upon, and the next one would be no quicker.
		v.action, v.late = actClaim, true
	}
	switch v.action {
	case actSetAside:
		c.wg.Go(func() { c.setAside(cl, recs) })
	case actLeave:
		c.leave(cl, stands.Sub(f.now))
	case actDrop:
		cl.drop()
	case actStart:
		cl.mu.Lock()
		cl.attempts = v.attempts + 1
		cl.guard = last(recs)
		cl.old = older(recs, n.Rev, cl.seq)
		cl.mu.Unlock()
		c.offer(cl)
	case actClaim:
		c.wg.Go(func() { c.claimFirst(cl, recs, v) })
	case actEnd:
		c.wg.Go(func() { c.endUnrun(cl, recs, v) })
	case actCleanUp:
		c.wg.Go(func() { c.cleanUp(cl, recs) })
	case actDefer:
		c.wg.Go(func() { c.putOff(cl, recs) })
	}
}

// putOff has a job that a plain producer published too early wait for its instant.
func (c *consumer) putOff(cl *claim, recs []record) {
	n := newest(recs)
	d := n.next(newWriter())
	j := d.job()
	j.RunAt = job.CeilMillis(n.due())
	j.DueAt = j.RunAt
	j.UpdatedAt = job.Millis(c.s.Now())
	_, err := c.s.put(c.ctx, write{tail: cl.rec.tail, state: stateDue, doc: &d, guard: last(recs)})
	switch {
	case err == nil:
		c.finish(cl, older(recs, d.Rev, cl.seq))
	case errors.Is(err, job.ErrTooLarge):
		c.endTooLarge(cl, recs, err)
	default:
		c.again(cl, err)
	}
}

// leave leaves a job to whoever claims it. Where that claim is about to lapse it is looked at once more right
// then: a claim is written a little after the delivery whose lease has just run out, and the next delivery is
// a whole lease away.
func (c *consumer) leave(cl *claim, stands time.Duration) {
	if stands > c.lease()/2 {
		cl.drop()
		return
	}
	c.wg.Go(func() {
		t := time.NewTimer(stands + 5*time.Millisecond)
		defer t.Stop()
		select {
		case <-t.C:
			c.queueCheck(cl)
		case <-c.draining:
			cl.drop()
		case <-c.ctx.Done():
		}
	})
}

// claimFirst writes a claim before its handler starts, since somebody had the job before, or the look took too long.
func (c *consumer) claimFirst(cl *claim, recs []record, v verdict) {
	if cl.lock(c.ctx) != nil {
		return
	}
	defer cl.unlock()
	n := newest(recs)
	now := c.s.Now()
	cl.mu.Lock()
	if cl.over != nil || cl.settling || cl.unwanted { // let go meanwhile
		cl.mu.Unlock()
		return
	}
	cl.attempts = v.attempts + 1
	cl.base = n.document
	cl.started = job.Millis(now)
	cl.old = older(recs, n.Rev, cl.seq)
	cl.said.Log = n.Job.Log // of the attempt before
	cl.loses = Losses{}
	if v.lost {
		cl.loses = lostAs(stateRunning)
		cl.base.Job.Attempts = v.attempts // the lost one is counted
		cl.base.job().LoseAttempt(now)
		cl.base.Job.RunID = n.Job.RunID
	}
	cl.wrote = newWriter()
	d := cl.running(cl.wrote, now)
	guard := last(recs)
	cl.mu.Unlock()
	sent := time.Now()
	seq, err := c.s.put(c.ctx, write{tail: cl.rec.tail, state: stateRunning, doc: &d, guard: guard})
	if err == nil {
		err = noAnswer(failpoint.AfterClaimWrite)
	}
	if errors.Is(err, job.ErrTooLarge) {
		if v.late { // it can be run without one
			cl.mu.Lock()
			cl.unclaimable = true
			cl.mu.Unlock()
			c.queueCheck(cl)
			return
		}
		c.endTooLarge(cl, recs, err)
		return
	}
	if err != nil {
		c.again(cl, err)
		return
	}
	cl.countLosses()
	cl.adopt(&d, seq)
	cl.mu.Lock()
	cl.beaten = sent
	cl.mu.Unlock()
	cl.inProgress()
	if c.s.at(AfterClaimWrite) != nil {
		return
	}
	c.offer(cl)
}

// again checks a delivery once more after a write of its own that was refused or had no answer: the documents
// tell who came first, or what became of it.
func (c *consumer) again(cl *claim, err error) {
	switch {
	case errors.Is(err, errGuard):
		c.queueCheck(cl)
	case retryable(err):
		c.later([]*claim{cl})
	default:
		if c.ctx.Err() == nil {
			c.log.Error().Err(err).Stringer("job", cl.rec.job().Key()).Msg("a write was refused for good; leaving the job to its next delivery")
		}
		cl.drop()
	}
}

// endUnrun writes the end of a job whose last attempt was lost.
func (c *consumer) endUnrun(cl *claim, recs []record, v verdict) {
	n := newest(recs)
	d := n.document.endLost(newWriter(), v.end, c.s.Now())
	cl.mu.Lock()
	cl.wrote, cl.loses = d.Writer, lostAs(v.end)
	cl.mu.Unlock()
	_, err := c.s.put(c.ctx, write{
		tail: cl.rec.tail, state: v.end, doc: &d, guard: last(recs), ttl: c.s.lastingTTL(d.job(), v.end),
	})
	if err != nil {
		c.again(cl, err)
		return
	}
	cl.countLosses()
	c.log.Warn().Stringer("job", cl.rec.job().Key()).Str("status", string(v.end)).
		Str("holder", n.Job.WorkerID).Msg("the last attempt was lost")
	c.finish(cl, older(recs, d.Rev, cl.seq))
}

// endTooLarge ends a job whose claim does not fit the server's limit: nobody could ever hold it.
func (c *consumer) endTooLarge(cl *claim, recs []record, why error) {
	seq, old, err := c.s.endTooLarge(c.ctx, cl.rec.tail, recs, why)
	switch {
	case err == nil:
		c.finish(cl, slices.DeleteFunc(old, func(s uint64) bool { return s == cl.seq || s == seq }))
	case errors.Is(err, errGuard) || retryable(err):
		c.again(cl, err)
	default:
		c.log.Error().Err(err).Stringer("job", cl.rec.job().Key()).Msg("a job that is too large cannot even be ended; leaving it")
		cl.drop()
	}
}

// endTooLarge writes the end of a job that has outgrown the server's limit, and answers its sequence and those of
// the older documents.
func (s *Store) endTooLarge(ctx context.Context, tail string, recs []record, why error) (uint64, []uint64, error) {
	n := newest(recs)
	d := n.next(newWriter())
	j := d.job()
	j.Error = job.CutError("cannot be run: " + why.Error())
	j.UpdatedAt = job.Millis(s.Now())
	j.StartedAt = time.Time{}
	seq, err := s.put(ctx, write{
		tail: tail, state: stateDead, doc: &d, guard: last(recs), ttl: s.lastingTTL(j, stateDead),
	})
	if err == nil {
		s.losses.count(j.Queue, Losses{TooLarge: 1})
		s.log.Error().Stringer("job", j.Key()).Err(why).Msg("a job is too large to be run; it is dead")
	}
	return seq, older(recs, d.Rev, 0), err
}

// endLost is the end of a job whose last attempt was lost.
func (d *document) endLost(writer string, end state, now time.Time) document {
	n := d.next(writer)
	j := n.job()
	j.LoseAttempt(now)
	j.UpdatedAt = job.Millis(now)
	j.Error = job.LostError
	j.StartedAt = time.Time{}
	return n
}

// cleanUp finishes what somebody left undone after the job's newest document was written.
func (c *consumer) cleanUp(cl *claim, recs []record) {
	c.finish(cl, older(recs, newest(recs).Rev, cl.seq))
}

// finish deletes older documents and acks, in this order. Where a delete fails the ack is left out: the
// redelivery goes on from there.
func (c *consumer) finish(cl *claim, old []uint64) {
	defer cl.end(nil)
	if err := c.s.remove(c.ctx, old...); err != nil {
		c.log.Debug().Err(err).Stringer("job", cl.rec.job().Key()).Msg("clean-up goes on at the next delivery")
		return
	}
	cl.ack()
}
