// Package metrics measures a process of jetcrew for Prometheus: what its worker does, what its scheduler fires, who
// leads, what there is to do, and how its connection is.
//
// Everything is in a registry of its own; nothing is registered globally. No job's id, input or error is in a label:
// the labels are queues, types that have a handler, and words of jetcrew's.
package metrics

import (
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/scheduler"
	"github.com/jetcrew/jetcrew/worker"
)

// Metrics of one process. Make it before what it observes: it is the Observer of a worker, and its Fired that of a
// scheduler.Firer. It is safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry
	log      zerolog.Logger

	attempts *prometheus.CounterVec
	refusals *prometheus.CounterVec
	run      *prometheus.HistogramVec
	pickup   *prometheus.HistogramVec
	fires    *prometheus.CounterVec
	missed   prometheus.Counter
	lateness prometheus.Histogram
	leading  prometheus.Gauge

	mu      sync.Mutex // guards workers
	workers []*worker.Worker

	requests *prometheus.CounterVec
	refused  *prometheus.CounterVec
	answer   *prometheus.HistogramVec
	inFlight prometheus.Gauge
}

var _ worker.StartObserver = (*Metrics)(nil)

const namespace = "jetcrew"

// New makes the metrics of a process of the given version and role ("work", "schedule", "serve" or "dev").
func New(version, role string, log zerolog.Logger) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(), log: log,
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "attempts_total",
			Help: "Attempts that ended, by how: succeeded, failed, dead, cancelled, retried, handed_back, lost (the job went to " +
				"another worker) or unwritten (the outcome could not be stored; the job is redelivered).",
		}, []string{"queue", "type", "result"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "refusals_total", Help: "Jobs that a handler or a guard refused, by the refusal's code.",
		}, []string{"queue", "type", "code"}),
		run: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "run_seconds", Help: "How long handlers ran, whatever came of it.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 11), // 1 ms to 17 min
		}, []string{"queue", "type"}),
		pickup: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "pickup_seconds",
			Help:    "How long jobs waited, from when they could start until their handler was called, by the store's clock.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 11),
		}, []string{"queue"}),
		fires: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "schedule_fires_total",
			Help: "Fires of schedules that this process made, by what came of them: enqueued, known (the job was there), skipped " +
				"(the last one's job has not ended), missed (nothing was to be made so late), or refused.",
		}, []string{"result"}),
		missed: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "schedule_fires_missed_total",
			Help: "Fires that got no job of their own since nobody made them when they were due.",
		}),
		lateness: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Name: "schedule_lateness_seconds",
			Help:    "How long after the promised instant a fire's job was enqueued, by the store's clock.",
			Buckets: prometheus.ExponentialBuckets(0.002, 4, 10), // 2 ms to 9 min
		}),
		leading: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: namespace, Name: "leading", Help: "1 while this process leads the fleet, or else 0.",
		}),
	}
	for _, result := range fireResults {
		m.fires.WithLabelValues(result)
	}
	m.measureHTTP()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Name: "info", Help: "1, with the program's version and the role of the process.",
		ConstLabels: prometheus.Labels{"version": version, "role": role},
	})
	info.Set(1)
	m.registry.MustRegister(
		m.attempts, m.refusals, m.run, m.pickup, m.fires, m.missed, m.lateness, m.leading, info,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// Handler answers what a scrape asks for.
func (m *Metrics) Handler() http.Handler {
	h := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog: complaints{m.log}, ErrorHandling: promhttp.ContinueOnError, Timeout: scrapeTimeout,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.begin()
		h.ServeHTTP(w, r)
	})
}

// scrapeTimeout is how long a scrape may take, far longer than askFor: Prometheus waits for 10 s unless it is told
// otherwise.
const scrapeTimeout = 8 * time.Second

// complaints takes what goes wrong with a scrape.
type complaints struct{ log zerolog.Logger }

func (c complaints) Println(v ...any) {
	c.log.Debug().Interface("why", v).Msg("a scrape was not answered in full")
}

// unhandled stands for all types without a handler: they are whatever producers write.
const unhandled = "unhandled"

// AttemptStarted measures how long a job waited.
func (m *Metrics) AttemptStarted(s worker.Started) {
	m.pickup.WithLabelValues(s.Key.Queue).Observe(s.Waited.Seconds())
}

// AttemptEnded counts an attempt.
func (m *Metrics) AttemptEnded(e worker.Ended) {
	typ := e.Type
	if typ == "" {
		typ = unhandled
	}
	m.attempts.WithLabelValues(e.Key.Queue, typ, string(e.Result)).Inc()
	if e.Refusal != "" {
		m.refusals.WithLabelValues(e.Key.Queue, typ, code(e.Refusal)).Inc()
	}
	if e.Started {
		m.run.WithLabelValues(e.Key.Queue, typ).Observe(e.Ran.Seconds())
	}
}

// otherCode stands for the codes of handlers' own.
const otherCode = "other"

// code is a refusal's code as a label: handlers may make up their own.
func code(c job.Code) string {
	if c.NotNow() || c.NotEver() {
		return string(c)
	}
	return otherCode
}

// What comes of a fire.
const (
	fireEnqueued = "enqueued"
	fireKnown    = "known"
	fireSkipped  = "skipped"
	fireMissed   = "missed"
	fireRefused  = "refused"
)

// Fired counts a fire of a schedule.
func (m *Metrics) Fired(f scheduler.Fire) {
	result := fireEnqueued
	switch {
	case f.Err != nil:
		result = fireRefused
	case f.Skipped:
		result = fireSkipped
	case f.At.IsZero():
		result = fireMissed
	case !f.Created:
		result = fireKnown
	}
	m.fires.WithLabelValues(result).Inc()
	m.missed.Add(float64(f.Missed))
	if result == fireEnqueued {
		m.lateness.Observe(max(0, f.Late).Seconds())
	}
}

// Leading says whether this process leads.
func (m *Metrics) Leading(leads bool) {
	if leads {
		m.leading.Set(1)
		return
	}
	m.leading.Set(0)
}
