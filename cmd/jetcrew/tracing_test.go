package main

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

const (
	traceID     = "0af7651916cd43dd8448eb211c80319c"
	traceParent = "00-" + traceID + "-b7ad6b7169203331-01"
)

// collector starts a collector of spans, and answers what it has got.
func collector(t *testing.T) (url string, got *lockedBuffer) {
	t.Helper()
	got = &lockedBuffer{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(got, r.Body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL, got
}

// From the shell that enqueues to the program that a worker runs, it is one trace, and a schedule's fire is another.
func TestATraceGoesThroughTheCommands(t *testing.T) {
	serve(t)
	url, got := collector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
	t.Setenv("TRACEPARENT", traceParent)
	w := start(t, "work", "--exec", "t=printenv TRACEPARENT")
	w.waitFor(t, "working")
	r := call(t, "enqueue", "t", "--id", "one", "--input", `{"password":"canary-1"}`, "--wait").ok(t)
	require.Regexp(t, `^00-`+traceID+`-[0-9a-f]{16}-0[13]\n$`, r.out, "the program continues it")
	require.NotContains(t, r.out, "b7ad6b7169203331")
	callWith(t, `{"type":"t","id":"filed"}`, "enqueue", "--file", "-").ok(t)
	call(t, "schedule", "put", "tick", "--type", "t", "--cron", "@every 1s").ok(t)
	require.Eventually(t, func() bool { return strings.Contains(got.String(), "tick@") }, time.Minute, 20*time.Millisecond, w.err)
	get(t, "succeeded", "filed")
	require.Zero(t, w.stop(t))
	for _, span := range []string{"enqueue default", "process default", "settle default"} {
		require.Contains(t, got.String(), span)
	}
	id, err := hex.DecodeString(traceID)
	require.NoError(t, err)
	// The enqueue, the attempt and its settling of two jobs; the fires are no part of it.
	require.Equal(t, 6, strings.Count(got.String(), string(id)))
	require.NotContains(t, got.String(), "canary-1")
}

// headers are those of the message of a job that waits.
func headers(t *testing.T, url, id string) nats.Header {
	t.Helper()
	nc, err := nats.Connect(url)
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	s, err := js.Stream(t.Context(), "JETCREW_JOBS")
	require.NoError(t, err)
	m, err := s.GetLastMsgForSubject(t.Context(), "jetcrew.job.ready.default.default."+id)
	require.NoError(t, err)
	return m.Header
}

func TestNothingIsTracedUnlessItIsAskedFor(t *testing.T) {
	server := serve(t)
	url, got := collector(t)
	for id, environ := range map[string]map[string]string{
		"plain":     nil,
		"off":       {"JETCREW_TRACING": "off", "OTEL_EXPORTER_OTLP_ENDPOINT": url},
		"forbidden": {"JETCREW_TRACING": "on", "OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_SDK_DISABLED": "true"},
		"none":      {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_TRACES_EXPORTER": "none"},
	} {
		t.Run(id, func(t *testing.T) {
			for name, value := range environ {
				t.Setenv(name, value)
			}
			r := call(t, "enqueue", "t", "--id", id).ok(t)
			require.Empty(t, r.err)
			for name := range headers(t, server, id) {
				require.NotContains(t, strings.ToLower(name), "trace")
			}
		})
	}
	require.Empty(t, got.String())
}

// What OpenTelemetry's variables say is for other programs, too: it fails a command only if that was told to trace.
func TestAWrongVariableIsNamed(t *testing.T) {
	server := serve(t)
	url, got := collector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	r := call(t, "enqueue", "t", "--id", "1").ok(t)
	require.Contains(t, r.err, "OTEL_EXPORTER_OTLP_PROTOCOL: must be http/protobuf")
	require.NotContains(t, headers(t, server, "1"), "traceparent")

	t.Setenv("JETCREW_TRACING", "on")
	r = call(t, "enqueue", "t", "--id", "2")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.err, "OTEL_EXPORTER_OTLP_PROTOCOL: must be http/protobuf")

	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	require.Equal(t, exitNoJob, call(t, "job", "get", "2").code, "it was not put in untraced")
	call(t, "enqueue", "t", "--id", "3").ok(t)
	require.Contains(t, headers(t, server, "3"), "traceparent")
	require.Contains(t, got.String(), "enqueue default")
}
