package httpapi

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"reflect"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// jobs serves the routes under /v1/jobs that put jobs in and read them.
type jobs struct{ *Config }

func registerJobs(r *routes) {
	j := jobs{r.cfg}
	add[Enqueued](r, route{
		id: "enqueueJob", method: http.MethodPost, path: "/v1/jobs", scope: ScopeEnqueue, place: inRequest,
		summary: "Put a job in",
		says: "A job of the same queue, space and id that exists already is left as it is. " +
			"Name the job: then the same request can be sent again until it is answered.",
		body: reflect.TypeFor[Spec](), good: []int{http.StatusCreated, http.StatusOK},
	}, j.enqueue)
	add[EnqueuedMany](r, route{
		id: "enqueueJobs", method: http.MethodPost, path: "/v1/jobs/bulk", scope: ScopeEnqueue, place: inRequest,
		summary: "Put up to 1,000 jobs in, each by itself",
		says: "Nothing is stored unless every job is in order. 200: each job is stored, or was there; " +
			"207: some could not be stored, and say why.",
		body: reflect.TypeFor[SpecMany](), maxBody: r.cfg.MaxBulkBody, good: []int{http.StatusOK, http.StatusMultiStatus},
	}, j.enqueueMany)
	add[Record](r, route{
		id: "getJob", method: http.MethodGet, path: "/v1/jobs/{space}/{id}", scope: ScopeRead,
		summary: "Read a job's record",
		says:    "Without a queue, whichever has the job; 409 if several do.",
		also:    []int{http.StatusConflict},
	}, j.get)
}

// Enqueued says what became of one job.
type Enqueued struct {
	Identity
	Created bool `json:"created" doc:"False if a job of this identity was there already; it was left as it was."`
}

// EnqueuedMany says what became of many jobs, in their order.
type EnqueuedMany struct {
	Created int            `json:"created"`
	Existed int            `json:"existed"`
	Failed  int            `json:"failed"`
	Jobs    []EnqueuedItem `json:"jobs"`
}

// EnqueuedItem is one of many.
type EnqueuedItem struct {
	Enqueued
	Error *Problem `json:"error,omitzero"`
}

func (j jobs) enqueue(ctx context.Context, _ *struct{}) (any, error) {
	spec, p := decodeSpec(bodyOf(ctx))
	if p == nil {
		p = authorized(ctx, spec.Space)
	}
	if p != nil {
		return nil, p
	}
	spec.Trace = traceOf(infoOf(ctx).request.Header)
	e, err := j.Jobs.EnqueueSpec(ctx, spec)
	if err != nil {
		return nil, explainOne(ctx, spec, err)
	}
	return enqueued(spec.Key(), e.Created), nil
}

// enqueued is the answer for one job.
func enqueued(k job.Key, created bool) reply {
	r := reply{status: http.StatusOK, location: location(k), body: Enqueued{identity(k), created}}
	if created {
		r.status = http.StatusCreated
	}
	return r
}

func (j jobs) enqueueMany(ctx context.Context, _ *struct{}) (any, error) {
	specs, p := decodeBulk(bodyOf(ctx))
	if p != nil {
		return nil, p
	}
	trace := traceOf(infoOf(ctx).request.Header)
	for i := range specs {
		if p := authorized(ctx, specs[i].Space); p != nil {
			return nil, p
		}
		specs[i].Trace = trace
	}
	done, err := j.Jobs.EnqueueMany(ctx, specs)
	if len(done) != len(specs) {
		if err == nil {
			err = errors.New("bulk enqueue: not every job has an answer")
		}
		return nil, err
	}
	status, out := http.StatusOK, EnqueuedMany{Jobs: make([]EnqueuedItem, len(specs))}
	for i, e := range done {
		item := EnqueuedItem{Enqueued: Enqueued{identity(specs[i].Key()), e.Created}}
		switch {
		case e.Err != nil:
			item.Error = explainOne(ctx, specs[i], e.Err)
			out.Failed++
			status = http.StatusMultiStatus
		case e.Created:
			out.Created++
		default:
			out.Existed++
		}
		out.Jobs[i] = item
	}
	return reply{status: status, body: out}, nil
}

// explainOne is explain for a job that was to be stored. It is named where it may have been: an earlier try than the
// one that failed last may have reached the store.
func explainOne(ctx context.Context, spec job.Spec, err error) *Problem {
	p := explain(ctx, err)
	if p.Code == CodeUnavailable {
		id := p.ErrorID
		p = unknownOutcome()
		p.ErrorID = id
	}
	if p.Code == CodeOutcomeUnknown {
		id := identity(spec.Key())
		p.Job = &id
	}
	return p
}

func identity(k job.Key) Identity { return Identity{k.Queue, k.Space, k.ID} }

func location(k job.Key) string {
	return "/v1/jobs/" + url.PathEscape(k.Space) + "/" + url.PathEscape(k.ID) + "?queue=" + url.QueryEscape(k.Queue)
}

// oneJob names a job.
type oneJob struct {
	Space string `path:"space"`
	ID    string `path:"id"`
	Queue string `query:"queue" doc:"Needed only if several queues have a job of this id."`
}

// key is the job's identity, as far as it was named.
func (in *oneJob) key() (job.Key, *Problem) {
	k := job.Key{Queue: in.Queue, Space: in.Space, ID: in.ID}
	if in.Queue == "" {
		return k, nil
	}
	if err := job.ValidateName("queue", in.Queue, job.MaxName); err != nil {
		return k, badParameter("queue", err)
	}
	return k, nil
}

func (j jobs) get(ctx context.Context, in *oneJob) (any, error) {
	key, p := in.key()
	if p != nil {
		return nil, p
	}
	return answered(j.Jobs.Get(ctx, key))
}

// answered is what was answered, as it is.
func answered[T any](v T, err error) (any, error) { return v, err }
