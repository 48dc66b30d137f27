package httpapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// Bounds of what a queue can be set to.
const (
	maxFleet = 1_000_000
	minLease = time.Second
	maxLease = 7 * 24 * time.Hour
)

func registerConfigure(r *routes, q queues) {
	add[QueueChanged](r, route{
		id: "configureQueue", method: http.MethodPatch, path: "/v1/queues/{queue}", scope: ScopeConfigure, place: inFleet, long: true,
		summary: "Set how a queue is worked off, in the whole fleet",
		says: "Changes the settings that are given. A queue that is not there is made. A shorter lease waits until all workers " +
			"know of it, for as long as the old one; 202 if that takes longer than a request may: the same request again completes it.",
		body: reflect.TypeFor[QueueSettings](), good: []int{http.StatusOK, http.StatusAccepted},
	}, q.configure)
}

// QueueSettings are changes to a queue's settings. What is left out stays as it is.
type QueueSettings struct {
	Concurrency *int              `json:"concurrency,omitempty" minimum:"0" maximum:"1000000" doc:"Jobs at a time in the whole fleet; 0: no limit."`
	Lease       *string           `json:"lease,omitempty" doc:"How long a worker may be silent before its jobs are taken over, 1s to 7d." example:"30s"`
	Retention   map[string]string `json:"retention,omitempty" doc:"How long records are kept, by final status: 10m at least, none, or default for what the workers are set to." example:"{\"succeeded\":\"1h\"}"`
}

// QueueChanged is a queue before and after it was set.
type QueueChanged struct {
	Before *Queue `json:"before,omitempty" doc:"Left out if the queue is new."`
	After  Queue  `json:"after"`
}

// queueChanged is a QueueChanged as it is written.
type queueChanged struct {
	Before *job.QueueInfo `json:"before,omitzero"`
	After  *job.QueueInfo `json:"after"`
}

func (q queues) configure(ctx context.Context, in *PathQueue) (any, error) {
	var given QueueSettings
	if p := decodeBody(ctx, &given); p != nil {
		return nil, p
	}
	set, p := given.settings()
	if p != nil {
		return nil, p
	}
	before, err := q.Queues.Queue(ctx, in.Queue)
	if err != nil && !errors.Is(err, job.ErrNoQueue) {
		return nil, err
	}
	after, err := q.Queues.Configure(ctx, in.Queue, set)
	if err == nil {
		return queueChanged{before, after}, nil
	}
	if set.Lease == nil || before == nil || *set.Lease >= before.Lease || ctx.Err() == nil {
		return nil, err
	}
	// It waits for the workers: then the queue says so.
	again, cancel := context.WithTimeout(context.WithoutCancel(ctx), q.Timeout)
	defer cancel()
	if after, lerr := q.Queues.Queue(again, in.Queue); lerr == nil && after.Lease == *set.Lease {
		return reply{status: http.StatusAccepted, body: queueChanged{before, after}}, nil
	}
	return nil, err
}

// settings are the changes that are asked for.
func (s *QueueSettings) settings() (job.QueueSettings, *Problem) {
	var out job.QueueSettings
	if s.Concurrency == nil && s.Lease == nil && len(s.Retention) == 0 {
		return out, badFields(FieldProblem{"", "must say what to change: concurrency, lease or retention"})
	}
	if c := s.Concurrency; c != nil && (*c < 0 || *c > maxFleet) {
		return out, badFields(FieldProblem{"/concurrency", fmt.Sprintf("must be 0 (no limit) to %d, not %d", maxFleet, *c)})
	}
	out.Concurrency = s.Concurrency
	if s.Lease != nil {
		lease, err := config.ParseDuration(*s.Lease)
		if err != nil || lease < minLease || lease > maxLease {
			return out, badFields(FieldProblem{"/lease", "must be a duration from 1s to 7d"})
		}
		out.Lease = &lease
	}
	for _, status := range slices.Sorted(maps.Keys(s.Retention)) {
		field := "/retention/" + pointerToken(status)
		if !job.Status(status).Terminal() {
			return out, badFields(FieldProblem{cut(field), "only records of jobs that have ended have a retention: succeeded, failed, dead, cancelled"})
		}
		if out.Retention == nil {
			out.Retention = make(map[job.Status]time.Duration)
		}
		if s.Retention[status] == "default" {
			out.Retention[job.Status(status)] = job.KeepDefault
			continue
		}
		r, err := config.ParseRetention(s.Retention[status])
		if err != nil {
			return out, badFields(FieldProblem{field, fmt.Sprintf("must be %s to %s, none or default",
				config.FormatDuration(config.MinRetention), config.FormatDuration(config.MaxRetention))})
		}
		out.Retention[job.Status(status)] = max(time.Duration(r), 0)
	}
	return out, nil
}
