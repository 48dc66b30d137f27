package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

func TestAnOperatorSteersOneJob(t *testing.T) {
	serve(t)
	call(t, "enqueue", "sleep", "--id", "late", "--queue", "mail", "--delay", "1h", "--input", `{"for":"1ms"}`).ok(t)

	require.Equal(t, "mail/default/late cancelled\n", call(t, "job", "cancel", "late").ok(t).out)
	get(t, "cancelled", "late")
	r := call(t, "job", "cancel", "late")
	require.Equal(t, exitUnchanged, r.code)
	require.Equal(t, "jetcrew: mail/default/late is cancelled: it has ended\n", r.err)
	require.Empty(t, r.out)

	require.Equal(t, "mail/default/late requeued\n", call(t, "job", "requeue", "late", "--queue", "mail").ok(t).out)
	get(t, "pending", "late")
	r = call(t, "job", "requeue", "late")
	require.Equal(t, exitUnchanged, r.code)
	require.Equal(t, "jetcrew: mail/default/late is pending: only a job that has ended can be requeued\n", r.err)
	r = call(t, "job", "run-now", "late")
	require.Equal(t, exitUnchanged, r.code)
	require.Equal(t, "jetcrew: mail/default/late may start already: it waits for a free worker\n", r.err)

	r = call(t, "job", "delete", "late", "--json").ok(t)
	require.JSONEq(t, `{"queue":"mail","space":"default","id":"late","done":true}`, r.out)
	require.Equal(t, exitNoJob, call(t, "job", "get", "late").code)
	for _, o := range operations {
		r := call(t, "job", string(o.op), "late")
		require.Equal(t, exitNoJob, r.code, r.err)
		require.Contains(t, r.err, "job not found")
	}

	call(t, "enqueue", "t", "--id", "waits", "--delay", "1h").ok(t)
	require.Equal(t, "default/default/waits started\n", call(t, "job", "run-now", "waits").ok(t).out)
	require.Equal(t, "waits", list(t, "--status", "ready").ids())
}

func TestARunningJobIsStoppedButNotDeleted(t *testing.T) {
	serve(t)
	w := start(t, "work", "--builtin", "sleep")
	w.waitFor(t, "working")
	call(t, "enqueue", "sleep", "--id", "long", "--input", `{"for":"1h"}`).ok(t)
	get(t, "running", "long")
	for op, why := range map[string]string{
		"delete": "cancel it first", "requeue": "only a job that has ended", "run-now": "only a job that waits for its instant",
	} {
		r := call(t, "job", op, "long", "--json")
		require.Equal(t, exitUnchanged, r.code, r.err)
		require.Regexp(t, `^jetcrew: default/default/long is running: `+why+`[^\n]*\n$`, r.err)
		require.JSONEq(t, `{"queue":"default","space":"default","id":"long","done":false,"status":"running"}`, r.out)
	}
	require.Equal(t, "default/default/long is running, and is being stopped\n", call(t, "job", "cancel", "long").ok(t).out)
	get(t, "cancelled", "long")
	require.Equal(t, exitOK, w.stop(t))
}

func TestAnAmbiguousIDIsNotSteered(t *testing.T) {
	serve(t)
	call(t, "enqueue", "t", "--id", "x", "--queue", "a").ok(t)
	call(t, "enqueue", "t", "--id", "x", "--queue", "b").ok(t)
	for _, o := range operations {
		r := call(t, "job", string(o.op), "x")
		require.Equal(t, exitUsage, r.code)
		require.Contains(t, r.err, "several queues, name one: a, b")
	}
	for _, cmd := range []string{"get", "wait", "watch"} {
		require.Equal(t, exitUsage, call(t, "job", cmd, "x").code, cmd)
	}
	call(t, "job", "cancel", "x", "--queue", "b").ok(t)
	get(t, "pending", "x", "--queue", "a")
}

// putMany enqueues jobs of a type on queue mail: job-0 to job-(n-1).
func putMany(t *testing.T, typ string, n int) {
	t.Helper()
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, "{\"type\":%q,\"id\":\"%s-%d\",\"queue\":\"mail\"}\n", typ, typ, i)
	}
	callWith(t, lines.String(), "enqueue", "--file", "-").ok(t)
}

func TestAnOperatorSteersManyJobs(t *testing.T) {
	serve(t)
	putMany(t, "email", 30)
	putMany(t, "other", 5)
	call(t, "enqueue", "email", "--id", "elsewhere", "--space", "acme", "--queue", "mail").ok(t)

	r := call(t, "job", "cancel", "--type", "email")
	require.Equal(t, exitUsage, r.code, "there is no terminal")
	require.Contains(t, r.err, "--yes")
	require.Equal(t, "would be cancelled or told to stop: 30 jobs\n", call(t, "job", "cancel", "--type", "email", "--dry-run").ok(t).out)
	require.Equal(t, "10 jobs cancelled or told to stop\n", call(t, "job", "cancel", "--type", "email", "--yes", "--limit", "10").ok(t).out)

	var res job.BulkResult
	r = call(t, "job", "cancel", "--type", "email", "--yes", "--json").ok(t)
	require.NoError(t, json.Unmarshal([]byte(r.out), &res))
	require.Equal(t, 20, res.Done)
	require.Zero(t, res.Failed)
	require.Equal(t, "no jobs of space default, of type email, that are ready or due or running\n",
		call(t, "job", "cancel", "--type", "email", "--yes").ok(t).out, "nothing is left to do")

	call(t, "job", "requeue", "--queue", "mail", "--yes").ok(t)
	require.Len(t, list(t, "--status", "cancelled").Jobs, 30, "what was cancelled is not requeued unless it is named")
	require.Equal(t, "requeued 30 jobs\n", call(t, "job", "requeue", "--queue", "mail", "--status", "cancelled", "--yes").ok(t).out)
	require.Equal(t, "deleted 35 jobs\n", call(t, "job", "delete", "--all", "--yes").ok(t).out)
	require.Empty(t, list(t).Jobs)
	require.Equal(t, "elsewhere", list(t, "--all-spaces").ids(), "another space is not meant unless it is named")
	require.Equal(t, "deleted 1 job\n", call(t, "job", "delete", "--all", "--all-spaces", "--yes").ok(t).out)
}

func TestWhatCouldNotBeChangedIsAFailure(t *testing.T) {
	a := &app{stdout: &lockedBuffer{}, stderr: &lockedBuffer{}}
	var r job.BulkResult
	for i := range 25 {
		key := job.Key{Queue: "q", Space: "s", ID: fmt.Sprintf("\x1b%d", i)}
		r.Fail(key, fmt.Errorf("delete %s: %w", key, job.ErrUnknown))
	}
	r.Looked, r.Matched, r.Done, r.Left = 40, 40, 14, 1
	err := a.bulk(t.Context(), &answered{result: r}, operationOf(job.OpDelete), job.BulkRequest{}, &bulkFlags{yes: true})
	require.EqualError(t, err, "25 jobs could not be changed: asking again does no harm, and helps once the reason is gone")
	require.Equal(t, "deleted 14 jobs, left 1 that others changed first, failed 25\n", a.stdout.(*lockedBuffer).String())
	errs := a.stderr.(*lockedBuffer).String()
	require.Regexp(t, `(?m)^q/s/\\x1b0: outcome unknown`, errs, "the job is named once")
	require.Contains(t, errs, "and 5 more\n")
}

func TestABulkOperationThatIsBrokenOffSaysHowFarItCame(t *testing.T) {
	a := &app{stdout: &lockedBuffer{}, stderr: &lockedBuffer{}}
	s := &answered{result: job.BulkResult{Looked: 40, ToLook: 90, Matched: 40, Done: 14}, err: context.Canceled}
	err := a.bulk(t.Context(), s, operationOf(job.OpCancel), job.BulkRequest{}, &bulkFlags{yes: true})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, "broken off after at least 14 jobs had been cancelled or told to stop: asking again goes on with what is left\n",
		a.stderr.(*lockedBuffer).String())
	require.Equal(t, "14 jobs cancelled or told to stop\n", a.stdout.(*lockedBuffer).String())
}

func TestWhyAJobIsNotCancelled(t *testing.T) {
	key := job.Key{Queue: "q", Space: "s", ID: "x"}
	for want, ch := range map[string]job.Changed{
		"q/s/x is cancelled: it has ended":                                                              {Key: key, Status: job.Cancelled, CancelRequested: true},
		"q/s/x is running, and is being stopped already":                                                {Key: key, Status: job.Running, CancelRequested: true},
		`q/s/x cannot be read as a job, so there is nothing to cancel: "jetcrew job delete" removes it`: {Key: key, Status: job.Pending},
	} {
		require.Equal(t, want, operationOf(job.OpCancel).whyNot(ch))
	}
}

// garbage puts a message on a queue that is no job.
func garbage(t *testing.T, url, id string) {
	t.Helper()
	nc, err := nats.Connect(url)
	require.NoError(t, err)
	defer nc.Close()
	_, err = nc.Request("jetcrew.job.ready.default.default."+id, []byte("no JSON"), 10*time.Second)
	require.NoError(t, err)
}

func TestWhatIsNoJobIsDeletedNotCancelled(t *testing.T) {
	url := serve(t)
	call(t, "setup").ok(t)
	garbage(t, url, "junk")
	r := call(t, "job", "cancel", "junk")
	require.Equal(t, exitUnchanged, r.code, r.err)
	require.Contains(t, r.err, `cannot be read as a job`)
	require.NotContains(t, r.err, "ended")
	require.Equal(t, "default/default/junk deleted\n", call(t, "job", "delete", "junk").ok(t).out)
}

// answered is a steerer whose bulk operations all come to the same.
type answered struct {
	job.Steerer
	result job.BulkResult
	err    error
	asked  []job.BulkRequest
}

func (s *answered) Bulk(_ context.Context, req job.BulkRequest) (job.BulkResult, error) {
	s.asked = append(s.asked, req)
	return s.result, s.err
}
