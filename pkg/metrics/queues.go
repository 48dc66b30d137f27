package metrics

import (
	"cmp"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/streams"
)

// mostQueues is how many queues have series of their own. Producers may make up names, and every process shows every
// queue.
const mostQueues = 200

// queueFigures are what there is to do in a queue, or in many.
type queueFigures struct {
	queue                         string
	ready, running, slots, worker int
	oldest                        time.Duration
	paused                        bool
}

// figuresOf are those of the queues: of the first mostQueues by themselves, and of all others together. Those with
// workers come first, then those that are paused, then by name: whoever makes up names has neither, and all processes
// choose alike.
func figuresOf(queues []job.QueueInfo, now time.Time) []queueFigures {
	queues = slices.Clone(queues)
	rank := func(q job.QueueInfo) int {
		switch {
		case q.Workers > 0:
			return 0
		case q.Paused:
			return 1
		}
		return 2
	}
	slices.SortFunc(queues, func(a, b job.QueueInfo) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Name, b.Name))
	})
	var out []queueFigures
	others := queueFigures{queue: streams.OtherQueues, paused: true}
	folded := 0
	for i, q := range queues {
		f := queueFigures{
			queue: q.Name, ready: q.Ready, running: q.Running, slots: q.Slots, worker: q.Workers, paused: q.Paused,
		}
		if !q.OldestReady.IsZero() {
			f.oldest = max(0, now.Sub(q.OldestReady))
		}
		if len(queues) <= mostQueues || i < mostQueues && q.Name != streams.OtherQueues {
			out = append(out, f)
			continue
		}
		folded++
		others.join(f)
	}
	if folded > 0 {
		out = append(out, others)
	}
	return out
}

// join adds a queue to others. They are paused if all are: what waits in one that is paused is no wait to tell of while
// another is not.
func (o *queueFigures) join(f queueFigures) {
	o.ready += f.ready
	o.running += f.running
	o.slots += f.slots
	o.worker += f.worker
	if !f.paused {
		o.oldest = max(o.oldest, f.oldest)
	}
	o.paused = o.paused && f.paused
}

func (f queueFigures) metrics() []prometheus.Metric {
	gauge := func(desc *prometheus.Desc, v float64) prometheus.Metric {
		return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, f.queue)
	}
	paused := 0.0
	if f.paused {
		paused = 1
	}
	return []prometheus.Metric{
		gauge(descReady, float64(f.ready)),
		gauge(descRunning, float64(f.running)),
		gauge(descOldest, f.oldest.Seconds()),
		gauge(descSlots, float64(f.slots)),
		gauge(descWorkers, float64(f.worker)),
		gauge(descPaused, paused),
	}
}
