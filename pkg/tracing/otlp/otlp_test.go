package otlp

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const canary = "canary-5cfae1"

// collector takes spans, or refuses them.
type collector struct {
	mu     sync.Mutex
	status int
	paths  []string
	bodies string
	log    strings.Builder
	dumb   chan struct{} // it does not answer until this is closed
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if c.dumb != nil {
		<-c.dumb
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && c.status == 0 {
		c.paths = append(c.paths, r.URL.Path)
		c.bodies += string(body)
	}
	if c.status != 0 {
		http.Error(w, "no", c.status)
	}
}

func (c *collector) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.Write(b)
}

func (c *collector) says(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status = status
}

// started is an exporter whose environment names a collector.
func started(t *testing.T, c *collector, environ ...string) *Exporter {
	t.Helper()
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "OTEL_") {
			t.Setenv(name, "")
		}
	}
	srv := httptest.NewServer(c)
	t.Cleanup(srv.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", srv.URL)
	for _, v := range environ {
		if name, value, found := strings.Cut(v, "="); found {
			t.Setenv(name, value)
		}
	}
	e, err := Start(t.Context(), Config{Version: "v1.2.3", Logger: zerolog.New(c)})
	require.NoError(t, err)
	return e
}

func (e *Exporter) make(name string) {
	_, span := e.Provider().Tracer("test").Start(context.Background(), name, trace.WithAttributes(attribute.String("a", "b")))
	span.End()
}

func closed(t *testing.T, e *Exporter) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, e.Close(ctx))
}

func TestSpansReachTheCollector(t *testing.T) {
	var c collector
	e := started(t, &c, "OTEL_RESOURCE_ATTRIBUTES=deployment.environment=blue")
	e.make("a span of ours")
	closed(t, e)
	require.Equal(t, []string{"/v1/traces"}, c.paths)
	for _, want := range []string{"a span of ours", DefaultService, "v1.2.3", "deployment.environment", "blue"} {
		require.Contains(t, c.bodies, want)
	}
}

func TestTheEnvironmentNamesTheService(t *testing.T) {
	var c collector
	e := started(t, &c, "OTEL_SERVICE_NAME=mailer", "OTEL_TRACES_SAMPLER=always_on")
	e.make("a span")
	closed(t, e)
	require.Contains(t, c.bodies, "mailer")
}

// An outage is told of once, whatever it costs in spans, and again when it is over.
func TestAnOutageIsToldOfOnce(t *testing.T) {
	var c collector
	e := started(t, &c)
	for _, status := range []int{http.StatusBadRequest, http.StatusBadRequest, 0, 0, http.StatusBadRequest} {
		c.says(status)
		e.make(canary)
		require.NoError(t, e.provider.ForceFlush(t.Context()), "an outage is nobody's error")
	}
	closed(t, e)
	log := c.log.String()
	require.Equal(t, 2, strings.Count(log, "cannot be sent"), log)
	require.Equal(t, 1, strings.Count(log, `"lost":2`), log)
	require.NotContains(t, log, canary)
}

// Whether nobody is there, or somebody who does not answer, it ends.
func TestAnExitDoesNotWaitForACollectorThatIsGone(t *testing.T) {
	for name, environ := range map[string]string{"gone": "OTEL_EXPORTER_OTLP_ENDPOINT=http://user:" + canary + "@127.0.0.1:1", "dumb": ""} {
		t.Run(name, func(t *testing.T) {
			c := collector{dumb: make(chan struct{})}
			e := started(t, &c, environ)
			t.Cleanup(func() { close(c.dumb) }) // before the server is closed, which waits for its requests
			e.make("a span")
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			if err := e.Close(ctx); err != nil {
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			require.NotContains(t, c.log.String(), canary)
		})
	}
}

func TestAskingAndForbidding(t *testing.T) {
	t.Parallel()
	env := func(environ ...string) func(string) string {
		return func(name string) string {
			for _, v := range environ {
				if value, ok := strings.CutPrefix(v, name+"="); ok {
					return value
				}
			}
			return ""
		}
	}
	require.False(t, Asked(env()))
	require.False(t, Asked(env("OTEL_EXPORTER_OTLP_ENDPOINT=", "OTEL_SERVICE_NAME=x")))
	require.True(t, Asked(env("OTEL_EXPORTER_OTLP_ENDPOINT=http://a")))
	require.True(t, Asked(env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://a")))
	require.False(t, Forbidden(env()))
	require.True(t, Forbidden(env("OTEL_SDK_DISABLED=TRUE")))
	require.True(t, Forbidden(env("OTEL_TRACES_EXPORTER=none")))

	for _, fine := range [][]string{
		nil,
		{"OTEL_EXPORTER_OTLP_ENDPOINT=https://user:pw@collector.example:4318/base", "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=garbage", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://a"}, // the one does not count
		{"OTEL_TRACES_SAMPLER=parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG=0.25"},
		{"OTEL_TRACES_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_COMPRESSION=gzip", "OTEL_BSP_SCHEDULE_DELAY=100"},
	} {
		require.NoError(t, Check(env(fine...)), fine)
	}
	for variable, values := range map[string][]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT":           {canary, "collector:4317", "grpc://" + canary, "http://", "/" + canary, "http://a b", "\x00"},
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT":    {canary},
		"OTEL_EXPORTER_OTLP_PROTOCOL":           {"grpc", "http/json", canary},
		"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL":    {"grpc"},
		"OTEL_EXPORTER_OTLP_COMPRESSION":        {canary},
		"OTEL_TRACES_EXPORTER":                  {"console", canary},
		"OTEL_TRACES_SAMPLER":                   {"sometimes", canary},
		"OTEL_EXPORTER_OTLP_TIMEOUT":            {"10s", "-1", "0", "1.5", strings.Repeat("9", 99)},
		"OTEL_BSP_MAX_QUEUE_SIZE":               {"0", canary},
		"OTEL_EXPORTER_OTLP_TRACES_COMPRESSION": {"zstd"},
	} {
		for _, value := range values {
			err := Check(env(variable + "=" + value))
			var wrong *VariableError
			require.ErrorAs(t, err, &wrong, "%s=%s", variable, value)
			require.Equal(t, variable, wrong.Variable)
			require.Contains(t, err.Error(), "must be")
			require.NotContains(t, err.Error(), canary)
		}
	}
	for _, arg := range []string{"2", "-0.1", "NaN", "x"} {
		require.ErrorContains(t, Check(env("OTEL_TRACES_SAMPLER=traceidratio", "OTEL_TRACES_SAMPLER_ARG="+arg)), "OTEL_TRACES_SAMPLER_ARG: must be")
	}
}

func TestStartRefusesWhatIsWrong(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", canary)
	_, err := Start(t.Context(), Config{})
	require.ErrorContains(t, err, "OTEL_EXPORTER_OTLP_ENDPOINT")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", canary)
	_, err = Start(t.Context(), Config{})
	require.ErrorContains(t, err, "OTEL_RESOURCE_ATTRIBUTES: must be")
	require.NotContains(t, err.Error(), canary)
}
