package streams

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// docOf is a document for the table: state, rev, sequence, attempts used, and the most that there may be.
func docOf(s state, rev, seq uint64, used, most int, more ...func(*record)) record {
	r := record{state: s, seq: seq, document: document{V: 1, Rev: rev, Writer: newWriter()}}
	r.Job = fields(job.Job{Queue: "q", Space: "s", ID: "1", Type: "t", Attempts: used, MaxAttempts: most, Status: s.status()})
	if s == stateRunning {
		r.Job.LeaseUntil = noon
	}
	for _, f := range more {
		f(&r)
	}
	return r
}

func claims(seq uint64) func(*record) { return func(r *record) { r.Claims = seq } }
func until(t time.Time) func(*record) { return func(r *record) { r.Job.LeaseUntil = t } }
func flagged(r *record)               { r.Job.CancelRequested = true }
func suspect(r *record)               { r.ClaimFirst = true }
func unreadable(r *record)            { r.bad = errors.New("bad"); r.document = document{} }

func TestEveryRowOfTheDeliveryTable(t *testing.T) {
	ready := docOf(stateReady, 3, 7, 1, 3)
	running := func(used int, more ...func(*record)) record {
		return docOf(stateRunning, 4, 8, used, 3, append([]func(*record){claims(7)}, more...)...)
	}
	first, again := delivery{seq: 7, count: 1}, delivery{seq: 7, count: 2}
	at := facts{now: noon}
	just := facts{now: noon.Add(-1)}
	for _, c := range []struct {
		name string
		d    delivery
		recs []record
		f    facts
		want verdict
	}{
		{"no job", delivery{seq: 7, count: 1, bad: true}, []record{ready}, at, verdict{action: actSetAside}},
		{"no job, though this process runs something", delivery{seq: 7, count: 2, bad: true}, nil, facts{now: noon, running: true}, verdict{action: actSetAside}},
		{"this process runs it", first, []record{ready}, facts{now: noon, running: true}, verdict{action: actLeave}},
		{"this process runs it, though it has ended", again, []record{ready, docOf(stateSucceeded, 5, 9, 2, 3)}, facts{now: noon, running: true}, verdict{action: actLeave}},
		{"there is no document", first, nil, at, verdict{action: actDrop}},
		{"this ready message is gone, a newer one stands", first, []record{docOf(stateReady, 5, 9, 1, 3)}, at, verdict{action: actDrop}},
		{"this ready message is gone, an older one stands", first, []record{docOf(stateReady, 2, 6, 1, 3)}, at, verdict{action: actDrop}},
		{"this ready message is gone, its claim stands", again, []record{running(2)}, at, verdict{action: actDrop}},
		{"this ready message is gone, its end stands", again, []record{docOf(stateSucceeded, 5, 9, 2, 3)}, at, verdict{action: actDrop}},
		{"another state has this sequence", first, []record{docOf(stateDue, 3, 7, 1, 3)}, at, verdict{action: actDrop}},

		{"first delivery", first, []record{ready}, at, verdict{action: actStart, attempts: 1}},
		{"a delivery that the server does not count", delivery{seq: 7}, []record{ready}, at, verdict{action: actStart, attempts: 1}},
		{"first delivery of one that was never tried", first, []record{docOf(stateReady, 1, 7, 0, 3)}, at, verdict{action: actStart}},
		{"first delivery, older documents stand", first, []record{docOf(stateDue, 2, 6, 1, 3), ready}, at, verdict{action: actStart, attempts: 1}},
		{"first delivery of a suspect one", first, []record{docOf(stateReady, 3, 7, 0, 3, suspect)}, at, verdict{action: actClaim, attempts: 1, lost: true}},
		{"second delivery", again, []record{docOf(stateReady, 3, 7, 0, 3)}, at, verdict{action: actClaim, attempts: 1, lost: true}},
		{"tenth delivery", delivery{seq: 7, count: 10}, []record{docOf(stateReady, 3, 7, 0, 3)}, at, verdict{action: actClaim, attempts: 1, lost: true}},
		{"second delivery with two attempts left", again, []record{ready}, at, verdict{action: actClaim, attempts: 2, lost: true}},
		{"second delivery before the last attempt", again, []record{docOf(stateReady, 3, 7, 2, 3)}, at, verdict{action: actClaim, attempts: 2}},
		{"second delivery of one with one attempt", again, []record{docOf(stateReady, 1, 7, 0, 1)}, at, verdict{action: actClaim}},
		{"second delivery, though somebody were reported", again, []record{ready}, facts{now: noon, reported: true}, verdict{action: actClaim, attempts: 2, lost: true}},

		{"an unlapsed claim", again, []record{ready, running(2)}, just, verdict{action: actLeave}},
		{"an unlapsed claim at a first delivery", first, []record{ready, running(2)}, just, verdict{action: actLeave}},
		{"an unlapsed claim that is reported", again, []record{ready, running(2)}, facts{now: noon.Add(-1), reported: true}, verdict{action: actLeave}},
		{"an unlapsed claim with a flag", again, []record{ready, running(2, flagged)}, just, verdict{action: actLeave}},
		{"an unlapsed claim of the last attempt", again, []record{ready, running(3)}, just, verdict{action: actLeave}},
		{"a lapsed claim that is reported", again, []record{ready, running(2)}, facts{now: noon.Add(time.Hour), reported: true}, verdict{action: actLeave}},
		{"a lapsed claim of the last attempt that is reported", again, []record{ready, running(3, flagged)}, facts{now: noon.Add(time.Hour), reported: true}, verdict{action: actLeave}},
		{"a lapsed claim", again, []record{ready, running(2)}, at, verdict{action: actClaim, attempts: 2, lost: true}},
		{"a lapsed claim at a first delivery", first, []record{ready, running(2)}, at, verdict{action: actClaim, attempts: 2, lost: true}},
		{"a lapsed claim of the first attempt", again, []record{running(1), ready}, at, verdict{action: actClaim, attempts: 1, lost: true}},
		{"a lapsed claim without an instant", again, []record{ready, running(1, until(time.Time{}))}, at, verdict{action: actClaim, attempts: 1, lost: true}},
		{"a lapsed claim of the last attempt", again, []record{ready, running(3)}, at, verdict{action: actEnd, end: stateDead, lost: true}},
		{"a lapsed claim past the last attempt", again, []record{ready, running(4)}, at, verdict{action: actEnd, end: stateDead, lost: true}},
		{"a lapsed claim with a flag", again, []record{ready, running(1, flagged)}, at, verdict{action: actEnd, end: stateCancelled, lost: true}},
		{"a lapsed claim of the last attempt with a flag", again, []record{ready, running(3, flagged)}, at, verdict{action: actEnd, end: stateCancelled, lost: true}},
		{"any other claim, unlapsed", first, []record{ready, running(2, claims(5))}, just, verdict{action: actLeave}},
		{"any other claim, lapsed", first, []record{ready, running(2, claims(5))}, at, verdict{action: actClaim, attempts: 2, lost: true}},
		{"any other claim, lapsed and reported", first, []record{ready, running(2, claims(5))}, facts{now: noon, reported: true}, verdict{action: actLeave}},

		{"an end", again, []record{ready, running(2), docOf(stateSucceeded, 5, 9, 2, 3)}, at, verdict{action: actCleanUp}},
		{"an end at a first delivery", first, []record{ready, docOf(stateFailed, 4, 9, 2, 3)}, at, verdict{action: actCleanUp}},
		{"dead", again, []record{ready, docOf(stateDead, 4, 9, 3, 3)}, at, verdict{action: actCleanUp}},
		{"cancelled", again, []record{ready, docOf(stateCancelled, 4, 9, 3, 3, flagged)}, at, verdict{action: actCleanUp}},
		{"a due document", again, []record{ready, running(2), docOf(stateDue, 5, 9, 2, 3)}, at, verdict{action: actCleanUp}},
		{"a plain message published over an end", first, []record{docOf(stateSucceeded, 2, 3, 1, 3), docOf(stateReady, 0, 7, 0, 3)}, at, verdict{action: actCleanUp}},
		{"a plain message published over a due document", first, []record{docOf(stateDue, 1, 3, 0, 3), docOf(stateReady, 0, 7, 0, 3)}, at, verdict{action: actCleanUp}},
		{"a plain message where nothing is", first, []record{docOf(stateReady, 0, 7, 0, 3)}, at, verdict{action: actStart}},
		{"beside a document that cannot be read", first, []record{ready, docOf(stateDead, 9, 9, 0, 3, unreadable)}, at, verdict{action: actStart, attempts: 1}},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, decide(c.d, c.recs, c.f)) })
	}
}

func TestAWakeMovesOnlyTheNewestDocumentAndOnlyInTime(t *testing.T) {
	due := docOf(stateDue, 3, 7, 0, 3, func(r *record) { r.Job.RunAt = noon })
	for _, c := range []struct {
		name string
		recs []record
		now  time.Time
		want wakeAction
	}{
		{"nothing there", nil, noon, wakeNothing},
		{"a moment early", []record{due}, noon.Add(-1), wakeRearm},
		{"in time", []record{due}, noon, wakeMove},
		{"late", []record{due}, noon.Add(time.Hour), wakeMove},
		{"late, with older documents", []record{docOf(stateReady, 1, 3, 0, 3), docOf(stateRunning, 2, 5, 1, 3), due}, noon, wakeMove},
		{"moved before", []record{due, docOf(stateReady, 4, 8, 0, 3)}, noon, wakeNothing},
		{"claimed before", []record{docOf(stateReady, 4, 8, 0, 3), docOf(stateRunning, 5, 9, 1, 3), due}, noon, wakeNothing},
		{"ended before", []record{due, docOf(stateCancelled, 4, 8, 0, 3)}, noon, wakeNothing},
		{"ready", []record{docOf(stateReady, 4, 8, 0, 3)}, noon, wakeNothing},
		{"what cannot be read", []record{docOf(stateDue, 3, 7, 0, 3, unreadable)}, noon, wakeNothing},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, decideWake(c.recs, c.now)) })
	}
}

func TestTheHighestRevIsTheTruth(t *testing.T) {
	a, b, c := docOf(stateReady, 2, 9, 0, 3), docOf(stateRunning, 3, 8, 0, 3), docOf(stateDead, 3, 10, 0, 3)
	bad := docOf(stateDue, 9, 11, 0, 3, unreadable)
	require.Nil(t, newest(nil))
	require.Equal(t, b.seq, newest([]record{a, b}).seq)
	require.Equal(t, b.seq, newest([]record{b, a}).seq)
	require.Equal(t, c.seq, newest([]record{c, b, a}).seq, "the later of two")
	require.Equal(t, c.seq, newest([]record{bad, b, c}).seq, "what can be read counts before what cannot")
	require.Equal(t, bad.seq, newest([]record{bad}).seq)
	require.EqualValues(t, 11, last([]record{a, bad, b}))
	require.Zero(t, last(nil))
	require.Equal(t, []uint64{9, 8}, older([]record{a, b, docOf(stateDead, 4, 12, 0, 3)}, 4, 0))
	require.Equal(t, []uint64{8}, older([]record{a, b, docOf(stateDead, 4, 12, 0, 3)}, 4, 9))
	require.Empty(t, older([]record{b, c}, 3, 0))
	require.Equal(t, b.seq, written([]record{a, b}, "x", b.Writer).seq)
	require.Nil(t, written([]record{a, {}}, ""), "a document without a writer is nobody's")
}
