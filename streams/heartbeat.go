package streams

import (
	"context"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/jetcrew/jetcrew/pkg/failpoint"
	"github.com/jetcrew/jetcrew/pkg/job"
)

var inProgress = []byte("+WPI")

// beat renews what is held at a third of the lease, and lets go of what could not be renewed for a whole one:
// by then others may run it.
func (c *consumer) beat() {
	renewal := time.NewTimer(c.pace() / 3)
	defer renewal.Stop()
	lapse := time.NewTicker(c.pace() / 12)
	defer lapse.Stop()
	done := make(chan time.Duration, 1) // the pace of a beat that succeeded, or 0
	renewing, again, failures := false, false, 0
	left := 0 // jobs let go since a beat succeeded
	for {
		select {
		case <-c.ctx.Done():
			if renewing {
				<-done
			}
			return
		case <-c.changed:
			c.raise()
			lapse.Reset(c.pace() / 12)
			again = true
			renewal.Reset(0)
		case pace := <-done:
			renewing = false
			if pace != 0 {
				left = 0
			}
			if c.lower(pace) || again { // what the next beat says is waited for
				renewal.Reset(0)
			}
		case <-lapse.C:
			left += c.letGo(left)
		case <-renewal.C:
			renewal.Reset(c.pace() / 3)
			left += c.letGo(left)
			c.handBackUnwanted()
			if renewing {
				continue
			}
			renewing, again = true, false
			pace := c.pace()
			go func() {
				ctx, cancel := context.WithTimeout(c.ctx, pace/2)
				defer cancel()
				err := c.renew(ctx, c.holding())
				failures = c.logBeat(err, failures)
				c.tellBeat(err)
				if err != nil {
					pace = 0
				}
				done <- pace
			}()
		}
	}
}

// pace is the lease that the queue is to have. A higher one than the current one holds at the server already. A lower
// one holds from the first beat on that has renewed all there is at its pace; the next beat says so, and when all
// workers do, the server is told.
func (c *consumer) pace() time.Duration { return c.queue.Load().lease() }

// raise takes over a higher lease.
func (c *consumer) raise() {
	if pace := c.pace(); pace > c.lease() {
		c.agreed.Store(int64(pace))
	}
}

// lower takes over a lower lease after a beat at its pace, and reports whether it is one.
func (c *consumer) lower(pace time.Duration) bool {
	if pace == 0 || pace != c.pace() || pace >= c.lease() {
		return false
	}
	c.agreed.Store(int64(pace))
	return true
}

// follow hears how the queue is set. It does not wait.
func (c *consumer) follow(info queueInfo) {
	old := c.queue.Swap(&info)
	if old.lease() == info.lease() {
		return
	}
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// tellBeat lets jobs begin, or wait for the next beat that succeeds.
func (c *consumer) tellBeat(err error) {
	switch well := c.well.Load(); {
	case err != nil && well == nil:
		ch := make(chan struct{})
		c.well.Store(&ch)
	case err == nil && well != nil:
		c.well.Store(nil)
		close(*well)
	}
}

// logBeat tells of an outage once when it begins and once when it ends.
func (c *consumer) logBeat(err error, failures int) int {
	switch {
	case c.ctx.Err() != nil:
		return failures
	case err != nil:
		if failures == 0 {
			c.log.Warn().Err(err).Msg("heartbeats fail")
		}
		return failures + 1
	case failures > 0:
		c.log.Info().Int("failed", failures).Msg("heartbeats succeed again")
	}
	return 0
}

// patience is for how long a job is held that could not be renewed. It ends a twelfth before the lease, which is how
// often it is looked at: when the lease is over, the job is another worker's to begin, and has to have stopped here.
func (c *consumer) patience() time.Duration {
	lease := c.lease()
	return lease - lease/12
}

// letGo drops what has not been renewed for a lease, and answers how much that is. What is being settled goes on: its
// write is guarded. That jobs are let go is told once until a beat succeeds.
func (c *consumer) letGo(before int) int {
	var gone []*claim
	patience := c.patience()
	for _, cl := range c.holding() {
		cl.mu.Lock()
		if !cl.settling && !cl.unwanted && time.Since(cl.beaten) >= patience {
			gone = append(gone, cl)
		}
		cl.mu.Unlock()
	}
	if len(gone) == 0 {
		return 0
	}
	level, text := zerolog.WarnLevel, "no heartbeat for a lease; letting go of jobs"
	if before > 0 {
		level, text = zerolog.DebugLevel, "letting go of more jobs"
	}
	c.log.WithLevel(level).Int("jobs", len(gone)).Stringer("first", gone[0].rec.job().Key()).Msg(text)
	for _, cl := range gone {
		cl.giveUp()
	}
	return len(gone)
}

// handBackUnwanted gives away what no caller has asked for since the last round: it would wait here for as long as
// the jobs in the slots run, while another worker may be idle.
func (c *consumer) handBackUnwanted() {
	if failpoint.Broken(failpoint.PrefetchWithoutBeats) {
		return
	}
	if c.waiting.Load() > 0 || c.well.Load() != nil { // in an outage nothing can be given away, and claims wait for its end
		return
	}
	for _, cl := range c.holding() {
		cl.mu.Lock()
		hand := cl.counted && cl.decided && cl.over == nil && !cl.unwanted && time.Since(cl.offered) > c.lease()/3
		cl.unwanted = cl.unwanted || hand
		cl.mu.Unlock()
		if hand {
			c.wg.Go(func() { cl.handBack("the worker was busy") })
		}
	}
}

// renew looks at claims again, renews those that are still held, and says so. Only then do they count as
// renewed, as of when it began.
func (c *consumer) renew(ctx context.Context, claims []*claim) error {
	from := time.Now()
	if err := c.examine(ctx, claims); err != nil {
		return err
	}
	var held []*claim
	for _, cl := range claims {
		cl.mu.Lock()
		over := cl.over
		if failpoint.Broken(failpoint.PrefetchWithoutBeats) && cl.begun.IsZero() {
			over = job.ErrLeaseLost
		}
		cl.mu.Unlock()
		if over == nil {
			held = append(held, cl)
		}
	}
	// In this order: what is handed out again because nobody renewed it is no longer reported to be running.
	if err := c.beatPresence(ctx, c.holding()); err != nil {
		return err
	}
	for _, cl := range held {
		cl.inProgress()
		cl.mu.Lock()
		if from.After(cl.beaten) {
			cl.beaten = from
		}
		cl.mu.Unlock()
	}
	c.saveReports(ctx, held)
	return nil
}

// examine compares what is held with the documents: it passes on cancellations, and lets go of what belongs to
// somebody else.
func (c *consumer) examine(ctx context.Context, claims []*claim) error {
	claims = slices.DeleteFunc(slices.Clone(claims), func(cl *claim) bool { return !cl.toRun() })
	if len(claims) == 0 {
		return nil
	}
	tails := make([]string, 0, len(claims))
	for _, cl := range claims {
		tails = append(tails, cl.rec.tail)
	}
	docs, _, err := c.s.documents(ctx, tails)
	if err != nil {
		return err
	}
	for _, cl := range claims {
		if cl.holds(docs[cl.rec.tail]) {
			continue
		}
		// A follower that is behind may have answered.
		recs, err := c.s.fromLeader(ctx, cl.rec.tail)
		if err != nil {
			return err
		}
		if !cl.holds(recs) {
			cl.lost(recs)
		}
	}
	return nil
}

// toRun reports whether the claim was looked at and found to be this worker's to run. What was not looked at
// yet, or is to be looked at again, need not be held by the documents' word.
func (cl *claim) toRun() bool {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.decided
}

// holds reports whether the job's documents say that this claim stands. It takes over a flag that was set on
// it.
func (cl *claim) holds(recs []record) bool {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.settling || cl.over != nil {
		return true // whoever writes the end finds out
	}
	n := newest(recs)
	if cl.mine(n) {
		if n.Rev >= cl.base.Rev {
			cl.base, cl.run, cl.guard, cl.claimed = n.document, n.seq, last(recs), true
			cl.old = older(recs, n.Rev, cl.seq)
		}
		if n.Job.CancelRequested {
			cl.tell(job.ErrCancelRequested)
		}
		return true
	}
	return cl.stillReady(recs)
}

// hinted hears that an operator did something to a job of this queue.
func (c *consumer) hinted(m *nats.Msg) {
	for _, cl := range c.holding() {
		if m.Subject != c.s.names.cancelHint(cl.rec.tail) {
			continue
		}
		cl.mu.Lock()
		cl.hint = true
		cl.mu.Unlock()
		c.lookAgain([]*claim{cl})
	}
}

// lookAgain has claims examined soon. It never waits: at the latest the next heartbeat looks.
func (c *consumer) lookAgain(claims []*claim) {
	select {
	case c.looks <- claims:
	default:
	}
}

func (c *consumer) look() {
	for {
		select {
		case <-c.ctx.Done():
			return
		case claims := <-c.looks:
			ctx, cancel := context.WithTimeout(c.ctx, requestTimeout)
			if err := c.examine(ctx, claims); err != nil && c.ctx.Err() == nil {
				c.log.Debug().Err(err).Msg("claims could not be looked at; the next heartbeat does")
			}
			cancel()
		}
	}
}
