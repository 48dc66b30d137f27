package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/jetcrew/jetcrew/worker"
)

// Worker shows what a worker does now, and has what it may come to counted from 0.
func (m *Metrics) Worker(w *worker.Worker) {
	m.gauge("handlers_running", "Handlers that run now, the stuck ones included.", func() float64 { return float64(w.Stats().Running) })
	m.gauge("handlers_stuck", "Handlers that ignore their cancelled context and hold their slots.",
		func() float64 { return float64(w.Stats().Stuck) })
	m.gauge("outcomes_unwritten", "Outcomes of handlers that are being written.", func() float64 { return float64(w.Stats().Settling) })
	m.mu.Lock()
	defer m.mu.Unlock()
	m.workers = append(m.workers, w)
}

// KVConflicts shows the conflicts of a bucket of keys.
func (m *Metrics) KVConflicts(count func() uint64) {
	m.counter("kv_conflicts_total", "Writes of keys that were done again since another came first.", func() float64 { return float64(count()) })
}

func (m *Metrics) complain(err error) {
	m.log.Debug().Err(err).Msg("what was asked for a scrape was not answered")
}

func (m *Metrics) gauge(name, help string, value func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, value))
}

func (m *Metrics) counter(name, help string, value func() float64) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, value))
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}
