package tracing

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/httpapi"
	"github.com/jetcrew/jetcrew/pkg/job"
)

func lastMessage(t *testing.T, c *client.Client, subject string) (nats.Header, error) {
	t.Helper()
	js, err := jetstream.New(c.Conn())
	require.NoError(t, err)
	stream, err := js.Stream(t.Context(), "JETCREW_JOBS")
	require.NoError(t, err)
	m, err := stream.GetLastMsgForSubject(t.Context(), subject)
	if err != nil {
		return nil, err
	}
	return m.Header, nil
}

// From the producer through a first attempt, its retry on another worker, and a job that the handler puts in, it is one
// trace, whoever makes the spans; and nothing of a job's own is in it.
func TestAJobIsOneTraceFromItsProducerToItsEnd(t *testing.T) {
	t.Parallel()
	url := natstest.Embedded(t).URL()
	s, other := look(t), look(t) // two processes, say, with a provider of their own each
	c := connect(t, url, s)
	ctx, request := s.provider.Tracer("test").Start(t.Context(), "request")
	in := map[string]string{"password": canary}
	e, err := c.Enqueue(ctx, "welcome", in, client.WithQueue("mail"), client.WithID("1"), client.WithMaxAttempts(2))
	require.NoError(t, err)
	request.End()

	stop := work(t, connect(t, url, nil).Store(), s, func(context.Context, *job.Job) (any, error) {
		return nil, job.RetryAfter(time.Hour, errors.New("password="+canary))
	})
	first := s.await("settle mail", 1)[0]
	stop()

	second := connect(t, url, other)
	work(t, second.Store(), other, func(ctx context.Context, j *job.Job) (any, error) {
		if j.Type == "child" {
			return nil, nil
		}
		_, err := second.Enqueue(ctx, "child", nil, client.WithQueue("mail"), client.WithID("2"))
		return canary, err
	})
	changed, err := c.RunNow(t.Context(), e.Key)
	require.NoError(t, err)
	require.True(t, changed.Done)
	settled := other.await("settle mail", 2)

	enqueue := s.named("enqueue mail")[0]
	under(t, enqueue, request.SpanContext())
	require.Equal(t, trace.SpanKindProducer, enqueue.SpanKind)
	for key, want := range map[string]string{
		"messaging.system": "jetcrew", "messaging.operation.name": "enqueue", "messaging.operation.type": "send",
		"messaging.destination.name": "mail", "messaging.message.id": "1",
		"jetcrew.job.space": "default", "jetcrew.job.type": "welcome", "jetcrew.job.trigger": "custom", "jetcrew.created": "1",
	} {
		require.Equal(t, want, attr(t, enqueue, key), key)
	}
	require.Equal(t, codes.Unset, enqueue.Status.Code)

	failed := s.named("process mail")[0]
	under(t, failed, enqueue.SpanContext)
	require.True(t, failed.Parent.IsRemote())
	require.Equal(t, trace.SpanKindConsumer, failed.SpanKind)
	for key, want := range map[string]string{
		"messaging.operation.type": "process", "messaging.destination.name": "mail", "messaging.message.id": "1",
		"jetcrew.job.type": "welcome", "jetcrew.job.attempt": "1", "jetcrew.job.max_attempts": "2", "jetcrew.outcome": "retried",
	} {
		require.Equal(t, want, attr(t, failed, key), key)
	}
	isError(t, failed, "retried")
	under(t, first, failed.SpanContext)
	require.Equal(t, trace.SpanKindClient, first.SpanKind)
	require.Equal(t, "retried", attr(t, first, "jetcrew.outcome"))
	require.Equal(t, codes.Unset, first.Status.Code, "what failed is written well")
	require.False(t, first.StartTime.Before(failed.StartTime))

	processed := other.named("process mail")
	done, child := processed[0], processed[1]
	if attr(t, done, "messaging.message.id") == "2" {
		done, child = child, done
	}
	under(t, done, enqueue.SpanContext)
	require.Equal(t, "2", attr(t, done, "jetcrew.job.attempt"))
	require.Equal(t, "succeeded", attr(t, done, "jetcrew.outcome"))
	require.Equal(t, codes.Unset, done.Status.Code)
	again := other.named("enqueue mail")[0]
	under(t, again, done.SpanContext)
	under(t, child, again.SpanContext)
	require.Len(t, settled, 2)
	for _, span := range settled {
		of := done
		if attr(t, span, "messaging.message.id") == "2" {
			of = child
		}
		under(t, span, of.SpanContext)
	}
	s.tellsNothing()
	other.tellsNothing()

	doc, err := os.ReadFile("../../docs/tracing.md")
	require.NoError(t, err)
	for _, span := range append(s.GetSpans(), other.GetSpans()...) {
		for _, a := range span.Attributes {
			require.Contains(t, string(doc), "`"+string(a.Key)+"`", "each attribute is in the documentation")
		}
	}
}

// An HTTP request's trace goes on in the jobs that it puts in.
func TestARequestOverHTTPIsContinued(t *testing.T) {
	t.Parallel()
	s := look(t)
	c := connect(t, natstest.Embedded(t).URL(), s)
	h, err := httpapi.New(httpapi.Config{Jobs: c})
	require.NoError(t, err)
	for path, body := range map[string]string{
		"/v1/jobs":      `{"type":"welcome","queue":"mail","id":"1","input":{"password":"` + canary + `"}}`,
		"/v1/jobs/bulk": `{"jobs":[{"type":"welcome","queue":"mail","id":"2"},{"type":"welcome","queue":"mail","id":"3"}]}`,
	} {
		r := httptest.NewRequest(http.MethodPost, "http://localhost"+path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("traceparent", parent)
		r.Header.Set("tracestate", "vendor=some")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Less(t, w.Code, 300, w.Body)
	}
	for _, span := range s.await("enqueue mail", 2) {
		require.Equal(t, traceID, span.SpanContext.TraceID().String())
		require.Equal(t, spanID, span.Parent.SpanID().String())
	}
	work(t, c.Store(), s, func(context.Context, *job.Job) (any, error) { return nil, nil })
	for _, span := range s.await("process mail", 3) {
		require.Equal(t, traceID, span.SpanContext.TraceID().String())
		require.Equal(t, "vendor=some", span.SpanContext.TraceState().String())
	}
	s.tellsNothing()
}

// A producer without any of this takes part by a header; one whose header is garbage, or that has none, begins nothing
// that fails.
func TestAPlainProducerTakesPart(t *testing.T) {
	t.Parallel()
	s := look(t)
	c := connect(t, natstest.Embedded(t).URL(), nil)
	js, err := jetstream.New(c.Conn())
	require.NoError(t, err)
	work(t, c.Store(), s, func(ctx context.Context, j *job.Job) (any, error) {
		if Of(ctx) != j.Trace || !within(ctx) {
			return nil, job.GiveUp(errors.New("the job's trace is not what is going on"))
		}
		return nil, nil
	})
	for id, header := range map[string]nats.Header{
		"traced":  {"traceparent": {parent}, "tracestate": {"vendor=some"}},
		"garbage": {"traceparent": {"00-" + canary + "-01"}, "tracestate": {canary}},
		"long":    {"traceparent": {parent + strings.Repeat("0", 10_000)}},
		"none":    nil,
	} {
		_, err := js.PublishMsg(t.Context(), &nats.Msg{
			Subject: "jetcrew.job.ready.mail.default." + id, Header: header, Data: []byte(`{"type":"welcome"}`),
		})
		require.NoError(t, err)
	}
	for _, span := range s.await("process mail", 4) {
		require.Equal(t, "succeeded", attr(t, span, "jetcrew.outcome"))
		if attr(t, span, "messaging.message.id") == "traced" {
			require.Equal(t, traceID, span.SpanContext.TraceID().String())
			require.Equal(t, spanID, span.Parent.SpanID().String())
			continue
		}
		require.NotEqual(t, traceID, span.SpanContext.TraceID().String())
		require.False(t, span.Parent.IsValid(), "it begins a trace")
	}
	s.tellsNothing()
}

// Off, it leaves no header and makes no span; what a producer sends along is passed on all the same.
func TestOffItLeavesNothing(t *testing.T) {
	t.Parallel()
	s := look(t)
	c := connect(t, natstest.Embedded(t).URL(), nil)
	ctx, span := s.provider.Tracer("test").Start(t.Context(), "request")
	defer span.End()
	untraced, err := c.Enqueue(ctx, "welcome", nil, client.WithQueue("mail"), client.WithID("1"))
	require.NoError(t, err)
	traced, err := c.EnqueueSpec(ctx, job.Spec{Queue: "mail", ID: "2", Type: "welcome", Trace: job.Trace{Parent: parent}})
	require.NoError(t, err)
	work(t, c.Store(), nil, func(ctx context.Context, _ *job.Job) (any, error) {
		if within(ctx) {
			return nil, job.GiveUp(errors.New("there is a span"))
		}
		return nil, nil
	})
	for _, key := range []job.Key{untraced.Key, traced.Key} {
		j, err := c.Wait(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, job.Succeeded, j.Status, j.Error)
	}
	for name := range headersOf(t, c, untraced.Key) {
		require.NotContains(t, strings.ToLower(name), "trace")
	}
	require.Equal(t, []string{parent}, headersOf(t, c, traced.Key)["traceparent"])
	require.Empty(t, s.GetSpans())
}
