package streams

import (
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// Headers by which a job's trace goes along from each of its messages to the next, as W3C Trace Context names them. The
// names' case is their writer's: HTTP libraries write capitals.
const (
	headerTraceParent = "traceparent"
	headerTraceState  = "tracestate"

	headerTraceParentHTTP = "Traceparent"
	headerTraceStateHTTP  = "Tracestate"
)

// traceOf reads a message's trace. What is not well-formed is none.
func traceOf(h nats.Header) job.Trace {
	parent := either(h, headerTraceParent, headerTraceParentHTTP)
	if len(parent) != 1 { // of several, none can be trusted
		return job.Trace{}
	}
	return job.NewTrace(parent[0], strings.Join(either(h, headerTraceState, headerTraceStateHTTP), ","))
}

func either(h nats.Header, name, other string) []string {
	if v := h[name]; len(v) > 0 {
		return v
	}
	return h[other]
}

// setTrace writes a job's trace, if it has one.
func setTrace(h nats.Header, t job.Trace) {
	if t.Parent == "" {
		return
	}
	h[headerTraceParent] = []string{t.Parent}
	if t.State != "" {
		h[headerTraceState] = []string{t.State}
	}
}
