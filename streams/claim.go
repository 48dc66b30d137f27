package streams

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/jetcrew/jetcrew/pkg/failpoint"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// claim is a delivered job from the moment it arrives until it is settled or let go.
type claim struct {
	c     *consumer
	rec   record // the ready document
	seq   uint64 // of the ready message
	count uint64 // of the delivery

	doubtful bool // a first delivery that comes after later ones: the server may have forgotten an ack

	writing chan struct{} // holds a token during each write to the job, so that one is resolved before the next
	unsure  []string      // writers of settlements that may have been stored; guarded by writing

	mu        sync.Mutex // guards what follows
	reply     string     // where the newest delivery is acknowledged
	beaten    time.Time  // when the store last heard that it is held, by this process's monotonic clock
	checkedAt time.Time
	// unclaimable: its claim does not fit the server's limit. What was checked then holds for longer, since a job of that
	// size may take longer to be read than it holds otherwise, and no claim can stand in for the check.
	unclaimable bool
	epoch       int64
	hint        bool      // somebody says that the job changed
	counted     bool      // in the consumer's unclaimed and inHand
	offered     time.Time // since when a caller may have it
	unwanted    bool      // no caller came for it: it is being handed back
	decided     bool      // its documents were looked at, and it is to be run
	begun       time.Time
	timer       *time.Timer
	settling    bool
	over        error // why it is not held any more
	notify      func(error)
	told        error // what notify has been, or is to be, called with

	base     document // the newest document that is known to be this claim's
	guard    uint64   // the last sequence seen on the job's filter
	run      uint64   // the sequence of its running document, once that is known to stand
	old      []uint64 // older documents, to delete once it is settled
	attempts int      // used, this one included
	wrote    string   // the writer of a claim that may have been stored
	loses    Losses   // what is to be counted once that one, or an end in its place, is known to stand
	claimed  bool     // the claim is known to be stored
	started  time.Time
	said     reports
}

var (
	_ job.Claim    = (*claim)(nil)
	_ job.Reporter = (*claim)(nil)
)

// newClaim reads a delivery.
func (c *consumer) newClaim(m *nats.Msg) (*claim, error) {
	meta, err := m.Metadata()
	if err != nil {
		return nil, fmt.Errorf("reading a delivery: %w", err)
	}
	rec := c.s.names.record(message{
		subject: m.Subject, header: m.Header, data: m.Data, seq: meta.Sequence.Stream, time: meta.Timestamp,
	})
	now := time.Now()
	return &claim{
		said:    reports{Job: job.Job{Log: rec.Job.Log}},
		writing: make(chan struct{}, 1),
		c:       c, rec: rec, seq: rec.seq, count: meta.NumDelivered, reply: m.Reply, beaten: now, counted: true,
		epoch: c.epoch.Load(), base: rec.document, guard: rec.seq, attempts: rec.Job.Attempts + 1,
	}, nil
}

// lock begins a write to the job, and unlock ends it.
func (cl *claim) lock(ctx context.Context) error {
	select {
	case cl.writing <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (cl *claim) unlock() { <-cl.writing }

// redelivered notes where a newer delivery of what is held already is acknowledged.
func (cl *claim) redelivered(reply string) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.reply = reply
}

// lapsed reports whether the store has not heard for so long that the job is held that another worker may have it soon.
func (cl *claim) lapsed() bool {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return time.Since(cl.beaten) >= cl.c.patience()
}

// stale reports whether what was checked has to be checked again before it starts.
func (cl *claim) stale() bool {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	holds := claimDelay
	if cl.unclaimable {
		holds = cl.c.lease() / 2
	}
	return cl.hint || cl.epoch != cl.c.epoch.Load() || time.Since(cl.checkedAt) > holds
}

// begin hands the claim to a caller, or answers false if it cannot be started as it is: it is then checked
// again, or dropped.
func (cl *claim) begin() bool {
	c := cl.c
	if cl.lapsed() {
		cl.giveUp()
		return false
	}
	cl.mu.Lock()
	claimed := cl.claimed
	cl.mu.Unlock()
	if !claimed && cl.stale() {
		c.queueCheck(cl)
		return false
	}
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.over != nil || cl.settling || cl.unwanted {
		return false
	}
	cl.begun = time.Now()
	if cl.started.IsZero() {
		cl.started = job.Millis(c.s.Now())
	}
	cl.startTimer()
	cl.taken()
	return true
}

// startTimer has the claim written in a while, if that is not done. Called with mu held.
func (cl *claim) startTimer() {
	if !cl.claimed && cl.over == nil {
		cl.timer = time.AfterFunc(claimDelay, cl.writeClaim)
	}
}

// taken takes the claim out of what Drain waits for. Called with mu held.
func (cl *claim) taken() {
	if cl.counted {
		cl.counted = false
		cl.c.inHand.Add(-1)
		cl.c.jobs.poke()
		cl.c.unclaimed.Done()
	}
}

// Job is the job as it was claimed. See job.Claim.
func (cl *claim) Job() *job.Job {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	r := record{document: cl.base, time: cl.rec.time}
	j := r.public()
	j.Status = job.Running
	j.Attempts = cl.attempts
	j.WorkerID = cl.c.cfg.WorkerID
	j.StartedAt = cl.started
	j.Progress = nil
	if !cl.claimed {
		j.LeaseUntil = cl.started.Add(cl.c.lease())
	}
	return j
}

// Notify registers who is told when the hold ends. See job.Claim.
func (cl *claim) Notify(fn func(error)) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.notify != nil {
		return
	}
	cl.notify = fn
	if cl.told != nil {
		go fn(cl.told)
	}
}

// tell passes on, once, why the handler should stop. Called with mu held.
func (cl *claim) tell(err error) {
	if cl.told != nil {
		return
	}
	cl.told = err
	if cl.notify != nil {
		go cl.notify(err)
	}
}

// end lets go of the claim, for the given reason; nil after it was settled. Only the first one counts.
func (cl *claim) end(why error) {
	cl.mu.Lock()
	if cl.over == nil {
		cl.over = job.ErrLeaseLost
		if why != nil {
			cl.tell(why)
		}
	}
	cl.stopTimer()
	cl.taken()
	cl.mu.Unlock()
	cl.c.release(cl)
}

// drop lets go of a job that is not this one's: no write, no ack.
func (cl *claim) drop() { cl.end(job.ErrLeaseLost) }

// giveUp lets go of what was not renewed for a lease: others may have it by now. If this process wrote a claim and
// never started it, it says so as soon as it can: otherwise whoever comes next takes it for a lost attempt, and an
// outage might use up a job's last one.
func (cl *claim) giveUp() {
	cl.mu.Lock()
	unstarted := cl.wrote != "" && cl.begun.IsZero() && cl.over == nil && !cl.settling && !cl.unwanted
	cl.unwanted = cl.unwanted || unstarted
	cl.mu.Unlock()
	if unstarted {
		cl.c.wg.Go(func() { cl.returnUnstarted(cl.c.ctx, "the store could not be reached") })
		return
	}
	cl.drop()
}

// stopTimer is called with mu held.
func (cl *claim) stopTimer() {
	if cl.timer != nil {
		cl.timer.Stop()
	}
}

// Abandon lets the lease lapse. See job.Claim.
func (cl *claim) Abandon() { cl.drop() }

// ack removes the ready message: it is the last thing to do, since the message is what makes somebody finish
// what was left undone.
func (cl *claim) ack() {
	cl.mu.Lock()
	reply := cl.reply
	cl.mu.Unlock()
	if failpoint.At(failpoint.BeforeAck) != nil {
		return // as if the server had not got it
	}
	// A lost ack costs a redelivery, which finds that there is nothing left to do.
	_ = cl.c.s.nc.Publish(reply, nil)
}

// ackSync is ack, and waits until the server has done it. (It says so as well to somebody whose delivery is long
// another's, so it proves nothing about who held the job.)
func (cl *claim) ackSync(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := noAnswer(failpoint.BeforeAck); err != nil {
		return err
	}
	cl.mu.Lock()
	reply := cl.reply
	cl.mu.Unlock()
	if _, err := cl.c.s.nc.RequestWithContext(ctx, reply, nil); err != nil {
		return fmt.Errorf("ack: %w", err)
	}
	return noAnswer(failpoint.AfterAck)
}

// inProgress has the server wait a lease from now before it hands the job out again. After a claim was written,
// it is so not handed out a moment before that claim's lease is over, to be left for another lease.
func (cl *claim) inProgress() {
	cl.mu.Lock()
	reply := cl.reply
	cl.mu.Unlock()
	_ = cl.c.s.nc.Publish(reply, inProgress) // the next heartbeat says it again
}

// running is the claim's document: base with the next rev, held by this worker.
func (cl *claim) running(writer string, now time.Time) document {
	d := cl.base.next(writer)
	d.Claim, d.Claims = writer, cl.seq
	j := d.job()
	j.Attempts = cl.attempts
	j.WorkerID = cl.c.cfg.WorkerID
	j.StartedAt = cl.started
	j.LeaseUntil = job.Millis(now.Add(cl.c.lease()))
	j.Error = ""
	j.UpdatedAt = job.Millis(now)
	cl.said.keep(j)
	return d
}

// writeClaim makes a started job's claim known, so that others see who runs it.
func (cl *claim) writeClaim() {
	if cl.lock(cl.c.ctx) != nil {
		return
	}
	defer cl.unlock()
	cl.mu.Lock()
	if cl.over != nil || cl.claimed || cl.settling {
		cl.mu.Unlock()
		return
	}
	writer := newWriter()
	cl.wrote = writer
	d := cl.running(writer, cl.c.s.Now())
	guard := cl.guard
	cl.mu.Unlock()

	w := write{tail: cl.rec.tail, state: stateRunning, doc: &d, guard: guard}
	seq, w, recs, err := cl.c.s.settled(cl.c.ctx, w, func(recs []record) (write, bool) {
		if !cl.stillReady(recs) {
			return w, false
		}
		w.guard = last(recs)
		return w, true
	})
	if err == nil {
		err = noAnswer(failpoint.MidHandler)
	}
	if err == nil {
		cl.adopt(w.doc, seq)
		cl.inProgress()
		return
	}
	if errors.Is(err, job.ErrLeaseLost) {
		cl.lost(recs)
		return
	}
	if cl.c.ctx.Err() == nil {
		cl.c.log.Warn().Err(err).Stringer("job", cl.rec.job().Key()).Msg("claim not written; the job goes on")
	}
}

// adopt takes a claim that was stored as the base of what is written next.
func (cl *claim) adopt(d *document, seq uint64) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.base, cl.guard, cl.run, cl.claimed, cl.wrote = *d, seq, seq, true, d.Claim
}

// countLosses counts, once, what a write meant that is known to stand by now.
func (cl *claim) countLosses() {
	cl.mu.Lock()
	loses := cl.loses
	cl.loses = Losses{}
	cl.mu.Unlock()
	cl.c.s.losses.count(cl.c.cfg.Queue, loses)
}

// lost is called when the job's documents say that somebody else holds it, or has ended it.
func (cl *claim) lost(recs []record) {
	n := newest(recs)
	cl.mu.Lock()
	young := cl.cancelledYoung(n) && cl.over == nil
	if young {
		cl.tell(job.ErrCancelRequested)
	}
	cl.mu.Unlock()
	if young {
		return
	}
	why := job.ErrLeaseLost
	if n != nil && (n.state == stateCancelled || n.state == stateDeleted) {
		why = job.ErrCancelRequested // before it was begun
	}
	cl.end(why)
}

// errSettled: a claim was settled before.
var errSettled = fmt.Errorf("%w: it was settled already", job.ErrLeaseLost)

// Heartbeat renews the claim. See job.Claim.
func (cl *claim) Heartbeat(ctx context.Context) error {
	cl.mu.Lock()
	over := cl.over
	cl.mu.Unlock()
	if over != nil {
		return over
	}
	if err := cl.c.renew(ctx, []*claim{cl}); err != nil {
		return fmt.Errorf("heartbeat of %s: %w", cl.rec.job().Key(), err)
	}
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.over
}
