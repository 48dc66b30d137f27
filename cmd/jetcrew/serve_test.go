package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

const apiToken = "0123456789abcdef0123456789abcdef"

// listening waits until a process says where it listens.
func (r *running) listening(t *testing.T) string {
	t.Helper()
	address := regexp.MustCompile(`"address":"([^"]+)"`)
	require.Eventually(t, func() bool { return address.MatchString(r.err.String()) }, 20*time.Second, 5*time.Millisecond, r.err)
	_, port, err := net.SplitHostPort(address.FindStringSubmatch(r.err.String())[1])
	require.NoError(t, err)
	return "http://127.0.0.1:" + port
}

// request asks over HTTP.
func request(t *testing.T, method, url, token, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	c := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(b)
}

func TestServePutsJobsInForWorkers(t *testing.T) {
	serve(t)
	tokens := filepath.Join(t.TempDir(), "tokens")
	line := callWith(t, apiToken+"\n", "serve", "hash-token", "--name", "ops").ok(t).out
	require.NotContains(t, line, apiToken)
	require.NoError(t, os.WriteFile(tokens, []byte("# ops\n"+line), 0o600))
	t.Setenv("JETCREW_API_TOKENS_FILE", tokens)

	s := start(t, "serve", "--listen", "127.0.0.1:0")
	url := s.listening(t)
	w := start(t, "work", "--builtin", "echo", "--no-lead")
	status, body := request(t, "POST", url+"/v1/jobs", apiToken, `{"type":"echo","id":"hello","input":{"a":1}}`)
	require.Equal(t, 201, status, body)
	require.Eventually(t, func() bool {
		_, body = request(t, "GET", url+"/v1/jobs/default/hello", apiToken, "")
		return strings.Contains(body, `"succeeded"`)
	}, 20*time.Second, 20*time.Millisecond)
	require.JSONEq(t, call(t, "job", "get", "hello", "--json").ok(t).out, body, "the record is the same, whoever asks")
	status, _ = request(t, "GET", url+"/v1/jobs/default/hello", "", "")
	require.Equal(t, 401, status)
	call(t, "health", url+"/readyz").ok(t)
	call(t, "health", url+"/healthz").ok(t)

	require.Equal(t, exitOK, s.stop(t))
	require.Equal(t, exitOK, w.stop(t))
	require.NotContains(t, s.err.String(), apiToken)
	r := call(t, "health", url+"/healthz")
	require.Equal(t, exitFailure, r.code)
}

func TestServeWithoutTokensStaysOnThisMachineAndSaysSo(t *testing.T) {
	serve(t)
	for _, address := range []string{"0.0.0.0:0", ":0"} {
		r := call(t, "serve", "--listen", address)
		require.Equal(t, exitUsage, r.code)
		require.Contains(t, r.err, "JETCREW_API_TOKENS_FILE")
	}
	s := start(t, "serve", "--listen", "127.0.0.1:0")
	url := s.listening(t)
	s.waitFor(t, "no tokens are configured")
	status, body := request(t, "POST", url+"/v1/jobs", "", `{"type":"t"}`)
	require.Equal(t, 201, status, body)
	require.Equal(t, exitOK, s.stop(t))
}

func TestServeWithTokensThatCannotBeReadDoesNotServe(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"empty": "", "wrong": apiToken, "comment": "# none yet\n"} {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		t.Setenv("JETCREW_API_TOKENS_FILE", path)
		r := call(t, "serve")
		require.Equal(t, exitUsage, r.code, name)
		require.Contains(t, r.err, "JETCREW_API_TOKENS_FILE")
		require.NotContains(t, r.err, apiToken)
	}
	t.Setenv("JETCREW_API_TOKENS", "x:y")
	require.Contains(t, call(t, "serve").err, "cannot be used together")
	t.Setenv("JETCREW_API_TOKENS_FILE", "")
	r := call(t, "serve")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.err, "JETCREW_API_TOKENS")
	require.NotContains(t, call(t, "config").ok(t).out, "x:y", "it is a secret as far as anybody knows")
}

func TestHashTokenRefusesWhatIsNoToken(t *testing.T) {
	for _, c := range []struct {
		stdin string
		args  []string
	}{
		{"", []string{"--name", "x"}},
		{"short\n", []string{"--name", "x"}},
		{apiToken, []string{}},
		{apiToken, []string{"--name", "a b"}},
		{apiToken, []string{"--name", "x", "--space", ""}},
		{apiToken, []string{"--name", "x", "extra"}},
	} {
		r := callWith(t, c.stdin, append([]string{"serve", "hash-token"}, c.args...)...)
		require.Equal(t, exitUsage, r.code, "%q", c)
		require.NotContains(t, r.err, apiToken)
	}
	r := callWith(t, apiToken+"\r\n", "serve", "hash-token", "--name", "x", "--space", "a,b", "--space", "c").ok(t)
	require.Regexp(t, `^x:[0-9a-f]{64}:a%2Cb,c\n$`, r.out)
}

func TestScheduleLeadsAndResigns(t *testing.T) {
	url := serve(t)
	first := start(t, "schedule", "--listen", "127.0.0.1:0")
	health := first.listening(t)
	first.waitFor(t, `"leading"`)
	call(t, "health", health+"/readyz").ok(t)
	second := start(t, "schedule")
	second.waitFor(t, "another process leads")

	nc, err := nats.Connect(url)
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	kv, err := js.KeyValue(t.Context(), "JETCREW_LEADER")
	require.NoError(t, err)
	entry, err := kv.Get(t.Context(), "leader")
	require.NoError(t, err)
	var leader struct{ ID string }
	require.NoError(t, json.Unmarshal(entry.Value(), &leader))
	require.Regexp(t, `^schedule-\d+-`, leader.ID)
	require.Contains(t, second.err.String(), leader.ID)

	require.Equal(t, exitOK, first.stop(t))
	require.Contains(t, first.err.String(), "leading no more")
	// It was given back, so nobody has to wait for the entry to expire.
	left, err := kv.Get(t.Context(), "leader")
	require.True(t, err != nil || left.Revision() != entry.Revision())
	second.waitFor(t, `"leading"`)
	require.Equal(t, exitOK, second.stop(t))
}

func TestServeAndScheduleEndWhenTheirConnectionDoes(t *testing.T) {
	opts := &server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, JetStream: true, StoreDir: t.TempDir(),
		Users: []*server.User{{Username: "ada", Password: "pass"}},
	}
	srv, err := server.NewServer(opts)
	require.NoError(t, err)
	srv.Start()
	stopServer := func() { srv.Shutdown(); srv.WaitForShutdown() }
	t.Cleanup(func() { stopServer() })
	require.True(t, srv.ReadyForConnections(20*time.Second))
	t.Setenv("JETCREW_URL", srv.ClientURL())
	t.Setenv("JETCREW_USER", "ada")
	t.Setenv("JETCREW_PASSWORD", "pass")
	api := start(t, "serve", "--listen", "127.0.0.1:0")
	api.listening(t)
	housekeeper := start(t, "schedule")
	housekeeper.waitFor(t, "taking part")

	// Started anew, since a server that reloads its options races with its own reading of them.
	changed := opts.Clone()
	changed.Port = srv.Addr().(*net.TCPAddr).Port
	changed.Users = []*server.User{{Username: "ada", Password: "another"}}
	stopServer()
	srv, err = server.NewServer(changed)
	require.NoError(t, err)
	srv.Start()
	require.True(t, srv.ReadyForConnections(20*time.Second))
	for _, r := range []*running{api, housekeeper} {
		require.Equal(t, exitFailure, r.ends(t), r.err)
		require.Contains(t, r.err.String(), "closed for good")
	}
}

func TestSetupMakesWhatVerifiersNeed(t *testing.T) {
	url := serve(t)
	verify := func(args ...string) result {
		t.Setenv("JETCREW_MANAGE", "verify")
		defer t.Setenv("JETCREW_MANAGE", "create")
		return call(t, args...)
	}
	require.Equal(t, exitFailure, verify("enqueue", "t", "--id", "x").code)
	require.Equal(t, exitUsage, verify("setup").code)
	for range 2 {
		require.Contains(t, call(t, "setup", "--queues", "default,a b").ok(t).out, "ready")
	}
	verify("enqueue", "t", "--id", "x").ok(t)
	verify("enqueue", "t", "--id", "x", "--queue", "a b").ok(t)
	require.Equal(t, exitFailure, verify("enqueue", "t", "--queue", "other").code)

	nc, err := nats.Connect(url)
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	for _, stream := range []string{"JETCREW_JOBS", "KV_JETCREW_WORKERS", "KV_JETCREW_LEADER"} {
		_, err := js.Stream(t.Context(), stream)
		require.NoError(t, err, stream)
	}
	s, err := js.Stream(t.Context(), "JETCREW_JOBS")
	require.NoError(t, err)
	require.EqualValues(t, 2, s.CachedInfo().State.Msgs, "nothing was taken")
}

func TestGarbageForTheProcessesIsAUsageError(t *testing.T) {
	for _, args := range [][]string{
		{"serve", "extra"},
		{"serve", "--listen", ""},
		{"serve", "--listen", "8080"},
		{"serve", "--metrics-listen", "9090"},
		{"work", "--builtin", "echo", "--listen", "9090"},
		{"dev", "--listen", ""},
		{"schedule", "extra"},
		{"schedule", "--listen", "nowhere"},
		{"schedule", "--listen", ""},
		{"setup", "extra"},
		{"setup", "--queues", "a=x"},
		{"health", "a", "b"},
		{"health", "127.0.0.1:8080"},
		{"health", "ftp://127.0.0.1"},
		{"health", "--timeout", "0s"},
	} {
		r := call(t, args...)
		require.Equal(t, exitUsage, r.code, "%q: %s", args, r.err)
		require.Regexp(t, `^jetcrew: [^\n]+\n$`, r.err, "%q", args)
	}
	for _, name := range []string{"serve", "schedule", "setup", "health"} {
		require.Contains(t, call(t, name, "--help").ok(t).out, fmt.Sprintf("jetcrew %s", name))
	}
}
