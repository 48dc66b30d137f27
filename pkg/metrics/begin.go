package metrics

import (
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/worker"
)

var (
	results = []worker.Result{
		worker.ResultSucceeded, worker.ResultFailed, worker.ResultDead, worker.ResultCancelled, worker.ResultRetried,
		worker.ResultHandedBack, worker.ResultLost, worker.ResultUnwritten,
	}
	fireResults = []string{fireEnqueued, fireKnown, fireSkipped, fireMissed, fireRefused}
	codes       = []string{
		string(job.CodeDuplicate), string(job.CodeOverCapacity), string(job.CodeNotFound), string(job.CodeDisabled),
		string(job.CodeForbidden), string(job.CodeRecursion), otherCode,
	}
)

// mostBegun is for how many pairs of a queue and a type series are made before anything happened, each 15.
const mostBegun = 100

// begin has the series that are known to come begin at 0. One that began with its first event would hide it: an increase
// is from one scrape to the next. It is done at each scrape, since a worker may be given handlers until it runs.
func (m *Metrics) begin() {
	m.mu.Lock()
	workers := m.workers
	m.mu.Unlock()
	for _, w := range workers {
		types := w.Types()
		for _, queue := range w.Queues() {
			m.attempts.WithLabelValues(queue, unhandled, string(worker.ResultHandedBack))
			if len(types)*len(w.Queues()) > mostBegun {
				continue
			}
			for _, typ := range types {
				for _, result := range results {
					m.attempts.WithLabelValues(queue, typ, string(result))
				}
				for _, code := range codes {
					m.refusals.WithLabelValues(queue, typ, code)
				}
			}
		}
	}
}
