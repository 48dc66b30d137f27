package worker

import (
	"context"
	"fmt"

	"github.com/jetcrew/jetcrew/pkg/failpoint"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// queueRun is a worker's work on one queue: as many slots as it may run jobs at a time.
type queueRun struct {
	*run
	name     string
	slots    int
	consumer job.Consumer
	writes   chan struct{} // bounds the settlements

	claims     context.Context // of Claim; ends once the consumer has drained
	stopClaims context.CancelFunc
}

func (q *queueRun) startSlots() {
	q.w.tally.add(q.slots, 0, 0, 0)
	for range q.slots {
		go func() {
			defer q.w.tally.add(-1, 0, 0, 0)
			q.slot()
		}()
	}
}

// slot runs one job after the other. It asks for a job only when it can start it.
func (q *queueRun) slot() {
	for {
		claim, err := q.consumer.Claim(q.claims)
		if err != nil {
			// In a drain an error says no more than that: nothing is taken any more.
			if !q.draining.Load() && q.claims.Err() == nil {
				q.fail(fmt.Errorf("worker: queue %q: %w", q.name, err))
			}
			return
		}
		if !q.take(claim) {
			return
		}
	}
}

// take sees a claim through. It answers false if the worker has ended.
func (q *queueRun) take(claim job.Claim) bool {
	if failpoint.At(failpoint.AfterClaim) != nil {
		claim.Abandon() // as if it had been lost
		return true
	}
	j := claim.Job()
	a := q.hold(claim, j)
	reg := q.handlers[j.Type]
	if o, ok := q.unstarted(j, reg); ok {
		return q.settle(a, o)
	}
	q.w.tally.add(0, +1, 0, 0)
	a.start(q.run, j, reg)
	settle, alive := q.await(a)
	if !alive {
		a.cancel(job.ErrShutdown)
		claim.Abandon()
		return false
	}
	q.w.tally.add(0, -1, 0, 0)
	if !settle {
		q.observed(a, ResultLost)
		a.cancel(nil)
		claim.Abandon()
		return true
	}
	return q.settle(a, a.outcome)
}

// unstarted is the outcome of a claim whose handler is not to be called.
func (q *queueRun) unstarted(j *job.Job, reg *registration) (job.Outcome, bool) {
	switch {
	case q.draining.Load():
		return job.HandBack(0, notStarted(job.ErrShutdown.Error())), true
	case j.CancelRequested:
		return job.Outcome{Status: job.Cancelled, Error: "cancelled by an operator before it started"}, true
	case !j.Deadline.IsZero() && !q.w.queue.Now().Before(j.Deadline):
		return job.Outcome{Status: job.Dead, Error: "deadline passed before the attempt started"}, true
	case reg == nil:
		return q.unhandled.handBack(j, q.w.queue.Now(), q.cfg.Retry), true
	}
	return job.Outcome{}, false
}
