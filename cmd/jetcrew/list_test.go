package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// page is what `job list --json` prints.
type page struct {
	Jobs        []struct{ ID, Space, Queue, Status, Error string }
	Next        string
	Total       *int
	Since       string
	Stopped     bool
	LookedTo    string
	Looked, Seq int
}

func list(t *testing.T, args ...string) page {
	t.Helper()
	var p page
	require.NoError(t, json.Unmarshal([]byte(call(t, append([]string{"job", "list", "--json"}, args...)...).ok(t).out), &p))
	return p
}

func (p page) ids() string {
	ids := make([]string, len(p.Jobs))
	for i, j := range p.Jobs {
		ids[i] = j.ID
	}
	return strings.Join(ids, " ")
}

func TestJobsAreListedTheNewestFirst(t *testing.T) {
	serve(t)
	for _, args := range [][]string{
		{"email", "--id", "1"},
		{"email", "--id", "2", "--queue", "mail"},
		{"email", "--id", "3", "--space", "acme"},
		{"other", "--id", "4", "--delay", "1d"},
	} {
		call(t, append([]string{"enqueue"}, args...)...).ok(t)
	}
	r := call(t, "job", "list").ok(t)
	require.Empty(t, r.err)
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	require.Len(t, lines, 4, r.out)
	require.Regexp(t, `^JOB +TYPE +STATUS +ATTEMPTS +UPDATED +NEXT RUN / ERROR`, lines[0])
	require.Regexp(t, `^default/default/4 +other +pending +0/3 +\d{4}-\S+Z +\d{4}-\S+Z`, lines[1])
	require.Regexp(t, `^mail/default/2 +email +pending +0/3 +\S+ *$`, lines[2])

	for _, c := range []struct {
		args []string
		ids  string
	}{
		{nil, "4 2 1"},
		{[]string{"--all-spaces"}, "4 3 2 1"},
		{[]string{"--space", "acme"}, "3"},
		{[]string{"--space", "acme", "--space", "default"}, "4 3 2 1"},
		{[]string{"--queue", "mail"}, "2"},
		{[]string{"--type", "other"}, "4"},
		{[]string{"--status", "due"}, "4"},
		{[]string{"--status", "ready,dead"}, "2 1"},
		{[]string{"--status", "pending", "--status", "dead"}, "4 2 1"},
		{[]string{"--since", "1h"}, "4 2 1"},
		{[]string{"--since", "36500d", "--until", "0s"}, "4 2 1"},
		{[]string{"--until", "1h"}, ""},
		{[]string{"--since", "2100-01-01T00:00:00Z"}, ""},
	} {
		require.Equal(t, c.ids, list(t, c.args...).ids(), "%q", c.args)
	}
}

func TestAListGoesOnFromItsCursor(t *testing.T) {
	serve(t)
	var lines strings.Builder
	for i := range 25 {
		fmt.Fprintf(&lines, "{\"type\":\"t\",\"id\":\"job-%02d\"}\n", i)
	}
	callWith(t, lines.String(), "enqueue", "--file", "-").ok(t)

	// As a person goes on, with the flags that the first page says.
	r := call(t, "job", "list", "--since", "1d", "--limit", "10").ok(t)
	seen := jobIDs(r.out)
	require.Len(t, seen, 10)
	for pages := 1; ; pages++ {
		on := regexp.MustCompile(`to go on: (.*)\n$`).FindStringSubmatch(r.err)
		if on == nil {
			require.Equal(t, 3, pages)
			break
		}
		require.Contains(t, r.err, "10 jobs")
		r = call(t, append([]string{"job", "list", "--limit", "10"}, strings.Fields(on[1])...)...).ok(t)
		seen = append(seen, jobIDs(r.out)...)
	}
	require.Len(t, seen, 25)
	require.Equal(t, "job-24", seen[0])
	require.Equal(t, "job-00", seen[24])

	// As a program does.
	p := list(t, "--since", "1d", "--limit", "20")
	require.Len(t, p.Jobs, 20)
	rest := list(t, "--since", p.Since, "--limit", "20", "--cursor", p.Next)
	require.Len(t, rest.Jobs, 5)
	require.Empty(t, rest.Next)

	r = call(t, "job", "list", "--type", "u", "--cursor", p.Next)
	require.Equal(t, exitUsage, r.code, "a cursor of another listing")
	require.Contains(t, r.err, "cursor")

	require.Equal(t, seen, jobIDs(call(t, "job", "list", "--all", "--limit", "10").ok(t).out))
	r = call(t, "job", "list", "--all", "--json", "--limit", "10").ok(t)
	records := strings.Split(strings.TrimSpace(r.out), "\n")
	require.Len(t, records, 25)
	for i, line := range records {
		var j struct{ ID string }
		require.NoError(t, json.Unmarshal([]byte(line), &j), line)
		require.Equal(t, seen[i], j.ID)
	}
}

func jobIDs(table string) []string { return regexp.MustCompile(`job-\d\d`).FindAllString(table, -1) }

func TestAListOfNothingSaysSo(t *testing.T) {
	serve(t)
	call(t, "enqueue", "t", "--id", "1").ok(t)
	for _, args := range [][]string{{"--type", "nobody"}, {"--status", "dead"}, {"--space", "empty"}, {"--all", "--queue", "nobody"}} {
		r := call(t, append([]string{"job", "list"}, args...)...).ok(t)
		require.Empty(t, r.out, "%q", args)
		require.Equal(t, "no jobs\n", r.err, "%q", args)
		r = call(t, append([]string{"job", "list", "--json"}, args...)...).ok(t)
		require.Empty(t, r.err, "%q", args)
		if args[0] == "--all" {
			require.Empty(t, r.out)
			continue
		}
		require.Contains(t, r.out, `"jobs": []`, "%q", args)
	}
}

func TestControlCharactersInAListReachNoTerminal(t *testing.T) {
	serve(t)
	call(t, "enqueue", "t\x1b[2J", "--id", "\x1b]0;pwned\x07\u202e").ok(t)
	r := call(t, "job", "list").ok(t)
	require.NotRegexp(t, "[\x1b\x07\u202e]", r.out)
	require.Contains(t, r.out, `\x1b]0;pwned\x07\u202e`)
	require.Contains(t, r.out, `t\x1b[2J`)
}

func TestAPageSaysHowFarItLooked(t *testing.T) {
	at := time.Date(2030, 1, 31, 9, 0, 0, 0, time.UTC)
	j := &job.Job{}
	for want, p := range map[string]job.Page{
		"": {Jobs: []*job.Job{j}, Total: job.Uncounted},
		"no jobs among the 20000 that were looked at, back to 2030-01-31T09:00:00.000Z; to go on: --cursor c\n": {
			Total: job.Uncounted, Next: "c", Stopped: true, Looked: 20000, LookedTo: at,
		},
		"1 job among the 7 that were looked at; to go on: --cursor c\n": {
			Jobs: []*job.Job{j}, Total: job.Uncounted, Next: "c", Stopped: true, Looked: 7,
		},
		"1 of 9 jobs; to go on: --cursor c\n": {Jobs: []*job.Job{j}, Total: 9, Next: "c"},
		"no jobs\n":                           {Total: 0},
	} {
		require.Equal(t, want, pageNote(&p, ""))
	}
}
