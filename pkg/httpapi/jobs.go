package httpapi

import (
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// jobs serves the routes under /v1/jobs.
type jobs struct{ *Config }

func registerJobs(api huma.API, cfg *Config) {
	j := jobs{cfg}
	security := []map[string][]string{{tokenScheme: {}}}

	huma.Register(api, huma.Operation{
		OperationID: "enqueueJob", Method: http.MethodPost, Path: "/v1/jobs",
		Summary: "Put a job in",
		Description: "A job of the same queue, space and id that exists already is left as it is. " +
			"Name the job: then the same request can be sent again until it is answered.",
		MaxBodyBytes: cfg.MaxBody, BodyReadTimeout: cfg.BodyTimeout, Security: security,
		DefaultStatus: http.StatusCreated,
		Responses:     answers(api, reflect.TypeFor[Enqueued](), []int{200, 201}, 400, 401, 403, 404, 405, 408, 413, 415, 422, 500, 503),
	}, j.enqueue)
	describeBody(api, "/v1/jobs", reflect.TypeFor[Spec]())

	huma.Register(api, huma.Operation{
		OperationID: "enqueueJobs", Method: http.MethodPost, Path: "/v1/jobs/bulk",
		Summary: "Put up to 1,000 jobs in, each by itself",
		Description: "Nothing is stored unless every job is in order. 200: each job is stored, or was there; " +
			"207: some could not be stored, and say why.",
		MaxBodyBytes: cfg.MaxBulkBody, BodyReadTimeout: cfg.BodyTimeout, Security: security,
		DefaultStatus: http.StatusOK,
		Responses:     answers(api, reflect.TypeFor[EnqueuedMany](), []int{200, 207}, 400, 401, 403, 404, 405, 408, 413, 415, 422, 500, 503),
	}, j.enqueueMany)
	describeBody(api, "/v1/jobs/bulk", reflect.TypeFor[SpecMany]())

	huma.Register(api, huma.Operation{
		OperationID: "getJob", Method: http.MethodGet, Path: "/v1/jobs/{space}/{id}",
		Summary:     "Read a job's record",
		Description: "Without a queue, whichever has the job; 409 if several do.",
		Security:    security,
		Responses:   answers(api, reflect.TypeFor[Record](), []int{200}, 401, 403, 404, 405, 409, 422, 500, 503),
	}, j.get)
}

// bodyInput is a request with a body. It reads the body itself: what is wrong with it is said in our words, and
// nothing is taken that the standard decoder would take.
type bodyInput struct {
	body    []byte
	trace   job.Trace
	problem *Problem
}

var _ huma.Resolver = (*bodyInput)(nil)

// Resolve reads the body within the operation's limits.
func (in *bodyInput) Resolve(ctx huma.Context) []error {
	r, _ := humago.Unwrap(ctx)
	in.trace = traceOf(r.Header)
	in.body, in.problem = readBody(ctx)
	return nil
}

func readBody(ctx huma.Context) ([]byte, *Problem) {
	kind, params, err := mime.ParseMediaType(ctx.Header("Content-Type"))
	if charset := params["charset"]; err != nil || kind != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return nil, newProblem(http.StatusUnsupportedMediaType, CodeMediaType, "the body has to be application/json, in UTF-8")
	}
	op := ctx.Operation()
	r, w := humago.Unwrap(ctx)
	if err := ctx.SetReadDeadline(time.Now().Add(op.BodyReadTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, unreadable()
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, op.MaxBodyBytes))
	var tooLarge *http.MaxBytesError
	var timeout net.Error
	switch {
	case err == nil:
		return body, nil
	case errors.As(err, &tooLarge):
		p := newProblem(http.StatusRequestEntityTooLarge, CodeTooLarge, "the body is larger than is taken here")
		return nil, p
	case errors.As(err, &timeout) && timeout.Timeout():
		return nil, newProblem(http.StatusRequestTimeout, CodeTimeout, "the body did not come in time")
	default:
		return nil, unreadable()
	}
}

func unreadable() *Problem {
	return newProblem(http.StatusBadRequest, CodeBadRequest, "the body could not be read to its end")
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

type enqueueOutput struct {
	Status   int
	Location string `header:"Location"`
	Body     Enqueued
}

func (j jobs) enqueue(ctx context.Context, in *bodyInput) (*enqueueOutput, error) {
	if in.problem != nil {
		return nil, in.problem
	}
	spec, p := decodeSpec(in.body)
	if p != nil {
		return nil, p
	}
	if p := j.admit(ctx, spec); p != nil {
		return nil, p
	}
	spec.Trace = in.trace
	ctx, cancel := context.WithTimeout(ctx, j.Timeout)
	defer cancel()
	e, err := j.Jobs.EnqueueSpec(ctx, spec)
	if err != nil {
		return nil, explainOne(ctx, spec, err)
	}
	out := &enqueueOutput{Status: http.StatusOK, Location: location(spec.Key()), Body: Enqueued{identity(spec.Key()), e.Created}}
	if e.Created {
		out.Status = http.StatusCreated
	}
	return out, nil
}

type enqueueManyOutput struct {
	Status int
	Body   EnqueuedMany
}

func (j jobs) enqueueMany(ctx context.Context, in *bodyInput) (*enqueueManyOutput, error) {
	if in.problem != nil {
		return nil, in.problem
	}
	specs, p := decodeBulk(in.body)
	if p != nil {
		return nil, p
	}
	if p := j.admit(ctx, specs...); p != nil {
		return nil, p
	}
	for i := range specs {
		specs[i].Trace = in.trace
	}
	ctx, cancel := context.WithTimeout(ctx, j.Timeout)
	defer cancel()
	done, err := j.Jobs.EnqueueMany(ctx, specs)
	if len(done) != len(specs) {
		if err == nil {
			err = errors.New("bulk enqueue: not every job has an answer")
		}
		return nil, explain(ctx, err)
	}
	out := &enqueueManyOutput{Status: http.StatusOK, Body: EnqueuedMany{Jobs: make([]EnqueuedItem, len(specs))}}
	for i, e := range done {
		item := EnqueuedItem{Enqueued: Enqueued{identity(specs[i].Key()), e.Created}}
		switch {
		case e.Err != nil:
			item.Error = explainOne(ctx, specs[i], e.Err)
			out.Body.Failed++
			out.Status = http.StatusMultiStatus
		case e.Created:
			out.Body.Created++
		default:
			out.Body.Existed++
		}
		out.Body.Jobs[i] = item
	}
	return out, nil
}

// admit refuses what the caller may not do, and what cannot be done now.
func (j jobs) admit(ctx context.Context, specs ...job.Spec) *Problem {
	c := callerOf(ctx)
	for i := range specs {
		if !c.may(specs[i].Space) {
			return noSuchJob()
		}
	}
	if !j.Connected() {
		return unavailable().because(ctx, errors.New("not connected to NATS"))
	}
	return nil
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

type getInput struct {
	Space string `path:"space"`
	ID    string `path:"id"`
	Queue string `query:"queue" doc:"Needed only if several queues have a job of this id."`
}

type getOutput struct{ Body record }

// record is a job, which writes itself, and is described as a Record.
type record struct{ *job.Job }

// Schema is for the OpenAPI document.
func (record) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[Record](), true, "Record")
}

func (j jobs) get(ctx context.Context, in *getInput) (*getOutput, error) {
	for _, f := range []struct{ name, value string }{{"space", in.Space}, {"id", in.ID}, {"queue", in.Queue}} {
		if f.name == "queue" && f.value == "" {
			continue
		}
		var bad *job.FieldError
		if errors.As(job.ValidateName(f.name, f.value, job.MaxName), &bad) {
			return nil, badFields(FieldProblem{bad.Field, bad.Reason})
		}
	}
	if p := j.admit(ctx, job.Spec{Space: in.Space}); p != nil {
		return nil, p
	}
	ctx, cancel := context.WithTimeout(ctx, j.Timeout)
	defer cancel()
	found, err := j.Jobs.Get(ctx, job.Key{Queue: in.Queue, Space: in.Space, ID: in.ID})
	if err != nil {
		return nil, explain(ctx, err)
	}
	return &getOutput{record{found}}, nil
}
