package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// oneLineOf is the one line that a command that failed says, without the tokens that it was given.
func (r result) oneLineOf(t *testing.T, code int) string {
	t.Helper()
	require.Equal(t, code, r.code, r.err)
	require.Regexp(t, `^jetcrew: [^\n]+\n$`, r.err)
	require.Less(t, len(r.err), 400)
	require.NotContains(t, r.err, apiToken)
	require.NotContains(t, r.err, "another-token")
	require.Empty(t, r.out)
	return r.err
}

func TestATokenThatIsNotGoodIsSaidToBe(t *testing.T) {
	serve(t)
	url, tokenFile := serveAPI(t, "web", "acme")
	wrong := filepath.Join(t.TempDir(), "wrong")
	require.NoError(t, os.WriteFile(wrong, []byte("another-token-0123456789abcdef01234"), 0o600))
	for _, args := range []string{"job get a", "enqueue t --id a", "job cancel a", "job list", "queue list", "schedule list", "kv get k", "kv set k 1", "job wait a"} {
		for _, token := range [][]string{nil, {"--token-file", wrong}, {"--token", "another-token-0123456789abcdef01234"}} {
			r := call(t, append(append([]string{"--api", url}, token...), strings.Fields(args)...)...)
			require.Contains(t, r.oneLineOf(t, exitFailure), "the token is not good here", args)
		}
	}

	// It is good for one space, all others look empty, and what belongs to all is not for it.
	t.Setenv("JETCREW_API_URL", url)
	t.Setenv("JETCREW_API_TOKEN_FILE", tokenFile)
	call(t, "enqueue", "t", "--id", "a", "--space", "acme").ok(t)
	require.Contains(t, call(t, "job", "list", "--all-spaces").ok(t).out, "default/acme/a")
	require.Contains(t, call(t, "job", "cancel", "--all-spaces", "--yes", "--all").ok(t).out, "1 job")
	require.Contains(t, call(t, "job", "get", "a").oneLineOf(t, exitNoJob), "not found")
	require.Contains(t, call(t, "enqueue", "t", "--space", "other").oneLineOf(t, exitFailure), "not for this token")
	require.Contains(t, call(t, "kv", "get", "k").oneLineOf(t, exitNoJob), "there is no key")
	call(t, "kv", "set", "k", "1", "--space", "acme").ok(t)
	for _, args := range []string{"queue list", "job counts", "worker list", "scheduler status", "queue pause mail"} {
		require.Contains(t, call(t, strings.Fields(args)...).oneLineOf(t, exitFailure), "the token does not allow it", args)
	}
	r := call(t, "schedule", "put", "nightly", "--type", "t", "--cron", "@daily", "--space", "acme").ok(t)
	require.Contains(t, r.err, "warning: which workers are alive could not be read: the token does not allow it")

	// The token itself beats the file of the environment, and the flag of NATS the API of the environment.
	require.Equal(t, exitFailure, call(t, "job", "list", "--token", "another-token-0123456789abcdef01234").code)
	call(t, "job", "list", "--token", apiToken, "--all-spaces").ok(t)
	require.NotContains(t, call(t, "config").ok(t).out, apiToken)
	call(t, "job", "counts", "--url", os.Getenv("JETCREW_URL")).ok(t)
	require.Equal(t, ":4\n", completed(t, "queue", "info", "--url", os.Getenv("JETCREW_URL"), ""), "there is none in that namespace")
	require.Equal(t, ":4\n", completed(t, "queue", "info", ""), "the token is not good for queues")
	require.Equal(t, "nightly\n:4\n", completed(t, "schedule", "get", "--space", "acme", ""))
	require.Equal(t, "k\n:4\n", completed(t, "kv", "get", "--space", "acme", ""))
}

// completed is what a shell is offered.
func completed(t *testing.T, args ...string) string {
	t.Helper()
	return call(t, append([]string{"__complete"}, args...)...).ok(t).out
}

func TestAnAPIThatIsAwayOrIsNoneIsSaidToBe(t *testing.T) {
	t.Parallel()
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	for _, args := range []string{"job get a", "job cancel a", "enqueue t", "kv set k 1", "schedule list"} {
		r := call(t, append([]string{"--api", away.URL}, strings.Fields(args)...)...)
		require.Contains(t, r.oneLineOf(t, exitFailure), "the API cannot be reached: "+away.URL, args)
	}
	require.Contains(t, call(t, "--api", away.URL, "job", "wait", "a", "--timeout", "100ms").oneLineOf(t, exitWaited), "has not ended yet")

	huge := strings.Repeat("x", 10<<20)
	for _, x := range []struct {
		status           int
		kind, body, want string
		unknown          bool // whether something was done
	}{
		{502, "text/html", "<html>\n<h1>Bad Gateway</h1>", "502 Bad Gateway with text/html", true},
		{404, "text/html", huge, "404 Not Found with text/html", false},
		{200, "application/json", `{"id":"a","sp`, "is cut off", true},
		{200, "application/json", huge, "not jetcrew's JSON", true},
		{302, "text/html", "", "redirects to https://login.example.com/", false},
	} {
		proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", x.kind)
			w.Header().Set("Location", "https://login.example.com/?secret=1")
			w.WriteHeader(x.status)
			_, _ = w.Write([]byte(x.body))
		}))
		code := exitFailure
		for _, args := range []string{"job get a", "job list", "queue list", "schedule list", "kv get k", "scheduler status"} {
			r := call(t, append([]string{"--api", proxy.URL}, strings.Fields(args)...)...)
			require.Contains(t, r.oneLineOf(t, code), x.want, args)
		}
		if x.unknown {
			code = exitUnknown
		}
		for _, args := range []string{"job cancel a", "enqueue t --id a", "kv set k 1", "schedule run x", "queue resume mail", "kv delete k"} {
			r := call(t, append([]string{"--api", proxy.URL}, strings.Fields(args)...)...)
			require.Contains(t, r.oneLineOf(t, code), x.want, args)
		}
		proxy.Close()
	}
}

func TestWhatDoesNotGoOverHTTPSaysSo(t *testing.T) {
	for _, args := range []string{
		"work --builtin echo", "schedule", "serve", "dev", "demo", "doctor", "setup", "bench", "job watch", "kv watch", "token list", "refusal list",
	} {
		r := call(t, append([]string{"--api", "http://127.0.0.1:1"}, strings.Fields(args)...)...)
		require.Contains(t, r.oneLineOf(t, exitUsage), "does not work over HTTP", args)
	}
	t.Setenv("JETCREW_API_URL", "http://127.0.0.1:1")
	require.Contains(t, call(t, "job", "watch").oneLineOf(t, exitUsage), "JETCREW_API_URL is set")
	require.Contains(t, call(t, "job", "watch", "--api", "http://127.0.0.1:1").oneLineOf(t, exitUsage), "--api is set")
	require.Contains(t, call(t, "config").ok(t).out, "http://127.0.0.1:1")
	r := call(t, "config", "--api", "https://ada:secret@example.com/jobs?key=secret").ok(t)
	require.Contains(t, r.out, "https://example.com/jobs ")
	require.NotContains(t, r.out, "secret@")
	require.NotContains(t, r.out, "key=")
	require.NotContains(t, call(t, "job", "list", "--api", "https://ada:secret@example.com").oneLineOf(t, exitUsage), "secret")
	call(t, "version").ok(t)
	call(t, "schedule", "next", "--cron", "@daily").ok(t)
	call(t, "job", "--help").ok(t)
	require.NoError(t, os.Unsetenv("JETCREW_API_URL"))

	file := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(file, []byte("\n"), 0o600))
	for want, args := range map[string]string{
		"--api: must not be empty":               "--api= job list",
		"give one of them":                       "--api http://x --url nats://y job list",
		"--namespace is about NATS":              "--api http://x --namespace y job list",
		"--token goes with --api":                "--token x job list",
		"give --token or --token-file, not both": "--api http://x --token x --token-file " + file + " job list",
		"holds no token":                         "--api http://x --token-file " + file + " job list",
		"must be a file that can be read":        "--api http://x --token-file " + file + "s job list",
		"URL: must begin with http":              "--api x job list",
		"printable ASCII":                        "--api http://x --token a\u00e9 job list",
		"--all: the HTTP API":                    "--api http://x enqueue --all --file -",
	} {
		r := callWith(t, `{"type":"t"}`, strings.Fields(args)...)
		require.Contains(t, r.oneLineOf(t, exitUsage), want, args)
	}
}
