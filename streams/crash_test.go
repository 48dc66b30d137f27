package streams

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// finish has a healthy node run what is left of a queue, and answers how often each job was started.
func (n *node) finish(c *consumer, queue string, jobs int) map[string]int {
	n.t.Helper()
	starts := make(map[string]int)
	natstest.Eventually(n.t, 60*time.Second, func() error {
		ctx, cancel := context.WithTimeout(n.t.Context(), 300*time.Millisecond)
		defer cancel()
		for {
			cl, err := c.Claim(ctx)
			if err != nil {
				break
			}
			starts[cl.Job().ID]++
			settle(n.t, cl, job.Succeed(nil))
		}
		return n.isClean(queue, jobs)
	})
	return starts
}

// crashOf is one way to die: what is done at the node that dies, and what has to hold of the job in the end.
type crashOf struct {
	at       Point
	do       func(t *testing.T, n *node, c *consumer)
	starts   int // of the handler after the crash
	attempts int
	history  []job.AttemptStatus
	status   job.Status
	spec     job.Spec
}

func startAndSettle(o job.Outcome, seen bool) func(*testing.T, *node, *consumer) {
	return func(t *testing.T, n *node, c *consumer) {
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		cl, err := c.Claim(ctx)
		if err != nil {
			return // it died before
		}
		if seen {
			n.see(cl.Job().Key(), job.Running)
		}
		_, err = cl.Settle(ctx, o)
		require.Error(t, err)
	}
}

func claimAndWait(t *testing.T, n *node, c *consumer) {
	go func() { _, _ = c.Claim(context.Background()) }() // ends with the connection
	n.awaitDeath()
}

func TestEveryCrashPoint(t *testing.T) {
	t.Parallel()
	p := server(t)
	p.open(t)
	ok, lost, failed := job.AttemptSucceeded, job.AttemptLost, job.AttemptFailed
	retry := job.Spec{MaxAttempts: 3}
	delayed := job.Spec{MaxAttempts: 3, Delay: 300 * time.Millisecond}
	for name, c := range map[string]crashOf{
		"delivered": {at: AfterDelivery, do: claimAndWait, starts: 1, attempts: 2, history: []job.AttemptStatus{lost, ok}},
		"delivered, with one attempt": {
			at: AfterDelivery, do: claimAndWait, starts: 1, attempts: 1, history: []job.AttemptStatus{ok},
			spec: job.Spec{MaxAttempts: 1},
		},
		"started":       {at: BeforeSettle, do: startAndSettle(job.Succeed(nil), false), starts: 1, attempts: 2, history: []job.AttemptStatus{lost, ok}},
		"claim written": {at: BeforeSettle, do: startAndSettle(job.Succeed(nil), true), starts: 1, attempts: 2, history: []job.AttemptStatus{lost, ok}},
		"claim written, with one attempt": {
			at: BeforeSettle, do: startAndSettle(job.Succeed(nil), true), attempts: 1,
			history: []job.AttemptStatus{lost}, status: job.Dead, spec: job.Spec{MaxAttempts: 1},
		},
		"settled, young": {at: AfterSettle, do: startAndSettle(job.Succeed(nil), false), attempts: 1, history: []job.AttemptStatus{ok}},
		"settled":        {at: AfterSettle, do: startAndSettle(job.Succeed(nil), true), attempts: 1, history: []job.AttemptStatus{ok}},
		"settled dead": {
			at: AfterSettle, do: startAndSettle(job.Outcome{Status: job.Dead}, true), attempts: 1,
			history: []job.AttemptStatus{failed}, status: job.Dead,
		},
		"not acked, young": {at: BeforeAck, do: startAndSettle(job.Succeed(nil), false), attempts: 1, history: []job.AttemptStatus{ok}},
		"not acked":        {at: BeforeAck, do: startAndSettle(job.Succeed(nil), true), attempts: 1, history: []job.AttemptStatus{ok}},
		"acked":            {at: AfterAck, do: startAndSettle(job.Succeed(nil), true), attempts: 1, history: []job.AttemptStatus{ok}},
		"retry at once, settled": {
			at: AfterSettle, do: startAndSettle(job.Fail(0, "no"), true), starts: 1, attempts: 2,
			history: []job.AttemptStatus{failed, ok}, spec: retry,
		},
		"retry at once, not acked": {
			at: BeforeAck, do: startAndSettle(job.Fail(0, "no"), true), starts: 1, attempts: 2,
			history: []job.AttemptStatus{failed, ok}, spec: retry,
		},
		"retry, alarm set": {
			at: AfterAlarm, do: startAndSettle(job.Fail(300*time.Millisecond, "no"), true), starts: 1, attempts: 2,
			history: []job.AttemptStatus{lost, ok}, spec: retry,
		},
		"retry, alarm set, young": {
			at: AfterAlarm, do: startAndSettle(job.Fail(300*time.Millisecond, "no"), false), starts: 1, attempts: 2,
			history: []job.AttemptStatus{lost, ok}, spec: retry,
		},
		"retry, settled": {
			at: AfterSettle, do: startAndSettle(job.Fail(300*time.Millisecond, "no"), true), starts: 1, attempts: 2,
			history: []job.AttemptStatus{failed, ok}, spec: retry,
		},
		"retry, not acked": {
			at: BeforeAck, do: startAndSettle(job.Fail(300*time.Millisecond, "no"), true), starts: 1, attempts: 2,
			history: []job.AttemptStatus{failed, ok}, spec: retry,
		},
		"handed back, not acked": {
			at: BeforeAck, do: startAndSettle(job.HandBack(0, "no"), true), starts: 1, attempts: 1,
			history: []job.AttemptStatus{ok}, spec: retry,
		},
		"woken": {
			at: AfterWakeMove, do: func(_ *testing.T, n *node, _ *consumer) { n.awaitDeath() }, starts: 1, attempts: 1,
			history: []job.AttemptStatus{ok}, spec: delayed,
		},
		"woken, due deleted": {
			at: AfterWakeDelete, do: func(_ *testing.T, n *node, _ *consumer) { n.awaitDeath() }, starts: 1, attempts: 1,
			history: []job.AttemptStatus{ok}, spec: delayed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := queueName(t)
			healthy := p.open(t)
			healthy.quickWakes(q)
			dying := p.dying(t, c.at)
			first := dying.work(q, "first")
			s := c.spec
			s.Queue, s.ID, s.Type = q, "1", "t"
			key := healthy.enqueue(s)
			c.do(t, dying, first)
			dying.awaitDeath()

			starts := healthy.finish(healthy.work(q, "second"), q, 1)
			require.Equal(t, c.starts, starts["1"], "starts after the crash")
			want := c.status
			if want == "" {
				want = job.Succeeded
			}
			j := healthy.see(key, want)
			require.Equal(t, c.attempts, j.Attempts)
			var history []job.AttemptStatus
			for i, a := range j.History {
				history = append(history, a.Status)
				require.Equal(t, i+1, a.Attempt)
			}
			require.Equal(t, c.history, history)
		})
	}
}

func TestACrashAfterATakeOver(t *testing.T) {
	t.Parallel()
	p := server(t)
	n := p.open(t)
	q := "q"
	key := n.enqueue(job.Spec{Queue: q, ID: "1", Type: "t", MaxAttempts: 5})
	zero := n.work(q, "zero")
	cl := claimOne(t, zero)
	n.see(key, job.Running)
	cl.Abandon()
	require.NoError(t, zero.Close(t.Context()))
	dying := p.dying(t, AfterClaimWrite)
	claimAndWait(t, dying, dying.work(q, "first"))
	starts := n.finish(n.work(q, "second"), q, 1)
	require.Equal(t, 1, starts["1"])
	j := n.see(key, job.Succeeded)
	require.Equal(t, 3, j.Attempts)
	require.Equal(t, []string{"zero", "first", "second"}, []string{j.History[0].WorkerID, j.History[1].WorkerID, j.History[2].WorkerID})
}

func TestAnEnqueueThatDies(t *testing.T) {
	t.Parallel()
	p := server(t)
	for name, c := range map[string]struct {
		at     Point
		delay  time.Duration
		stored bool
	}{
		"after its write":                   {AfterEnqueue, 0, true},
		"after its write, due later":        {AfterEnqueue, 300 * time.Millisecond, true},
		"after its alarm":                   {AfterAlarm, 300 * time.Millisecond, false},
		"after the alarms of all":           {AfterAlarm, 300 * time.Millisecond, false},
		"after the write of all, due later": {AfterEnqueue, 300 * time.Millisecond, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := queueName(t)
			n := p.open(t)
			n.quickWakes(q)
			dying := p.dying(t, c.at)
			specs := []job.Spec{spec(q, "1")}
			if len(name) > 20 && name[len(name)-3:] == "all" || c.at == AfterEnqueue && len(name) > 30 {
				specs = append(specs, spec(q, "2"))
			}
			for i := range specs {
				specs[i].Delay = c.delay
			}
			var err error
			if len(specs) == 1 {
				_, err = dying.Enqueue(t.Context(), specs[0])
			} else {
				_, err = dying.EnqueueAll(t.Context(), specs)
			}
			require.Error(t, err)
			dying.awaitDeath()
			for _, s := range specs { // the producer's successor tries again
				got, err := n.Enqueue(t.Context(), s)
				require.NoError(t, err)
				require.Equal(t, !c.stored, got.Created)
			}
			starts := n.finish(n.work(q, "w"), q, len(specs))
			for _, s := range specs {
				require.Equal(t, 1, starts[s.ID])
				require.Len(t, n.see(keyOf(q, s.ID), job.Succeeded).History, 1)
			}
		})
	}
}

func TestASetAsideThatDies(t *testing.T) {
	t.Parallel()
	p := server(t)
	n := p.open(t)
	for id, body := range map[string]string{"garbage": "garbage", "empty": ""} {
		q := "q-" + id
		dying := p.dying(t, AfterSetAside)
		first := dying.work(q, "first")
		n.publish(n.readySubject(keyOf(q, id)), body)
		claimAndWait(t, dying, first)
		claimNone(t, n.work(q, "second"), 2*lease)
		n.clean(q, 1)
		require.Equal(t, body, string(n.see(keyOf(q, id), job.Dead).Raw))
	}
}

// A worker that was stopped for longer than its lease, and does not know it, settles late.
func TestAStaleSettleChangesNothing(t *testing.T) {
	t.Parallel()
	p := server(t)
	n := p.open(t)
	for name, o := range map[string]job.Outcome{
		"success": job.Succeed(nil), "retry": job.Fail(3*time.Second, "no"), "hand-back": job.HandBack(0, "no"), "dead": {Status: job.Dead},
	} {
		for _, seen := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				n := n.in(t)
				q := queueName(t)
				if seen {
					q += "-seen"
				}
				var d natstest.FaultDialer
				stopped := p.open(t, d.Option())
				t.Cleanup(d.Heal)
				first, second := stopped.work(q, "first"), n.work(q, "second")
				key := n.enqueue(spec(q, "1"))
				old := claimOne(t, first)
				if seen {
					n.see(key, job.Running)
				}
				old.mu.Lock()
				old.beaten = time.Now().Add(time.Hour) // stopped, it cannot look at its clock
				old.stopTimer()
				old.mu.Unlock()
				d.BlackholeToServer()
				cl := claimOne(t, second)
				before := n.docs(key)
				d.Heal()
				_, err := old.Settle(t.Context(), o)
				require.ErrorIs(t, err, job.ErrLeaseLost)
				require.Equal(t, before, n.docs(key), "nothing was changed")
				require.NoError(t, cl.Heartbeat(t.Context()))
				settle(t, cl, job.Succeed(nil))
				n.clean(q, 1)
				j := n.see(key, job.Succeeded)
				require.Equal(t, "second", j.WorkerID)
				require.Equal(t, 2, j.Attempts)
			})
		}
	}
}

func TestALostAcknowledgementTellsTheTruth(t *testing.T) {
	t.Parallel()
	p := server(t)
	n := p.open(t)
	n.work("q", "elsewhere")
	t.Run("enqueue", func(t *testing.T) {
		t.Parallel()
		n := n.in(t)
		var d natstest.FaultDialer
		m := p.open(t, d.Option())
		m.enqueue(spec("q1", "warm"))
		d.DropFromServer(1, natstest.IsPubAck)
		got, err := m.Enqueue(t.Context(), spec("q1", "1"))
		require.NoError(t, err)
		require.True(t, got.Created, "its own first try won")
		from, _ := d.Dropped()
		require.Equal(t, 1, from)
		require.Len(t, n.docs(keyOf("q1", "1")), 1)
	})
	t.Run("enqueue, settled meanwhile", func(t *testing.T) {
		t.Parallel()
		n := n.in(t)
		var d natstest.FaultDialer
		m := p.open(t, d.Option())
		m.enqueue(spec("q2", "warm"))
		c := n.work("q2", "w")
		d.DropFromServer(1, natstest.IsPubAck)
		done := make(chan job.Enqueued, 1)
		go func() {
			got, err := m.Enqueue(t.Context(), spec("q2", "1"))
			if err == nil {
				done <- got
			}
			close(done)
		}()
		for range 2 {
			settle(t, claimOne(t, c), job.Succeed(nil))
		}
		require.True(t, (<-done).Created)
		claimNone(t, c, while)
		n.clean("q2", 2)
	})
	t.Run("enqueue all", func(t *testing.T) {
		t.Parallel()
		n := n.in(t)
		var d natstest.FaultDialer
		m := p.open(t, d.Option())
		m.enqueue(spec("q3", "warm"))
		d.DropFromServer(1, natstest.IsPubAck)
		got, err := m.EnqueueAll(t.Context(), []job.Spec{spec("q3", "1"), spec("q3", "2")})
		require.NoError(t, err)
		require.True(t, got[0].Created && got[1].Created)
		require.Len(t, n.docs(keyOf("q3", "1")), 1)
	})
	t.Run("enqueue many", func(t *testing.T) {
		t.Parallel()
		var d natstest.FaultDialer
		m := p.open(t, d.Option())
		m.enqueue(spec("q4", "warm"))
		d.DropFromServer(2, natstest.IsPubAck)
		got, err := m.EnqueueMany(t.Context(), []job.Spec{spec("q4", "1"), spec("q4", "warm"), spec("q4", "2")})
		require.NoError(t, err)
		require.Equal(t, []bool{true, false, true}, []bool{got[0].Created, got[1].Created, got[2].Created})
	})
	t.Run("enqueue, and nothing more is heard", func(t *testing.T) {
		t.Parallel()
		var d natstest.FaultDialer
		m := p.open(t, d.Option())
		t.Cleanup(d.Heal)
		m.enqueue(spec("q5", "warm"))
		d.BlackholeFromServer()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err := m.Enqueue(ctx, spec("q5", "1"))
		require.ErrorIs(t, err, job.ErrUnknown)
		d.Heal()
	})
	t.Run("claim", func(t *testing.T) {
		t.Parallel()
		n := n.in(t)
		var d natstest.FaultDialer
		m := p.open(t, d.Option())
		c := m.work("q6", "w")
		key := n.enqueue(spec("q6", "1"))
		cl := claimOne(t, c)
		d.DropFromServer(1, natstest.IsPubAck)
		n.see(key, job.Running)
		require.Equal(t, 1, settle(t, cl, job.Succeed(nil)).Attempts)
		n.clean("q6", 1)
		require.Len(t, n.see(key, job.Succeeded).History, 1)
	})
	t.Run("settle", func(t *testing.T) {
		t.Parallel()
		for _, o := range []job.Outcome{job.Succeed(nil), job.Fail(time.Hour, "no"), job.HandBack(0, "no")} {
			t.Run(string(o.Status)+o.Error, func(t *testing.T) {
				t.Parallel()
				n := n.in(t)
				q := queueName(t) + o.Delay.String()
				var d natstest.FaultDialer
				m := p.open(t, d.Option())
				c := m.work(q, "w")
				key := n.enqueue(spec(q, "1"))
				cl := claimOne(t, c)
				n.see(key, job.Running)
				d.DropFromServer(1, natstest.IsPubAck)
				require.Equal(t, o.Status, settle(t, cl, o).Status)
				natstest.Eventually(t, soon, func() bool { return len(n.docs(key)) == 1 })
				require.Equal(t, o.Status, n.see(key, o.Status).Status)
			})
		}
	})
	t.Run("settle, given up and called again", func(t *testing.T) {
		t.Parallel()
		n := n.in(t)
		var d natstest.FaultDialer
		m := p.open(t, d.Option())
		t.Cleanup(d.Heal)
		c := m.work("q8", "w")
		key := n.enqueue(spec("q8", "1"))
		cl := claimOne(t, c)
		n.see(key, job.Running)
		cl.awaitClaimed(t) // others see it before its own worker has heard of it
		d.BlackholeFromServer()
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := cl.Settle(ctx, job.Succeed(nil))
		require.ErrorIs(t, err, job.ErrUnknown)
		n.see(key, job.Succeeded)
		d.Heal()
		j, err := cl.Settle(t.Context(), job.Succeed(nil))
		require.NoError(t, err, "it was its own write that stands")
		require.Equal(t, job.Succeeded, j.Status)
		n.clean("q8", 1)
		require.Len(t, n.see(key, job.Succeeded).History, 1)
	})
}

// awaitClaimed waits until the worker knows that its claim is written.
func (cl *claim) awaitClaimed(t *testing.T) {
	t.Helper()
	natstest.Eventually(t, soon, func() bool {
		cl.mu.Lock()
		defer cl.mu.Unlock()
		return cl.claimed
	})
}

func TestWhatNobodyAsksForIsHandedBack(t *testing.T) {
	t.Parallel()
	p := server(t)
	n := p.open(t)
	busy, idle := n.work("q", "busy"), p.open(t).work("q", "idle")
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := busy.Claim(ctx)
		failed <- err
	}()
	natstest.Eventually(t, soon, func() bool {
		busy.jobs.mu.Lock()
		defer busy.jobs.mu.Unlock()
		return busy.jobs.outstanding > 0
	})
	cancel()
	require.ErrorIs(t, <-failed, context.Canceled)
	n.enqueue(spec("q", "1")) // goes to the one that has asked, and does not claim
	natstest.Eventually(t, soon, func() bool { return len(busy.holding()) == 1 })
	cl := claimOne(t, idle)
	require.Equal(t, 1, cl.Job().Attempts)
	require.Empty(t, cl.Job().History)
	settle(t, cl, job.Succeed(nil))
	n.clean("q", 1)
}

func TestARedeliveryAsksForNothingMore(t *testing.T) {
	t.Parallel()
	p := server(t)
	n := p.open(t)
	first, second := n.work("q", "first"), p.open(t).work("q", "second")
	for range 3 {
		n.enqueue(job.Spec{Queue: "q", Type: "t", MaxAttempts: 9})
		claimOne(t, first).Abandon()
		cl := claimOne(t, second)
		n.enqueue(spec("q", "other"+newWriter()))
		claimed := claimOne(t, first) // not in the hands of the second, which has no caller
		settle(t, claimed, job.Succeed(nil))
		settle(t, cl, job.Succeed(nil))
	}
	n.clean("q", 6)
}

func TestErrorsOfAWriteAreToldApart(t *testing.T) {
	require.True(t, retryable(errBusy))
	require.True(t, retryable(job.ErrUnknown))
	require.False(t, retryable(errGuard))
	require.False(t, retryable(job.ErrTooLarge))
	require.ErrorIs(t, publishError(errors.New("timeout")), job.ErrUnknown)
}
