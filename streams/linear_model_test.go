package streams

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// life is one job as the model has it: all that several clients' answers must agree on, in some order in which each
// operation happens at one instant between its call and its answer.
type life struct {
	state    state  // none: there is no such job
	seq      uint64 // of its newest ready message; 0: no claim has told it yet
	past     uint64 // it is later than this one
	holder   int    // the claim by which it runs
	flagged  bool
	young    bool // it was cancelled while it was ready, or held by a claim that could not be read yet
	attempts int
	history  int
}

// act is what a client asks for.
type act struct {
	op       string // enqueue, get, settle, claim, or an operator's
	later    bool   // enqueued for later
	outcome  job.Outcome
	claim    int    // that is settled, or written
	seq      uint64 // of the ready message that it holds,
	attempts int    // and what it says of the job
	history  int
}

// answer is what a client is told.
type answer struct {
	unknown bool // it is not told whether it took effect
	missing bool // there is no such job
	lost    bool // it is not the claim's any more
	done    bool
	status  job.Status
	flagged bool
	// Of a record that was read, or written by a settlement.
	record   bool
	later    bool
	attempts int
	history  int
}

const (
	linearAttempts = 3
	linearDelay    = time.Hour // of what is for later: it never falls due meanwhile
)

// branch is one way in which an act can go.
type branch struct {
	life
	answer
}

// steps are the lives that follow from an act that was answered so.
func (l life) steps(a act, told answer) []any {
	var next []any
	for _, b := range l.branches(a) {
		if told.unknown || told == b.answer {
			next = append(next, b.life)
		}
	}
	if told.unknown {
		next = append(next, l)
	}
	return next
}

func (l life) branches(a act) []branch {
	same := func(b answer) []branch { return []branch{{l, b}} }
	switch a.op {
	case "enqueue":
		if l.state != "" {
			return same(answer{})
		}
		return []branch{{life{past: l.top()}.waits(a.later), answer{done: true}}}
	case "claim":
		if l.state == stateReady && l.has(a) {
			l.state, l.seq, l.holder, l.attempts = stateRunning, a.seq, a.claim, a.attempts
			return same(answer{})
		}
		return nil
	case "settle":
		return l.settle(a)
	}
	if l.state == "" {
		return same(answer{missing: true})
	}
	if a.op == "get" {
		return same(l.read())
	}
	next, ok := l.operate(job.Operation(a.op))
	if !ok {
		return same(answer{status: l.state.status(), flagged: l.flagged})
	}
	return []branch{{next, answer{done: true, status: next.state.status(), flagged: next.flagged}}}
}

// top is the last ready message that is known.
func (l life) top() uint64 { return max(l.past, l.seq) }

// waits is the job when a new message of it stands among what is ready, or due.
func (l life) waits(later bool) life {
	l.past, l.seq, l.state, l.young, l.holder = l.top(), 0, stateReady, false, 0
	if later {
		l.state = stateDue
	}
	return l
}

// has reports whether the newest ready message may be the one that a claim holds.
func (l life) has(a act) bool {
	return (l.seq == a.seq || l.seq == 0 && a.seq > l.past) && l.attempts+1 == a.attempts && l.history == a.history
}

func (l life) read() answer {
	return answer{
		record: true, status: l.state.status(), later: l.state == stateDue, flagged: l.flagged,
		attempts: l.attempts, history: l.history,
	}
}

func (l life) operate(op job.Operation) (life, bool) {
	switch {
	case op == job.OpCancel && l.state == stateRunning && !l.flagged:
		l.flagged = true
	case op == job.OpCancel && (l.state == stateReady || l.state == stateDue):
		l.young = l.state == stateReady
		l.state = stateCancelled
	case op == job.OpRequeue && l.state.terminal():
		l = l.waits(false)
		l.attempts, l.flagged = 0, false
	case op == job.OpRunNow && l.state == stateDue:
		l = l.waits(false)
	case op == job.OpDelete && l.state != stateRunning:
		l = life{past: l.top()}
	default:
		return l, false
	}
	return l, true
}

func (l life) settle(a act) []branch {
	lost := branch{l, answer{lost: true}}
	o := a.outcome
	switch {
	case l.state == stateRunning && l.holder == a.claim:
		return []branch{l.conclude(a)}
	case l.state == stateReady && l.has(a):
		b := l.conclude(a)
		if l.seq == 0 { // or the message is another one
			return []branch{b, lost}
		}
		return []branch{b}
	case l.young && l.has(a):
		told := l
		told.seq, told.young = a.seq, false
		if !o.Refund {
			told.attempts = a.attempts
			told.history++
		}
		if l.seq == 0 {
			return []branch{{told, told.read()}, lost}
		}
		return []branch{{told, told.read()}}
	}
	return []branch{lost}
}

// conclude is what an outcome makes of a job that is the claim's.
func (l life) conclude(a act) branch {
	o := a.outcome
	l.seq, l.attempts = a.seq, a.attempts
	if o.Refund {
		l.attempts--
	} else {
		l.history++
	}
	switch {
	case o.Status != job.Pending:
		l.state, l.holder = state(o.Status), 0
	case l.flagged:
		l.state, l.holder = stateCancelled, 0
	case !o.Refund && a.attempts >= linearAttempts:
		l.state, l.holder = stateDead, 0
	default:
		l = l.waits(o.Delay > 0)
	}
	return branch{l, l.read()}
}

func linearModel() porcupine.Model {
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{life{}} },
		Step: func(l, in, out any) []any { return l.(life).steps(in.(act), out.(answer)) },
	}
	return m.ToModel()
}

// The check can fail: each of these is what one client after another was told by a store that has gone wrong, or, by
// its last answer alone, by one that has not.
func TestTheLinearModelRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	hold := func(op string, claim int, seq uint64, attempts, history int, o job.Outcome) act {
		return act{op: op, claim: claim, seq: seq, attempts: attempts, history: history, outcome: o}
	}
	type told struct {
		a act
		answer
	}
	var (
		enqueue   = told{act{op: "enqueue"}, answer{done: true}}
		later     = told{act{op: "enqueue", later: true}, answer{done: true}}
		claimed   = told{hold("claim", 1, 5, 1, 0, job.Outcome{}), answer{}}
		succeeded = answer{record: true, status: job.Succeeded, attempts: 1, history: 1}
		succeed   = told{hold("settle", 1, 5, 1, 0, job.Succeed(nil)), succeeded}
		cancelled = answer{done: true, status: job.Cancelled}
		cancel    = told{act{op: "cancel"}, cancelled}
		requeue   = told{act{op: "requeue"}, answer{done: true, status: job.Pending}}
		flag      = told{act{op: "cancel"}, answer{done: true, status: job.Running, flagged: true}}
		lost      = answer{lost: true}
		fresh     = answer{record: true, status: job.Pending}
		missing   = answer{missing: true}
	)
	for name, c := range map[string]struct {
		before      []told
		last        act
		wrong, good answer
	}{
		"two are told that they created it": {[]told{enqueue}, act{op: "enqueue"}, answer{done: true}, answer{}},
		"an acknowledged job is gone":       {[]told{enqueue}, act{op: "get"}, missing, fresh},
		"a later job is ready":              {[]told{later}, act{op: "get"}, fresh, answer{record: true, status: job.Pending, later: true}},
		"what was run now is due":           {[]told{later, {act{op: "run-now"}, answer{done: true, status: job.Pending}}}, act{op: "run-now"}, answer{done: true, status: job.Pending}, answer{status: job.Pending}},
		"it is cancelled twice":             {[]told{enqueue, cancel}, act{op: "cancel"}, cancelled, answer{status: job.Cancelled}},
		"it is cancelled after its end":     {[]told{enqueue, claimed, succeed}, act{op: "cancel"}, cancelled, answer{status: job.Succeeded}},
		"it is settled twice":               {[]told{enqueue, claimed, succeed}, succeed.a, succeeded, lost},
		"a settlement is undone":            {[]told{enqueue, claimed, succeed}, act{op: "get"}, answer{record: true, status: job.Running, attempts: 1}, succeeded},
		"a flag is forgotten":               {[]told{enqueue, claimed, flag}, act{op: "get"}, answer{record: true, status: job.Running, attempts: 1}, answer{record: true, status: job.Running, flagged: true, attempts: 1}},
		"a cancelled job is tried again":    {[]told{enqueue, claimed, flag}, hold("settle", 1, 5, 1, 0, job.HandBack(0, "")), fresh, answer{record: true, status: job.Cancelled, flagged: true}},
		"a claim outlives a requeue":        {[]told{enqueue, claimed, succeed, requeue, {hold("claim", 2, 8, 1, 1, job.Outcome{}), answer{}}}, hold("settle", 1, 5, 1, 0, job.Succeed(nil)), succeeded, lost},
		"an old message is settled":         {[]told{enqueue, claimed, succeed, requeue}, hold("settle", 2, 5, 1, 1, job.Succeed(nil)), answer{record: true, status: job.Succeeded, attempts: 1, history: 2}, lost},
		"a holder is told that it is not":   {[]told{enqueue, claimed}, succeed.a, lost, succeeded},
		"a requeue keeps the attempts":      {[]told{enqueue, claimed, succeed, requeue}, act{op: "get"}, answer{record: true, status: job.Pending, attempts: 1, history: 1}, answer{record: true, status: job.Pending, history: 1}},
		"a requeue loses the history":       {[]told{enqueue, claimed, succeed, requeue}, act{op: "get"}, fresh, answer{record: true, status: job.Pending, history: 1}},
		"a running job is deleted":          {[]told{enqueue, claimed}, act{op: "delete"}, answer{done: true}, answer{status: job.Running}},
		"a deleted job comes back":          {[]told{enqueue, {act{op: "delete"}, answer{done: true}}}, act{op: "get"}, fresh, missing},
		"an unknown enqueue happened twice": {[]told{{enqueue.a, answer{unknown: true}}, {act{op: "delete"}, answer{done: true}}}, act{op: "get"}, fresh, missing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, last := range []struct {
				answer
				want porcupine.CheckResult
			}{{c.wrong, porcupine.Illegal}, {c.good, porcupine.Ok}} {
				var history []porcupine.Operation
				for i, o := range append(slices.Clone(c.before), told{c.last, last.answer}) {
					end := int64(10*i + 5)
					if o.unknown {
						end = math.MaxInt64
					}
					history = append(history, porcupine.Operation{Input: o.a, Call: int64(10 * i), Output: o.answer, Return: end})
				}
				require.Equal(t, last.want, porcupine.CheckOperationsTimeout(linearModel(), history, soon), "%s", linearText(history))
			}
		})
	}
}
