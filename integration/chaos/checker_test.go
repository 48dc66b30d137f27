package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// rules are what a fault may excuse.
type rules struct {
	// overlap is how long after a success was settled another handler may still start. A server that was
	// killed hands out once more what it had handed out already, as if for the first time; a delivery that
	// was checked is not checked again for 100 ms; and what two processes write down may be late on a busy
	// machine. Zero where no server loses what it knows of deliveries: not one such start is allowed then.
	overlap time.Duration
	// frozen are workers that were stopped for a while: one may have been stopped between taking a job and
	// calling its handler, which nobody can help. Its settlement is refused.
	frozen []string
	// crashes is how many more attempts than a job's own may have been started.
	crashes int
	// excuse says why a store may have forgotten what it acknowledged, and so lose jobs and run others again: its
	// settings allow that. They are counted all the same, and whatever else is wrong is not excused.
	excuse string
	// calm: nobody was killed, frozen or cut off. No attempt is lost then.
	calm bool
	// heirs: what another process has begun since is that one's to settle. So it is where no server forgets, and nobody
	// settles a job at the very moment at which another begins it.
	heirs bool
	// unrecorded: the queue keeps no records, so that jobs may be gone.
	unrecorded bool
	// within is how soon everything has to come to rest. Zero is patience.
	within time.Duration
}

// check waits until everything has come to rest, then checks the whole history.
//
// To rest: every job that is there has one document, an end; there are no wakes, no alarms; nothing waits for
// delivery or for an ack. That it is reached in time is the liveness check.
func (c *crew) check(r rules) {
	c.t.Helper()
	v := c.judge(r)
	for _, b := range v.said[:min(len(v.said), 20)] {
		c.t.Error(b)
	}
	for _, b := range v.excused[:min(len(v.excused), 5)] {
		c.t.Log("excused: ", b)
	}
	if len(v.said) > 0 {
		c.t.Errorf("%d violations", len(v.said))
	}
	v.print()
	c.t.Log(v.figures)
}

// judge is check, with its verdict for the caller to do with as he likes. Where there is no rest it says what can be said
// all the same.
func (c *crew) judge(r rules) *verdict {
	c.t.Helper()
	began := time.Now()
	present, restless := c.rest(cmp.Or(r.within, patience))
	rested := time.Since(began)
	v := &verdict{fault: c.t.Name(), acked: int(c.acked.Load()), recovery: c.recovery(), excuse: r.excuse}
	if restless == nil {
		c.sweepToRest()
		if err := c.walk(present); err != nil {
			v.other("%v", err)
			return v
		}
	}
	if present != nil {
		c.checkProducers(present, r, v)
		c.checkRecords(present, r, v)
	} else {
		r.unrecorded = true // nobody can say yet which ones count
	}
	v.figures = c.checkLedger(present, r, v)
	if restless != nil {
		v.other("not at rest after %s: %v", rested.Round(time.Millisecond), restless)
	}
	v.figures = fmt.Sprintf("%d jobs, %d faults; %s; at rest after %s", len(present), len(c.faults), v.figures, rested.Round(time.Millisecond))
	return v
}

// checkProducers: what was acknowledged is there, as the end that it had to come to; what is there was asked
// for; nobody was told that a job existed before who was the first to ask. What had no answer may be there or
// not.
func (c *crew) checkProducers(present map[string]job.Status, r rules, v *verdict) {
	history := c.history()
	for id, a := range history {
		status, there := present[id]
		switch {
		case !there && r.unrecorded:
		case !there && a.acked:
			v.lose(id, "job %s was acknowledged, and is lost", id)
		case there && status != a.ends:
			v.other("job %s ended %s, want %s", id, status, a.ends)
		case a.acked && !a.created && a.unknown == 0:
			v.other("job %s existed before anybody asked for it", id)
		}
	}
	for id := range present {
		if history[id] == nil {
			v.other("nobody asked for job %s", id)
		}
	}
}

// checkRecords: a success stands exactly once in its record, as the last attempt; attempts count from 1 without
// a gap, and are no more than allowed. What was cancelled may have run, and even have succeeded, or not.
func (c *crew) checkRecords(present map[string]job.Status, r rules, v *verdict) {
	for id, status := range present {
		j, err := c.job(id)
		if err != nil {
			v.other("job %s: %v", id, err)
			continue
		}
		if j.Status != status {
			v.other("job %s: read as %s, stored as %s", id, j.Status, status)
		}
		if j.Attempts > j.MaxAttempts || j.Attempts < 1 && status != job.Cancelled {
			v.other("job %s: %d attempts of %d", id, j.Attempts, j.MaxAttempts)
		}
		succeeded := 0
		for i, a := range j.History {
			if a.Status == job.AttemptSucceeded {
				succeeded++
			}
			if r.calm && a.Status == job.AttemptLost {
				v.other("job %s: attempt %d was lost, and nobody had come to harm", id, a.Attempt)
			}
			if a.Attempt != i+1 {
				v.other("job %s: attempt %d is the %d. of its history", id, a.Attempt, i+1)
			}
		}
		if len(j.History) != j.Attempts {
			v.other("job %s: %d attempts, %d in its history", id, j.Attempts, len(j.History))
		}
		last := j.History[max(0, len(j.History)-1):]
		if want := status == job.Succeeded; status != job.Cancelled && want != (succeeded == 1) || want && last[0].Status != job.AttemptSucceeded {
			v.other("job %s: %s with %d successes in its history", id, status, succeeded)
		}
	}
}

// checked is how long after a look at its document a job may be started upon it, and some more, since two clocks are
// compared.
const checked = 150 * time.Millisecond

func settlesForGood(e entry) bool { return e.Event == eventSettled && job.Status(e.Status).Terminal() }

// checkLedger: a job's end was settled at most once, by the worker that its record names; no handler started
// after that; every success in a record was a handler's; nobody started a job more often than allowed.
func (c *crew) checkLedger(present map[string]job.Status, r rules, v *verdict) string {
	byJob := make(map[string][]entry)
	starts, lost, refused, overlaps := 0, 0, 0, 0
	for _, e := range c.account.all() {
		switch e.Event {
		case eventStart:
			starts++
		case eventLost:
			lost++
		case eventRefused:
			refused++
		}
		if e.Job != "" {
			byJob[e.Job] = append(byJob[e.Job], e)
		}
	}
	for id, es := range byJob {
		slices.SortStableFunc(es, func(a, b entry) int { return cmp.Compare(a.At, b.At) })
		var j *job.Job // nil: there is no record
		if present[id] == "" && !r.unrecorded {
			v.lose(id, "job %s ran, and is not there", id)
			continue
		} else if present[id] != "" {
			var err error
			if j, err = c.job(id); err != nil {
				v.other("job %s: %v", id, err)
				continue
			}
		}
		var end, begun *entry
		started, worked := 0, false
		for i, e := range es {
			switch {
			case e.Event == eventStart:
				started++
				begun = &e
				if end == nil {
					// Whoever settled it did not live to write that down: the server knows when it was.
					if stored, ok := c.ends[id]; ok && e.At > stored+r.overlap+checked && !slices.Contains(r.frozen, e.Worker) {
						v.rerun("job %s: %s started attempt %d %s after its end was stored", id, e.Worker, e.Attempt, e.At-stored)
					}
					break
				}
				after := e.At - end.At
				overlaps++
				if after > r.overlap && !slices.Contains(r.frozen, e.Worker) {
					v.rerun("job %s: %s started attempt %d %s after %s had settled attempt %d as %s",
						id, e.Worker, e.Attempt, after, end.Worker, end.Attempt, end.Status)
				}
			case e.Event == eventDone && e.Error == "" && j != nil && e.Worker == j.WorkerID:
				worked = true
			case settlesForGood(e):
				if end != nil {
					v.double("job %s: settled twice: by %s (attempt %d) and by %s (attempt %d)",
						id, end.Worker, end.Attempt, e.Worker, e.Attempt)
				}
				forgotten := r.excuse != "" && slices.ContainsFunc(es[i+1:], settlesForGood)
				if r.heirs && begun != nil && begun.PID != e.PID {
					v.other("job %s: %s settled attempt %d as %s, when process %d had begun the job after it", id, e.Worker, e.Attempt, e.Status, begun.PID)
				}
				if !forgotten && j != nil && (e.Worker != j.WorkerID || e.Status != string(j.Status)) {
					v.other("job %s: %s settled it as %s, its record says %s by %s", id, e.Worker, e.Status, j.Status, j.WorkerID)
				}
				end = &e
			}
		}
		if j == nil {
			continue
		}
		if j.Status == job.Succeeded && !worked {
			v.other("job %s: its record says that %s succeeded, whose ledger does not", id, j.WorkerID)
		}
		if started > j.MaxAttempts+r.crashes {
			v.other("job %s: started %d times, allowed are %d attempts", id, started, j.MaxAttempts)
		}
	}
	for id := range present {
		if byJob[id] == nil && present[id] != job.Cancelled {
			v.other("job %s ended without having run", id)
		}
	}
	unknown := 0
	for _, a := range c.history() {
		unknown += a.unknown
	}
	return fmt.Sprintf("%d starts, %d settlements lost to others, %d refused, %d overlaps, %d enqueues without an answer",
		starts, lost, refused, overlaps, unknown)
}
