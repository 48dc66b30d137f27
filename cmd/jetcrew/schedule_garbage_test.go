package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGarbageForSchedulesIsAUsageErrorOnOneLine(t *testing.T) {
	t.Setenv("JETCREW_URL", "nats://127.0.0.1:1") // nothing is asked of a server
	long := strings.Repeat("x", 161)
	put := func(more ...string) []string {
		return append([]string{"schedule", "put", "x", "--type", "t", "--cron", "@daily"}, more...)
	}
	cron := func(expr string) []string { return []string{"schedule", "put", "x", "--type", "t", "--cron", expr} }
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"schedule", "nonsense"}, "unknown command"},
		{[]string{"schedule", "--listen", "x"}, "--listen"},
		{[]string{"scheduler", "nonsense"}, "unknown command"},
		{[]string{"scheduler", "status", "x"}, "unknown command"},
		{[]string{"schedule", "put"}, "NAME, or --file"},
		{[]string{"schedule", "put", "x"}, "--type and --cron"},
		{[]string{"schedule", "put", "x", "--type", "t"}, "--type and --cron"},
		{[]string{"schedule", "put", "x", "y"}, "at most 1 arg"},
		{[]string{"schedule", "put", "", "--type", "t", "--cron", "@daily"}, "name: must not be empty"},
		{[]string{"schedule", "put", long, "--type", "t", "--cron", "@daily"}, "name: has 161 bytes"},
		{[]string{"schedule", "put", "\xff", "--type", "t", "--cron", "@daily"}, "name: is not valid UTF-8"},
		{[]string{"schedule", "put", "x", "--type", "", "--cron", "@daily"}, "type: must not be empty"},
		{cron("61 * * * *"), `cron: minute "61"`},
		{cron("0 0 31 2 *"), "cron: would never fire"},
		{cron(""), "cron: must not be empty"},
		{cron("* * * *"), "five fields"},
		{cron("* * * * * *"), "five fields"},
		{cron("@reboot"), "cron: "},
		{cron("@every 1ms"), "cron: @every"},
		{cron("\x1b[2J"), "cron: "},
		{cron(strings.Repeat("1,", 1000)), "cron: has 2000 bytes"},
		{put("--timezone", "Europe/Atlantis"), `timezone: "Europe/Atlantis" is not known`},
		{put("--timezone", "../../etc/passwd"), "timezone: "},
		{put("--timezone", "Local"), "timezone: "},
		{put("--space", ""), "--space: must not be empty"},
		{put("--queue", ""), "--queue: must not be empty"},
		{put("--queue", strings.Repeat("q", 192)), "queue: has 192 bytes"},
		{put("--environment", strings.Repeat("e", 65)), "environment: "},
		{put("--input", "[1]"), "input: must be a JSON object"},
		{put("--input", "{"), "input: is not valid JSON"},
		{put("--input", "@/does/not/exist"), "--input: "},
		{put("--max-attempts", "0"), "--max-attempts: must be 1 to"},
		{put("--max-attempts", "-1"), "maxAttempts: "},
		{put("--timeout", "-1s"), "timeout: must not be negative"},
		{put("--jitter", "25h"), "jitter: must be whole seconds from 0s to 24h"},
		{put("--jitter", "-1s"), "jitter: "},
		{put("--missed", "all"), `missedPolicy: must be one, skip or each, not "all"`},
		{put("--missed", ""), "--missed: must not be empty"},
		{put("--missed-limit", "5"), "missedLimit: is for the missedPolicy each alone"},
		{put("--missed", "each", "--missed-limit", "0"), "--missed-limit: must be 1 to 1000"},
		{put("--missed", "each", "--missed-limit", "1001"), "missedLimit: must be 1 to 1000"},
		{put("--overlap", "queue"), "overlap: must be allow, skip or replace"},
		{put("--owner", strings.Repeat("o", 192)), "owner: has 192 bytes"},
		{put("--prune"), "--prune goes with --file"},
		{put("--file", "x"), "a NAME or --file, not both"},
		{[]string{"schedule", "put", "--file", "x", "--cron", "@daily"}, "--cron is for one schedule"},
		{[]string{"schedule", "put", "--file", "/does/not/exist"}, "--file: "},
		{[]string{"schedule", "put", "--file", "x", "--yes"}, "--yes goes with --prune"},
		{[]string{"schedule", "list", "x"}, "unknown command"},
		{[]string{"schedule", "list", "--limit", "-1"}, "--limit: must not be negative"},
		{[]string{"schedule", "list", "--space", ""}, "space: must not be empty"},
		{[]string{"schedule", "list", "--space", "a", "--all-spaces"}, "not both"},
		{[]string{"schedule", "get"}, "accepts 1 arg"},
		{[]string{"schedule", "get", long}, "name: has 161 bytes"},
		{[]string{"schedule", "get", "x", "--space", ""}, "space: must not be empty"},
		{[]string{"schedule", "enable"}, "requires at least 1 arg"},
		{[]string{"schedule", "disable", "x", ""}, "name: must not be empty"},
		{[]string{"schedule", "delete", long}, "name: has 161 bytes"},
		{[]string{"schedule", "run", "a\x00b"}, "name: must not contain a NUL"},
		{[]string{"schedule", "next"}, "NAME, or --cron"},
		{[]string{"schedule", "next", "x", "--cron", "@daily"}, "do not go with a NAME"},
		{[]string{"schedule", "next", "x", "--timezone", "UTC"}, "do not go with a NAME"},
		{[]string{"schedule", "next", "--cron", "61 * * * *"}, `cron: minute "61" is not allowed: 0 to 59`},
		{[]string{"schedule", "next", "--cron", "0 0 31 2 *"}, "cron: would never fire"},
		{[]string{"schedule", "next", "--cron", "@daily", "--timezone", "Mars"}, "timezone: "},
		{[]string{"schedule", "next", "--cron", "@daily", "-n", "0"}, "--count: must be 1 to 1000, not 0"},
		{[]string{"schedule", "next", "--cron", "@daily", "-n", "1001"}, "--count: must be 1 to 1000"},
	} {
		r := call(t, c.args...)
		require.Equal(t, exitUsage, r.code, "%.200q: %s", c.args, r.err)
		require.Regexp(t, `^jetcrew: [^\n\x1b]+\n$`, r.err, "%.200q", c.args)
		require.Contains(t, r.err, c.want, "%.200q", c.args)
		require.Empty(t, r.out, "%.200q", c.args)
	}
}
