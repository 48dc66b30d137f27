package streams

import "github.com/jetcrew/jetcrew/pkg/failpoint"

func (cl *claim) isStillReady(recs []record) bool {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.stillReady(recs)
}

// stillReady reports whether the job is as it was delivered: the very document that is held is the newest.
func (cl *claim) stillReady(recs []record) bool {
	n := newest(recs)
	return n != nil && n.seq == cl.seq && n.Writer == cl.rec.Writer
}

// mine reports whether the newest document is a claim that this very run wrote, flagged or not. (The same
// worker, attempt and sequence would not be enough: a handler that outlived its lease and its successor in the
// same process have those in common.)
func (cl *claim) mine(n *record) bool {
	if failpoint.Broken(failpoint.StillOursByAttempt) {
		return n != nil && n.state == stateRunning && n.Claims == cl.seq && n.Job.WorkerID == cl.c.cfg.WorkerID && n.Job.Attempts == cl.attempts
	}
	return n != nil && n.state == stateRunning && cl.wrote != "" && n.Claim == cl.wrote
}

// cancelledYoung reports whether an operator cancelled the job when this claim's handler ran already, but nobody could
// read so yet. The claim is held on, to write down what becomes of the attempt. Called with mu held.
func (cl *claim) cancelledYoung(n *record) bool {
	return n != nil && n.state == stateCancelled && n.Claims == cl.seq && !cl.claimed && !cl.begun.IsZero()
}
