package httpapi

import (
	"net/http"
	"strings"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// traceOf is what a request says it belongs to, which its jobs come from. What is not well-formed is none.
func traceOf(h http.Header) job.Trace {
	parent := h.Values("Traceparent")
	if len(parent) != 1 { // of several, none can be trusted
		return job.Trace{}
	}
	return job.NewTrace(parent[0], strings.Join(h.Values("Tracestate"), ","))
}
