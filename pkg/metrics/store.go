package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/streams"
)

var (
	descRepairs  = describe("repairs_total", "What this process's housekeeping found and, but for garbage and stuck, repaired, by its kind.", "kind")
	descLost     = describe("jobs_lost_total", "Jobs whose worker vanished: their attempts that this process wrote down as lost.", "queue")
	descUnrun    = describe("jobs_ended_unrun_total", "Ends of jobs that this process wrote in no worker's place, by the status and the reason: lost (the last attempt's worker vanished) or too_large.", "queue", "status", "reason")
	descSetAside = describe("messages_set_aside_total", "Messages that are no job, and that this process put out of the way as dead.", "queue")

	descUp      = describe("store_up", "1 if the store answered this scrape, or else 0.")
	descJobs    = describe("jobs", "Jobs that are kept, by their state.", "state")
	descReady   = describe("queue_ready", "Jobs that may run now and wait for a worker.", "queue")
	descRunning = describe("queue_running", "Jobs that a worker holds.", "queue")
	descOldest  = describe("queue_oldest_ready_seconds", "How long the job has waited that is next; 0 where none waits.", "queue")
	descSlots   = describe("queue_slots", "Jobs that the live workers of a queue can run at a time.", "queue")
	descWorkers = describe("queue_workers", "Live workers of a queue.", "queue")
	descPaused  = describe("queue_paused", "1 while nothing of the queue is handed out, or else 0.", "queue")
)

// Store shows the conflicts, repairs and losses of a store of jobs, and what there is to do in all queues. The latter is
// asked of the server, once in a few seconds at most, by each process that has a store: take the maximum, not the sum.
func (m *Metrics) Store(s *streams.Store) {
	m.counter("conflicts_total", "Writes of jobs that the server refused since another came first. That is how races end, and no error.",
		func() float64 { return float64(s.Conflicts()) })
	m.registry.MustRegister(&written{s}, &asked{
		descs:  []*prometheus.Desc{descUp, descJobs, descReady, descRunning, descOldest, descSlots, descWorkers, descPaused},
		good:   goodFor,
		ask:    depth{s}.ask,
		silent: []prometheus.Metric{prometheus.MustNewConstMetric(descUp, prometheus.GaugeValue, 0)},
		log:    m.complain,
	})
}

// written collects what housekeeping did, and what was written in the place of workers.
type written struct{ store *streams.Store }

func (w *written) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{descRepairs, descLost, descUnrun, descSetAside} {
		to <- desc
	}
}

func (w *written) Collect(to chan<- prometheus.Metric) {
	count := func(desc *prometheus.Desc, n uint64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), labels...)
	}
	for kind, n := range w.store.SweepTotals().Kinds() {
		count(descRepairs, uint64(n), kind)
	}
	for _, l := range w.store.Losses() {
		count(descLost, l.Lost, l.Queue)
		count(descUnrun, l.LostDead, l.Queue, string(job.Dead), "lost")
		count(descUnrun, l.LostCancelled, l.Queue, string(job.Cancelled), "lost")
		count(descUnrun, l.TooLarge, l.Queue, string(job.Dead), "too_large")
		count(descSetAside, l.SetAside, l.Queue)
	}
}

// depth asks what there is to do.
type depth struct{ store *streams.Store }

// ask asks the store. What it cannot answer is left out: an old figure would look like a new one.
func (d depth) ask(ctx context.Context) ([]prometheus.Metric, error) {
	counts, err := d.store.Count(ctx)
	if err != nil {
		return nil, err
	}
	queues, err := d.store.Queues(ctx)
	if err != nil {
		return nil, err
	}
	out := []prometheus.Metric{prometheus.MustNewConstMetric(descUp, prometheus.GaugeValue, 1)}
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
		out = append(out, prometheus.MustNewConstMetric(descJobs, prometheus.GaugeValue, float64(s.n), s.state))
	}
	for _, f := range figuresOf(queues, d.store.Now()) {
		out = append(out, f.metrics()...)
	}
	return out, nil
}
