package streams

import "time"

// action is what to do about a delivery of a ready message.
type action int

const (
	actSetAside action = iota // write it away as dead, raw bytes kept, then ack
	actLeave                  // somebody holds it: no start, no ack
	actDrop                   // it is not there any more: no start, no ack
	actStart                  // run it; the claim is written if the handler still runs after claimDelay
	actClaim                  // write the claim first, then run it
	actEnd                    // write an end without running it
	actCleanUp                // delete what is older than the newest document, ack
	actDefer                  // write it as due: a plain producer gave it an instant that is still to come
)

func (a action) String() string {
	return [...]string{"set aside", "leave", "drop", "start", "claim", "end", "clean up", "defer"}[a]
}

// delivery is a ready message as the server handed it out.
type delivery struct {
	seq   uint64 // in the stream
	count uint64 // how many times it was delivered, as far as the server remembers
	bad   bool   // no job, or contradicting its subject
}

// facts are what is known besides the documents.
type facts struct {
	now      time.Time // the store's
	running  bool      // this process holds the job already
	reported bool      // some worker's presence says that it runs the newest claim now
}

// verdict is what is to be done, and how.
type verdict struct {
	action   action
	attempts int   // used before the attempt that is about to start (actStart, actClaim)
	lost     bool  // an attempt is to be written to history as lost (actClaim, actEnd)
	end      state // what it ends as (actEnd)
	late     bool  // it would start as it is, had the look not taken so long (actClaim)
}

// decide is the rule for every delivery of a ready message: it compares the delivery with the job's
// documents. The first row that fits holds.
func decide(d delivery, recs []record, f facts) verdict {
	if d.bad {
		return verdict{action: actSetAside}
	}
	if f.running {
		return verdict{action: actLeave}
	}
	n := newest(recs)
	if n == nil || !holds(recs, d.seq) {
		return verdict{action: actDrop}
	}
	switch {
	case n.seq == d.seq && n.Writer == "" && n.due().After(f.now):
		return verdict{action: actDefer}
	case n.seq == d.seq:
		used := n.Job.Attempts
		if d.count <= 1 && !n.ClaimFirst {
			return verdict{action: actStart, attempts: used}
		}
		// Somebody had it and vanished before it could report. All such deliveries together count as one
		// lost attempt at most, and never end the job: it may not have been started at all.
		lost := used+1 < n.Job.MaxAttempts
		if lost {
			used++
		}
		return verdict{action: actClaim, attempts: used, lost: lost}
	case n.state == stateRunning:
		return takeOver(n, f)
	default: // an end, a due document, or a newer ready one
		return verdict{action: actCleanUp}
	}
}

// takeOver decides about a claim: it stands for as long as its lease has not lapsed by the store's clock, or
// somebody reports to be running it.
func takeOver(n *record, f facts) verdict {
	switch {
	case !n.lapsed(f.now) || f.reported:
		return verdict{action: actLeave}
	case n.Job.CancelRequested:
		return verdict{action: actEnd, end: stateCancelled, lost: true}
	case n.Job.Attempts >= n.Job.MaxAttempts:
		return verdict{action: actEnd, end: stateDead, lost: true}
	default:
		return verdict{action: actClaim, attempts: n.Job.Attempts, lost: true}
	}
}

// due is the instant that a job waits for.
func (r *record) due() time.Time {
	if !r.Job.RunAt.IsZero() {
		return r.Job.RunAt
	}
	return r.Job.DueAt
}

// lapsed reports whether a claim's lease is over, as far as the document says.
func (r *record) lapsed(now time.Time) bool { return !now.Before(r.Job.LeaseUntil) }

// holds reports whether the ready message of that sequence is among the documents.
func holds(recs []record, seq uint64) bool {
	for i := range recs {
		if recs[i].state == stateReady && recs[i].seq == seq {
			return true
		}
	}
	return false
}

// wakeAction is what to do about a wake.
type wakeAction int

const (
	wakeNothing wakeAction = iota
	wakeMove               // its time has come: write it as ready
	wakeRearm              // it came early: set the alarm again
)

// decideWake compares a wake with the job's documents: it moves only the newest document, and only one that
// is due.
func decideWake(recs []record, now time.Time) wakeAction {
	n := newest(recs)
	switch {
	case n == nil || n.state != stateDue || n.bad != nil:
		return wakeNothing
	case now.Before(n.Job.RunAt):
		return wakeRearm
	default:
		return wakeMove
	}
}
