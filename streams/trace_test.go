package streams

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

var aTrace = job.Trace{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", State: "vendor=some,other@sys=1"}

// traced is a spec of a job that comes from somewhere.
func traced(queue, id string) job.Spec {
	s := spec(queue, id)
	s.Trace = aTrace
	return s
}

// carries checks that the job's newest message has the trace in its headers, and in no document.
func (n *node) carries(key job.Key, want job.Trace) {
	n.t.Helper()
	m := n.newestMessage(key)
	require.Equal(n.t, want.Parent, strings.Join(m.header[headerTraceParent], "|"), m.subject)
	require.Equal(n.t, want.State, strings.Join(m.header[headerTraceState], "|"), m.subject)
	require.NotContains(n.t, string(m.data), "0af7651916cd43dd8448eb211c80319c", m.subject)
}

// Whoever writes the next message of a job, its trace goes along.
func TestATraceGoesAlongFromMessageToMessage(t *testing.T) {
	t.Parallel()
	p := server(t)
	n, other := p.open(t), p.open(t)
	c := n.work("q", "w")
	key := n.enqueue(traced("q", "1"))
	n.carries(key, aTrace)

	cl := claimOne(t, c)
	require.Equal(t, aTrace, cl.Job().Trace)
	n.see(key, job.Running)
	n.carries(key, aTrace)
	cl.ReportProgress(1, "")
	require.NoError(t, cl.Heartbeat(t.Context()))
	n.carries(key, aTrace)

	settle(t, cl, job.Fail(time.Hour, "no luck"))
	require.Equal(t, stateDue, newest(n.docs(key)).state)
	n.carries(key, aTrace)
	require.True(t, other.steer(job.OpRunNow, key).Done)
	n.carries(key, aTrace)

	cl = claimOne(t, c)
	require.Equal(t, aTrace, cl.Job().Trace)
	settle(t, cl, job.HandBack(200*time.Millisecond, "not now")) // and a wake moves it
	cl = claimOne(t, c)
	n.requestCancel(key)
	n.carries(key, aTrace)
	require.Equal(t, aTrace, settle(t, cl, job.Succeed(nil)).Trace)
	n.carries(key, aTrace)

	require.True(t, other.steer(job.OpRequeue, key).Done)
	n.carries(key, aTrace)
	cl = claimOne(t, c)
	settle(t, cl, job.Fail(time.Hour, ""))
	require.True(t, other.steer(job.OpCancel, key).Done)
	require.Equal(t, aTrace, n.see(key, job.Cancelled).Trace)
	n.carries(key, aTrace)
	require.True(t, other.steer(job.OpDelete, key).Done)
	n.carries(key, job.Trace{})
}

// What other writers do when a worker is gone keeps the trace as well.
func TestATraceOutlivesAWorker(t *testing.T) {
	t.Parallel()
	p := server(t)
	n := p.open(t)
	dying := p.dying(t, BeforeSettle)
	swept, taken := n.enqueue(traced("swept", "1")), n.enqueue(traced("taken", "1"))
	claimOne(t, dying.work("swept", "first"))
	claimOne(t, dying.work("taken", "first"))
	n.see(taken, job.Running)
	n.loseReady(swept)
	dying.crash()

	cl := claimOne(t, n.work("taken", "second")) // it takes the claim over
	require.Equal(t, aTrace, cl.Job().Trace)
	n.carries(taken, aTrace)
	require.Equal(t, SweepReport{LostReady: 1}, n.sweepUntil()) // housekeeping writes it anew
	require.Equal(t, stateReady, newest(n.docs(swept)).state)
	n.carries(swept, aTrace)
}

func TestManyJobsHaveTracesOfTheirOwn(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	second := traced("q", "2")
	second.Trace = job.Trace{Parent: strings.Replace(aTrace.Parent, "0af", "1bf", 1)}
	for name, put := range map[string]func([]job.Spec) ([]job.Enqueued, error){
		"many": func(s []job.Spec) ([]job.Enqueued, error) { return n.EnqueueMany(t.Context(), s) },
		"all":  func(s []job.Spec) ([]job.Enqueued, error) { return n.EnqueueAll(t.Context(), s) },
	} {
		specs := []job.Spec{traced(name, "1"), second, spec(name, "3")}
		specs[1].Queue = name
		specs[1].Delay = time.Hour
		_, err := put(specs)
		require.NoError(t, err)
		n.carries(keyOf(name, "1"), aTrace)
		n.carries(keyOf(name, "2"), second.Trace)
		n.carries(keyOf(name, "3"), job.Trace{})
	}
}

// A plain producer takes part by the headers of its message. What is wrong with them costs the job nothing, and goes
// no further.
func TestAPlainProducersTraceIsTakenIfItIsOne(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	c := n.work("q", "w")
	long := "a=" + strings.Repeat("x", 256) + ",b=" + strings.Repeat("x", 256)
	for name, x := range map[string]struct {
		header nats.Header
		want   job.Trace
	}{
		"lower":      {nats.Header{"traceparent": {aTrace.Parent}, "tracestate": {aTrace.State}}, aTrace},
		"http":       {nats.Header{"Traceparent": {aTrace.Parent}, "Tracestate": {aTrace.State}}, aTrace},
		"two states": {nats.Header{"traceparent": {aTrace.Parent}, "tracestate": {"a=1", "b=2"}}, job.Trace{Parent: aTrace.Parent, State: "a=1,b=2"}},
		"two":        {nats.Header{"traceparent": {aTrace.Parent, aTrace.Parent}}, job.Trace{}},
		"garbage":    {nats.Header{"traceparent": {"\x01garbage"}, "tracestate": {aTrace.State}}, job.Trace{}},
		"long":       {nats.Header{"traceparent": {aTrace.Parent}, "tracestate": {long}}, job.Trace{Parent: aTrace.Parent}},
		"huge":       {nats.Header{"traceparent": {aTrace.Parent + strings.Repeat("-00", 10_000)}}, job.Trace{}},
		"orphan":     {nats.Header{"tracestate": {aTrace.State}}, job.Trace{}},
		"none":       {nil, job.Trace{}},
	} {
		key := keyOf("q", name)
		_, err := n.js.PublishMsg(t.Context(), &nats.Msg{Subject: n.readySubject(key), Header: x.header, Data: []byte(`{"type":"t"}`)})
		require.NoError(t, err, name)
		cl := claimOne(t, c)
		require.Equal(t, name, cl.Job().ID)
		require.Equal(t, x.want, cl.Job().Trace, name)
		require.Equal(t, job.Succeeded, settle(t, cl, job.Succeed(nil)).Status, name)
		n.carries(key, x.want)
		require.Empty(t, n.newestMessage(key).header[headerTraceParentHTTP], name)
	}
}

// A job is as large as it is, traced or not: where both do not fit, the trace is left out.
func TestATraceThatDoesNotFitIsLeftOut(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	s := spec("q", "1")
	largest := func(s job.Spec) (size int) {
		t.Helper()
		low, high := 1, int(n.nc.MaxPayload()) // it fits with low, and not with high
		for high-low > 1 {
			size = (low + high) / 2
			s.Input = []byte(`{"x":"` + strings.Repeat("x", size) + `"}`)
			e, err := n.newEnqueue(s)
			require.NoError(t, err)
			if _, err = n.message(e.write()); err == nil {
				low = size
			} else {
				high = size
			}
		}
		return low
	}
	size := largest(s)
	require.Equal(t, size, largest(traced("q", "1")))

	s = traced("q", "1")
	s.Input = []byte(`{"x":"` + strings.Repeat("x", size) + `"}`)
	key := n.enqueue(s)
	n.carries(key, job.Trace{})
	s = traced("q", "2")
	s.Input = []byte(`{"x":"` + strings.Repeat("x", size-1024) + `"}`)
	n.carries(n.enqueue(s), aTrace)
}
