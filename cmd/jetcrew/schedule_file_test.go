package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/scheduler"
)

const scheduleYAML = `
owner: billing                 # who declares them
schedules:
  - name: invoices.*
    space: acme
    type: invoice
    cron: "30 2 1 * *"
    timezone: Europe/Paris
    queue: io
    environment: test
    input: {z: [1, 2.5, true, null], a: "x<y", n: 9007199254740993, "1": text}
    maxAttempts: 7
    timeout: 1d12h
    jitter: 90s
    enabled: false
    missedPolicy: each
    missedLimit: 3
    overlap: replace
  - {"name": "tick", "type": "t", "cron": "* * * * *"}
`

func TestAFileOfSchedules(t *testing.T) {
	serve(t)
	path := write(t, "s.yaml", scheduleYAML, 0o600)
	r := call(t, "schedule", "put", "--file", path).ok(t)
	require.Regexp(t, `^SCHEDULE +CHANGE +NEXT +IN *\nacme/invoices\.\* +created +\S+Z +\S+ *\ndefault/tick +created .*\ncreated 2, updated 0, unchanged 0, deleted 0\n$`, r.out)
	require.Equal(t, "warning: no worker that is alive takes jobs from the queue io\nwarning: no worker that is alive takes jobs from the queue default\n", r.err)
	s := scheduleOf(t, "invoices.*", "--space", "acme")
	s.NextRunAt = time.Time{}
	require.Equal(t, scheduleRecord{
		Space: "acme", Name: "invoices.*", Type: "invoice", Queue: "io", Cron: "30 2 1 * *", Timezone: "Europe/Paris", Owner: "billing",
		Timeout: "36h0m0s", MaxAttempts: 7, MissedPolicy: "each", MissedLimit: 3, Overlap: "replace", Environment: "test", Jitter: "1m30s",
		Input: map[string]any{"z": []any{1., 2.5, true, nil}, "a": "x<y", "n": 9007199254740993., "1": "text"},
	}, s)
	require.Contains(t, call(t, "schedule", "get", "invoices.*", "--space", "acme").ok(t).out,
		`{"z":[1,2.5,true,null],"a":"x<y","n":9007199254740993,"1":"text"}`, "as it is written in the file")

	require.Contains(t, call(t, "schedule", "put", "--file", path).ok(t).out, "created 0, updated 0, unchanged 2, deleted 0\n")
	promised := scheduleOf(t, "tick").NextRunAt
	call(t, "schedule", "disable", "tick").ok(t)
	const changed = "schedules: [{name: tick, type: u, cron: '* * * * *'}]"
	r = callWith(t, changed, "schedule", "put", "--file", "-", "--owner", "billing", "--dry-run", "--json").ok(t)
	var out struct {
		DryRun    bool
		Schedules []struct{ Space, Name, Change string }
		Warnings  []string
	}
	require.NoError(t, json.Unmarshal([]byte(r.out), &out))
	require.True(t, out.DryRun)
	require.Equal(t, []struct{ Space, Name, Change string }{{"default", "tick", "updated"}}, out.Schedules)
	require.Len(t, out.Warnings, 1)
	require.Equal(t, "t", scheduleOf(t, "tick").Type, "a dry run changes nothing")

	callWith(t, changed, "schedule", "put", "--file", "-", "--owner", "billing").ok(t)
	tick := scheduleOf(t, "tick")
	require.Equal(t, "u", tick.Type)
	require.False(t, tick.Enabled, "what an operator disabled stays so")
	require.Equal(t, promised, tick.NextRunAt)
}

func TestAFileIsPruned(t *testing.T) {
	serve(t)
	put := func(text string, more ...string) result {
		return callWith(t, text, append([]string{"schedule", "put", "--file", "-"}, more...)...)
	}
	const three = `
owner: svc
schedules:
- {name: a, type: t, cron: '@daily'}
- {name: b, type: t, cron: '@daily'}
- {name: c, type: t, cron: '@daily', space: elsewhere}
`
	put(three).ok(t)
	call(t, "schedule", "put", "others", "--type", "t", "--cron", "@daily", "--owner", "other").ok(t)
	call(t, "schedule", "put", "people", "--type", "t", "--cron", "@daily").ok(t)
	const one = "owner: svc\nschedules: [{name: a, type: t, cron: '@daily'}]"

	r := put(one, "--prune")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.err, "say --yes")
	r = put("schedules: [{name: a, type: t, cron: '@daily'}]", "--prune", "--yes")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.err, "name the owner")

	require.Regexp(t, `(?m)^default/b +deleted +$`, put(one, "--prune", "--dry-run").ok(t).out)
	require.Contains(t, put(one, "--prune", "--dry-run").out, "would be created 0, updated 0, unchanged 1, deleted 1\n")
	require.Len(t, schedulesOf(t, "--all-spaces"), 5)
	require.Contains(t, put(one, "--prune", "--yes").ok(t).out, "created 0, updated 0, unchanged 1, deleted 1\n")
	require.ElementsMatch(t, []string{"default/a", "default/others", "default/people", "elsewhere/c"}, schedulesOf(t, "--all-spaces"))

	require.Contains(t, put("{owner: svc, space: elsewhere, schedules: []}", "--prune", "--yes").ok(t).out, "deleted 1\n")
	require.ElementsMatch(t, []string{"default/a", "default/others", "default/people"}, schedulesOf(t, "--all-spaces"))
}

func TestAFileThatMeetsAnotherOwnersScheduleChangesNothing(t *testing.T) {
	serve(t)
	call(t, "schedule", "put", "b", "--type", "t", "--cron", "@daily", "--owner", "other").ok(t)
	call(t, "schedule", "put", "c", "--type", "t", "--cron", "@daily").ok(t)
	const text = "owner: svc\nschedules: [{name: a, type: t, cron: '@daily'}, {name: b, type: t, cron: '@daily'}, {name: c, type: t, cron: '@daily'}]"
	for _, more := range [][]string{nil, {"--prune", "--yes"}, {"--dry-run"}} {
		r := callWith(t, text, append([]string{"schedule", "put", "--file", "-"}, more...)...)
		require.Equal(t, exitUnchanged, r.code, r.err)
		require.Contains(t, r.err, `default/b (of "other"), default/c (put by people)`)
		require.Len(t, schedulesOf(t), 2)
	}
}

func TestEveryMistakeOfAFileIsNamedWithItsLine(t *testing.T) {
	t.Setenv("JETCREW_URL", "nats://127.0.0.1:1") // nothing is asked of a server
	path := write(t, "s.yaml", `owner: [a]
colour: red
schedules:
  - name: a
    type: t
    cron: 61 * * * *
    timezone: Mars
  - name: b
    typo: t
    cron: "0 0 31 2 *"
    maxAttempts: many
    timeout: 30
    jitter: 48h
    enabled: "yes"
    missedPolicy: all
    overlap: [skip]
    input: [1]
  - type: t
    cron: '@daily'
  - name: a
    type: t
    cron: '@daily'
    cron: '@hourly'
  - 7
  - name: 5
    type: t
    cron: '@daily'
    queue: ""
    missedLimit: 3
    input: {a: .nan, b: {c: 1, c: 2}, 3: x}
  - {name: "\x1b[2J", type: t, cron: x, space: `+strings.Repeat("s", 192)+`}
`, 0o600)
	r := call(t, "schedule", "put", "--file", path)
	require.Equal(t, exitUsage, r.code)
	require.Empty(t, r.out)
	require.NotContains(t, r.err, "\x1b")
	lines := strings.Split(strings.TrimSuffix(r.err, "\n"), "\n")
	for _, want := range []string{
		`1: owner: text is expected`,
		`2: colour: is not known; there are owner, schedules, space`,
		`6: cron: minute "61" is not allowed`,
		`7: timezone: "Mars" is not known`,
		`8: type: must not be empty`,
		`9: typo: is not known; there are cron, enabled, environment, input, `,
		`10: cron: would never fire`,
		`11: maxAttempts: a number from 1 to 1000000 is expected`,
		`12: timeout: a duration such as 90s, 12h or 7d is expected`,
		`13: jitter: must be whole seconds from 0s to 24h`,
		`14: enabled: true or false is expected`,
		`15: missedPolicy: must be one, skip or each, not "all"`,
		`16: overlap: text is expected`,
		`17: input: a mapping is expected`,
		`18: name: must not be empty`,
		`20: name: "a" stands in the space default already, on line 4`,
		`23: cron: stands on line 22 already`,
		`24: a schedule: a mapping is expected`,
		`25: name: text is expected: put it in quotes`,
		`28: queue: must not be empty`,
		`29: missedLimit: is for the missedPolicy each alone`,
		`30: input: what JSON can hold is expected`,
		`30: input: "c" stands twice`,
		`30: a member's name: text, in quotes if need be, is expected`,
		`31: cron: `,
		`31: space: has 192 bytes, at most 191 are allowed`,
	} {
		require.Contains(t, r.err, path+":"+want)
	}
	require.Len(t, lines, 27, r.err)
	require.Equal(t, "jetcrew: there are 26 mistakes in "+path+": nothing was changed", lines[26])

	text := "schedules:\n" + strings.Repeat("- 7\n", maxFaultsShown+5)
	r = callWith(t, text, "schedule", "put", "--file", "-")
	require.Contains(t, r.err, fmt.Sprintf("-:%d: a schedule: a mapping is expected\n-: and 5 more\n", maxFaultsShown+1))
}

func TestAFileThatIsNoListOfSchedulesIsRefused(t *testing.T) {
	t.Setenv("JETCREW_URL", "nats://127.0.0.1:1")
	const head = "schedules:\n- name: x\n  type: t\n  cron: "
	for _, c := range []struct{ text, want string }{
		{"", ":1: is empty"},
		{"# nothing\n", ":1: is empty"},
		{"just text", ":1: a file of schedules: a mapping is expected"},
		{"- a\n", ":1: a file of schedules: a mapping is expected"},
		{"owner: x\n", ":1: names no schedules"},
		{"schedules: {}\n", ":1: schedules: a list is expected"},
		{"schedules:\n", ":1: schedules: a list is expected"},
		{"schedules: []\n", ":1: schedules: is empty; if that is meant, space has to say where"},
		{"space: ''\nschedules: []\n", ":1: space: must not be empty"},
		{"schedules: []\nspace: a\n---\nspace: b\n", ":4: begins another document"},
		{head + "* * * * *\n", ":4: "},
		{head + "*/5 * * * *\n", "has to stand in quotes"},
		{head + "@daily\n", "has to stand in quotes"},
		{head + "'@daily'\n  input: &a {b: 1}\n", ":5: anchors and references"},
		{"schedules:\n- &a {name: x, type: t, cron: '@daily'}\n- *a\n", ":2: anchors and references"},
		{"schedules:\n- <<: {name: x}\n", ":2: anchors and references"},
		{head + "!!binary QA==\n", ":4: tags (!) are not allowed here"},
		{head + "'@daily'\n  input: {a: !!set {b}}\n", ":5: tags"},
		{"schedules:\n  - name: x\n   type: t\n", ":3: "},
		{"\t- a\n", ":1: "},
		{"a: \"x\ny\n", ":1: "},
		{"\x00\x01\xff", ":1: "},
		{head + "'@daily'\n  name: \"\xff\"\n", ":5: "},
		{strings.Repeat("[", 1<<19), ":1: is nested more than 200 deep"},
		{"a: " + strings.Repeat("{a: ", 1<<17), ":1: is nested"},
		{"a: " + strings.Repeat("- ", 1<<18), ":1: is nested"},
		{strings.Repeat("x", maxScheduleFile+1), "has more than 1048576 bytes"},
	} {
		r := callWith(t, c.text, "schedule", "put", "--file", "-")
		require.Equal(t, exitUsage, r.code, "%.200q: %s", c.text, r.err)
		require.Contains(t, r.err, c.want, "%.200q", c.text)
		require.Empty(t, r.out)
	}
}

func TestTheLaughingBillionIsNotExpanded(t *testing.T) {
	text := "a0: &a0 [x, x]\n"
	for i := range 60 {
		text += fmt.Sprintf("a%d: &a%d [*a%d, *a%d, *a%d]\n", i+1, i+1, i, i, i)
	}
	text += "schedules: [{name: x, type: t, cron: '@daily', input: {a: *a60}}]\n"
	r := callWith(t, text, "schedule", "put", "--file", "-")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.err, "-:62: anchors and references (&, * and <<) are not allowed here")
}

func FuzzParseScheduleFile(f *testing.F) {
	f.Add(scheduleYAML)
	for _, s := range []string{"", "schedules: []", "schedules:\n- &a {name: x}\n- *a\n", "schedules: [{input: {a: [~]}}]", "- - -", "? a\n: b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		file, faults := parseScheduleFile([]byte(text))
		if len(faults) > 0 {
			return
		}
		for _, e := range file.entries {
			_, err := scheduler.Preview(e.spec, time.Now(), 1)
			require.NoError(t, err)
		}
	})
}

func TestTheExampleFileIsSound(t *testing.T) {
	text, err := os.ReadFile("../../docs/examples/schedules.yaml")
	require.NoError(t, err)
	file, faults := parseScheduleFile(text)
	require.Empty(t, faults)
	require.NotEmpty(t, file.entries)
}
