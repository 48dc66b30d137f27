package httpapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// A trace is no member of a job's.
func TestATraceInABodyIsRefused(t *testing.T) {
	t.Parallel()
	s := serveTest(t)
	for _, name := range []string{"-", "trace", "Trace"} {
		got := s.ask("POST", "/v1/jobs", `{"type":"t","`+name+`":{"Parent":"`+parent+`"}}`)
		require.Equal(t, http.StatusUnprocessableEntity, got.status, got.body)
	}
}

func added(name, value string) with {
	return func(r *http.Request) { r.Header.Add(name, value) }
}

// The jobs of a request come from what the request says it belongs to; garbage is none, and refuses nothing.
func TestARequestsTraceIsItsJobs(t *testing.T) {
	t.Parallel()
	s := serveTest(t)
	for name, c := range map[string]struct {
		headers []with
		want    job.Trace
	}{
		"none":       {nil, job.Trace{}},
		"parent":     {[]with{added("traceparent", parent)}, job.Trace{Parent: parent}},
		"state":      {[]with{added("traceparent", parent), added("tracestate", "a=1"), added("tracestate", "b=2")}, job.Trace{Parent: parent, State: "a=1,b=2"}},
		"two":        {[]with{added("traceparent", parent), added("traceparent", parent)}, job.Trace{}},
		"garbage":    {[]with{added("traceparent", "garbage"), added("tracestate", "a=1")}, job.Trace{}},
		"long":       {[]with{added("traceparent", parent), added("tracestate", "a="+strings.Repeat("x", 600))}, job.Trace{Parent: parent}},
		"state only": {[]with{added("tracestate", "a=1")}, job.Trace{}},
	} {
		got := s.ask("POST", "/v1/jobs", `{"type":"t","id":"`+name+`"}`, c.headers...)
		require.Equal(t, http.StatusCreated, got.status, got.body)
		got = s.ask("POST", "/v1/jobs/bulk", `{"jobs":[{"type":"t","id":"`+name+`-1"},{"type":"t","id":"`+name+`-2"}]}`, c.headers...)
		require.Equal(t, http.StatusOK, got.status, got.body)
		for _, id := range []string{name, name + "-1", name + "-2"} {
			j, err := s.store.Get(t.Context(), job.Key{Space: "default", ID: id})
			require.NoError(t, err)
			require.Equal(t, c.want, j.Trace, id)
		}
	}
}
