package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/scheduler"
)

// leads waits until somebody leads, and answers what the status says.
func leads(t *testing.T, args ...string) scheduler.Status {
	t.Helper()
	var st scheduler.Status
	require.Eventually(t, func() bool {
		r := call(t, append([]string{"scheduler", "status", "--json"}, args...)...)
		require.Contains(t, []int{exitOK, exitNoLeader}, r.code, r.err)
		st = scheduler.Status{}
		require.NoError(t, json.Unmarshal([]byte(r.out), &st))
		return r.code == exitOK
	}, 30*time.Second, 50*time.Millisecond)
	require.NotNil(t, st.Leader)
	return st
}

// fired waits for a job of a schedule.
func fired(t *testing.T, schedule, status string, args ...string) job.Job {
	t.Helper()
	var found job.Job
	require.Eventually(t, func() bool {
		r := call(t, append([]string{"job", "list", "--json", "--status", status}, args...)...).ok(t)
		var page struct {
			Jobs []job.Job `json:"jobs"`
		}
		require.NoError(t, job.Decode([]byte(r.out), &page))
		for _, j := range page.Jobs {
			if j.Trigger == job.TriggerSchedule && strings.HasPrefix(j.ID, schedule+"@") {
				found = j
				return true
			}
		}
		return false
	}, 30*time.Second, 50*time.Millisecond)
	return found
}

func TestDevFiresSchedulesAndRunsTheirJobs(t *testing.T) {
	d := start(t, "dev", "--port", "0")
	d.waitFor(t, "working")
	url := regexp.MustCompile(`nats://127\.0\.0\.1:\d+`).FindString(d.out.String())
	require.NotEmpty(t, url)
	t.Setenv("JETCREW_URL", url)
	require.Eventually(t, func() bool { // once the worker has said that it is there
		return call(t, "schedule", "put", "beat", "--type", "echo", "--cron", "@every 1s", "--input", `{"n":1}`).ok(t).err == ""
	}, 20*time.Second, 50*time.Millisecond)
	j := fired(t, "beat", "succeeded")
	require.JSONEq(t, `{"n":1}`, string(j.Result))

	r := call(t, "schedule", "put", "nobody", "--type", "nobody-handles-it", "--cron", "@daily").ok(t)
	require.Equal(t, "warning: no worker that is alive on the queue default handles the type nobody-handles-it\n", r.err)
	require.NotEmpty(t, scheduleLastJob(t, "beat"))
	st := leads(t)
	require.Equal(t, 2, st.Schedules)
	require.Equal(t, exitOK, d.stop(t))
}

func scheduleLastJob(t *testing.T, name string) string {
	t.Helper()
	var s scheduler.Schedule
	require.NoError(t, job.Decode([]byte(call(t, "schedule", "get", name, "--json").ok(t).out), &s))
	require.NotNil(t, s.LastJob)
	return s.LastJob.ID
}

func TestTheRoleFiresWithoutAWorker(t *testing.T) {
	serve(t)
	s := start(t, "schedule")
	s.waitFor(t, "leading")
	call(t, "schedule", "put", "x.* >", "--space", "acme", "--type", "t", "--cron", "@every 1s").ok(t)
	fired(t, "x.* >", "pending", "--space", "acme")
	require.Equal(t, exitOK, s.stop(t))
}

func TestWorkersTakePartUnlessTheyAreToldNotTo(t *testing.T) {
	serve(t)
	r := call(t, "scheduler", "status")
	require.Equal(t, exitNoLeader, r.code, r.err)
	require.Equal(t, "jetcrew: no leader\n", r.err)
	require.Regexp(t, `(?m)^leader +nobody *$`, r.out)
	require.Regexp(t, `(?m)^schedules +0 *$`, r.out)
	require.Error(t, hasBucket(t), "to look makes nothing")

	w := start(t, "work", "--builtin", "echo", "--no-lead")
	w.waitFor(t, "working")
	require.Error(t, hasBucket(t), "a worker that does not take part needs no schedules")
	leader := start(t, "work", "--builtin", "echo")
	st := leads(t)
	require.NotZero(t, st.Leader.PID)
	r = call(t, "scheduler", "status").ok(t)
	for _, want := range []string{`leader +` + st.Leader.ID, `pid +\d+`, `leads since +\S+Z, for \S+`, `schedules +0`, `overdue +0`} {
		require.Regexp(t, `(?m)^`+want+` *$`, r.out)
	}
	require.Equal(t, exitOK, leader.stop(t))
	require.Equal(t, exitNoLeader, call(t, "scheduler", "status").code, "the lead is given back")
	require.Equal(t, exitOK, w.stop(t))
}

// hasBucket is why schedules cannot be opened where nothing may be made.
func hasBucket(t *testing.T) error {
	t.Helper()
	t.Setenv("JETCREW_MANAGE", "verify")
	defer t.Setenv("JETCREW_MANAGE", "create")
	r := call(t, "schedule", "list")
	if r.code == exitOK {
		return nil
	}
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.err, `"jetcrew setup" makes it`)
	return scheduler.ErrNotFound
}

func TestSetupMakesTheBucketOfSchedules(t *testing.T) {
	serve(t)
	call(t, "setup").ok(t)
	require.NoError(t, hasBucket(t))
}

func TestAStatusCounts(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	off := false
	st := scheduler.Status{At: now}
	st.Count(scheduler.Listing{
		Schedules: []scheduler.Schedule{
			{Spec: scheduler.Spec{Name: "off", Enabled: &off}, NextRunAt: now.Add(-time.Hour)},
			{Spec: scheduler.Spec{Name: "late", Space: "s\x1b"}, NextRunAt: now.Add(-time.Minute)},
			{Spec: scheduler.Spec{Name: "due"}, NextRunAt: now.Add(-time.Second)},
			{Spec: scheduler.Spec{Name: "refused"}, NextRunAt: now.Add(time.Second), Error: "too large"},
			{Spec: scheduler.Spec{Name: "over"}},
		},
		Unreadable: []error{scheduler.ErrUnreadable},
	})
	require.Equal(t, scheduler.Status{
		At: now, Schedules: 5, Disabled: 1, Overdue: 1, Failing: 1, Unreadable: 1, Next: &scheduler.NextFire{Space: "s\x1b", Name: "late", At: now.Add(-time.Minute)},
	}, st)
	out := &lockedBuffer{}
	(&app{stdout: out}).showSchedulerStatus(&st)
	require.Contains(t, out.String(), `s\x1b/late at 2029-12-31T23:59:00.000Z (1m late)`)
}
