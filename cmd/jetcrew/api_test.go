package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// serveAPI serves a namespace over HTTP, for the one token of the file that it answers.
func serveAPI(t *testing.T, namespace string, spaces ...string) (url, tokenFile string) {
	t.Helper()
	dir := t.TempDir()
	tokenFile = filepath.Join(dir, "token")
	require.NoError(t, os.WriteFile(tokenFile, []byte(apiToken+"\n"), 0o600))
	args := []string{"serve", "hash-token", "--name", "ops"}
	for _, s := range spaces {
		args = append(args, "--space", s)
	}
	line := callWith(t, apiToken+"\n", args...).ok(t).out
	hashes := filepath.Join(dir, "tokens")
	require.NoError(t, os.WriteFile(hashes, []byte(line), 0o600))
	t.Setenv("JETCREW_API_TOKENS_FILE", hashes)
	s := start(t, "serve", "--namespace", namespace, "--listen", "127.0.0.1:0")
	url = s.listening(t)
	require.NoError(t, os.Unsetenv("JETCREW_API_TOKENS_FILE"))
	t.Cleanup(func() { require.Equal(t, exitOK, s.stop(t), s.err) })
	return url, tokenFile
}

// sameEverywhere leaves out of an output what is otherwise each time.
func sameEverywhere(out string) string {
	for _, r := range []struct{ what, by string }{
		{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`, "INSTANT"},
		{`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`, "UUID"},
		{`"cursor":"[^"]*"|"next": "[^"]*"`, "CURSOR"},
		{`"seq": \d+`, "SEQ"},
		{`\b([a-z]+-)?\d+-[a-z0-9]{8,16}\b`, "PROCESS"},
		{`@run-[A-Za-z0-9_-]+`, "@run-ID"},
		{`"term": "[^"]*"`, "TERM"},
		{`\b(now|\d+(ms|s|m|h)(\d+(s|m))?)( ago)?\b`, "AGE"},
		{`[-]{4,}`, "----"},
		{` +`, " "},
	} {
		out = regexp.MustCompile(r.what).ReplaceAllString(out, r.by)
	}
	return out
}

// apiCases are commands that are run one after the other in two namespaces, over NATS in the one and over HTTP in the other.
var apiCases = []struct {
	args  string // separated by spaces; _ stands for a space in an argument
	stdin string
	code  int
}{
	// jobs
	{args: `enqueue wait-for --id a --queue mail --input {"n":1} --delay 1h`},
	{args: `enqueue wait-for --id a --queue mail`},
	{args: `enqueue wait-for --id a --queue mail --json`},
	{args: `enqueue wait-for --id a/b_?% --queue mail --space x/y --deadline 2100-01-01T00:00:00Z`},
	{args: `enqueue wait-for --id .. --queue . --timeout 90s --max-attempts 7`},
	{args: `enqueue wait-for --input [1]`, code: exitUsage},
	{args: `enqueue wait-for --due-at 2101-01-01T00:00:00Z --id late --queue later --environment test`},
	{args: `enqueue --file - --json`, stdin: `{"type":"t","id":"f1"}` + "\n" + `{"type":"t","id":"f2","space":"acme","retry":{"base":"1s","max":"1m"}}` + "\n" + `{"type":"t","id":"f1"}`},
	{args: `enqueue --file -`, stdin: `{"type":"t","id":"f3"}` + "\n" + `{"type":"t","id":"f1"}`},
	{args: `enqueue --file -`, stdin: `{"type":""}`, code: exitUsage},
	{args: `enqueue echo --id e1 --input {"hello":"world"} --wait`},
	{args: `enqueue echo --id e2 --input {"hello":"world"} --wait --json`},
	{args: `enqueue fail --id e3 --input {"giveUp":true} --wait`, code: exitJobDead},
	{args: `job get a --json`},
	{args: `job get a`},
	{args: `job get a/b_?% --space x/y`},
	{args: `job get .. --queue .`},
	{args: `job get e1`},
	{args: `job get nobody`, code: exitNoJob},
	{args: `enqueue wait-for --id a --queue other`},
	{args: `job get a`, code: exitUsage},
	{args: `job cancel a`, code: exitUsage},
	{args: `job wait e1`},
	{args: `job wait e1 --json`},
	{args: `job wait e3`, code: exitJobDead},
	{args: `job wait late --timeout 100ms`, code: exitWaited},
	{args: `job wait nobody`, code: exitNoJob},
	{args: `job list`},
	{args: `job list --json`},
	{args: `job list --all-spaces --status ready,dead --type t`},
	{args: `job list --since 1h --until 0s --limit 2 --json`},
	{args: `job list --space nobodys`},
	{args: `job list --space acme --space x/y --all --json`},
	{args: `job list --limit 2 --all`},
	{args: `job list --cursor nonsense`, code: exitUsage},
	{args: `job counts`},
	{args: `job counts --json`},
	{args: `job run-now late`},
	{args: `job run-now late`, code: exitUnchanged},
	{args: `job run-now late --json`, code: exitUnchanged},
	{args: `job cancel late --json`},
	{args: `job cancel late`, code: exitUnchanged},
	{args: `job requeue late`},
	{args: `job requeue late`, code: exitUnchanged},
	{args: `job delete late`},
	{args: `job delete late`, code: exitNoJob},
	{args: `job requeue --queue default --dry-run`},
	{args: `job requeue --queue default --status dead --dry-run --json`},
	{args: `job cancel --all-spaces --type t --yes --limit 1`},
	{args: `job cancel --all-spaces --type t --yes`},
	{args: `job cancel --all-spaces --type t --yes`},
	{args: `job delete --all-spaces --type t --since 1h --yes --json`},
	{args: `job delete --space nobodys --yes`},
	// queues and workers
	{args: `queue list`},
	{args: `queue list --json`},
	{args: `queue info mail`},
	{args: `queue info mail --json`},
	{args: `queue info nothing`, code: exitNoJob},
	{args: `queue pause mail`},
	{args: `queue pause mail --for 1h`},
	{args: `queue pause mail --until 2000-01-01T00:00:00Z`, code: exitUsage},
	{args: `queue pause nothing`, code: exitNoJob},
	{args: `queue resume mail --json`},
	{args: `queue configure mail --concurrency 20 --retention-dead none --retention-failed 1h`},
	{args: `queue configure mail --lease 20s --retention-dead default --json`},
	{args: `queue configure fresh --lease 90s`},
	{args: `queue purge mail --dry-run`},
	{args: `queue delete mail`, code: exitUnchanged},
	{args: `queue purge mail --yes --json`},
	{args: `queue purge nothing --yes`, code: exitNoJob},
	{args: `queue delete mail`},
	{args: `queue delete mail`, code: exitNoJob},
	{args: `worker list`},
	{args: `worker list --jobs --json`},
	// schedules
	{args: `schedule put nightly --type report --cron 30_2_*_*_* --timezone Europe/Paris --input {"a":1}`},
	{args: `schedule put nightly --type report --cron 30_2_*_*_* --timezone Europe/Paris --input {"a":1} --json`},
	{args: `schedule put nightly --type echo --cron @daily --disabled --dry-run`},
	{args: `schedule put nightly --type echo --cron @daily --owner billing`, code: exitUnchanged},
	{args: `schedule put leap --type echo --cron 0_0_29_2_* --space acme --json`},
	{args: `schedule put x --type echo --cron nonsense`, code: exitUsage},
	{args: `schedule get nightly`},
	{args: `schedule get nightly --json`},
	{args: `schedule get nobody`, code: exitNoJob},
	{args: `schedule list`},
	{args: `schedule list --all-spaces --json`},
	{args: `schedule list --all-spaces --limit 1 --json`},
	{args: `schedule list --due`},
	{args: `schedule list --owner billing`},
	{args: `schedule next nightly -n 3 --json`},
	{args: `schedule next nightly -n 3`},
	{args: `schedule next --cron @hourly -n 1 --json`},
	{args: `schedule disable nightly leap`, code: exitNoJob},
	{args: `schedule disable nightly`},
	{args: `schedule enable nightly --json`},
	{args: `schedule run nightly`},
	{args: `schedule run nobody`, code: exitNoJob},
	{args: `schedule put --file - --prune --dry-run`, stdin: declaredYAML},
	{args: `schedule put --file - --prune --yes --json`, stdin: declaredYAML},
	{args: `schedule put --file - --json`, stdin: declaredYAML},
	{args: `schedule put --file - --prune --yes --owner billing`, stdin: "spaces: [acme]\nschedules: []\n", code: exitUsage},
	{args: `schedule delete invoices --space acme`},
	{args: `schedule delete invoices --space acme`, code: exitNoJob},
	// keys
	{args: `kv set greeting {"text":"hello"} --ttl 7d`},
	{args: `kv set a/b_%_..x "x" --json`},
	{args: `kv set motd back_at_noon --string`},
	{args: `kv set / 1`},
	{args: `kv set .. 1 --space .`},
	{args: `kv get greeting`},
	{args: `kv get greeting --json`},
	{args: `kv get a/b_%_..x`},
	{args: `kv get motd --raw`},
	{args: `kv get /`},
	{args: `kv get .. --space .`},
	{args: `kv get nothing`, code: exitNoJob},
	{args: `kv keys`},
	{args: `kv keys a --json`},
	{args: `kv incr visits --ttl 1m`},
	{args: `kv incr visits --by -3 --json`},
	{args: `kv incr greeting`, code: exitUnchanged},
	{args: `kv expire visits --ttl 90m`},
	{args: `kv expire visits --ttl 0s --json`},
	{args: `kv expire nothing --ttl 1s`, code: exitNoJob},
	{args: `kv swap lock "me" --absent --ttl 30s`},
	{args: `kv swap lock "you" --absent`, code: exitUnchanged},
	{args: `kv swap lock "you" --expect "me" --json`},
	{args: `kv swap lock null --expect "you"`},
	{args: `kv swap lock 1 --expect null`},
	{args: `kv delete lock --if 2`, code: exitUnchanged},
	{args: `kv delete lock --if 1 --json`},
	{args: `kv delete lock`},
	{args: `kv list put board ada 12.5 {"a":1} --keep 2`},
	{args: `kv list put board bob 14 --keep 2 --json`},
	{args: `kv list put board eve 13 --keep 2`},
	{args: `kv list put board eve 1 --higher-only`, code: exitUnchanged},
	{args: `kv list put board a/b 1`, code: exitUsage},
	{args: `kv list range board`},
	{args: `kv list range board --ascending --json --limit 1000`},
	{args: `kv list range none --json`},
	{args: `kv list names --json`},
	{args: `kv list remove board eve`},
	{args: `kv list remove board eve --json`, code: exitNoJob},
	{args: `kv list delete board`},
	{args: `kv wipe --dry-run --json`},
	{args: `kv wipe --yes`},
	{args: `kv keys --json`},
	{args: `scheduler status`},
	{args: `scheduler status --json`},
}

const declaredYAML = `owner: billing
space: acme
schedules:
  - name: invoices
    type: invoice
    cron: "30 2 1 * *"
    timezone: Europe/Paris
  - name: poll
    type: fetch
    cron: "@every 90s"
    queue: io
`

func TestCommandsSayTheSameOverHTTP(t *testing.T) {
	serve(t)
	url, tokenFile := serveAPI(t, "web")
	for _, namespace := range []string{"plain", "web"} {
		w := start(t, "work", "--builtin", "echo,fail", "--namespace", namespace)
		w.waitFor(t, "working")
		t.Cleanup(func() { require.Equal(t, exitOK, w.stop(t), w.err) })
		require.Eventually(t, func() bool { return call(t, "scheduler", "status", "--namespace", namespace).code == exitOK }, 30*time.Second, 20*time.Millisecond)
	}
	for _, c := range apiCases {
		args := strings.Fields(c.args)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "_", " ")
		}
		t.Run(c.args, func(t *testing.T) {
			plain := callWith(t, c.stdin, append([]string{"--namespace", "plain"}, args...)...)
			web := callWith(t, c.stdin, append([]string{"--api", url, "--token-file", tokenFile}, args...)...)
			require.Equal(t, c.code, plain.code, plain.err)
			require.Equal(t, c.code, web.code, "over HTTP: %s", web.err)
			require.Equal(t, sameEverywhere(plain.out), sameEverywhere(web.out))
			require.Equal(t, plain.err == "", web.err == "", "%q and %q", plain.err, web.err)
			require.NotContains(t, web.out+web.err, apiToken)
		})
	}
}
