package metrics

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/streams"
	"github.com/jetcrew/jetcrew/worker"
)

// Worker shows what a worker does now.
func (m *Metrics) Worker(w *worker.Worker) {
	m.gauge("handlers_running", "Handlers that run now, the stuck ones included.", func() float64 { return float64(w.Stats().Running) })
	m.gauge("handlers_stuck", "Handlers that ignore their cancelled context and hold their slots.",
		func() float64 { return float64(w.Stats().Stuck) })
	m.gauge("outcomes_unwritten", "Outcomes of handlers that are being written.", func() float64 { return float64(w.Stats().Settling) })
}

// Conn shows how a connection is, and how much of its account's storage is used.
func (m *Metrics) Conn(nc *nats.Conn) {
	m.gauge("nats_connected", "1 while the connection to NATS stands, or else 0.", func() float64 {
		if nc.IsConnected() {
			return 1
		}
		return 0
	})
	m.counter("nats_reconnects_total", "How often the connection to NATS was made anew.", func() float64 { return float64(nc.Stats().Reconnects) })
	m.gauge("nats_rtt_seconds", "A round trip to the server, measured by the scrape.", func() float64 {
		if !nc.IsConnected() {
			return 0
		}
		rtt, err := nc.RTT()
		if err != nil {
			return 0
		}
		return rtt.Seconds()
	})
	m.registry.MustRegister(&room{nc: nc, log: m.complain})
}

// Store shows the conflicts and repairs of a store of jobs, and what there is to do in all queues. The latter is asked of
// the server, once in a few seconds at most, by each process that has a store: take the maximum, not the sum.
func (m *Metrics) Store(s *streams.Store) {
	m.counter("conflicts_total", "Writes of jobs that the server refused since another came first. That is how races end, and no error.",
		func() float64 { return float64(s.Conflicts()) })
	m.registry.MustRegister(&repairs{s}, &depth{ask: s, log: m.complain})
}

// KVConflicts shows the conflicts of a bucket of keys.
func (m *Metrics) KVConflicts(count func() uint64) {
	m.counter("kv_conflicts_total", "Writes of keys that were done again since another came first.", func() float64 { return float64(count()) })
}

func (m *Metrics) complain(err error) {
	m.log.Debug().Err(err).Msg("what the store has could not be read for a scrape")
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

var (
	descRepairs = describe("repairs_total", "What this process's housekeeping found and, but for garbage and stuck, repaired, by its kind.", "kind")

	descUp      = describe("store_up", "1 if the store answered this scrape, or else 0.")
	descJobs    = describe("jobs", "Jobs that are kept, by their state.", "state")
	descReady   = describe("queue_ready", "Jobs that may run now and wait for a worker.", "queue")
	descRunning = describe("queue_running", "Jobs that a worker holds.", "queue")
	descOldest  = describe("queue_oldest_ready_seconds", "How long the job has waited that is next; 0 where none waits.", "queue")
	descSlots   = describe("queue_slots", "Jobs that the live workers of a queue can run at a time.", "queue")
	descWorkers = describe("queue_workers", "Live workers of a queue.", "queue")
	descPaused  = describe("queue_paused", "1 while nothing of the queue is handed out, or else 0.", "queue")
)

// repairs collects what housekeeping did.
type repairs struct{ store *streams.Store }

func (r *repairs) Describe(to chan<- *prometheus.Desc) { to <- descRepairs }

func (r *repairs) Collect(to chan<- prometheus.Metric) {
	for kind, n := range r.store.SweepTotals().Kinds() {
		to <- prometheus.MustNewConstMetric(descRepairs, prometheus.CounterValue, float64(n), kind)
	}
}

// depthFor is how long an answer of the store is good for.
const depthFor = 5 * time.Second

// depth collects what there is to do.
type depth struct {
	ask interface {
		job.Clock
		Count(ctx context.Context) (*job.Counts, error)
		Queues(ctx context.Context) ([]job.QueueInfo, error)
	}
	log func(error)

	mu     sync.Mutex // held while one asks for all
	at     time.Time
	answer []prometheus.Metric
}

func (d *depth) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		descUp, descJobs, descReady, descRunning, descOldest, descSlots, descWorkers, descPaused,
	} {
		to <- desc
	}
}

func (d *depth) Collect(to chan<- prometheus.Metric) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.at.IsZero() || time.Since(d.at) >= depthFor {
		answer, err := d.read()
		up := 1.0
		if err != nil {
			d.log(err)
			up = 0
		}
		d.answer = append(answer, prometheus.MustNewConstMetric(descUp, prometheus.GaugeValue, up))
		d.at = time.Now()
	}
	for _, m := range d.answer {
		to <- m
	}
}

// read asks the store. What it cannot answer is left out: an old figure would look like a new one.
func (d *depth) read() ([]prometheus.Metric, error) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout/2)
	defer cancel()
	counts, err := d.ask.Count(ctx)
	if err != nil {
		return nil, err
	}
	queues, err := d.ask.Queues(ctx)
	if err != nil {
		return nil, err
	}
	var out []prometheus.Metric
	gauge := func(desc *prometheus.Desc, v float64, label string) {
		out = append(out, prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, label))
	}
	for _, s := range []struct {
		state string
		n     int
	}{
		{"ready", counts.Ready},
		{"due", counts.Due},
		{"running", counts.Running},
		{"succeeded", counts.Succeeded},
		{"failed", counts.Failed},
		{"dead", counts.Dead},
		{"cancelled", counts.Cancelled},
	} {
		gauge(descJobs, float64(s.n), s.state)
	}
	now := d.ask.Now()
	for _, q := range queues {
		oldest, paused := 0.0, 0.0
		if !q.OldestReady.IsZero() {
			oldest = max(0, now.Sub(q.OldestReady).Seconds())
		}
		if q.Paused {
			paused = 1
		}
		gauge(descReady, float64(q.Ready), q.Name)
		gauge(descRunning, float64(q.Running), q.Name)
		gauge(descOldest, oldest, q.Name)
		gauge(descSlots, float64(q.Slots), q.Name)
		gauge(descWorkers, float64(q.Workers), q.Name)
		gauge(descPaused, paused, q.Name)
	}
	return out, nil
}
