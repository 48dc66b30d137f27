package queuetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

func finished(e *env) {
	e.calm(calm)
	w := e.worker("w")
	for _, seen := range []bool{false, true} { // both a claim that others saw and one that was too short for that
		for _, c := range []struct {
			o    job.Outcome
			want job.AttemptStatus
		}{
			{job.Outcome{Status: job.Succeeded, Result: jsontext.Value(`{"n":[1,2.50]}`), RunID: "r"}, job.AttemptSucceeded},
			{job.Outcome{Status: job.Succeeded, Result: jsontext.Value(`null`), RunID: "r"}, job.AttemptSucceeded},
			{job.Outcome{Status: job.Succeeded, RunID: "r", Refund: true}, job.AttemptSucceeded}, // only what goes back is refunded
			{job.Outcome{Status: job.Failed, Error: "refused", RunID: "r"}, job.AttemptFailed},
			{job.Outcome{Status: job.Dead, Error: strings.Repeat("x", 10_000), RunID: "r"}, job.AttemptFailed},
			{job.Outcome{Status: job.Cancelled, RunID: "r", Error: "stopped"}, job.AttemptCancelled},
		} {
			key := e.enqueue(e.spec(""))
			cl := e.claim(w)
			if seen {
				e.seen(key)
			}
			answered := e.settle(cl, c.o)
			j := e.see(key, is(c.o.Status))
			for _, j := range []*job.Job{answered, j} {
				require.Equal(e, c.o.Status, j.Status)
				require.Equal(e, "r", j.RunID)
				require.Equal(e, "w", j.WorkerID, "an end keeps who wrote it")
				require.Equal(e, 1, j.Attempts)
				require.Equal(e, job.CutError(c.o.Error), j.Error)
				require.True(e, j.LeaseUntil.IsZero())
				require.Equal(e, string(c.o.Result), string(j.Result))
				require.Len(e, j.History, 1)
				h := j.History[0]
				require.Equal(e, job.Attempt{
					Attempt: 1, Status: c.want, StartedAt: h.StartedAt, EndedAt: h.EndedAt, WorkerID: "w", RunID: "r", Error: job.CutError(c.o.Error),
				}, h)
				require.False(e, h.StartedAt.IsZero())
				require.False(e, h.EndedAt.Before(h.StartedAt))
			}
			require.WithinDuration(e, answered.UpdatedAt, j.UpdatedAt, soon)
			j.UpdatedAt = answered.UpdatedAt
			require.Equal(e, answered, j)
		}
	}
	e.nothing(w, while)
}

func noOutcome(e *env) {
	w := e.worker("w")
	e.enqueue(e.spec("1"))
	cl := e.claim(w)
	for _, s := range []job.Status{"", job.Running, "lost"} {
		_, err := cl.Settle(e.ctx(), job.Outcome{Status: s})
		e.fieldError(err, "status")
	}
	_, err := cl.Settle(e.ctx(), job.Succeed(jsontext.Value(`{`)))
	e.fieldError(err, "result")
	e.settle(cl, job.Succeed(nil))
}

func retry(e *env) {
	e.calm(calm)
	w := e.worker("w")
	key := e.enqueue(e.spec("1"))
	for _, seen := range []bool{false, true} {
		cl := e.claim(w)
		if seen {
			e.seen(key)
		}
		used := cl.Job().Attempts
		before := e.q.Now()
		answered := e.settle(cl, job.Fail(1200*time.Millisecond, "boom"))
		j := e.see(key, func(j *job.Job) error {
			if j.Status != job.Pending || len(j.History) != used { // before its claim it was pending as well
				return fmt.Errorf("it is %s, with %d attempts in its history", j.Status, len(j.History))
			}
			return nil
		})
		for _, j := range []*job.Job{answered, j} {
			require.Equal(e, job.Pending, j.Status)
			require.Equal(e, used, j.Attempts)
			require.Equal(e, "boom", j.Error)
			require.Empty(e, j.WorkerID)
			require.True(e, j.LeaseUntil.IsZero())
			e.near(j.RunAt, before.Add(1200*time.Millisecond), e.q.Now().Add(1200*time.Millisecond), "runAt")
			require.Len(e, j.History, used)
			h := j.History[used-1]
			require.Equal(e, []any{used, job.AttemptFailed, "boom", "w"}, []any{h.Attempt, h.Status, h.Error, h.WorkerID})
		}
		e.nothing(w, while)
	}
	cl := e.claim(w)
	require.False(e, e.q.Now().Add(skew).Before(cl.Job().RunAt), "not before its instant")
	require.Equal(e, 3, cl.Job().Attempts)
	require.Len(e, cl.Job().History, 2)
	e.settle(cl, job.Succeed(nil))
	j := e.see(key, is(job.Succeeded))
	require.Len(e, j.History, 3)
	require.Empty(e, j.Error)
}

func exhausted(e *env) {
	e.calm(calm)
	w := e.worker("w")
	s := e.spec("1")
	s.MaxAttempts = 2
	key := e.enqueue(s)
	require.Equal(e, job.Pending, e.settle(e.claim(w), job.Fail(0, "first")).Status)
	cl := e.claim(w) // without a delay at once
	require.Equal(e, 2, cl.Job().Attempts)
	require.Equal(e, job.Dead, e.settle(cl, job.Fail(time.Minute, "second")).Status)
	j := e.see(key, is(job.Dead))
	require.Equal(e, 2, j.Attempts)
	require.Equal(e, "second", j.Error)
	require.Equal(e, "w", j.WorkerID)
	require.Len(e, j.History, 2)
	e.nothing(w, while)
}

func refund(e *env) {
	e.calm(calm)
	w := e.worker("w")
	s := e.spec("1")
	s.MaxAttempts = 2
	key := e.enqueue(s)
	e.settle(e.claim(w), job.Fail(0, "first"))
	for i := range 4 { // more often than it has attempts
		cl := e.claim(w)
		require.Equal(e, 2, cl.Job().Attempts)
		if i%2 == 1 {
			e.see(key, is(job.Running))
		}
		before := e.q.Now()
		answered := e.settle(cl, job.HandBack(0, "not started: no room"))
		require.Equal(e, job.Pending, answered.Status)
		require.Equal(e, 1, answered.Attempts)
		require.Empty(e, answered.WorkerID)
		require.True(e, answered.LeaseUntil.IsZero())
		require.Len(e, answered.History, 1)
		require.Equal(e, "not started: no room", answered.Error)
		e.near(answered.RunAt, before, e.q.Now(), "runAt")
	}
	j := e.see(key, func(j *job.Job) error {
		if j.Status != job.Pending || j.Error != "not started: no room" {
			return errNotYet
		}
		return nil
	})
	require.Equal(e, 1, j.Attempts)
	require.Len(e, j.History, 1)
	require.Empty(e, j.WorkerID)
	e.settle(e.claim(w), job.Succeed(nil))
}

func refundDelay(e *env) {
	e.calm(calm)
	w := e.worker("w")
	key := e.enqueue(e.spec("1"))
	j := e.settle(e.claim(w), job.HandBack(1200*time.Millisecond, "not now"))
	require.Zero(e, j.Attempts)
	require.Empty(e, j.History)
	e.nothing(w, while)
	require.Zero(e, e.see(key, is(job.Pending)).Attempts)
	cl := e.claim(w)
	require.False(e, e.q.Now().Add(skew).Before(j.RunAt))
	require.Equal(e, 1, cl.Job().Attempts)
	require.Empty(e, cl.Job().History)
	e.settle(cl, job.Succeed(nil))
}

func runID(e *env) {
	e.calm(calm)
	w := e.worker("w")
	s := e.spec("1")
	s.RunID = "asked"
	key := e.enqueue(s)
	cl := e.claim(w)
	require.Equal(e, "asked", cl.Job().RunID)
	require.Equal(e, "asked", e.settle(cl, job.Fail(0, "no")).RunID)
	require.Equal(e, "second", e.settle(e.claim(w), job.Outcome{Status: job.Pending, RunID: "second"}).RunID)
	cl = e.claim(w)
	require.Equal(e, "second", cl.Job().RunID)
	e.settle(cl, job.Succeed(nil))
	j := e.see(key, is(job.Succeeded))
	require.Equal(e, "second", j.RunID)
	require.Equal(e, []string{"asked", "second", "second"}, []string{j.History[0].RunID, j.History[1].RunID, j.History[2].RunID})
}

func overwritten(e *env) {
	e.calm(calm)
	w := e.worker("w")
	key := e.enqueue(e.spec("1"))
	require.Equal(e, "one", e.settle(e.claim(w), job.Fail(0, "one")).Error)
	require.Equal(e, "two", e.settle(e.claim(w), job.HandBack(0, "two")).Error)
	require.Empty(e, e.settle(e.claim(w), job.HandBack(0, "")).Error)
	j := e.settle(e.claim(w), job.Succeed(nil))
	require.Empty(e, j.Error)
	require.Equal(e, "w", j.WorkerID)
	require.Empty(e, e.see(key, is(job.Succeeded)).Error)
}

func cancelWins(e *env) {
	e.calm(calm)
	w := e.worker("w")
	for _, o := range []job.Outcome{job.Fail(0, "no"), job.Fail(time.Minute, "no"), job.HandBack(0, "no"), job.HandBack(time.Minute, "no")} {
		key := e.enqueue(e.spec(""))
		cl := e.claim(w)
		told := e.told(cl)
		e.seen(key)
		e.changed(job.OpCancel, key, job.Running)
		told(job.ErrCancelRequested)
		require.NoError(e, cl.Heartbeat(e.ctx()), "it is still held")
		require.Equal(e, job.Cancelled, e.settle(cl, o).Status)
		j := e.see(key, is(job.Cancelled))
		require.Equal(e, "w", j.WorkerID)
		require.True(e, j.LeaseUntil.IsZero())
	}
	key := e.enqueue(e.spec(""))
	cl := e.claim(w)
	e.seen(key)
	e.changed(job.OpCancel, key, job.Running)
	require.Equal(e, job.Succeeded, e.settle(cl, job.Succeed(nil)).Status, "what succeeded succeeded")
	e.nothing(w, while)
}

func unknown(e *env) {
	r, ok := e.h.(Raw)
	if !ok {
		e.Skip("its documents cannot be reached")
	}
	w := e.worker("w")
	key := job.Key{Queue: e.queue, Space: "default", ID: "1"}
	r.PutReady(e.T, key, []byte(`{"v":1,"rev":4,"writer":"w","origin":["w"],"type":"t","attempts":1,"new":{"b":1.50,"a":[null]},`+
		`"input":{"x":1.0},"history":[{"attempt":1,"status":"failed","startedAt":"2026-01-01T00:00:00.000Z",`+
		`"endedAt":"2026-01-01T00:00:00.000Z","workerId":"old","novel":[{}]}],"other":"ü"}`))
	check := func() {
		e.Helper()
		var doc struct {
			New     jsontext.Value `json:"new"`
			Other   jsontext.Value `json:"other"`
			Input   jsontext.Value `json:"input"`
			History []struct {
				Novel jsontext.Value `json:"novel"`
			} `json:"history"`
		}
		require.NoError(e, job.Decode(r.Document(e.T, key), &doc))
		require.Equal(e, `{"b":1.50,"a":[null]}`, string(doc.New))
		require.Equal(e, `"ü"`, string(doc.Other))
		require.Equal(e, `{"x":1.0}`, string(doc.Input))
		require.Equal(e, `[{}]`, string(doc.History[0].Novel))
	}
	cl := e.claim(w)
	e.seen(key)
	check()
	e.settle(cl, job.Fail(200*time.Millisecond, "no"))
	e.see(key, is(job.Pending))
	check()
	cl = e.claim(w)
	require.NotEmpty(e, cl.Job().Extra)
	e.settle(cl, job.Succeed(nil))
	e.see(key, is(job.Succeeded))
	check()
}
