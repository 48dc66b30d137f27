package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
)

const hookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// write writes a file of the test's and answers its path.
func write(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), mode))
	return path
}

// pidIn waits until a program has written its process id to a file.
func pidIn(t *testing.T, path string) int {
	t.Helper()
	var pid int
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(path)
		if err != nil || !bytes.HasSuffix(text, []byte("\n")) {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	}, 20*time.Second, 5*time.Millisecond)
	return pid
}

// gone reports whether a process has ended, reaped or not.
func gone(pid int) bool {
	if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
		return bytes.Contains(stat, []byte(") Z "))
	}
	return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

func TestAShellScriptIsAWorker(t *testing.T) {
	serve(t)
	t.Setenv("JETCREW_RETRY_BASE", "10ms")
	t.Setenv("JETCREW_RETRY_MAX", "20ms")
	t.Setenv("CANARY", "canary")
	script := write(t, "work.sh", `#!/bin/sh
echo "attempt $JETCREW_JOB_ATTEMPT of $JETCREW_JOB_MAX_ATTEMPTS ${CANARY-}" >&2
[ "$JETCREW_JOB_ATTEMPT" = 2 ] || exit 1
cat
`, 0o700)
	r := start(t, "work", "--exec", "t="+script, "--exec", `say=printf '"%s"' 'a b'`)
	r.waitFor(t, `"types":["say","t"]`)
	call(t, "enqueue", "t", "--id", "1", "--input", `{"a":1}`).ok(t)
	call(t, "enqueue", "say", "--id", "2").ok(t)
	record := get(t, "succeeded", "1")
	require.Equal(t, map[string]any{"a": 1.0}, record["result"])
	require.Equal(t, "exit code 1: attempt 1 of 3", record["history"].([]any)[0].(map[string]any)["error"])
	require.Equal(t, "a b", get(t, "succeeded", "2")["result"])
	require.Zero(t, r.stop(t))
	require.Contains(t, r.err.String(), `"stderr":"attempt 2 of 3"`)
	require.NotContains(t, r.err.String(), "canary")
}

func TestAnHTTPServerIsAWorker(t *testing.T) {
	serve(t)
	verifier, err := standardwebhooks.NewWebhook(hookSecret)
	require.NoError(t, err)
	ids := make(chan string, 2)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = verifier.Verify(body, r.Header)
		}
		if err != nil {
			t.Error(err)
		}
		ids <- r.Header.Get("webhook-id")
		if len(ids) == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"done":true}`)
	}))
	defer srv.Close()
	t.Setenv("HOOK_SECRET", hookSecret)
	r := start(t, "work", "--http", "notify="+srv.URL, "--http-secret-env", "HOOK_SECRET", "--http-allow-private")
	r.waitFor(t, "working")
	call(t, "enqueue", "notify", "--id", "1").ok(t)
	record := get(t, "succeeded", "1")
	require.Equal(t, map[string]any{"done": true}, record["result"])
	require.EqualValues(t, 1, record["attempts"], "to be asked later costs no attempt")
	require.Equal(t, <-ids, <-ids)
	require.Zero(t, r.stop(t))
}

func TestTheExampleFilesWork(t *testing.T) {
	serve(t)
	var signed bool
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		signed = r.Header.Get("webhook-signature") != ""
	}))
	defer srv.Close()
	dir := t.TempDir()
	for _, name := range []string{"handlers.yaml", "greet.sh"} {
		text, err := os.ReadFile(filepath.Join("../../docs/examples", name))
		require.NoError(t, err)
		text = bytes.ReplaceAll(text, []byte("http://127.0.0.1:8080"), []byte(srv.URL))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o700))
	}
	busy := filepath.Join(dir, "busy")
	require.NoError(t, os.WriteFile(busy, nil, 0o600))
	t.Setenv("BUSY_FILE", busy)
	t.Setenv("HOOK_SECRET", hookSecret)
	r := start(t, "work", "--handlers", filepath.Join(dir, "handlers.yaml"))
	r.waitFor(t, `"types":["greet","notify"]`)
	call(t, "enqueue", "greet", "--id", "ada", "--input", `{"name":"Ada"}`).ok(t)
	call(t, "enqueue", "greet", "--id", "no", "--input", `{}`).ok(t)
	call(t, "enqueue", "greet", "--id", "nobody", "--input", `{"name":"nobody"}`).ok(t)
	call(t, "enqueue", "notify", "--id", "hook").ok(t)
	get(t, "succeeded", "hook")
	require.True(t, signed)
	require.Equal(t, "the program gave up (exit code 65): the input has no name", get(t, "dead", "no")["error"])
	require.Equal(t, "nobody is not greeted", get(t, "failed", "nobody")["error"])
	require.Eventually(t, func() bool {
		return strings.Contains(call(t, "job", "get", "ada").out, "asked to be run later")
	}, 20*time.Second, 20*time.Millisecond)
	require.NoError(t, os.Remove(busy))
	record := get(t, "succeeded", "ada")
	require.Equal(t, map[string]any{"greeting": "Hello, Ada!"}, record["result"])
	require.EqualValues(t, 1, record["attempts"])
	require.Zero(t, r.stop(t))
}

func TestNoProgramOutlivesItsJob(t *testing.T) {
	serve(t)
	t.Setenv("JETCREW_GRACE", "2s")
	for name, c := range map[string]struct {
		script  string
		status  string
		args    []string
		reason  string
		signals int
	}{
		"that ignores SIGTERM and its timeout": {
			script: `trap '' TERM; echo $$ >"$1"; while :; do sleep 300; done`, args: []string{"--timeout", "500ms"},
			status: "dead", reason: "timed out after 500ms: the program was ended by SIGKILL, after it was told to stop",
		},
		"that leaves children behind": {
			script: `sleep 300 & echo $! >"$1"`, status: "succeeded",
		},
		"at the second signal": {
			script: `trap '' TERM; echo $$ >"$1"; while :; do sleep 300; done`, signals: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pid")
			script := write(t, "work.sh", "#!/bin/sh\n"+c.script+"\n", 0o700)
			typ := strings.ReplaceAll(name, " ", "-")
			r := start(t, "work", "--exec", fmt.Sprintf("%s=%s %s", typ, script, file), "--queues", typ)
			call(t, append([]string{"enqueue", typ, "--queue", typ, "--id", typ, "--max-attempts", "1"}, c.args...)...).ok(t)
			pid := pidIn(t, file)
			if c.signals > 0 {
				r.signals <- syscall.SIGTERM
				r.waitFor(t, "a second signal")
				require.False(t, gone(pid), "what runs is waited for")
				r.signals <- syscall.SIGTERM
				require.Equal(t, exitFailure, r.ends(t))
				require.True(t, gone(pid))
				return
			}
			record := get(t, c.status, typ)
			require.True(t, gone(pid))
			if c.reason != "" {
				require.Equal(t, c.reason, record["error"])
			}
			require.Zero(t, r.stop(t))
		})
	}
}

func TestADrainThatTakesTooLongEndsTheProgram(t *testing.T) {
	serve(t)
	t.Setenv("JETCREW_DRAIN_TIMEOUT", "100ms")
	file := filepath.Join(t.TempDir(), "pid")
	script := write(t, "work.sh", "#!/bin/sh\necho $$ >\"$1\"\nsleep 300\n", 0o700)
	r := start(t, "work", "--exec", "t="+script+" "+file)
	call(t, "enqueue", "t", "--id", "1").ok(t)
	pid := pidIn(t, file)
	require.Zero(t, r.stop(t))
	require.True(t, gone(pid))
	record := get(t, "pending", "1")
	require.EqualValues(t, 0, record["attempts"], "handed back")
}

func TestWrongHandlersAreNamedBeforeAnythingStarts(t *testing.T) {
	t.Setenv("JETCREW_URL", "nats://127.0.0.1:1") // nothing is connected to
	t.Setenv("HOOK_SECRET", hookSecret)
	t.Setenv("BAD_SECRET", "canary")
	plain := write(t, "plain.sh", "#!/bin/sh\n", 0o600)
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "a worker without handlers"},
		{[]string{"--exec", "t"}, "--exec: needs TYPE=COMMAND"},
		{[]string{"--exec", "=a"}, "--exec: needs TYPE=COMMAND"},
		{[]string{"--exec", "t= "}, "--exec: needs TYPE=COMMAND"},
		{[]string{"--exec", strings.Repeat("t", 200) + "=a"}, "--exec: type: has 200 bytes"},
		{[]string{"--exec", "t=a | b"}, "--exec t: more than one program with its arguments needs a shell, and none is used"},
		{[]string{"--exec", `t=a "b`}, "--exec t: column 3: "},
		{[]string{"--exec", "t=/no/such/program"}, `--exec t: handler "t": program /no/such/program: no such file or directory`},
		{[]string{"--exec", "t=no-such-program-here"}, `program "no-such-program-here": executable file not found in $PATH`},
		{[]string{"--exec", "t=" + plain}, "program " + plain + ": is not executable (mode -rw-------)"},
		{[]string{"--exec", "t=true", "--exec", "t=false"}, `--exec t: type "t" has a handler already (--exec t)`},
		{[]string{"--exec", "echo=true", "--builtin", "echo"}, `--exec echo: type "echo" has a handler already (--builtin)`},
		{[]string{"--http", "t=https://h"}, "--http t: name the variable with the secret"},
		{[]string{"--http", "t=https://h", "--http-secret-env", "NOT_SET"}, `--http t: the secret's variable "NOT_SET" is not set`},
		{[]string{"--http", "t=https://h", "--http-secret-env", "BAD_SECRET"}, "the secret does not begin with whsec_"},
		{[]string{"--http", "t=https://h", "--http-secret-env", "HOOK_SECRET", "--http-unsigned"}, "not both"},
		{[]string{"--http", "t=https://u:canary@h", "--http-unsigned"}, "has a user part"},
		{[]string{"--http", "t=http://127.0.0.1/", "--http-unsigned"}, "private addresses are refused: 127.0.0.1"},
		{[]string{"--exec", "t=true", "--http-unsigned"}, "go with --http"},
		{[]string{"--handlers", "/no/such/file"}, "--handlers: open /no/such/file"},
	} {
		r := call(t, append([]string{"work"}, c.args...)...)
		require.Equal(t, exitUsage, r.code, c.args)
		require.Contains(t, r.err, c.want)
		require.Equal(t, 1, strings.Count(r.err, "\n"), r.err)
		require.NotContains(t, r.err, "canary")
	}
}

func TestProgramsMayCallJetcrew(t *testing.T) {
	t.Setenv("JETCREW_JOB_ID", "1")
	require.NotContains(t, call(t, "config").ok(t).err, "JETCREW_JOB_ID")
}
