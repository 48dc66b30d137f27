package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// queueInfo is what `queue info --json` prints.
type queueInfo struct {
	Name           string
	Ready, Running int
	Paused         bool
	PausedUntil    time.Time
	Concurrency    int
	Lease          string
	Retention      map[string]string
	Workers, Slots int
	OldestReady    time.Time
}

func queueOf(t *testing.T, name string) queueInfo {
	t.Helper()
	var q queueInfo
	require.NoError(t, json.Unmarshal([]byte(call(t, "queue", "info", name, "--json").ok(t).out), &q))
	return q
}

func TestQueuesAreListedWithWhatThereIsToDo(t *testing.T) {
	serve(t)
	w := start(t, "work", "--builtin", "sleep", "--queues", "busy=2,idle=3")
	w.waitFor(t, "working")
	for range 3 {
		call(t, "enqueue", "sleep", "--queue", "busy", "--input", `{"for":"1h"}`).ok(t)
	}
	call(t, "enqueue", "sleep", "--queue", "evil\x1b[2J").ok(t)
	var out string
	require.Eventually(t, func() bool {
		out = call(t, "queue", "list").ok(t).out
		return strings.Contains(out, "\nbusy") && strings.Contains(out, "2 ready") && strings.Contains(out, "2 running")
	}, 20*time.Second, 20*time.Millisecond)
	require.Regexp(t, `^NAME +READY +RUNNING +OLDEST +CONCURRENCY +LEASE +WORKERS/SLOTS +STATE`, out)
	require.Regexp(t, `(?m)^busy +1 +2 +\S+ +no limit +30s +1/2 +open *$`, out)
	require.Regexp(t, `(?m)^evil\\x1b\[2J +1 +0 +\S+ +no limit +30s +0/0 +open *$`, out)
	require.Regexp(t, `(?m)^idle +0 +0 +no limit +30s +1/3 +open *$`, out)
	require.Contains(t, out, "in all: 2 ready, 0 due, 2 running, 0 succeeded, 0 failed, 0 dead, 0 cancelled\n")

	var all struct {
		Queues []queueInfo
		Counts struct{ Ready, Running, Total int }
	}
	require.NoError(t, json.Unmarshal([]byte(call(t, "queue", "list", "--json").ok(t).out), &all))
	require.Len(t, all.Queues, 3)
	require.Equal(t, 4, all.Counts.Total)

	out = call(t, "job", "counts").ok(t).out
	require.Regexp(t, `(?m)^running +2 *$`, out)
	require.Regexp(t, `(?m)^all +4 *$`, out)

	r := call(t, "queue", "info", "nobody")
	require.Equal(t, exitNoJob, r.code)
	require.Equal(t, "jetcrew: queue nobody: no such queue\n", r.err)

	call(t, "job", "cancel", "--all", "--yes").ok(t)
	require.Equal(t, exitOK, w.stop(t))
}

func TestAPausedQueueHandsOutNothing(t *testing.T) {
	serve(t)
	w := start(t, "work", "--builtin", "echo")
	w.waitFor(t, "working")
	r := call(t, "queue", "pause", "default").ok(t)
	require.Equal(t, "default is paused; 0 ready\n", r.out)
	call(t, "enqueue", "echo", "--id", "x").ok(t)
	require.Equal(t, exitWaited, call(t, "job", "wait", "x", "--timeout", "300ms").code)
	require.Contains(t, call(t, "queue", "info", "default").ok(t).out, "paused")
	require.Equal(t, "default is open\n", call(t, "queue", "resume", "default").ok(t).out)
	call(t, "job", "wait", "x", "--timeout", "20s").ok(t)

	require.Contains(t, call(t, "queue", "pause", "default", "--for", "1d").ok(t).out, "default is paused until ")
	q := queueOf(t, "default")
	require.True(t, q.Paused)
	require.InDelta(t, 24, time.Until(q.PausedUntil).Hours(), 0.1)
	r = call(t, "queue", "pause", "default", "--until", "2100-01-01T00:00:00Z", "--json").ok(t)
	require.Contains(t, r.out, `"pausedUntil": "2100-01-01T00:00:00.000Z"`)
	call(t, "queue", "resume", "default").ok(t)
	require.False(t, queueOf(t, "default").Paused)
	call(t, "queue", "resume", "default").ok(t)

	for _, args := range [][]string{{"pause"}, {"resume"}, {"delete"}} {
		r := call(t, append([]string{"queue", args[0]}, "nobody")...)
		require.Equal(t, exitNoJob, r.code, "%q: %s", args, r.err)
	}
	require.Equal(t, exitOK, w.stop(t))
}

func TestAQueueIsConfigured(t *testing.T) {
	serve(t)
	r := call(t, "queue", "configure", "mail", "--concurrency", "20", "--lease", "2m", "--retention-dead", "90d", "--retention-succeeded", "none").ok(t)
	require.Contains(t, r.err, "the queue mail is new")
	require.Regexp(t, `^SETTING +BEFORE +AFTER`, r.out)
	require.Regexp(t, `(?m)^concurrency +20 *$`, r.out)
	q := queueOf(t, "mail")
	require.Equal(t, 20, q.Concurrency)
	require.Equal(t, "2m0s", q.Lease)
	require.Equal(t, map[string]string{"dead": "2160h0m0s", "succeeded": "0s"}, q.Retention)

	r = call(t, "queue", "configure", "mail", "--concurrency", "0", "--lease", "1s", "--retention-dead", "default", "--retention-failed", "0").ok(t)
	require.Equal(t, "the lease gets shorter: waiting until all workers know, which may take 2m\n", r.err)
	for _, want := range []string{
		`concurrency +20 +no limit`, `lease +2m +1s`, `retention of succeeded +none +none`, `retention of dead +90d +default`,
		`retention of failed +default +none`, `retention of cancelled +default +default`,
	} {
		require.Regexp(t, `(?m)^`+want+` *$`, r.out)
	}
	r = call(t, "queue", "configure", "mail", "--retention-failed", "10m", "--json").ok(t)
	var both struct{ Before, After queueInfo }
	require.NoError(t, json.Unmarshal([]byte(r.out), &both))
	require.Equal(t, "0s", both.Before.Retention["failed"])
	require.Equal(t, "10m0s", both.After.Retention["failed"])
	info := call(t, "queue", "info", "mail").ok(t).out
	require.Regexp(t, `(?m)^retention of failed +10m *$`, info)
	require.Regexp(t, `(?m)^oldest ready +none *$`, info)
}

func TestAQueueIsPurgedThenDeleted(t *testing.T) {
	serve(t)
	putMany(t, "email", 20)
	call(t, "enqueue", "t", "--id", "later", "--queue", "mail", "--space", "acme", "--delay", "1h").ok(t)
	call(t, "enqueue", "t", "--id", "stays").ok(t)
	r := call(t, "queue", "delete", "mail")
	require.Equal(t, exitUnchanged, r.code)
	require.Contains(t, r.err, "in use")

	require.Equal(t, "would be deleted: 21 jobs\n", call(t, "queue", "purge", "mail", "--dry-run").ok(t).out)
	require.Equal(t, "deleted 20 jobs\n", call(t, "queue", "purge", "mail", "--status", "ready", "--yes").ok(t).out)
	var res job.BulkResult
	require.NoError(t, json.Unmarshal([]byte(call(t, "queue", "purge", "mail", "--yes", "--json").ok(t).out), &res))
	require.Equal(t, 1, res.Done)
	require.Equal(t, "no jobs of every space, on queue mail, that are ready or due\n", call(t, "queue", "purge", "mail", "--yes").ok(t).out)
	require.Equal(t, exitNoJob, call(t, "queue", "purge", "nobody", "--yes").code)

	require.Equal(t, "mail deleted\n", call(t, "queue", "delete", "mail").ok(t).out)
	require.Equal(t, exitNoJob, call(t, "queue", "info", "mail").code)
	require.Equal(t, "stays", list(t, "--all-spaces").ids())
}

func TestWorkersAreListedWithWhatTheyRun(t *testing.T) {
	serve(t)
	r := call(t, "worker", "list").ok(t)
	require.Empty(t, r.out)
	require.Equal(t, "no workers\n", r.err)
	call(t, "queue", "configure", "a", "--lease", "1s").ok(t) // a third of it is how often workers say what they run
	w := start(t, "work", "--builtin", "sleep", "--queues", "a=2,b=3")
	w.waitFor(t, "working")
	call(t, "enqueue", "sleep", "--queue", "a", "--id", "evil\x1b", "--input", `{"for":"1h"}`).ok(t)
	var out string
	require.Eventually(t, func() bool {
		out = call(t, "worker", "list", "--jobs").ok(t).out
		return strings.Contains(out, "a/default")
	}, 20*time.Second, 20*time.Millisecond)
	require.Regexp(t, `^WORKER +HOST +PID +VERSION +QUEUES +SLOTS +RUNNING +SINCE +BEAT`, out)
	require.Regexp(t, `(?m) a,b +5 +1 +\d{4}-\S+Z +\S+( ago)? *$`, out)
	require.Regexp(t, `(?m)^\S+ +a/default/evil\\x1b +sleep +\S+ *$`, out)

	var all struct {
		Workers []job.Worker `json:"workers"`
	}
	require.NoError(t, job.Decode([]byte(call(t, "worker", "list", "--json").ok(t).out), &all))
	require.Len(t, all.Workers, 1)
	require.Equal(t, 1, all.Workers[0].Queues[0].Running)
	require.Empty(t, all.Workers[0].Queues[0].Jobs)
	require.NoError(t, job.Decode([]byte(call(t, "worker", "list", "--json", "--jobs").ok(t).out), &all))
	require.Equal(t, "evil\x1b", all.Workers[0].Queues[0].Jobs[0].ID)
	call(t, "job", "cancel", "--all", "--yes").ok(t)
	require.Equal(t, exitOK, w.stop(t))
}

func TestJobsThatAWorkerDoesNotNameAreCounted(t *testing.T) {
	a := &app{stdout: &lockedBuffer{}}
	a.showWorkerJobs([]job.Worker{{ID: "w", Queues: []job.WorkerQueue{{Queue: "q", Running: 900}}}}, time.Now())
	require.Contains(t, fmt.Sprint(a.stdout), "q: 900 more")
}

func TestALeaseSaysWhichOneIsInForce(t *testing.T) {
	for want, q := range map[string]job.QueueInfo{
		"30s":                            {Lease: 30 * time.Second},
		"2m":                             {Lease: 2 * time.Minute, LeaseInForce: 2 * time.Minute},
		"2s (1m until all workers know)": {Lease: 2 * time.Second, LeaseInForce: time.Minute},
	} {
		require.Equal(t, want, lease(&q))
	}
}

func TestARetentionThatCannotBeSaysWhatCan(t *testing.T) {
	r := call(t, "queue", "configure", "q", "--retention-dead", "forever")
	require.Equal(t, exitUsage, r.code)
	require.Equal(t, "jetcrew: --retention-dead: must be 10m to 3650d, none or default, not \"forever\"\n", r.err)
}
