package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// workers serves the listing of workers.
type workers struct{ *Config }

func registerWorkers(r *routes) {
	add[WorkerList](r, route{
		id: "listWorkers", method: http.MethodGet, path: "/v1/workers", scope: ScopeRead, place: inFleet,
		summary: "List the workers that are alive",
		says:    "A worker is heard of each third of the lease; one that vanishes is listed until its lease is over.",
	}, workers{r.cfg}.list)
}

// WorkerList are the workers that are alive.
type WorkerList struct {
	Workers []Worker `json:"workers"`
}

// Worker is a process that takes jobs.
type Worker struct {
	ID        string        `json:"id"`
	Host      string        `json:"host,omitempty"`
	PID       int           `json:"pid"`
	Version   string        `json:"version,omitempty"`
	StartedAt time.Time     `json:"startedAt"`
	BeatAt    time.Time     `json:"beatAt" doc:"When it was last heard of."`
	Queues    []WorkerQueue `json:"queues"`
}

// WorkerQueue is a worker's part in one queue.
type WorkerQueue struct {
	Queue   string          `json:"queue"`
	Slots   int             `json:"slots"`
	Lease   string          `json:"lease" example:"30s"`
	Running int             `json:"running"`
	Types   []string        `json:"types,omitempty" doc:"That it has handlers for, the first of them where they are many."`
	Jobs    []job.WorkerJob `json:"jobs,omitempty" doc:"That it runs, where they are not too many to be named."`
}

type workersInput struct {
	Jobs bool `query:"jobs" doc:"Also the jobs that they run."`
}

func (w workers) list(ctx context.Context, in *workersInput) (any, error) {
	all, err := w.Queues.Workers(ctx)
	if err != nil {
		return nil, err
	}
	for i := range all {
		for k := range all[i].Queues {
			if !in.Jobs {
				all[i].Queues[k].Jobs = nil
			}
		}
	}
	return struct {
		Workers []job.Worker `json:"workers"`
	}{all}, nil
}
