package main

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
)

// A secret is planted wherever this program is given one or meets one by accident: in the password of the server's
// URL, a token, a handler's secret, a job's input and result, in what a handler says when it fails. It is then looked for in
// everything that operators collect, at the most talkative level: logs of all roles, metrics, answers to callers,
// the errors of records.
func TestAPlantedSecretIsNowhereToBeSeen(t *testing.T) {
	const canary = "whsec_Y2FuYXJ5LWNhbmFyeS1jYW5hcnktY2FuYXJ5"
	opts := &server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true, Username: "u", Password: canary,
	}
	srv := startServer(t, opts)
	at, err := url.Parse(srv.ClientURL())
	require.NoError(t, err)
	opts.Port, err = strconv.Atoi(at.Port())
	require.NoError(t, err)
	at.User = url.UserPassword("u", canary)
	t.Setenv("JETCREW_URL", at.String())
	t.Setenv("JETCREW_LOG_LEVEL", "trace")
	t.Setenv("JETCREW_RETRY_BASE", "1ms")
	t.Setenv("JETCREW_RETRY_MAX", "1ms")
	t.Setenv("HOOK_SECRET", canary)
	tokens := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(tokens, []byte(callWith(t, canary, "serve", "hash-token", "--name", "ops").ok(t).out), 0o600))
	t.Setenv("JETCREW_API_TOKENS_FILE", tokens)

	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":"no, by Authorization: Bearer `+canary+`"}`, http.StatusInternalServerError)
	}))
	defer target.Close()
	fails := `echo "connect to postgres://app:` + canary + `@db: refused, password=` + canary + `" >&2; exit 1`
	w := start(t, "work", "--builtin", "echo,fail", "--exec", "says=sh -c '"+fails+"'", "--http", "calls="+target.URL,
		"--http-secret-env", "HOOK_SECRET", "--http-allow-private", "--listen", "127.0.0.1:0")
	measured := w.listening(t)
	s := start(t, "serve", "--listen", "127.0.0.1:0")
	api := s.listening(t)

	input := `{"password":"` + canary + `","card":"` + canary + `"}`
	for _, kind := range []string{"echo", "fail", "says", "calls"} {
		body := `{"type":"` + kind + `","id":"` + kind + `","maxAttempts":2,"input":` + input + `}`
		status, answer := request(t, "POST", api+"/v1/jobs", canary, body)
		require.Equal(t, 201, status, answer)
		require.NotContains(t, answer, canary)
	}
	_, refused := request(t, "POST", api+"/v1/jobs", canary, `{"type":"echo","password":"`+canary+`"}`)
	require.NotContains(t, refused, canary)
	_, refused = request(t, "POST", api+"/v1/jobs", canary+"x", `{"type":"echo"}`)
	require.NotContains(t, refused, canary)
	get(t, "succeeded", "echo")
	for _, kind := range []string{"fail", "says", "calls"} {
		record := get(t, "dead", kind)
		require.NotEmpty(t, record["error"])
		require.NotContains(t, record["error"], canary)
		for _, attempt := range record["history"].([]any) {
			require.NotContains(t, attempt.(map[string]any)["error"], canary)
		}
	}
	_, metrics := request(t, "GET", measured+"/metrics", "", "")
	require.Contains(t, metrics, `type="says"`)
	require.NotContains(t, metrics, canary)
	srv.Shutdown() // what is said of a lost connection
	srv.WaitForShutdown()
	w.waitFor(t, "connection to NATS lost")
	startServer(t, opts)
	require.Equal(t, exitOK, w.stop(t))
	require.Equal(t, exitOK, s.stop(t))
	t.Setenv("JETCREW_URL", "nats://u:"+canary+"x@127.0.0.1:"+at.Port())
	denied := call(t, "job", "get", "echo")
	require.NotZero(t, denied.code)
	for name, said := range map[string]string{
		"worker": w.err.String() + w.out.String(), "api": s.err.String() + s.out.String(), "denied": denied.err + denied.out,
		"doctor": call(t, "doctor").err, "config": call(t, "config").out,
	} {
		require.NotEmpty(t, said, name)
		require.NotContains(t, said, canary, name)
	}
}

func startServer(t *testing.T, opts *server.Options) *server.Server {
	t.Helper()
	srv, err := server.NewServer(opts.Clone())
	require.NoError(t, err)
	srv.Start()
	t.Cleanup(srv.Shutdown)
	require.True(t, srv.ReadyForConnections(20*time.Second))
	return srv
}
