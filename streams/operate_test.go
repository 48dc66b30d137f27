package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// steer does an operation that must not fail.
func (n *node) steer(op job.Operation, key job.Key) job.Changed {
	n.t.Helper()
	out, err := n.Store.steer(n.t.Context(), op, key)
	require.NoError(n.t, err)
	require.Equal(n.t, key, out.Key)
	return out
}

// jobsIn makes one job for each state of a life, and answers their keys.
func (n *node) jobsIn(c *consumer, queue string) map[string]job.Key {
	n.t.Helper()
	keys := make(map[string]job.Key)
	end := func(id string, o job.Outcome) {
		keys[id] = n.enqueue(spec(queue, id))
		settle(n.t, claimOne(n.t, c), o)
	}
	end("succeeded", job.Succeed([]byte(`{"a":1}`)))
	end("failed", job.Outcome{Status: job.Failed, Error: "no"})
	end("dead", job.Outcome{Status: job.Dead, Error: "never"})
	end("cancelled", job.Outcome{Status: job.Cancelled})
	keys["running"] = n.enqueue(spec(queue, "running"))
	cl := claimOne(n.t, c)
	n.see(keys["running"], job.Running)
	n.t.Cleanup(cl.Abandon)
	s := spec(queue, "due")
	s.Delay = time.Hour
	keys["due"] = n.enqueue(s)
	return keys
}

func TestAnOperationDoesWhatAJobsStateAllows(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	for _, op := range []job.Operation{job.OpCancel, job.OpRequeue, job.OpRunNow, job.OpDelete} {
		t.Run(string(op), func(t *testing.T) {
			n, queue := n.in(t), string(op)
			keys := n.jobsIn(n.work(queue, "w"), queue)
			// Nobody takes what is ready from here on.
			require.NoError(t, n.js.DeleteConsumer(t.Context(), n.names.stream(), n.names.readyConsumer(queue)))
			n.queues.forget(queue)
			keys["ready"] = n.enqueue(spec(queue, "ready"))
			for id, key := range keys {
				before := n.see(key, statusOf(id))
				var allowed bool
				for _, s := range op.Statuses() {
					allowed = allowed || string(s) == id
				}
				if id == "ready" && op == job.OpRunNow || id == "running" && op != job.OpCancel {
					require.False(t, allowed)
				}
				out := n.steer(op, key)
				require.Equal(t, allowed, out.Done, "%s of a job that is %s", op, id)
				after, err := n.Get(t.Context(), key)
				switch {
				case !allowed:
					require.NoError(t, err)
					require.Equal(t, before.Status, out.Status)
					require.Equal(t, before, after)
					continue
				case op == job.OpDelete:
					require.ErrorIs(t, err, job.ErrNotFound)
					require.Empty(t, out.Status)
				case op == job.OpCancel && id == "running":
					require.True(t, out.CancelRequested)
					require.True(t, after.CancelRequested)
					require.Equal(t, before.LeaseUntil, after.LeaseUntil)
				case op == job.OpCancel:
					require.Equal(t, job.Cancelled, after.Status)
				default:
					require.Equal(t, job.Pending, after.Status)
				}
				if op != job.OpDelete {
					require.Equal(t, after.Status, out.Status)
				}
				require.False(t, n.steer2(op, key), "a second %s of a job that was %s", op, id)
			}
		})
	}
}

// steer2 does an operation once more: it must not change anything, or find the job gone.
func (n *node) steer2(op job.Operation, key job.Key) bool {
	out, err := n.Store.steer(n.t.Context(), op, key)
	if errors.Is(err, job.ErrNotFound) {
		return false
	}
	require.NoError(n.t, err)
	return out.Done
}

func statusOf(id string) job.Status {
	if id == "ready" || id == "due" {
		return job.Pending
	}
	return job.Status(id)
}

func TestARequeueBeginsAnew(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	c := n.work("q", "w")
	s := spec("q", "x")
	s.MaxAttempts, s.RunID, s.Missed, s.Input = 1, "r1", 3, []byte(`{"a":"b"}`)
	key := n.enqueue(s)
	settle(t, claimOne(t, c), job.Fail(0, "broken"))
	before := n.see(key, job.Dead)
	require.True(t, n.steer(job.OpRequeue, key).Done)

	cl := claimOne(t, c)
	j := cl.Job()
	require.Equal(t, 1, j.Attempts)
	require.Equal(t, before.History, j.History)
	require.Equal(t, before.Input, j.Input)
	require.Equal(t, before.DueAt, j.DueAt)
	require.Equal(t, before.CreatedAt, j.CreatedAt)
	require.Equal(t, 3, j.Missed)
	require.Equal(t, "r1", j.RunID)
	require.Empty(t, j.Error)
	settle(t, cl, job.Succeed(nil))
	after := n.see(key, job.Succeeded)
	require.Len(t, after.History, 2)
	require.Equal(t, 2, after.History[1].Attempt)
	n.clean("q", 1)
}

func TestWhatCannotRunAgainIsNotRequeued(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	c := n.work("q", "w")
	late := spec("q", "late")
	late.Deadline = n.Now().Add(time.Second)
	n.enqueue(late)
	settle(t, claimOne(t, c), job.Outcome{Status: job.Dead})
	natstest.Eventually(t, soon, func() bool { return n.Now().After(late.Deadline) })

	n.publish(n.names.job(stateReady, "q.default.garbage"), "{")
	go func() { _, _ = c.Claim(t.Context()) }()
	n.see(keyOf("q", "garbage"), job.Dead)

	shed := document{V: version, Rev: 3, Writer: newWriter(), Shed: true, Job: fields{Type: "t", Status: job.Dead}}
	body, err := job.Encode(shed)
	require.NoError(t, err)
	n.publish(n.names.job(stateDead, "q.default.shed"), string(body))
	n.publish(n.names.job(stateDead, "q.default.invalid"), `{"type":"t","status":"dead","rev":2,"input":[]}`)

	for id, reason := range map[string]string{
		"late": "deadline", "garbage": "could not be read", "shed": "left out", "invalid": "input",
	} {
		_, err := n.Requeue(t.Context(), keyOf("q", id))
		require.ErrorIs(t, err, job.ErrNotRequeuable, id)
		require.ErrorContains(t, err, reason)
		require.True(t, n.steer(job.OpDelete, keyOf("q", id)).Done, "it can be deleted")
	}
}

func TestOfTwoOperatorsOneChangesTheJob(t *testing.T) {
	t.Parallel()
	p := server(t)
	n := p.open(t)
	c := n.work("q", "w")
	nodes := []*node{p.open(t), p.open(t), p.open(t), p.open(t)}
	both := func(op job.Operation, key job.Key) int {
		var done atomic.Int32
		var wg sync.WaitGroup
		for _, o := range nodes {
			wg.Go(func() {
				out, err := o.Store.steer(t.Context(), op, key)
				if err != nil && !errors.Is(err, job.ErrNotFound) {
					t.Errorf("%s: %v", op, err)
				}
				if out.Done {
					done.Add(1)
				}
			})
		}
		wg.Wait()
		return int(done.Load())
	}
	for i := range 20 {
		id := fmt.Sprint(i)
		s := spec("q", id)
		s.Delay = time.Hour
		key := n.enqueue(s)
		require.Equal(t, 1, both(job.OpCancel, key))
		require.Equal(t, 1, both(job.OpRequeue, key))
		settle(t, claimOne(t, c), job.Outcome{Status: job.Failed})
		require.Equal(t, 1, both(job.OpDelete, key))
		s.Delay = time.Hour
		n.enqueue(s)
		require.Equal(t, 1, both(job.OpRunNow, key))
		settle(t, claimOne(t, c), job.Succeed(nil))
	}
	n.clean("q", 20)
}

func TestAYoungJobThatIsCancelledIsStoppedAndItsAttemptWrittenDown(t *testing.T) {
	t.Parallel()
	p := server(t)
	n := p.open(t)
	operator := p.open(t)
	c := n.work("q", "w")
	for name, o := range map[string]job.Outcome{ // an alarm that was set in vain has to go off
		"stopped":    {Status: job.Cancelled, Error: "stopped"},
		"done first": job.Succeed([]byte(`1`)),
		"failed":     job.Fail(0, "broken"),
		"later":      job.Fail(300*time.Millisecond, "broken"),
		"given back": job.HandBack(0, "no"),
	} {
		t.Run(name, func(t *testing.T) {
			n := n.in(t)
			key := n.enqueue(spec("q", name))
			cl := claimOne(t, c)
			told := make(chan error, 1)
			cl.Notify(func(err error) { told <- err })
			out, err := operator.Cancel(t.Context(), key)
			require.NoError(t, err)
			require.True(t, out.Done)
			select {
			case err := <-told:
				require.ErrorIs(t, err, job.ErrCancelRequested)
			case <-time.After(soon):
				require.Fail(t, "the handler was not told")
			}
			j := settle(t, cl, o)
			require.Equal(t, job.Cancelled, j.Status)
			j = n.see(key, job.Cancelled)
			if o.Refund {
				require.Empty(t, j.History)
				return
			}
			require.Len(t, j.History, 1)
			require.Equal(t, "w", j.History[0].WorkerID)
			require.Equal(t, o.Error, j.Error)
			want := job.AttemptCancelled
			if o.Status == job.Succeeded {
				want = job.AttemptSucceeded
			}
			require.Equal(t, want, j.History[0].Status)
		})
	}
	n.clean("q", 5)
}

func TestADeletedJobsIDIsFree(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	c := n.work("q", "w")
	again := map[string]func(job.Spec) (job.Enqueued, error){
		"one":  func(s job.Spec) (job.Enqueued, error) { return n.Enqueue(t.Context(), s) },
		"many": func(s job.Spec) (job.Enqueued, error) { return first(n.EnqueueMany(t.Context(), []job.Spec{s})) },
		"all": func(s job.Spec) (job.Enqueued, error) {
			other := spec("q", "beside")
			return first(n.EnqueueAll(t.Context(), []job.Spec{s, other}))
		},
	}
	for id, enqueue := range again {
		key := n.enqueue(spec("q", id))
		settle(t, claimOne(t, c), job.Succeed(nil))
		require.True(t, n.steer(job.OpDelete, key).Done)
		_, err := n.Wait(t.Context(), key)
		require.ErrorIs(t, err, job.ErrNotFound)
		got, err := enqueue(spec("q", id))
		require.NoError(t, err)
		require.True(t, got.Created, id)
		got, err = n.Enqueue(t.Context(), spec("q", id))
		require.NoError(t, err)
		require.False(t, got.Created)
		settle(t, claimOne(t, c), job.Succeed(nil))
		if id == "all" {
			settle(t, claimOne(t, c), job.Succeed(nil))
		}
		n.see(key, job.Succeeded)
	}
	n.clean("q", 4)
}

func first(out []job.Enqueued, err error) (job.Enqueued, error) {
	if err != nil {
		return job.Enqueued{}, err
	}
	return out[0], nil
}

func TestAnOperationWhoseAnswerIsLostIsDoneOnce(t *testing.T) {
	t.Parallel()
	p := server(t)
	n := p.open(t)
	c := n.work("q", "w")
	dialer := new(natstest.FaultDialer)
	operator := p.open(t, dialer.Option())
	prepare := map[job.Operation]func(id string) job.Key{
		job.OpCancel:  func(id string) job.Key { return n.delayed("q", id) },
		job.OpRunNow:  func(id string) job.Key { return n.delayed("q", id) },
		job.OpDelete:  func(id string) job.Key { return n.delayed("q", id) },
		job.OpRequeue: func(id string) job.Key { k := n.delayed("q", id); n.steer(job.OpCancel, k); return k },
	}
	for op, make := range prepare {
		key := make(string(op))
		dialer.DropFromServer(1, natstest.IsPubAck)
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		out, err := operator.Store.steer(ctx, op, key)
		cancel()
		require.NoError(t, err)
		require.True(t, out.Done, op)
		dropped, _ := dialer.Dropped()
		require.Positive(t, dropped)
	}
	for range 2 { // run now, and requeued
		settle(t, claimOne(t, c), job.Succeed(nil))
	}
	claimNone(t, c, while)
	require.Len(t, n.see(keyOf("q", "requeue"), job.Succeeded).History, 1)
	n.see(keyOf("q", "cancel"), job.Cancelled)
}

func (n *node) delayed(queue, id string) job.Key {
	n.t.Helper()
	s := spec(queue, id)
	s.Delay = time.Hour
	return n.enqueue(s)
}

func TestAnOperatorThatDiesLeavesAJobInOneOfItsStates(t *testing.T) {
	t.Parallel()
	p := server(t)
	n := p.open(t)
	c := n.work("q", "w")
	for op, want := range map[job.Operation]job.Status{
		job.OpCancel: job.Cancelled, job.OpRunNow: job.Succeeded, job.OpRequeue: job.Succeeded, job.OpDelete: "",
	} {
		id := string(op)
		key := n.delayed("q", id)
		if op == job.OpRequeue {
			n.steer(job.OpCancel, key)
		}
		operator := p.dying(t, AfterOperation)
		_, err := operator.Store.steer(t.Context(), op, key)
		require.ErrorIs(t, err, errDied)
		if want == job.Succeeded {
			settle(t, claimOne(t, c), job.Succeed(nil))
		}
		if want == "" {
			_, err := n.Get(t.Context(), key)
			require.ErrorIs(t, err, job.ErrNotFound)
			continue
		}
		n.see(key, want)
		// Whoever asks again is told that it is done.
		if op == job.OpCancel {
			require.False(t, n.steer(op, key).Done)
		}
	}
	claimNone(t, c, while)
}

func TestNoSuchJobAndNoSuchKey(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	n.enqueue(spec("a", "twice"))
	n.enqueue(spec("b", "twice"))
	for _, op := range []job.Operation{job.OpCancel, job.OpRequeue, job.OpRunNow, job.OpDelete} {
		for _, key := range []job.Key{{ID: "nobody"}, {Queue: "q", Space: "s", ID: "nobody"}, {Space: "another", ID: "twice"}} {
			_, err := n.Store.steer(t.Context(), op, key)
			require.ErrorIs(t, err, job.ErrNotFound)
		}
		_, err := n.Store.steer(t.Context(), op, job.Key{ID: "twice"})
		require.ErrorIs(t, err, job.ErrAmbiguous)
		for _, key := range []job.Key{{}, {ID: "\xff"}, {Queue: "\x00", ID: "x"}, {Queue: "q", Space: string(make([]byte, 192)), ID: "x"}} {
			_, err := n.Store.steer(t.Context(), op, key)
			var wrong *job.FieldError
			require.ErrorAs(t, err, &wrong, "%q", key)
		}
	}
}

func TestWithoutRetentionNoRecordIsLeft(t *testing.T) {
	t.Parallel()
	p := server(t)
	cfg := p.config()
	cfg.Retention = Retention{Succeeded: NoRetention, Cancelled: NoRetention, Failed: NoRetention, Dead: NoRetention}
	n := p.openAs(t, cfg)
	c := n.work("q", "w")
	for i, o := range []job.Outcome{
		job.Succeed(nil), {Status: job.Failed}, {Status: job.Dead}, {Status: job.Cancelled}, job.Succeed([]byte(`1`)),
	} {
		key := n.enqueue(spec("q", fmt.Sprint(i)))
		cl := claimOne(t, c)
		if i > 2 {
			n.see(key, job.Running)
		}
		j := settle(t, cl, o)
		require.Equal(t, o.Status, j.Status)
		_, err := n.Get(t.Context(), key)
		require.ErrorIs(t, err, job.ErrNotFound)
		got, err := n.Enqueue(t.Context(), spec("q", fmt.Sprint(i)))
		require.NoError(t, err)
		require.False(t, got.Created, "it was there a moment ago")
	}
	key := n.delayed("q", "cancelled")
	require.True(t, n.steer(job.OpCancel, key).Done)
	_, err := n.Get(t.Context(), key)
	require.ErrorIs(t, err, job.ErrNotFound)

	// What must be found again by whoever delivers it a second time is kept all the same.
	s := spec("q", "hook")
	s.Trigger = job.TriggerWebhook
	hook := n.enqueue(s)
	settle(t, claimOne(t, c), job.Succeed(nil))
	n.see(hook, job.Succeeded)
	require.Equal(t, "600", header(n.newestMessage(hook).header, "Nats-TTL"))
	claimNone(t, c, while)
	n.clean("q", 1)
}

// Two processes may make the same fire while its job is moved from one document to the next: the server knows it by its
// message id as well.
func TestAFireHasAMessageID(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	plain := n.enqueue(spec("q", "plain"))
	s := spec("q", "nightly@1")
	s.Trigger = job.TriggerSchedule
	fire := n.enqueue(s)
	require.Empty(t, header(n.newestMessage(plain).header, jetstream.MsgIDHeader))
	require.NotEmpty(t, header(n.newestMessage(fire).header, jetstream.MsgIDHeader))
	many, err := n.EnqueueMany(t.Context(), []job.Spec{s})
	require.NoError(t, err)
	require.False(t, many[0].Created)
}

func TestWithoutRetentionAnOldHolderEndsNothing(t *testing.T) {
	t.Parallel()
	p := server(t)
	cfg := p.config()
	cfg.Retention = Retention{Succeeded: NoRetention}
	dialer := new(natstest.FaultDialer)
	old := p.openAs(t, cfg, dialer.Option())
	c := old.work("q", "old")
	key := old.enqueue(spec("q", "x"))
	cl := claimOne(t, c)
	dialer.Cut()
	dialer.Refuse()
	n := p.openAs(t, cfg)
	other := n.work("q", "new")
	held := claimOne(t, other)
	require.Equal(t, 2, held.Job().Attempts)
	dialer.Heal()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	_, err := cl.Settle(ctx, job.Succeed(nil))
	require.ErrorIs(t, err, job.ErrLeaseLost)
	require.Equal(t, job.Running, n.see(key, job.Running).Status)
	settle(t, held, job.Succeed(nil))
	_, err = n.Get(t.Context(), key)
	require.ErrorIs(t, err, job.ErrNotFound)
}

func TestWithoutRetentionALostAckIsMadeUpFor(t *testing.T) {
	t.Parallel()
	p := server(t)
	cfg := p.config()
	cfg.Retention = Retention{Succeeded: NoRetention}
	dialer := new(natstest.FaultDialer)
	n := p.openAs(t, cfg, dialer.Option())
	c := n.work("q", "w")
	key := n.enqueue(spec("q", "x"))
	cl := claimOne(t, c)
	dialer.DropToServer(1, func(frame []byte) bool { return isAck(frame) })
	settle(t, cl, job.Succeed(nil))
	_, to := dialer.Dropped()
	require.Equal(t, 1, to)
	_, err := n.Get(t.Context(), key)
	require.ErrorIs(t, err, job.ErrNotFound)
	claimNone(t, c, while)
}

func isAck(frame []byte) bool {
	const ack = "PUB $JS.ACK."
	return len(frame) > len(ack) && string(frame[:len(ack)]) == ack
}

func TestRetentionIsTheServersTTL(t *testing.T) {
	t.Parallel()
	p := server(t)
	cfg := p.config()
	cfg.Retention = Retention{Succeeded: 90 * 24 * time.Hour, Cancelled: 10 * time.Minute}
	n := p.openAs(t, cfg)
	c := n.work("q", "w")
	for _, x := range []struct {
		status job.Status
		ttl    string
	}{{job.Succeeded, "7776000"}, {job.Cancelled, "600"}, {job.Dead, "604800"}, {job.Failed, "604800"}} {
		key := n.enqueue(spec("q", string(x.status)))
		settle(t, claimOne(t, c), job.Outcome{Status: x.status})
		require.Equal(t, x.ttl, header(n.newestMessage(key).header, "Nats-TTL"), x.status)
	}
	waiting := n.delayed("q", "due")
	require.Empty(t, header(n.newestMessage(waiting).header, "Nats-TTL"))
	n.steer(job.OpRequeue, keyOf("q", "dead"))
	require.Empty(t, header(n.newestMessage(keyOf("q", "dead")).header, "Nats-TTL"))
	for _, d := range []time.Duration{time.Second, MinRetention - 1, -2} {
		cfg.Retention.Dead = d
		_, err := Open(t.Context(), n.nc, cfg)
		require.ErrorContains(t, err, "at least 10m")
	}
}

func TestEventsTellWhatAnIndexNeeds(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	sub, err := n.nc.SubscribeSync(n.names.ns + ".event.>")
	require.NoError(t, err)
	_, err = n.EnqueueAll(t.Context(), []job.Spec{spec("q", "1"), spec("q", "2"), spec("q", "3")})
	require.NoError(t, err)
	for i := range 3 {
		m, err := sub.NextMsg(soon)
		require.NoError(t, err)
		var e event
		require.NoError(t, json.Unmarshal(m.Data, &e))
		require.Equal(t, n.doc(keyOf("q", fmt.Sprint(i+1)), stateReady).seq, e.Seq)
	}
}
