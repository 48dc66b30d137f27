package main

import (
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/httpapi"
)

// becomes waits until a request is answered with a status.
func becomes(t *testing.T, want int, method, url, token, body string) string {
	t.Helper()
	var got string
	require.Eventually(t, func() bool {
		var status int
		status, got = request(t, method, url, token, body)
		return status == want
	}, 20*time.Second, 20*time.Millisecond, "%s %s", method, url)
	return got
}

func TestTokensAreMadeAndRevokedWhileTheAPIServes(t *testing.T) {
	serve(t)
	require.Contains(t, call(t, "token", "list").ok(t).err, "no tokens are stored")
	s := start(t, "serve", "--listen", "127.0.0.1:0")
	url := s.listening(t)
	s.waitFor(t, "no tokens are configured")
	const body = `{"type":"t","id":"j","space":"acme"}`
	status, _ := request(t, "POST", url+"/v1/jobs", "", body)
	require.Equal(t, 201, status, "it is open")

	made := call(t, "token", "create", "--name", "shop", "--scope", "enqueue,read", "--space", "acme", "--expires", "90d").ok(t)
	secret := strings.TrimSpace(made.out)
	require.Regexp(t, `^jc_[a-z2-7]{52}$`, secret)
	require.NotContains(t, made.err, secret)
	becomes(t, 401, "GET", url+"/v1/jobs/acme/j", "", "")
	s.waitFor(t, "from now on every request needs one")
	becomes(t, 200, "GET", url+"/v1/jobs/acme/j", secret, "")
	status, got := request(t, "POST", url+"/v1/jobs/acme/j/cancel", secret, "")
	require.Equal(t, 403, status)
	require.Contains(t, got, "missing_scope")
	status, _ = request(t, "GET", url+"/v1/jobs/other/j", secret, "")
	require.Equal(t, 404, status)
	r := call(t, "token", "create", "--name", "shop", "--scope", "read")
	require.Equal(t, exitUnchanged, r.code)

	list := call(t, "token", "list").ok(t).out
	require.Regexp(t, `shop +good +enqueue,read +acme`, list)
	require.NotContains(t, list, secret)
	require.NotContains(t, call(t, "token", "list", "--json").ok(t).out, secret)
	require.Eventually(t, func() bool {
		out := call(t, "refusal", "list", "--since", "1h").ok(t).out
		return regexp.MustCompile(`shop +POST /v1/jobs/\{space\}/\{id\}/cancel +acme +missing_scope`).MatchString(out) && strings.Contains(out, "unauthorized")
	}, 20*time.Second, 50*time.Millisecond)

	require.Equal(t, "shop revoked\n", call(t, "token", "revoke", "shop").ok(t).out)
	becomes(t, 401, "GET", url+"/v1/jobs/acme/j", secret, "")
	status, _ = request(t, "GET", url+"/v1/jobs/acme/j", "", "")
	require.Equal(t, 401, status, "the last one was revoked, and it stays closed")
	require.Regexp(t, `shop +revoked`, call(t, "token", "list").ok(t).out)
	require.Equal(t, exitOK, s.stop(t))
	require.NotContains(t, s.err.String(), secret)

	again := start(t, "serve", "--listen", "0.0.0.0:0")
	url = again.listening(t)
	status, _ = request(t, "GET", url+"/v1/jobs/acme/j", "", "")
	require.Equal(t, http.StatusUnauthorized, status, "what was closed once may listen everywhere")
	require.Equal(t, exitOK, again.stop(t))
}

func TestARateOfTheSettingsIsKept(t *testing.T) {
	serve(t)
	t.Setenv("JETCREW_API_RATE_SPACE", "2/1d")
	s := start(t, "serve", "--listen", "127.0.0.1:0")
	url := s.listening(t)
	for range 5 { // though midnight may come in between
		request(t, "GET", url+"/v1/jobs/acme/j", "", "")
	}
	status, body := request(t, "GET", url+"/v1/jobs/acme/j", "", "")
	require.Equal(t, 429, status, body)
	require.Contains(t, body, "rate_limited")
	require.Equal(t, exitOK, s.stop(t))
	require.Contains(t, call(t, "refusal", "list").ok(t).out, "rate_limited", "they are stored before the process ends")
}

func TestTokenCommandsRefuseWhatTheyCannotDo(t *testing.T) {
	serve(t)
	for flag, args := range map[string][]string{
		"--name":  {"token", "create", "--scope", "read"},
		"--scope": {"token", "create", "--name", "x"},
		"of read": {"token", "create", "--name", "x", "--scope", "write"},
		"--space": {"token", "create", "--name", "x", "--scope", "read", "--space", ""},
		"admin":   {"token", "create", "--name", "x", "--scope", "admin", "--space", "a"},
		"expires": {"token", "create", "--name", "x", "--scope", "read", "--expires", "1ms"},
		"--limit": {"refusal", "list", "--limit", "0"},
		"--since": {"refusal", "list", "--since", "-1h"},
	} {
		r := call(t, args...)
		require.Equal(t, exitUsage, r.code, args)
		require.Contains(t, r.err, flag)
	}
	require.Equal(t, exitNoJob, call(t, "token", "revoke", "nobody").code)
	require.Equal(t, exitNoJob, call(t, "refusal", "error", "aaaabbbbccccdddd").code)
	require.Contains(t, call(t, "refusal", "list").ok(t).err, "no requests were refused")
	var list struct{ Refusals []any }
	require.NoError(t, json.Unmarshal([]byte(call(t, "refusal", "list", "--json").ok(t).out), &list))
	require.NotNil(t, list.Refusals)

	doc, err := os.ReadFile("../../docs/http.md")
	require.NoError(t, err)
	help := call(t, "token", "create", "--help").ok(t).out
	for _, scope := range httpapi.Scopes() {
		require.Contains(t, help, "\n  "+string(scope)+" ")
		require.Contains(t, string(doc), "`"+string(scope)+"`")
	}
	r := callWith(t, apiToken, "serve", "hash-token", "--name", "x", "--scope", "read,enqueue").ok(t)
	require.Regexp(t, `^x:[0-9a-f]{64}::read,enqueue\n$`, r.out)
	r = callWith(t, apiToken, "serve", "hash-token", "--name", "x", "--scope", "write")
	require.Equal(t, exitUsage, r.code)
}
