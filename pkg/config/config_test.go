package config_test

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/jetcrew/jetcrew/pkg/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func load(t *testing.T, environ ...string) *config.Config {
	t.Helper()
	c, err := config.Load(environ, nil)
	require.NoError(t, err)
	return c
}

func TestNothingSetMeansTheDefaults(t *testing.T) {
	c := load(t, "PATH=/bin", "JETCREW_LEASE=")
	require.Equal(t, []string{config.DefaultURL}, c.URL)
	require.Equal(t, "jetcrew", c.Namespace)
	require.Equal(t, 1, c.Replicas)
	require.Equal(t, "create", c.Manage)
	require.Equal(t, map[string]int{"default": 4}, c.Queues.Map())
	require.Equal(t, 30*time.Second, c.Lease)
	require.Equal(t, 15*time.Minute, c.RetryMax)
	require.EqualValues(t, 168*time.Hour, c.RetentionDead)
	require.Empty(t, c.Warnings)
	for _, s := range c.Settings() {
		require.Equal(t, config.FromDefault, s.Source, s.Variable)
		require.NotEmpty(t, s.Description, s.Variable)
	}
}

func TestTheEnvironmentBeatsDefaultsAndFlagsBeatBoth(t *testing.T) {
	c, err := config.Load(
		[]string{"JETCREW_NAMESPACE=env", "JETCREW_LEASE=5s", "JETCREW_QUEUES=default, mail=10,odd=name=0", "JETCREW_CONCURRENCY=7"},
		map[string]config.Flag{"JETCREW_NAMESPACE": {Name: "--namespace", Value: "flag"}},
	)
	require.NoError(t, err)
	require.Equal(t, "flag", c.Namespace)
	require.Equal(t, config.FromFlag, c.Source("JETCREW_NAMESPACE"))
	require.Equal(t, config.FromEnvironment, c.Source("JETCREW_LEASE"))
	require.Equal(t, map[string]int{"default": 7, "mail": 10, "odd=name": 0}, c.Queues.Map())
}

func TestAContextReplacesTheURL(t *testing.T) {
	require.Empty(t, load(t, "JETCREW_CONTEXT=prod").URL)

	_, err := config.Load([]string{"JETCREW_CONTEXT=prod", "JETCREW_URL=nats://a"}, nil)
	require.ErrorContains(t, err, "JETCREW_CONTEXT: cannot be used together with JETCREW_URL")

	c, err := config.Load([]string{"JETCREW_URL=nats://a"}, map[string]config.Flag{"JETCREW_CONTEXT": {Name: "--context", Value: "prod"}})
	require.NoError(t, err)
	require.Equal(t, "prod", c.Context)
	require.Empty(t, c.URL)

	c, err = config.Load([]string{"JETCREW_CONTEXT=prod"}, map[string]config.Flag{"JETCREW_URL": {Name: "--url", Value: "nats://a"}})
	require.NoError(t, err)
	require.Empty(t, c.Context)
}

func TestGarbageIsRefusedByNameWithWhatIsAllowed(t *testing.T) {
	long := strings.Repeat("q", 5000)
	for variable, values := range map[string][]string{
		"JETCREW_URL":                 {"http://x", "nats://", "nats://a b", "nats://a,,nats://b", "://", "nats://[::1", "\x00"},
		"JETCREW_CREDENTIALS":         {"/does/not/exist", os.TempDir()},
		"JETCREW_NKEY":                {"/does/not/exist"},
		"JETCREW_TLS_CA":              {"/does/not/exist"},
		"JETCREW_INBOX_PREFIX":        {"a..b", "a.*", ">", "a b", ".a"},
		"JETCREW_NAMESPACE":           {"a.b", "*", ">", "a b", "UP", "ü", strings.Repeat("n", 33)},
		"JETCREW_REPLICAS":            {"0", "6", "-1", "x", "1.5", "99999999999999999999"},
		"JETCREW_MANAGE":              {"CREATE", "upgrade"},
		"JETCREW_RETENTION_SUCCEEDED": {"9m", "9m59s", "-1h", "-1ns", "-1d", "1.5d", "3651d", "24", "None", "no", "d"},
		"JETCREW_RETENTION_DEAD":      {"1s", "99999999999d"},
		"JETCREW_QUEUES":              {"=4", "a=-1", "a=x", "a,a", "a,,b", "a=99999999999", ",", long, "\xff"},
		"JETCREW_CONCURRENCY":         {"-1", "5001", "many"},
		"JETCREW_LEASE":               {"999ms", "0", "-30s", "soon", "30", "d", "1d-1h"},
		"JETCREW_TIMEOUT":             {"-1s", "x"},
		"JETCREW_GRACE":               {"0s", "x"},
		"JETCREW_MAX_STUCK":           {"0", "x"},
		"JETCREW_DRAIN_TIMEOUT":       {"-1s"},
		"JETCREW_RETRY_BASE":          {"0s", "-1s"},
		"JETCREW_RETRY_MAX":           {"1s", "x"},
		"JETCREW_LOG_LEVEL":           {"loud", "INFO"},
		"JETCREW_LOG_FORMAT":          {"xml"},
		"JETCREW_TRACING":             {"ON", "true", "otlp"},
	} {
		for _, value := range values {
			_, err := config.Load([]string{variable + "=" + value}, nil)
			require.Error(t, err, "%s=%q", variable, value)
			var e *config.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, variable, e.Variable, "%q", value)
			require.Contains(t, e.Reason, "must be", "%s=%q", variable, value)
			require.Less(t, len(err.Error()), 600)
			require.NotContains(t, err.Error(), "strconv", "%s=%q", variable, value)
		}
	}
}

func TestAllErrorsAreReportedTogether(t *testing.T) {
	_, err := config.Load(
		[]string{"JETCREW_LEASE=x", "JETCREW_REPLICAS=0", "JETCREW_PASSWORD=p", "JETCREW_TLS_KEY=/nope"},
		map[string]config.Flag{"JETCREW_NAMESPACE": {Name: "--namespace", Value: "a.b"}},
	)
	for _, want := range []string{
		"JETCREW_LEASE", "JETCREW_REPLICAS", "JETCREW_PASSWORD: needs JETCREW_USER", "JETCREW_TLS_KEY", "--namespace (JETCREW_NAMESPACE)",
	} {
		require.ErrorContains(t, err, want)
	}
}

func TestOneIdentityOnly(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	for _, environ := range [][]string{
		{"JETCREW_CREDENTIALS=" + file, "JETCREW_TOKEN=t"},
		{"JETCREW_USER=u", "JETCREW_NKEY=" + file},
		{"JETCREW_CONTEXT=c", "JETCREW_TOKEN=t"},
		{"JETCREW_TLS_CERT=" + file},
	} {
		_, err := config.Load(environ, nil)
		require.Error(t, err, environ)
	}
}

func TestAMisspeltVariableIsAWarningWithTheNearestName(t *testing.T) {
	c := load(t, "JETCREW_LAESE=5s", "JETCREW_PASWORD=canary-1", "JETCREWS=1")
	require.Len(t, c.Warnings, 2)
	require.Contains(t, c.Warnings[0], "JETCREW_LEASE")
	require.Contains(t, c.Warnings[1], "JETCREW_PASSWORD")
	require.NotContains(t, strings.Join(c.Warnings, "\n"), "canary-1")

	c = load(t, "JETCREW_COLOUR_SCHEME=dark")
	require.Equal(t, []string{`the environment sets "JETCREW_COLOUR_SCHEME", which does not exist and is ignored`}, c.Warnings,
		"nothing is near")
}

func TestSecretsAreNeverShown(t *testing.T) {
	const canary = "canary-s3cr3t"
	c := load(t,
		"JETCREW_URL=nats://user:"+canary+"@a:4222,tls://"+canary+"@b,c:4222",
		"JETCREW_USER=u", "JETCREW_PASSWORD="+canary)
	b, err := json.Marshal(c.Settings())
	require.NoError(t, err)
	require.NotContains(t, string(b), canary)
	shown := make(map[string]string)
	for _, s := range c.Settings() {
		shown[s.Variable] = s.Value
	}
	require.Equal(t, "nats://a:4222,tls://b,c:4222", shown["JETCREW_URL"])
	require.Equal(t, config.Secret, shown["JETCREW_PASSWORD"])
	require.Empty(t, shown["JETCREW_TOKEN"])

	for _, bad := range []string{
		"http://user:" + canary + "@a", "nats://user:" + canary + "@", "nats://u:" + canary + "@a:b:c", "nats://u:" + canary + "%zz@a",
	} {
		_, err := config.Load([]string{"JETCREW_URL=" + bad}, nil)
		require.Error(t, err, bad)
		require.NotContains(t, err.Error(), canary)
		require.NotContains(t, config.RedactURL(bad), canary)
	}
}

func FuzzLoad(f *testing.F) {
	known := make(map[string]bool)
	for _, s := range must(config.Load(nil, nil)).Settings() {
		known[s.Variable] = true
	}
	for _, v := range slices.Sorted(maps.Keys(known)) {
		f.Add(v, "default=4,mail=10")
	}
	f.Fuzz(func(t *testing.T, variable, value string) {
		c, err := config.Load([]string{variable + "=" + value}, nil)
		if err == nil {
			require.Len(t, c.Settings(), len(known))
			return
		}
		var e *config.Error
		require.True(t, errors.As(err, &e), "%v", err)
		require.True(t, known[e.Variable], "%q", e.Variable)
	})
}

func must(c *config.Config, err error) *config.Config {
	if err != nil {
		panic(err)
	}
	return c
}
