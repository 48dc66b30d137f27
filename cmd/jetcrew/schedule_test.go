package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/scheduler"
)

// scheduleRecord is what `schedule get --json` prints.
type scheduleRecord struct {
	Space, Name, Type, Queue, Cron, Timezone, Owner, Timeout string
	Enabled                                                  bool
	MaxAttempts                                              int
	MissedPolicy, Overlap, Environment, Jitter               string
	MissedLimit                                              int
	Input                                                    map[string]any
	NextRunAt                                                time.Time
}

func scheduleOf(t *testing.T, args ...string) scheduleRecord {
	t.Helper()
	var s scheduleRecord
	require.NoError(t, json.Unmarshal([]byte(call(t, append([]string{"schedule", "get", "--json"}, args...)...).ok(t).out), &s))
	return s
}

func schedulesOf(t *testing.T, args ...string) (names []string) {
	t.Helper()
	var l struct {
		Schedules []scheduleRecord
		Total     int
	}
	require.NoError(t, json.Unmarshal([]byte(call(t, append([]string{"schedule", "list", "--json"}, args...)...).ok(t).out), &l))
	require.GreaterOrEqual(t, l.Total, len(l.Schedules))
	for _, s := range l.Schedules {
		names = append(names, s.Space+"/"+s.Name)
	}
	return names
}

// bucket is the schedules as the server keeps them.
func bucket(t *testing.T, url string) jetstream.KeyValue {
	t.Helper()
	nc, err := nats.Connect(url)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	kv, err := js.KeyValue(t.Context(), "JETCREW_SCHEDULES")
	require.NoError(t, err)
	return kv
}

func TestAScheduleIsPutAndShown(t *testing.T) {
	serve(t)
	const name = "a.b *> é"
	put := []string{
		"schedule", "put", name, "--space", "acme", "--type", "report", "--cron", "30 2 * * MON", "--timezone", "Europe/Paris",
		"--queue", "q.*", "--input", `{"a":[1]}`, "--max-attempts", "9", "--timeout", "1m", "--jitter", "30s",
		"--missed", "each", "--missed-limit", "7", "--overlap", "skip", "--disabled", "--environment", "test", "--owner", "svc",
	}
	r := call(t, put...).ok(t)
	require.Regexp(t, `^acme/a\.b \*> é created, and disabled: .*\nFIRES AT +UTC +IN *\nMon \d{4}-\d\d-\d\d 02:30:\d\d CES?T +\d{4}-\S+Z +\S+ *\n`, r.out)
	require.Equal(t, 2+firesShown, strings.Count(r.out, "\n"))
	require.Equal(t, "warning: no worker that is alive takes jobs from the queue q.*\n", r.err)

	s := scheduleOf(t, name, "--space", "acme")
	next := s.NextRunAt
	require.WithinRange(t, next, time.Now().Add(-time.Minute), time.Now().Add(8*24*time.Hour))
	s.NextRunAt = time.Time{}
	require.Equal(t, scheduleRecord{
		Space: "acme", Name: name, Type: "report", Queue: "q.*", Cron: "30 2 * * MON", Timezone: "Europe/Paris", Owner: "svc", Timeout: "1m0s",
		MaxAttempts: 9, MissedPolicy: "each", MissedLimit: 7, Overlap: "skip", Environment: "test", Jitter: "30s", Input: map[string]any{"a": []any{1.}},
	}, s)
	require.Contains(t, call(t, put...).ok(t).out, "unchanged")

	text := call(t, "schedule", "get", name, "--space", "acme").ok(t).out
	for _, want := range []string{
		`schedule +acme/a\.b \*> é`, `state +off`, `cron +30 2 \* \* MON`, `timezone +Europe/Paris`, `jitter +30s`, `queue +q\.\*`,
		`input +\{"a":\[1\]\}`, `missed fires +each, 7 at most`, `overlap +skip`, `owner +svc`, `attempts +9`, `timeout +1m`, `missed +0`,
	} {
		require.Regexp(t, `(?m)^`+want+` *$`, text)
	}
	require.Contains(t, text, "FIRES AT")

	// What no flag says gets its default, but that it was disabled; its next fire is still the promised one.
	var out struct {
		Change   string
		Schedule scheduleRecord
		Next     []struct{ At, Local string }
		Warnings []string
	}
	r = call(t, "schedule", "put", name, "--space", "acme", "--type", "report", "--cron", "30 2 * * MON", "--timezone", "Europe/Paris",
		"--environment", "test", "--jitter", "30s", "--owner", "svc", "--json").ok(t)
	require.NoError(t, json.Unmarshal([]byte(r.out), &out))
	require.Equal(t, "updated", out.Change)
	require.Equal(t, "default", out.Schedule.Queue)
	require.False(t, out.Schedule.Enabled)
	require.Equal(t, next, out.Schedule.NextRunAt)
	require.Len(t, out.Next, firesShown)
	require.Regexp(t, `T02:30:\d\d\+0[12]:00$`, out.Next[0].Local)
	require.Len(t, out.Warnings, 1)
}

func TestSchedulesAreListed(t *testing.T) {
	url := serve(t)
	require.Equal(t, result{0, "", "no schedules\n"}, call(t, "schedule", "list").ok(t))
	call(t, "schedule", "put", "yearly", "--type", "t", "--cron", "@yearly", "--owner", "svc").ok(t)
	call(t, "schedule", "put", "soon", "--type", "t", "--cron", "@every 1h", "--timezone", "Asia/Tokyo").ok(t)
	call(t, "schedule", "put", "evil\x1b[2J", "--space", "acme", "--type", "t", "--cron", "@every 2h", "--disabled").ok(t)

	r := call(t, "schedule", "list").ok(t)
	require.Regexp(t, `^SCHEDULE +WHEN +TYPE +QUEUE +STATE +NEXT +IN +LAST +OWNER *\n`, r.out)
	require.Regexp(t, `(?m)^default/soon +@every 1h Asia/Tokyo +t +default +on +\S+Z +\S+ *$`, r.out)
	require.Regexp(t, `(?m)^default/yearly +@yearly +t +default +on +\S+Z +\S+ +svc *$`, r.out)
	require.Empty(t, r.err)
	r = call(t, "schedule", "list", "--space", "acme").ok(t)
	require.Regexp(t, `(?m)^acme/evil\\x1b\[2J +@every 2h +t +default +off `, r.out)
	require.NotContains(t, r.out, "\x1b")

	require.ElementsMatch(t, []string{"default/soon", "acme/evil\x1b[2J", "default/yearly"}, schedulesOf(t, "--all-spaces"))
	require.Equal(t, []string{"default/yearly"}, schedulesOf(t, "--owner", "svc"))
	require.Equal(t, []string{"default/soon"}, schedulesOf(t, "--owner", ""))
	require.Empty(t, schedulesOf(t, "--owner", "nobody"))
	require.Empty(t, schedulesOf(t, "--due"))
	require.Len(t, schedulesOf(t, "--limit", "1"), 1)
	require.Equal(t, "1 of 3 schedules\n", call(t, "schedule", "list", "--all-spaces", "--limit", "1").ok(t).err)

	// What another program left there is named, and stops nothing.
	kv := bucket(t, url)
	for key, body := range map[string]string{"default.garbage": "{", "default.other": `{"name":"x","type":"t","cron":"@daily"}`, "a.b.c": "null"} {
		_, err := kv.PutString(t.Context(), key, body)
		require.NoError(t, err)
	}
	r = call(t, "schedule", "list").ok(t)
	require.Equal(t, 2, strings.Count(r.err, "warning: unreadable schedule: default."), r.err)
	require.Contains(t, r.out, "default/soon")
	r = call(t, "schedule", "list", "--all-spaces", "--json").ok(t)
	require.Equal(t, 3, strings.Count(r.out, `"unreadable schedule: `), r.out)

	r = call(t, "schedule", "get", "garbage")
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.err, "unreadable schedule")
	call(t, "schedule", "put", "garbage", "--type", "t", "--cron", "@daily").ok(t)
	call(t, "schedule", "get", "garbage").ok(t)
	call(t, "schedule", "delete", "other").ok(t)
	require.NotContains(t, call(t, "schedule", "list").ok(t).err, "unreadable")
}

func TestDueSchedulesAreListed(t *testing.T) {
	serve(t) // where nobody fires
	call(t, "schedule", "put", "tick", "--type", "t", "--cron", "@every 1s").ok(t)
	require.Eventually(t, func() bool { return len(schedulesOf(t, "--due")) == 1 }, 20*time.Second, 50*time.Millisecond)
	require.Regexp(t, `(?m)^default/tick .* (due|overdue) `, call(t, "schedule", "list").ok(t).out)
	call(t, "schedule", "disable", "tick").ok(t)
	require.Empty(t, schedulesOf(t, "--due"))
	require.Contains(t, call(t, "schedule", "enable", "tick").ok(t).out, "default/tick enabled; it owes fires since ")
}

func TestSchedulesAreSteered(t *testing.T) {
	serve(t)
	for _, name := range []string{"a", "b"} {
		call(t, "schedule", "put", name, "--type", "t", "--cron", "@yearly", "--input", `{"n":1}`).ok(t)
	}
	require.Equal(t, "default/a disabled\ndefault/b disabled\n", call(t, "schedule", "disable", "a", "b").ok(t).out)
	require.Equal(t, "default/a disabled already\n", call(t, "schedule", "disable", "a").ok(t).out)
	require.False(t, scheduleOf(t, "a").Enabled)
	require.Regexp(t, `^default/a enabled; next at \S+Z\n$`, call(t, "schedule", "enable", "a").ok(t).out)
	r := call(t, "schedule", "enable", "a", "b", "--json").ok(t)
	require.Regexp(t, `^\{"space":"default","name":"a","changed":false,"enabled":true,"nextRunAt":"\S+"\}\n.*"changed":true.*\n$`, r.out)

	r = call(t, "schedule", "run", "a").ok(t)
	require.Regexp(t, `^default/default/a@\S+ created\n$`, r.out)
	id := strings.TrimSuffix(strings.TrimPrefix(r.out, "default/default/"), " created\n")
	record := get(t, "pending", id)
	require.Equal(t, "schedule", record["trigger"])
	require.Equal(t, map[string]any{"n": 1.}, record["input"])

	callWith(t, `{"from":"stdin"}`, "schedule", "put", "b", "--type", "t", "--cron", "@yearly", "--input", "-").ok(t)
	require.Equal(t, map[string]any{"from": "stdin"}, scheduleOf(t, "b").Input)

	for _, do := range []string{"enable", "disable", "run", "delete", "get", "next"} {
		r := call(t, "schedule", do, "nobody")
		require.Equal(t, exitNoJob, r.code, r.err)
		require.Equal(t, "jetcrew: schedule default/nobody: schedule not found\n", r.err)
	}
	r = call(t, "schedule", "delete", "a", "nobody", "b")
	require.Equal(t, exitNoJob, r.code)
	require.Equal(t, "default/a deleted\ndefault/b deleted\n", r.out)
	require.Empty(t, schedulesOf(t))
}

func TestAnOwnersScheduleIsLeftToItsOwner(t *testing.T) {
	serve(t)
	call(t, "schedule", "put", "x", "--type", "t", "--cron", "@hourly", "--owner", "svc").ok(t)
	call(t, "schedule", "put", "mine", "--type", "t", "--cron", "@hourly").ok(t)
	for _, args := range [][]string{{"x"}, {"x", "--owner", "other"}, {"mine", "--owner", "svc"}} {
		r := call(t, append([]string{"schedule", "put", "--type", "t", "--cron", "@daily"}, args...)...)
		require.Equal(t, exitUnchanged, r.code, r.err)
		require.Contains(t, r.err, "another owner")
		require.Contains(t, r.err, "--owner says whose it is")
	}
	require.Equal(t, "@hourly", scheduleOf(t, "x").Cron)
	r := call(t, "schedule", "delete", "x").ok(t)
	require.Contains(t, r.err, `warning: default/x is declared by "svc", which puts it back`)
}

func TestANameMayHave160Bytes(t *testing.T) {
	serve(t)
	name := strings.Repeat("é", scheduler.MaxName/2)
	call(t, "schedule", "put", name, "--type", "t", "--cron", "@hourly").ok(t)
	call(t, "schedule", "run", name).ok(t)
	r := call(t, "schedule", "put", name+"x", "--type", "t", "--cron", "@hourly")
	require.Equal(t, exitUsage, r.code)
	require.Equal(t, "jetcrew: name: has 161 bytes, at most 160 are allowed\n", r.err)
}

func TestTheNextFiresOfAnExpressionNeedNoServer(t *testing.T) {
	t.Setenv("JETCREW_URL", "nats://127.0.0.1:1")
	r := call(t, "schedule", "next", "--cron", "30 2 * * *", "--timezone", "Asia/Kolkata", "-n", "3").ok(t)
	require.Regexp(t, `^FIRES AT +UTC +IN *\n(\w{3} \d{4}-\d\d-\d\d 02:30:00 IST +\d{4}-\d\d-\d\dT21:00:00\.000Z +\S+ *\n){3}$`, r.out)
	var out struct{ Next []struct{ At, Local string } }
	require.NoError(t, json.Unmarshal([]byte(call(t, "schedule", "next", "--cron", "0 12 29 2 *", "--json").ok(t).out), &out))
	require.Len(t, out.Next, firesShown)
	for _, n := range out.Next {
		require.Regexp(t, `^\d{4}-02-29T12:00:00\.000Z$`, n.At)
		require.Regexp(t, `^\d{4}-02-29T12:00:00Z$`, n.Local)
	}
}

func TestTheNextFiresOfASchedule(t *testing.T) {
	serve(t)
	call(t, "schedule", "put", "x", "--type", "t", "--cron", "0 9 * * *", "--timezone", "Europe/Paris").ok(t)
	r := call(t, "schedule", "next", "x", "-n", "2").ok(t)
	require.Equal(t, 2, strings.Count(r.out, " 09:00:00 CE"), r.out)
	require.Empty(t, r.err)
	call(t, "schedule", "disable", "x").ok(t)
	r = call(t, "schedule", "next", "x", "--json").ok(t)
	require.Equal(t, "default/x is disabled: it fires at none of these\n", r.err)
	require.Equal(t, firesShown, strings.Count(r.out, `"local"`))
}

func TestScheduleStates(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	off := false
	for want, s := range map[string]scheduler.Schedule{
		"on":      {NextRunAt: now.Add(time.Second)},
		"due":     {NextRunAt: now.Add(-scheduler.OverdueAfter)},
		"overdue": {NextRunAt: now.Add(-scheduler.OverdueAfter - 1)},
		"over":    {},
		"failing": {NextRunAt: now.Add(time.Second), Error: "job too large"},
		"off":     {NextRunAt: now.Add(-time.Hour), Spec: scheduler.Spec{Enabled: &off}},
	} {
		require.Equal(t, want, scheduleState(&s, now))
	}
	for want, at := range map[string]time.Time{
		"": {}, "in 2h": now.Add(2 * time.Hour), "1m late": now.Add(-time.Minute), "now": now,
	} {
		require.Equal(t, want, until(now, at))
	}
}

func TestADryRunPutsNothing(t *testing.T) {
	serve(t)
	args := []string{"schedule", "put", "nightly", "--type", "report", "--cron", "30 2 * * *", "--dry-run"}
	require.Contains(t, call(t, args...).ok(t).out, "default/nightly would be created")
	require.Equal(t, exitNoJob, call(t, "schedule", "get", "nightly").code)
	call(t, args[:len(args)-1]...).ok(t)
	require.Contains(t, call(t, args...).ok(t).out, "default/nightly would be unchanged")
	require.Contains(t, call(t, append(args, "--jitter", "1h")...).ok(t).out, "default/nightly would be updated")
	require.Contains(t, call(t, args...).ok(t).out, "would be unchanged")
}
