package queuetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// reports: what a handler says of itself stands on the record, while it runs and after its end.
func reports(e *env) {
	c := e.worker("w")
	key := e.enqueue(e.spec("a"))
	cl := e.claim(c)
	r, ok := cl.(job.Reporter)
	if !ok {
		e.Skip("its claims take no reports")
	}
	r.ReportLog("")
	r.ReportLog("first\nsecond")
	r.ReportProgress(40, "pages")
	j := e.see(key, func(j *job.Job) error {
		if j.Progress == nil || j.Progress.Done != 40 || j.Progress.Note != "pages" || len(j.Log) != 2 {
			return fmt.Errorf("progress %v, log %v", j.Progress, j.Log)
		}
		return nil
	})
	require.Equal(e, job.Running, j.Status)
	require.Equal(e, "second", j.Log[1].Text)

	for i := range 2 * job.MaxLogLines {
		r.ReportLog(fmt.Sprintf("line %d", i))
	}
	r.ReportProgress(100, "pages")
	_, err := cl.Settle(e.ctx(), job.Fail(0, "not yet"))
	require.NoError(e, err)
	j = e.see(key, func(j *job.Job) error {
		if j.Status == job.Running {
			return errors.New("it runs")
		}
		return nil
	})
	require.InDelta(e, 100, j.Progress.Done, 0)
	require.Len(e, j.Log, job.MaxLogLines)
	require.Equal(e, fmt.Sprintf("line %d", 2*job.MaxLogLines-1), j.Log[job.MaxLogLines-1].Text)

	cl = e.claim(c)
	require.Nil(e, cl.Job().Progress, "an attempt begins at nothing")
	require.Len(e, cl.Job().Log, job.MaxLogLines, "the log goes on")
	_, err = cl.Settle(e.ctx(), job.Succeed(nil))
	require.NoError(e, err)
	r.ReportLog("too late") // of the attempt before
	j = e.see(key, is(job.Succeeded))
	require.NotEqual(e, "too late", j.Log[len(j.Log)-1].Text)
}

// wait: whoever waits for a job's end is answered its record.
func wait(e *env) {
	c := e.worker("w") // it takes nothing before it is asked to
	_, err := e.q.Wait(e.ctx(), job.Key{Queue: e.queue, Space: "default", ID: "nobody"})
	require.ErrorIs(e, err, job.ErrNotFound)
	_, err = e.q.Wait(e.ctx(), job.Key{})
	require.ErrorAs(e, err, new(*job.FieldError))

	key := e.enqueue(e.spec("a"))
	e.get(key)
	short, cancel := context.WithTimeout(e.ctx(), 100*time.Millisecond)
	defer cancel()
	_, err = e.q.Wait(short, key)
	require.ErrorIs(e, err, context.DeadlineExceeded)

	type answer struct {
		j   *job.Job
		err error
	}
	answers := make(chan answer, 2)
	for _, k := range []job.Key{key, {Queue: e.queue, Space: key.Space, ID: key.ID}} {
		go func() {
			j, err := e.q.Wait(e.ctx(), k)
			answers <- answer{j, err}
		}()
	}
	cl := e.claim(c)
	_, err = cl.Settle(e.ctx(), job.Succeed([]byte(`{"n":1}`)))
	require.NoError(e, err)
	for range 2 {
		a := <-answers
		require.NoError(e, a.err)
		require.Equal(e, job.Succeeded, a.j.Status)
		require.JSONEq(e, `{"n":1}`, string(a.j.Result))
	}
}
