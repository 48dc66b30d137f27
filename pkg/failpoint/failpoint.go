// Package failpoint names the places at which a process can be made to die, to
// stop or to fail, so that tests can have it happen there and not just nearby;
// and the rules that a test can break on purpose, to see that breaking them is
// noticed.
//
// Only a program built with the tag "failpoints" listens. In any other, [At] and
// [Broken] are constants that the compiler removes.
//
// What is to happen is said in the environment:
//
//	JETCREW_FAILPOINTS="before-settle=kill#3,after-claim=delay:2s,after-ack=error"
//	JETCREW_BROKEN="ack-before-settle"
//
// An action is kill (SIGKILL), stop (SIGSTOP), error or delay:<duration>; with #n
// it happens once, at the n-th time that the place is passed, with %n at each n-th
// time, else every time. "failpoint NAME: ACTION" is printed right before.
package failpoint

// The places, in the order in which a job passes them. What an error there means is what it would be if the server had
// given it: an answer that did not come, a hold that is lost, a message that did not arrive.
const (
	AfterEnqueue    = "after-enqueue-before-answer" // the job is stored, its producer does not know
	AfterClaim      = "after-claim"                 // the worker has taken the job, no handler has been called; error: its hold is lost
	AfterClaimWrite = "after-claim-write"           // a redelivered job's claim stands in the store, no handler has been called
	MidHandler      = "mid-handler"                 // the claim stands in the store, the handler runs
	BeforeSettle    = "before-settle"               // the handler has returned
	AfterSettle     = "after-settle-before-ack"     // the outcome is stored, its worker does not know, older documents stand
	BeforeAck       = "before-ack"                  // older documents are gone, the delivery is not acknowledged; error: the ack is lost
	AfterAck        = "after-ack"                   // the delivery is acknowledged; error: only where the ack is answered
	AfterFire       = "after-fire-before-advance"   // a schedule's job is stored, its next run not
	AfterSweepList  = "after-list-before-repair"    // housekeeping has read what it is about to repair
	AfterTerm       = "after-term-before-renewal"   // a leader is about to renew its term
)

// The rules that can be broken.
const (
	AckBeforeSettle      = "ack-before-settle"         // a delivery is acknowledged before its outcome is stored
	SettleUnguarded      = "settle-without-sequence"   // an outcome is written whatever was written before
	StillOursByAttempt   = "still-ours-by-attempt"     // a claim is known by worker and attempt alone
	NoCheckBeforeStart   = "no-check-before-start"     // a delivery is run without a look at the job's document
	GuardSpeltTwoWays    = "guard-spelt-two-ways"      // the guard of a write depends on who writes
	PrefetchWithoutBeats = "prefetch-without-beats"    // 500 jobs are fetched ahead, and not kept alive
	ClaimsBySubject      = "claims-deleted-by-subject" // a claim is deleted by its name, whoever holds it
	EndsWithoutFloor     = "ends-without-floor"        // an end goes as soon as its retention says
	RenewsWhatItFinds    = "renews-what-it-finds"      // a leader renews whatever term it finds
	ScheduleCarriesJob   = "schedule-carries-job"      // the server's message schedule carries the job itself
)
