package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/jetcrew/jetcrew/pkg/embedded"
)

// asProgram has the test binary be the program, for tests that need a process of their own to kill.
const asProgram = "JETCREW_TEST_AS_PROGRAM"

// The demo runs this program again as its worker: here, the test binary.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == demoWorkerCommand {
		os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	if os.Getenv(asProgram) != "" {
		os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if strings.HasPrefix(name, "JETCREW_") || strings.HasPrefix(name, "OTEL_") || strings.HasPrefix(name, "TRACE") {
			os.Unsetenv(name)
		}
	}
	goleak.VerifyTestMain(m)
}

// serve starts a server and points the commands of this test at it.
func serve(t *testing.T) string {
	t.Helper()
	srv, err := embedded.Start(embedded.Config{})
	require.NoError(t, err)
	t.Cleanup(srv.Shutdown)
	t.Setenv("JETCREW_URL", srv.URL())
	return srv.URL()
}

// result is what a command said.
type result struct {
	code     int
	out, err string
}

func call(t *testing.T, args ...string) result {
	t.Helper()
	return callWith(t, "", args...)
}

func callWith(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(args, strings.NewReader(stdin), &out, &errs)
	return result{code, out.String(), errs.String()}
}

func (r result) ok(t *testing.T) result {
	t.Helper()
	require.Zero(t, r.code, r.err)
	return r
}

// running is a command that goes on until it is told to stop.
type running struct {
	signals  chan os.Signal
	out, err *lockedBuffer
	code     chan int
}

func start(t *testing.T, args ...string) *running {
	t.Helper()
	r := &running{signals: make(chan os.Signal, 2), out: &lockedBuffer{}, err: &lockedBuffer{}, code: make(chan int, 1)}
	a := &app{
		stdin: strings.NewReader(""), stdout: r.out, stderr: r.err, environ: os.Environ(),
		signals: func() (<-chan os.Signal, func()) { return r.signals, func() {} },
	}
	go func() { r.code <- a.run(args) }()
	return r
}

func (r *running) waitFor(t *testing.T, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(r.out.String()+r.err.String(), text) },
		20*time.Second, 5*time.Millisecond, "%q in %s%s", text, r.out, r.err)
}

func (r *running) ends(t *testing.T) int {
	t.Helper()
	select {
	case code := <-r.code:
		return code
	case <-time.After(30 * time.Second):
		t.Fatalf("still running: %s", r.err)
		return -1
	}
}

func (r *running) stop(t *testing.T) int {
	t.Helper()
	r.signals <- syscall.SIGTERM
	return r.ends(t)
}

// get reads a record until it has a status, or fails.
func get(t *testing.T, status string, args ...string) map[string]any {
	t.Helper()
	var record map[string]any
	require.Eventually(t, func() bool {
		r := call(t, append([]string{"job", "get", "--json"}, args...)...)
		if r.code != 0 {
			return false
		}
		record = nil
		require.NoError(t, json.Unmarshal([]byte(r.out), &record))
		return record["status"] == status
	}, 20*time.Second, 20*time.Millisecond, "%v", record)
	return record
}

func TestEnqueueThenGet(t *testing.T) {
	serve(t)
	r := call(t, "enqueue", "email", "--id", "a.b *>", "--space", "acme", "--queue", "mail", "--input", `{"to":"x"}`,
		"--delay", "1h", "--max-attempts", "9", "--timeout", "1m", "--environment", "test", "--deadline", "2100-01-01T00:00:00Z").ok(t)
	require.Equal(t, "mail/acme/a.b *> created\n", r.out)
	r = call(t, "enqueue", "email", "--id", "a.b *>", "--space", "acme", "--queue", "mail").ok(t)
	require.Equal(t, "mail/acme/a.b *> exists\n", r.out)
	r = call(t, "enqueue", "email", "--id", "a.b *>", "--space", "acme", "--queue", "mail", "--json").ok(t)
	require.JSONEq(t, `{"queue":"mail","space":"acme","id":"a.b *>","created":false}`, r.out)

	record := get(t, "pending", "a.b *>", "--space", "acme")
	require.Equal(t, "mail", record["queue"])
	require.EqualValues(t, 9, record["maxAttempts"])
	require.Equal(t, "1m0s", record["timeout"])

	text := call(t, "job", "get", "a.b *>", "--space", "acme", "--queue", "mail").ok(t).out
	for _, want := range []string{"mail/acme/a.b *>", "email", "pending", "0 of 9", `{"to":"x"}`, "2100-01-01T00:00:00.000Z"} {
		require.Contains(t, text, want)
	}
}

func TestInputFromAFileAndFromStdin(t *testing.T) {
	serve(t)
	file := t.TempDir() + "/in.json"
	require.NoError(t, os.WriteFile(file, []byte(`{"from":"file"}`+"\n"), 0o600))
	call(t, "enqueue", "t", "--id", "1", "--input", "@"+file).ok(t)
	callWith(t, `{"from":"stdin"}`, "enqueue", "t", "--id", "2", "--input", "-").ok(t)
	require.Equal(t, map[string]any{"from": "file"}, get(t, "pending", "1")["input"])
	require.Equal(t, map[string]any{"from": "stdin"}, get(t, "pending", "2")["input"])
}

func TestNoSuchJobExitsWith3(t *testing.T) {
	serve(t)
	r := call(t, "job", "get", "nobody")
	require.Equal(t, exitNoJob, r.code)
	require.Regexp(t, `^jetcrew: .*not found\n$`, r.err)
	require.Empty(t, r.out)
}

func TestAnIDInTwoQueuesMustBeNamedInFull(t *testing.T) {
	serve(t)
	call(t, "enqueue", "t", "--id", "x", "--queue", "a").ok(t)
	call(t, "enqueue", "t", "--id", "x", "--queue", "b").ok(t)
	r := call(t, "job", "get", "x")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.err, "several queues")
	call(t, "job", "get", "x", "--queue", "b").ok(t)
}

func TestGarbageIsAUsageErrorOnOneLine(t *testing.T) {
	serve(t)
	long := strings.Repeat("x", 4096)
	for _, args := range [][]string{
		{"nonsense"},
		{"--nonsense"},
		{"enqueue"},
		{"enqueue", "a", "b"},
		{"enqueue", ""},
		{"enqueue", long},
		{"enqueue", "t\x00"},
		{"enqueue", "\xff\xfe"},
		{"enqueue", "t", "--input", "{"},
		{"enqueue", "t", "--input", "[1]"},
		{"enqueue", "t", "--input", `{"a":1,"a":2}`},
		{"enqueue", "t", "--input", "@/does/not/exist"},
		{"enqueue", "t", "--input", "@" + os.TempDir()},
		{"enqueue", "t", "--input", "-"},
		{"enqueue", "t", "--id", ""},
		{"enqueue", "t", "--id", long},
		{"enqueue", "t", "--id", "\xff"},
		{"enqueue", "t", "--space", long},
		{"enqueue", "t", "--queue", long},
		{"enqueue", "t", "--environment", strings.Repeat("e", 65)},
		{"enqueue", "t", "--delay", "soon"},
		{"enqueue", "t", "--delay", "1.5d"},
		{"enqueue", "t", "--timeout", "9999999d"},
		{"enqueue", "t", "--delay", "-1s"},
		{"enqueue", "t", "--delay", "1s", "--due-at", "2100-01-01T00:00:00Z"},
		{"enqueue", "t", "--due-at", "tomorrow"},
		{"enqueue", "t", "--due-at", "0001-06-01T00:00:00Z"},
		{"enqueue", "t", "--deadline", "31/12/2030"},
		{"enqueue", "t", "--max-attempts", "0"},
		{"enqueue", "t", "--max-attempts", "-1"},
		{"enqueue", "t", "--max-attempts", "99999999999999999999"},
		{"enqueue", "t", "--timeout", "-1s"},
		{"enqueue", "t", "--timeout", "x"},
		{"enqueue", "t", "--all"},
		{"enqueue", "t", "--file", "x"},
		{"enqueue", "--file", "/does/not/exist"},
		{"enqueue", "--file", ""},
		{"enqueue", "--file", "-"},
		{"enqueue", "--file", "-", "--id", "x"},
		{"job", "get"},
		{"job", "get", ""},
		{"job", "get", long},
		{"job", "get", "x", "--space", ""},
		{"job", "nonsense"},
		{"job", "list", "x"},
		{"job", "list", "--status", "nope"},
		{"job", "list", "--status", "ready,,due"},
		{"job", "list", "--status", ""},
		{"job", "list", "--limit", "0"},
		{"job", "list", "--limit", "-1"},
		{"job", "list", "--limit", "1001"},
		{"job", "list", "--limit", "x"},
		{"job", "list", "--space", "a", "--all-spaces"},
		{"job", "list", "--space", ""},
		{"job", "list", "--queue", ""},
		{"job", "list", "--queue", strings.Repeat("😀", 191)},
		{"job", "list", "--type", ""},
		{"job", "list", "--since", ""},
		{"job", "list", "--since", "-1h"},
		{"job", "list", "--since", "tomorrow"},
		{"job", "list", "--since", "1.5d"},
		{"job", "list", "--since", "99999999999d"},
		{"job", "list", "--since", "36501d"},
		{"job", "list", "--since", "1h", "--until", "2h"},
		{"job", "list", "--since", "2030-01-31T09:00:00Z", "--until", "2030-01-31T09:00:00Z"},
		{"job", "list", "--cursor", "elsewhere"},
		{"job", "counts", "x"},
		{"job", "watch", ""},
		{"job", "watch", "a", "b"},
		{"job", "watch", "a", "--status", "dead"},
		{"job", "watch", "a", "--all-spaces"},
		{"job", "watch", "a", "--space", "b", "--space", "c"},
		{"job", "watch", "--status", "nope"},
		{"job", "watch", "--queue", long},
		{"job", "cancel"},
		{"job", "cancel", "--all-spaces"},
		{"job", "cancel", "--all-spaces", "--yes"},
		{"job", "cancel", ""},
		{"job", "cancel", "a", "b"},
		{"job", "cancel", "a", "--type", "t"},
		{"job", "cancel", "a", "--all"},
		{"job", "cancel", "a", "--dry-run"},
		{"job", "cancel", "a", "--all-spaces"},
		{"job", "cancel", "a", "--space", "b", "--space", "c"},
		{"job", "cancel", "--all"}, // no terminal to ask
		{"job", "cancel", "--queue", "q"},
		{"job", "cancel", "--queue", "", "--yes"},
		{"job", "cancel", "--queue", "q", "--limit", "-1", "--yes"},
		{"job", "cancel", "--status", "dead", "--yes"},
		{"job", "requeue", "--status", "running", "--yes"},
		{"job", "run-now", "--status", "ready", "--yes"},
		{"job", "delete", "--status", "running", "--yes"},
		{"job", "delete", "--since", "soon", "--yes"},
		{"queue", "nonsense"},
		{"queue", "list", "x"},
		{"queue", "info"},
		{"queue", "info", ""},
		{"queue", "info", strings.Repeat("😀", 191)},
		{"queue", "pause"},
		{"queue", "pause", "q", "--for", "0s"},
		{"queue", "pause", "q", "--for", "-1h"},
		{"queue", "pause", "q", "--for", "3651d"},
		{"queue", "pause", "q", "--for", "1h", "--until", "2100-01-01T00:00:00Z"},
		{"queue", "pause", "q", "--until", "later"},
		{"queue", "pause", "q", "--until", ""},
		{"queue", "pause", "q", "--until", "2001-01-01T00:00:00Z"},
		{"queue", "resume", long},
		{"queue", "configure", "q"},
		{"queue", "configure", "q", "--concurrency", "-1"},
		{"queue", "configure", "q", "--concurrency", "1000001"},
		{"queue", "configure", "q", "--lease", "0"},
		{"queue", "configure", "q", "--lease", "999ms"},
		{"queue", "configure", "q", "--lease", "8d"},
		{"queue", "configure", "q", "--lease", "1000000d"},
		{"queue", "configure", "q", "--retention-dead", ""},
		{"queue", "configure", "q", "--retention-dead", "9m"},
		{"queue", "configure", "q", "--retention-dead", "-1ns"},
		{"queue", "configure", "q", "--retention-dead", "3651d"},
		{"queue", "configure", "q", "--retention-dead", "never"},
		{"job", "get", "x", "--queue", strings.Repeat("😀", 191)},
		{"job", "wait", "x", "--queue", strings.Repeat("😀", 191)},
		{"job", "watch", "x", "--queue", strings.Repeat("😀", 191)},
		{"job", "cancel", "x", "--queue", strings.Repeat("😀", 191)},
		{"completion", "nope"},
		{"queue", "configure", long, "--concurrency", "1"},
		{"queue", "purge", "q"},
		{"queue", "purge", "q", "--status", "running", "--yes"},
		{"queue", "purge", "q", "--status", "", "--yes"},
		{"queue", "purge", "q", "--status", "nope", "--yes"},
		{"queue", "delete"},
		{"queue", "delete", ""},
		{"worker", "list", "x"},
		{"work"},
		{"work", "--builtin", ""},
		{"work", "--builtin", "echo,rm"},
		{"work", "--builtin", "echo", "--queues", "a=x"},
		{"work", "--builtin", "echo", "--concurrency", "-1"},
		{"work", "extra"},
		{"dev", "--port", "70000"},
		{"dev", "--port", "x"},
		{"dev", "--dir", ""},
		{"dev", "--url", "nats://a"},
		{"demo", "a", "b"},
		{"demo", "--max-files", "0"},
		{"demo", "--timeout", "1ms"},
		{"demo", "/does/not/exist"},
		{"demo-worker"},
		{"config", "extra"},
		{"config", "--url", "http://a"},
		{"config", "--credentials", "/does/not/exist"},
		{"config", "--namespace", "a.b"},
		{"config", "--log-level", "loud"},
		{"config", "--url", "nats://a", "--context", "b"},
		{"version", "extra"},
	} {
		r := call(t, args...)
		require.Equal(t, exitUsage, r.code, "%.200q: %s", args, r.err)
		require.Regexp(t, `^jetcrew: [^\n]+\n$`, r.err, "%.200q", args)
		require.Empty(t, r.out, "%.200q", args)
	}
}

func TestAllWrongSettingsAreNamedOnOneLine(t *testing.T) {
	t.Setenv("JETCREW_LEASE", "x")
	t.Setenv("JETCREW_REPLICAS", "9")
	r := call(t, "config", "--namespace", "A")
	require.Equal(t, exitUsage, r.code)
	for _, want := range []string{"JETCREW_LEASE", "JETCREW_REPLICAS", "--namespace"} {
		require.Contains(t, r.err, want)
	}
	require.Equal(t, 1, strings.Count(r.err, "\n"))
}

func TestNoServerIsAFailureThatNamesItWithoutThePassword(t *testing.T) {
	r := call(t, "enqueue", "t", "--url", "nats://ada:canary@127.0.0.1:1")
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.err, "no NATS server answers at nats://127.0.0.1:1")
	require.NotContains(t, r.err, "canary")
}

func TestConfigShowsNoSecret(t *testing.T) {
	t.Setenv("JETCREW_URL", "nats://ada:canary@127.0.0.1:4222")
	t.Setenv("JETCREW_USER", "ada")
	t.Setenv("JETCREW_PASSWORD", "canary")
	t.Setenv("JETCREW_PASWORD", "canary")
	for _, args := range [][]string{{"config"}, {"config", "--json"}} {
		r := call(t, args...).ok(t)
		require.NotContains(t, r.out+r.err, "canary")
		require.Contains(t, r.out, "(set)")
		require.Contains(t, r.err, "JETCREW_PASSWORD", "a misspelt name is pointed out")
	}
	var settings []struct{ Variable, Value, Source, Description string }
	require.NoError(t, json.Unmarshal([]byte(call(t, "config", "--json", "--queues", "a=1").ok(t).out), &settings))
	sources := map[string]string{}
	for _, s := range settings {
		sources[s.Variable] = s.Source
	}
	require.Equal(t, "flag", sources["JETCREW_QUEUES"])
	require.Equal(t, "environment", sources["JETCREW_URL"])
	require.Equal(t, "default", sources["JETCREW_LEASE"])
}

func TestHelpVersionAndCompletion(t *testing.T) {
	for _, args := range [][]string{
		{},
		{"help"},
		{"--help"},
		{"job"},
		{"version"},
		{"version", "--json"},
		{"completion", "bash"},
		{"completion"},
		{"dev", "--help"},
		{"work", "--help"},
		{"enqueue", "--help"},
		{"job", "get", "--help"},
		{"demo", "--help"},
		{"queue"},
		{"worker"},
		{"job", "list", "--help"},
		{"job", "requeue", "--help"},
		{"job", "watch", "--help"},
		{"queue", "configure", "--help"},
		{"queue", "purge", "--help"},
		{"worker", "list", "--help"},
	} {
		r := call(t, args...).ok(t)
		require.NotEmpty(t, r.out, args)
		require.NotContains(t, r.out, demoWorkerCommand)
	}
	require.Contains(t, call(t, "help").out, "Exit codes")
}

func TestAFileOfJobs(t *testing.T) {
	serve(t)
	var lines strings.Builder
	for i := range 2500 {
		fmt.Fprintf(&lines, "{\"type\":\"t\",\"id\":\"job-%d\",\"input\":{\"n\":%d}}\n\n", i, i)
	}
	r := callWith(t, lines.String(), "enqueue", "--file", "-").ok(t)
	require.Equal(t, "created 2500, existed 0, failed 0\n", r.out)
	r = callWith(t, lines.String(), "enqueue", "--file", "-", "--json").ok(t)
	require.Equal(t, 2500, strings.Count(r.out, `"created":false`))

	r = callWith(t, lines.String(), "enqueue", "--file", "-", "--all")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.err, "at most 1000")

	r = callWith(t, `{"type":"t","id":"new"}`+"\n"+`{"type":"t","id":"job-7"}`, "enqueue", "--file", "-", "--all")
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.err, "default/default/job-7")
	require.Equal(t, exitNoJob, call(t, "job", "get", "new").code)
	callWith(t, `{"type":"t","id":"new"}`, "enqueue", "--file", "-", "--all").ok(t)
	get(t, "pending", "new")
}

func TestBadLinesAreNamedBeforeAnythingIsWritten(t *testing.T) {
	serve(t)
	lines := []string{
		`{"type":"t","id":"good"}`, `{`, ``, `{"id":"no-type"}`, `[1]`, `{"type":"t","delayy":"1s"}`, `{"type":"t","type":"u"}`,
		`{"type":"t","delay":"-1s"}`, "{\"type\":\"\xff\"}", `{"type":"t"} trailing`, `null`, `{"type":"t","input":7}`, "\x1b[2J", `{"type":"t","-":{}}`, `{"type":"t","trace":{}}`,
	}
	r := callWith(t, strings.Join(lines, "\n"), "enqueue", "--file", "-")
	require.Equal(t, exitUsage, r.code)
	for _, n := range []int{2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15} {
		require.Contains(t, r.err, fmt.Sprintf("-:%d: ", n))
	}
	require.Contains(t, r.err, "jetcrew: 13 of 14 lines in - are no jobs: nothing was enqueued\n")
	require.NotContains(t, r.err, "\x1b")
	require.Equal(t, exitNoJob, call(t, "job", "get", "good").code)
}

func TestWorkRunsTheExampleTypes(t *testing.T) {
	serve(t)
	dir := t.TempDir()
	t.Chdir(dir)
	require.NoError(t, os.WriteFile("abc", []byte("abc"), 0o600))
	w := start(t, "work", "--builtin", "sha256,echo", "--builtin", "fail", "--builtin", "sleep,echo")
	w.waitFor(t, "working")
	call(t, "enqueue", "echo", "--id", "echo", "--input", `{"a":[1,2]}`).ok(t)
	call(t, "enqueue", "sleep", "--id", "sleep", "--input", `{"for":"10ms"}`).ok(t)
	call(t, "enqueue", "fail", "--id", "fail", "--input", `{"giveUp":true,"message":"never"}`).ok(t)
	call(t, "enqueue", "sha256", "--id", "sha", "--input", `{"path":"abc"}`).ok(t)
	call(t, "enqueue", "sha256", "--id", "out", "--max-attempts", "1", "--input", `{"path":"../../etc/hosts"}`).ok(t)
	call(t, "enqueue", "sha256", "--id", "dir", "--input", `{"path":"."}`).ok(t)
	require.Equal(t, map[string]any{"a": []any{1., 2.}}, get(t, "succeeded", "echo")["result"])
	get(t, "succeeded", "sleep")
	require.Equal(t, "never", get(t, "dead", "fail")["error"])
	require.Equal(t, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
		get(t, "succeeded", "sha")["result"].(map[string]any)["sha256"])
	get(t, "dead", "out")
	get(t, "dead", "dir")
	require.Contains(t, call(t, "job", "get", "fail").ok(t).out, "ATTEMPT")
	require.Equal(t, exitOK, w.stop(t))
}

func TestAStopWaitsForWhatRunsAndASecondSignalDoesNot(t *testing.T) {
	serve(t)
	w := start(t, "work", "--builtin", "sleep", "--no-lead")
	w.waitFor(t, "working")
	call(t, "enqueue", "sleep", "--id", "short", "--input", `{"for":"1s"}`).ok(t)
	get(t, "running", "short")
	require.Equal(t, exitOK, w.stop(t))
	get(t, "succeeded", "short")

	w = start(t, "work", "--builtin", "sleep")
	w.waitFor(t, "working")
	call(t, "enqueue", "sleep", "--id", "long", "--input", `{"for":"1h"}`).ok(t)
	get(t, "running", "long")
	w.signals <- syscall.SIGTERM
	w.waitFor(t, "a second signal exits at once")
	require.Equal(t, exitFailure, w.stop(t))
	require.Contains(t, w.err.String(), "second signal")
}

func TestTerminalEscapesInJobDataReachNoTerminal(t *testing.T) {
	url := serve(t)
	call(t, "enqueue", "t", "--id", "seed").ok(t) // makes the stream
	nc, err := nats.Connect(url)
	require.NoError(t, err)
	defer nc.Close()
	_, err = nc.Request("jetcrew.job.ready.default.default.evil", []byte("\x1b]0;pwned\x07 not json"), 5*time.Second)
	require.NoError(t, err)
	w := start(t, "work", "--builtin", "echo")
	record := get(t, "dead", "evil")
	require.NotEmpty(t, record["raw"])
	text := call(t, "job", "get", "evil").ok(t).out
	require.NotContains(t, text, "\x1b")
	require.NotContains(t, text, "\x07")
	require.Contains(t, text, `\x1b]0;pwned`)
	require.Equal(t, exitOK, w.stop(t))
}

func TestDevRunsAllOfIt(t *testing.T) {
	dir := t.TempDir()
	d := start(t, "dev", "--port", "0", "--dir", dir)
	d.waitFor(t, "working")
	out := d.out.String()
	var url string
	for line := range strings.Lines(out) {
		if _, after, ok := strings.Cut(line, "NATS server"); ok {
			url = strings.TrimSpace(after)
		}
	}
	require.NotEmpty(t, url, out)
	require.Contains(t, out, "--url "+url)
	require.NotContains(t, out, "lost on exit")
	call(t, "enqueue", "echo", "--url", url, "--id", "hello").ok(t)
	get(t, "succeeded", "hello", "--url", url)

	// A plain message of any NATS client is a job, once.
	nc, err := nats.Connect(url)
	require.NoError(t, err)
	defer nc.Close()
	for range 2 {
		require.NoError(t, nc.Publish("jetcrew.job.ready.default.default.plain", []byte(`{"type":"echo","input":{"a":1}}`)))
		require.EqualValues(t, 1, get(t, "succeeded", "plain", "--url", url)["attempts"])
	}
	second := start(t, "dev", "--port", "0", "--dir", dir)
	require.Equal(t, exitFailure, second.ends(t))
	require.Contains(t, second.err.String(), "in use by another server")
	require.Equal(t, exitOK, d.stop(t))
}

func TestSafe(t *testing.T) {
	for in, want := range map[string]string{
		"plain é 世界 😀": "plain é 世界 😀", "\x1b[2J": `\x1b[2J`, "a\nb\tc": `a\nb\tc`, "\xff": `\xff`, "\u009b1m": `\u009b1m`,
		"\u202eabc": `\u202eabc`, "\u2028": `\u2028`, "\x7f": `\x7f`, "\uFFFD": "\uFFFD",
	} {
		require.Equal(t, want, safe(in))
	}
}

func FuzzSafe(f *testing.F) {
	f.Add("\x1b[2J\u202e\xff")
	f.Fuzz(func(t *testing.T, s string) {
		for _, r := range safe(s) {
			require.False(t, r < 0x20 || r == 0x7f || r >= 0x80 && r < 0xa0, "%q", s)
		}
	})
}

func FuzzParseLines(f *testing.F) {
	f.Add("{\"type\":\"t\"}\n{\n")
	f.Fuzz(func(t *testing.T, s string) {
		lines, _, err := parseLines(strings.NewReader(s))
		if err != nil {
			return
		}
		for _, l := range lines {
			require.NotEmpty(t, l.spec.ID)
			require.NotEmpty(t, l.spec.Type)
		}
	})
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

var _ io.Writer = (*lockedBuffer)(nil)

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
