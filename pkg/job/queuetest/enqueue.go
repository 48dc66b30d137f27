package queuetest

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

func defaults(e *env) {
	before := e.q.Now()
	got, err := e.q.Enqueue(e.ctx(), job.Spec{Type: "email"})
	require.NoError(e, err)
	require.True(e, got.Created)
	require.Equal(e, "default", got.Key.Queue)
	require.Equal(e, "default", got.Key.Space)
	require.NoError(e, uuid.Validate(got.Key.ID))
	j := e.get(got.Key)
	after := e.q.Now()
	e.near(j.CreatedAt, before, after, "createdAt")
	want := job.Job{
		ID: got.Key.ID, Space: "default", Queue: "default", Type: "email", Environment: "main", Trigger: job.TriggerCustom,
		MaxAttempts: 3, Status: job.Pending, CreatedAt: j.CreatedAt, DueAt: j.CreatedAt, RunAt: j.CreatedAt, UpdatedAt: j.CreatedAt,
	}
	if j.Input != nil {
		require.JSONEq(e, `{}`, string(j.Input))
		want.Input = j.Input
	}
	require.Equal(e, want, *j)
}

func lengths(e *env) {
	long, short := strings.Repeat("é", 95)+"x", strings.Repeat("x", 64) // 191 and 64 bytes
	e.queue = strings.Repeat("*", 191-36) + uuid.NewString()
	w := e.worker(long)
	spec := job.Spec{Queue: e.queue, Space: long, ID: long, Type: long, RunID: long, Environment: short}
	key := e.enqueue(spec)
	j := e.get(key)
	require.Equal(e, []string{e.queue, long, long, long, long, short}, []string{j.Queue, j.Space, j.ID, j.Type, j.RunID, j.Environment})
	cl := e.claim(w)
	require.Equal(e, long, cl.Job().WorkerID)
	require.Equal(e, key, e.settle(cl, job.Succeed(nil)).Key())
	require.Equal(e, key, e.get(key).Key())
	for field, change := range map[string]func(*job.Spec){
		"queue":       func(s *job.Spec) { s.Queue += "x" },
		"space":       func(s *job.Spec) { s.Space += "x" },
		"id":          func(s *job.Spec) { s.ID += "x" },
		"type":        func(s *job.Spec) { s.Type += "x" },
		"runId":       func(s *job.Spec) { s.RunID += "x" },
		"environment": func(s *job.Spec) { s.Environment += "x" },
	} {
		s := spec
		change(&s)
		_, err := e.q.Enqueue(e.ctx(), s)
		e.fieldError(err, field)
	}
	for field, cfg := range map[string]job.ConsumerConfig{
		"workerId": {Queue: e.queue, WorkerID: long + "x", Slots: 1},
		"queue":    {Queue: e.queue + "x", WorkerID: "w", Slots: 1},
		"slots":    {Queue: e.queue, WorkerID: "w"},
		"lease":    {Queue: e.queue, WorkerID: "w", Slots: 1, Lease: time.Millisecond},
	} {
		_, err := e.q.Consume(e.ctx(), cfg)
		e.fieldError(err, field)
	}
	_, err := e.q.Consume(e.ctx(), job.ConsumerConfig{Queue: e.queue, Slots: 1})
	e.fieldError(err, "workerId")
}

func anyText(e *env) {
	e.queue += " .*>😀$\n"
	w := e.worker("w .*>😀")
	names := []string{".", "..", "a.b", "*", ">", "a b", " ", "😀", "=41", "A", "a", "=", "\t\n\x7f", `"\`, "$JS.API.>", "message-1"}
	for _, n := range names {
		e.enqueue(job.Spec{Queue: e.queue, Space: n, ID: n, Type: n})
	}
	seen := make(map[string]bool)
	for range names {
		cl := e.claim(w)
		j := cl.Job()
		require.Equal(e, j.ID, j.Space)
		require.Equal(e, j.ID, j.Type)
		require.Equal(e, e.queue, j.Queue)
		require.False(e, seen[j.ID], "%q", j.ID)
		seen[j.ID] = true
		e.settle(cl, job.Succeed(nil))
	}
	for _, n := range names {
		require.True(e, seen[n], "%q", n)
		e.see(job.Key{Queue: e.queue, Space: n, ID: n}, is(job.Succeeded))
	}
	e.nothing(w, while)
}

func refusals(e *env) {
	_, err := e.q.Enqueue(e.ctx(), job.Spec{Queue: e.queue})
	e.fieldError(err, "type")
	s := e.spec("1")
	s.Input = jsontext.Value(`[1]`)
	_, err = e.q.Enqueue(e.ctx(), s)
	e.fieldError(err, "input")
	_, err = e.q.Get(e.ctx(), job.Key{Queue: e.queue, Space: "default", ID: "1"})
	require.ErrorIs(e, err, job.ErrNotFound)
	_, err = e.q.Get(e.ctx(), job.Key{Space: e.queue, ID: "1"})
	require.ErrorIs(e, err, job.ErrNotFound)
	_, err = e.q.Get(e.ctx(), job.Key{Queue: e.queue, Space: "default"})
	e.fieldError(err, "id")
}

func tooLarge(e *env) {
	l, ok := e.h.(Limited)
	if !ok {
		e.Skip("it has no limit")
	}
	w := e.worker("w")
	big, small := e.spec("big"), e.spec("small")
	big.Input = jsontext.Value(`{"x":"` + strings.Repeat("x", l.TooLarge()) + `"}`)
	_, err := e.q.Enqueue(e.ctx(), big)
	require.ErrorIs(e, err, job.ErrTooLarge)
	got, err := e.q.EnqueueMany(e.ctx(), []job.Spec{big, small})
	require.ErrorIs(e, err, job.ErrTooLarge)
	require.ErrorIs(e, got[0].Err, job.ErrTooLarge)
	require.True(e, got[1].Created)
	_, err = e.q.EnqueueAll(e.ctx(), []job.Spec{e.spec("with"), big})
	require.ErrorIs(e, err, job.ErrTooLarge)
	for _, id := range []string{"big", "with"} {
		_, err = e.q.Get(e.ctx(), job.Key{Queue: e.queue, Space: "default", ID: id})
		require.ErrorIs(e, err, job.ErrNotFound, id)
	}
	cl := e.claim(w)
	_, err = cl.Settle(e.ctx(), job.Succeed(jsontext.Value(`"`+strings.Repeat("x", l.TooLarge())+`"`)))
	require.ErrorIs(e, err, job.ErrTooLarge, "a result that does not fit is refused")
	e.settle(cl, job.Outcome{Status: job.Failed, Error: "its result is too large"})
}

func instants(e *env) {
	e.calm(calm)
	w := e.worker("w")
	before := e.q.Now()
	key := e.enqueue(e.spec("now"))
	s := e.spec("later")
	s.Delay = time.Minute
	later := e.enqueue(s)
	after := e.q.Now()
	j := e.get(key)
	e.near(j.CreatedAt, before, after, "createdAt")
	e.near(j.DueAt, before, after, "dueAt")
	j = e.get(later)
	e.near(j.DueAt, before.Add(time.Minute), after.Add(time.Minute), "dueAt of a delay")
	require.Equal(e, j.DueAt, j.RunAt)

	cl := e.claim(w)
	claimedAt := e.q.Now()
	j = cl.Job()
	e.near(j.StartedAt, before, claimedAt, "startedAt")
	e.near(j.LeaseUntil, before.Add(e.lease), claimedAt.Add(e.lease), "leaseUntil")
	asked := e.q.Now()
	j = e.settle(cl, job.Fail(time.Minute, "no"))
	answered := e.q.Now()
	e.near(j.UpdatedAt, asked, answered, "updatedAt")
	e.near(j.RunAt, asked.Add(time.Minute), answered.Add(time.Minute), "runAt")
	e.near(j.History[0].StartedAt, before, claimedAt, "the attempt's startedAt")
	e.near(j.History[0].EndedAt, asked, answered, "the attempt's endedAt")
}

func dueAt(e *env) {
	e.calm(calm)
	w := e.worker("w")
	for i, at := range []time.Time{
		e.q.Now().Add(-time.Hour), // it is run at once, and goes on saying what it was due for
		e.q.Now().Add(300*time.Millisecond + 100*time.Nanosecond),
	} {
		s := e.spec(fmt.Sprint(i))
		s.DueAt = at.In(time.FixedZone("", 3600))
		key := e.enqueue(s)
		require.Equal(e, job.CeilMillis(at), e.get(key).DueAt)
		cl := e.claim(w)
		require.Equal(e, job.CeilMillis(at), cl.Job().DueAt)
		require.False(e, e.q.Now().Add(skew).Before(at))
		require.Equal(e, job.CeilMillis(at), e.settle(cl, job.Succeed(nil)).DueAt)
	}
}

func idempotent(e *env) {
	e.calm(calm)
	w := e.worker("w")
	s := e.spec("1")
	s.Input = jsontext.Value(`{"first":true}`)
	key := e.enqueue(s)
	again := func(when string) {
		other := e.spec("1")
		other.Type, other.Input = "other", jsontext.Value(`{"first":false}`)
		got, err := e.q.Enqueue(e.ctx(), other)
		require.NoError(e, err, when)
		require.Equal(e, job.Enqueued{Key: key}, got, when)
		other.Delay = time.Minute
		got, err = e.q.Enqueue(e.ctx(), other)
		require.NoError(e, err, when)
		require.False(e, got.Created, when)
		require.JSONEq(e, `{"first":true}`, string(e.get(key).Input), when)
	}
	again("while it waits")
	cl := e.claim(w)
	e.seen(key)
	again("while it runs")
	cl2 := e.settle(cl, job.Fail(300*time.Millisecond, "no"))
	require.Equal(e, job.Pending, cl2.Status)
	again("while it is due")
	e.settle(e.claim(w), job.Succeed(nil))
	e.see(key, is(job.Succeeded))
	again("after its end")
	e.nothing(w, while)
}

func race(e *env) {
	clients := []job.Queue{e.q}
	if c, ok := e.h.(Clients); ok {
		clients = append(clients, c.Client(e.T))
	}
	for round := range 5 {
		var created atomic.Int32
		together(10, func(i int) {
			s := e.spec(fmt.Sprint(round))
			s.Type = fmt.Sprint(i)
			if i%3 == 0 {
				s.Delay = time.Minute
			}
			got, err := clients[i%len(clients)].Enqueue(e.ctx(), s)
			if err != nil {
				e.Error(err)
			} else if got.Created {
				created.Add(1)
			}
		})
		require.EqualValues(e, 1, created.Load())
	}
}

func ambiguous(e *env) {
	id := uuid.NewString()
	queues := []string{e.queue + ".a", e.queue + ".b"}
	for _, q := range queues {
		e.enqueue(job.Spec{Queue: q, ID: id, Type: "t"})
		e.see(job.Key{Space: "default", Queue: q, ID: id}, is(job.Pending))
		if q == queues[0] {
			require.Equal(e, q, e.get(job.Key{Space: "default", ID: id}).Queue)
		}
	}
	e.eventually(func() error {
		_, err := e.q.Get(e.ctx(), job.Key{Space: "default", ID: id})
		if err == nil {
			return errNotYet
		}
		require.ErrorIs(e, err, job.ErrAmbiguous)
		var a *job.AmbiguousError
		require.ErrorAs(e, err, &a)
		require.Equal(e, job.AmbiguousError{Space: "default", ID: id, Queues: queues}, *a)
		return nil
	})
	_, err := e.q.Get(e.ctx(), job.Key{Space: "another", ID: id})
	require.ErrorIs(e, err, job.ErrNotFound)
}

func many(e *env) {
	e.enqueue(e.spec("3"))
	var specs []job.Spec
	for i := range 3000 {
		s := e.spec(fmt.Sprint(i))
		if i%100 == 0 {
			s.Delay = time.Hour
		}
		specs = append(specs, s)
	}
	specs = append(specs, e.spec("5"), e.spec("")) // one twice in a call; one without an id
	got, err := e.q.EnqueueMany(e.ctx(), specs)
	require.NoError(e, err)
	require.Len(e, got, len(specs))
	for i, g := range got[:3000] {
		require.Equal(e, job.Enqueued{Key: job.Key{Queue: e.queue, Space: "default", ID: fmt.Sprint(i)}, Created: i != 3}, g)
	}
	require.Equal(e, job.Enqueued{Key: got[5].Key}, got[3000])
	require.True(e, got[3001].Created)
	require.NoError(e, uuid.Validate(got[3001].Key.ID))
	e.see(got[100].Key, func(j *job.Job) error {
		require.WithinDuration(e, e.q.Now().Add(time.Hour), j.RunAt, soon)
		return nil
	})
	none, err := e.q.EnqueueMany(e.ctx(), nil)
	require.NoError(e, err)
	require.Empty(e, none)
}

func manyRefused(e *env) {
	bad := e.spec("2")
	bad.MaxAttempts = -1
	worse := e.spec("3")
	worse.Type = ""
	got, err := e.q.EnqueueMany(e.ctx(), []job.Spec{e.spec("1"), bad, worse, e.spec("4")})
	e.fieldError(err, "maxAttempts")
	e.fieldError(got[1].Err, "maxAttempts")
	e.fieldError(got[2].Err, "type")
	for i, created := range []bool{true, false, false, true} {
		require.Equal(e, created, got[i].Created)
		require.Equal(e, created, got[i].Err == nil)
	}
}

func all(e *env) {
	w := e.worker("w")
	soonDue := e.spec("b")
	soonDue.Delay = 200 * time.Millisecond
	got, err := e.q.EnqueueAll(e.ctx(), []job.Spec{e.spec("a"), soonDue, e.spec("c")})
	require.NoError(e, err)
	for i, id := range []string{"a", "b", "c"} {
		require.Equal(e, job.Enqueued{Key: job.Key{Queue: e.queue, Space: "default", ID: id}, Created: true}, got[i])
	}
	for range got {
		e.settle(e.claim(w), job.Succeed(nil))
	}
	_, err = e.q.EnqueueAll(e.ctx(), []job.Spec{e.spec("x"), e.spec("c"), e.spec("y"), e.spec("a")})
	require.ErrorIs(e, err, job.ErrConflict)
	var conflict *job.ConflictError
	require.ErrorAs(e, err, &conflict)
	require.Equal(e, []job.Key{got[2].Key, got[0].Key}, conflict.Keys)
	_, err = e.q.EnqueueAll(e.ctx(), []job.Spec{e.spec("x"), e.spec("y"), e.spec("x")})
	e.fieldError(err, "id")
	_, err = e.q.EnqueueAll(e.ctx(), []job.Spec{e.spec("x"), {Queue: e.queue, ID: "y"}})
	e.fieldError(err, "type")
	e.nothing(w, while)
	for _, id := range []string{"x", "y"} {
		_, err := e.q.Get(e.ctx(), job.Key{Queue: e.queue, Space: "default", ID: id})
		require.ErrorIs(e, err, job.ErrNotFound, "all or nothing")
	}
	got, err = e.q.EnqueueAll(e.ctx(), []job.Spec{e.spec("alone")})
	require.NoError(e, err)
	require.True(e, got[0].Created)
	_, err = e.q.EnqueueAll(e.ctx(), []job.Spec{e.spec("alone")})
	require.ErrorIs(e, err, job.ErrConflict)
	none, err := e.q.EnqueueAll(e.ctx(), nil)
	require.NoError(e, err)
	require.Empty(e, none)
}

func thousand(e *env) {
	specs := make([]job.Spec, 1001)
	for i := range specs {
		specs[i] = e.spec(fmt.Sprint(i))
	}
	_, err := e.q.EnqueueAll(e.ctx(), specs)
	e.fieldError(err, "jobs")
	_, err = e.q.Get(e.ctx(), job.Key{Queue: e.queue, Space: "default", ID: "0"})
	require.ErrorIs(e, err, job.ErrNotFound)
	got, err := e.q.EnqueueAll(e.ctx(), specs[:1000])
	require.NoError(e, err)
	require.Len(e, got, 1000)
	for _, i := range []int{0, 499, 999} {
		require.True(e, got[i].Created)
		e.see(got[i].Key, is(job.Pending))
	}
}
