package metrics

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jetcrew/jetcrew/pkg/httpapi"
)

func (m *Metrics) measureHTTP() {
	m.requests = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "http_requests_total",
		Help: "Requests that the API answered, by the operation and its method (none: there is none for the path) and the class of the status.",
	}, []string{"operation", "method", "status"})
	m.refused = prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "http_refusals_total",
		Help: "Requests that the API refused or failed at, by the operation and the problem's code.",
	}, []string{"operation", "code"})
	m.answer = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: "http_request_seconds", Help: "How long the API took for an answer, by the operation.",
		Buckets: prometheus.ExponentialBuckets(0.001, 3, 11), // 1 ms to 59 s
	}, []string{"operation"})
	m.inFlight = prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Name: "http_requests_in_flight", Help: "Requests to the API that wait for their answer.",
	})
}

// API counts the requests to an API: the handler to serve in its place, whose Config has Served as its Observe. It is
// called once.
func (m *Metrics) API(h http.Handler) http.Handler {
	m.registry.MustRegister(m.requests, m.refused, m.answer, m.inFlight)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.inFlight.Inc()
		defer m.inFlight.Dec()
		h.ServeHTTP(w, r)
	})
}

// Served counts a request. Its labels are words of the API's own, whatever the caller sent.
func (m *Metrics) Served(s httpapi.Served) {
	op, method := s.Operation, s.Method
	if op == "" {
		op, method = "none", "none"
	}
	m.requests.WithLabelValues(op, method, fmt.Sprintf("%dxx", s.Status/100)).Inc()
	m.answer.WithLabelValues(op).Observe(s.Took.Seconds())
	if s.Code != "" {
		m.refused.WithLabelValues(op, string(s.Code)).Inc()
	}
}
