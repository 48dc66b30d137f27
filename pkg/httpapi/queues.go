package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// queues serves the routes under /v1/queues, and the counts.
type queues struct{ *Config }

func registerQueues(r *routes) {
	q := queues{r.cfg}
	missing := []int{http.StatusNotFound}
	add[Counts](r, route{
		id: "countJobs", method: http.MethodGet, path: "/v1/counts", scope: ScopeRead, place: inFleet,
		summary: "Count the jobs of all spaces, by status",
		says:    "Cheap enough to be asked for every second, and exact when nothing moves.",
	}, q.count)
	add[QueueList](r, route{
		id: "listQueues", method: http.MethodGet, path: "/v1/queues", scope: ScopeRead, place: inFleet,
		summary: "List the queues, and how much there is to do",
	}, q.list)
	add[Queue](r, route{
		id: "getQueue", method: http.MethodGet, path: "/v1/queues/{queue}", scope: ScopeRead, place: inFleet, also: missing,
		summary: "Read how a queue is set, and how much there is to do",
	}, q.get)
	add[Queue](r, route{
		id: "pauseQueue", method: http.MethodPost, path: "/v1/queues/{queue}/pause", scope: ScopeConfigure, place: inFleet, also: missing,
		summary: "Hand out no more jobs of a queue",
		says:    "Until it is resumed, or the pause ends by itself. What workers hold goes on; new jobs, and those that fall due, wait.",
	}, q.pause)
	add[Queue](r, route{
		id: "resumeQueue", method: http.MethodPost, path: "/v1/queues/{queue}/resume", scope: ScopeConfigure, place: inFleet, also: missing,
		summary: "End a queue's pause", says: "One that is not paused stays so.",
	}, q.resume)
	add[BulkDone](r, route{
		id: "purgeQueue", method: http.MethodPost, path: "/v1/queues/{queue}/purge", scope: ScopeOperate, place: inFleet, also: missing, long: true,
		summary: "Delete the jobs that wait in a queue, in every space",
		says:    "Those that may start now and those that wait for their instant, or those of the statuses named. Asking again goes on with what is left.",
	}, q.purge)
	add[QueueDeleted](r, route{
		id: "deleteQueue", method: http.MethodDelete, path: "/v1/queues/{queue}", scope: ScopeConfigure, place: inFleet,
		summary: "Remove a queue that has no jobs left but ended ones, and no workers",
		also:    append(missing, http.StatusConflict),
	}, q.remove)
	registerConfigure(r, q)
}

// Counts says how many jobs there are.
type Counts struct {
	job.Counts
	Total int `json:"total"`
}

func counted(n *job.Counts) Counts { return Counts{*n, n.Total()} }

// QueueList are all queues.
type QueueList struct {
	Queues []Queue `json:"queues"`
	Counts Counts  `json:"counts"`
}

// Queue is a queue as it is set, and how much there is to do.
type Queue struct {
	Name         string            `json:"name"`
	Ready        int               `json:"ready"`
	Running      int               `json:"running" doc:"Held by a worker, which may not have started it yet."`
	OldestReady  time.Time         `json:"oldestReady,omitempty" doc:"Since when the job waits that is next."`
	Paused       bool              `json:"paused"`
	PausedUntil  time.Time         `json:"pausedUntil,omitempty" doc:"Left out: until it is resumed."`
	Concurrency  int               `json:"concurrency" doc:"Jobs at a time in the whole fleet; 0: no limit."`
	Lease        string            `json:"lease" example:"30s"`
	LeaseInForce string            `json:"leaseInForce,omitempty" doc:"The old lease for as long as a lower one is being introduced."`
	Retention    map[string]string `json:"retention,omitempty" doc:"Of records where it is the queue's own, by final status; 0s keeps none."`
	Workers      int               `json:"workers" doc:"That are alive."`
	Slots        int               `json:"slots" doc:"Of all these."`
}

// QueueDeleted says that a queue is gone.
type QueueDeleted struct {
	Queue string `json:"queue"`
	Done  bool   `json:"done"`
}

func (q queues) count(ctx context.Context, _ *struct{}) (any, error) {
	n, err := q.Queues.Count(ctx)
	if err != nil {
		return nil, err
	}
	return counted(n), nil
}

func (q queues) list(ctx context.Context, _ *struct{}) (any, error) {
	all, err := q.Queues.Queues(ctx)
	if err != nil {
		return nil, err
	}
	n, err := q.Queues.Count(ctx)
	if err != nil {
		return nil, err
	}
	return struct {
		Queues []job.QueueInfo `json:"queues"`
		Counts Counts          `json:"counts"`
	}{all, counted(n)}, nil
}

// PathQueue names a queue. (What inputs have in common is exported since huma fills in nothing else.)
type PathQueue struct {
	Queue string `path:"queue"`
}

func (q queues) get(ctx context.Context, in *PathQueue) (any, error) {
	return answered(q.Queues.Queue(ctx, in.Queue))
}

type pauseInput struct {
	PathQueue
	For   string `query:"for" doc:"How long; without it and until, it lasts until it is ended." example:"1h"`
	Until string `query:"until" doc:"Until this instant." example:"2030-01-31T09:00:00Z"`
}

// maxPause is the longest time for which a queue is paused at once.
const maxPause = 3650 * 24 * time.Hour

func (q queues) pause(ctx context.Context, in *pauseInput) (any, error) {
	now := q.Queues.Now()
	length, p := parseDuration("for", in.For)
	var end time.Time
	switch {
	case p != nil:
		return nil, p
	case in.For != "" && in.Until != "":
		return nil, badFields(FieldProblem{"until", "give for or until, not both"})
	case in.For != "" && (length <= 0 || length > maxPause):
		return nil, badFields(FieldProblem{"for", "must be more than 0s and at most 3650d; without it, the pause lasts until it is ended"})
	case in.For != "":
		end = now.Add(length)
	case in.Until != "":
		var err error
		if end, err = time.Parse(time.RFC3339, in.Until); err != nil {
			return nil, badFields(FieldProblem{"until", "must be an instant such as 2030-01-31T09:00:00Z"})
		}
		if !end.After(now) {
			return nil, badFields(FieldProblem{"until", "is over: it is " + now.UTC().Format(job.TimeFormat)})
		}
	}
	if err := q.Queues.Pause(ctx, in.Queue, end); err != nil {
		return nil, err
	}
	return answered(q.Queues.Queue(ctx, in.Queue))
}

func (q queues) resume(ctx context.Context, in *PathQueue) (any, error) {
	if err := q.Queues.Resume(ctx, in.Queue); err != nil {
		return nil, err
	}
	return answered(q.Queues.Queue(ctx, in.Queue))
}

func (q queues) remove(ctx context.Context, in *PathQueue) (any, error) {
	return QueueDeleted{in.Queue, true}, q.Queues.DeleteQueue(ctx, in.Queue)
}

type purgeInput struct {
	PathQueue
	Status []string `query:"status,explode" doc:"Of these statuses instead: ready, due, succeeded, failed, dead, cancelled; can be given again, or with commas."`
	DryRun bool     `query:"dryRun" doc:"Change nothing, only count."`
}

func (q queues) purge(ctx context.Context, in *purgeInput) (any, error) {
	statuses := splitStatuses(in.Status)
	if len(statuses) == 0 {
		statuses = []job.Status{job.Ready, job.Due}
	}
	req := job.BulkRequest{
		Operation: job.OpDelete, Filter: job.Filter{AllSpaces: true, Queue: in.Queue, Statuses: statuses}, DryRun: in.DryRun,
	}
	if err := req.Validate(); err != nil {
		return nil, badParameter("status", err)
	}
	if p := takes(req.Operation, statuses, "status"); p != nil {
		return nil, p
	}
	if _, err := q.Queues.Queue(ctx, in.Queue); err != nil {
		return nil, err
	}
	return runBulk(ctx, q.Queues, req)
}
