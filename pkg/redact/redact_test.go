package redact_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/redact"
)

func TestSecretsAreTakenOut(t *testing.T) {
	const s = "canary-9f3a" // what must not be seen
	for _, text := range []string{
		"dial nats://user:" + s + "@host:4222 failed",
		"see https://" + s + "@host/path",
		"Authorization: Bearer " + s,
		`{"authorization":"Basic ` + s + `"}`,
		"curl -H 'authorization: " + s + "'",
		"used bearer " + s + "0123",
		"Cookie: session=" + s + "; other=1",
		"Set-Cookie: a=" + s,
		"password=" + s,
		"DB_PASSWORD: " + s,
		`{"apiKey": "` + s + `", "n": 1}`,
		`{"client_secret":"x \" ` + s + `"}`,
		"token='" + s + "'",
		"?access_token=" + s + "&n=1",
		"AWS_SECRET_ACCESS_KEY=" + s,
		"whsec_" + s,
		"eyJhbGciOiJIUzI1NiJ9." + s + ".sig",
	} {
		got := redact.Text(text)
		require.NotContains(t, got, s, text)
		require.Contains(t, got, redact.Mark, text)
	}
	seed := "SU" + strings.Repeat("A", 56)
	require.NotContains(t, redact.Text("seed "+seed+" used"), seed)
}

func TestOrdinaryTextStays(t *testing.T) {
	for _, text := range []string{
		"", "card declined", "open /tmp/x: no such file or directory", "GET https://example.com/a?b=c 500",
		"user ann@example.com not found", "the secretary wrote", "line 3: unexpected token", "a\tb\nc",
		"took 3s: 5 of 7 keys copied", "retry-after: 30s",
	} {
		require.Equal(t, text, redact.Text(text))
	}
}

func TestKnownValuesAreTakenOutAnywhere(t *testing.T) {
	f := redact.Values("hunter22", "hunter22-long", "abc", "")
	require.Equal(t, "x"+redact.Mark+"y "+redact.Mark+" abc", f("xhunter22y hunter22-long abc"))
	require.True(t, redact.SecretName("AWS_SECRET_ACCESS_KEY"))
	require.False(t, redact.SecretName("AWS_REGION"))
}
