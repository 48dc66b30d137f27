package httpapi

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// eventStreams serves the streams of events.
type eventStreams struct {
	*routes
	route route
}

type eventsInput struct {
	Space string `query:"space" doc:"Of the jobs of this space. Defaults to all that the token is good for."`
	Queue string `query:"queue" doc:"Of the jobs of this queue."`
	ID    string `query:"id" doc:"Of the job of this id. It needs the space, and the queue if several have a job of this id."`
	Last  string `header:"Last-Event-ID" doc:"The id of the last event that was read: what was stored after it is sent first."`
}

func registerEvents(r *routes) {
	s := eventStreams{r, route{
		id: "streamEvents", method: http.MethodGet, path: "/v1/events", scope: ScopeRead, place: inRequest,
		summary: "What happens to jobs, as server-sent events",
		says: "An event's id is the sequence under which the change was stored, its name the state that the job has come to, and " +
			"its data says more. What handlers say of their jobs (progress, log) and ends that leave no record have no id. " +
			"With Last-Event-ID, what was stored after it comes first, and then an event named watching; a stream of one job begins with the job as it is. " +
			"missed: something was stored meanwhile that is not kept any more, or the store is another one. A reader that is too slow is cut off, and comes again.",
		also:  []int{http.StatusConflict},
		good:  []int{http.StatusOK},
		query: queryOf(reflect.TypeFor[eventsInput]()),
	}}
	responses := answers(r.api, reflect.TypeFor[Problem](), nil, s.route.refusals()...)
	responses["200"] = &huma.Response{
		Description: http.StatusText(http.StatusOK),
		Content:     map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}}},
	}
	huma.Register(r.api, huma.Operation{
		OperationID: s.route.id, Method: s.route.method, Path: s.route.path, Summary: s.route.summary, Description: s.route.says,
		Security:  []map[string][]string{{tokenScheme: {string(s.route.scope)}}},
		Responses: responses,
	}, s.serve)
}

// serve opens a stream, or refuses.
func (s eventStreams) serve(ctx context.Context, in *eventsInput) (*huma.StreamResponse, error) {
	if p := s.guard(ctx, &s.route); p != nil {
		return nil, p
	}
	opening, cancel := context.WithTimeout(ctx, streamOpening)
	defer cancel()
	infoOf(ctx).ran = true
	st, err := s.open(opening, in)
	if err != nil {
		return nil, s.route.explain(opening, err)
	}
	return &huma.StreamResponse{Body: func(huma.Context) {
		defer s.cfg.Events.close(st.sub)
		i := infoOf(ctx)
		st.w, st.rc = i.writer, http.NewResponseController(i.writer)
		h := st.w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("X-Accel-Buffering", "no") // some proxies hold answers back until they are large
		st.w.WriteHeader(http.StatusOK)
		st.run(ctx)
	}}, nil
}

func (s eventStreams) open(ctx context.Context, in *eventsInput) (*stream, error) {
	last, given, p := lastEventID(infoOf(ctx).request)
	if p == nil {
		p = in.check()
	}
	if p == nil && in.Space != "" {
		p = authorized(ctx, in.Space)
	}
	if p != nil {
		return nil, p
	}
	f := eventFilter{queue: in.Queue, space: in.Space, id: in.ID, may: callerOf(ctx).may}
	if in.ID != "" {
		j, err := s.cfg.Jobs.Get(ctx, job.Key{Queue: in.Queue, Space: in.Space, ID: in.ID})
		if err != nil {
			return nil, err
		}
		f.queue = j.Queue
	}
	e := s.cfg.Events
	st := &stream{e: e}
	if given || in.ID != "" {
		first, end, err := e.cfg.Feed.Bounds(ctx)
		if err != nil {
			return nil, err
		}
		st.resume = resume(last, first, end)
		if last > end {
			last = 0
		}
	}
	sub, from, err := e.open(ctx, f, last)
	switch {
	case errors.Is(err, errStreamsFull):
		return nil, newProblem(http.StatusServiceUnavailable, CodeOverCapacity, "as many streams of events are open here as may be; please try again in a moment")
	case errors.Is(err, errStreamsEnded):
		return nil, newProblem(http.StatusServiceUnavailable, CodeUnavailable, "this process is ending")
	case err != nil:
		return nil, err
	}
	st.sub, st.from = sub, from
	return st, nil
}

// check refuses what no stream can be of.
func (in *eventsInput) check() *Problem {
	for _, f := range []struct{ name, value string }{{"space", in.Space}, {"queue", in.Queue}, {"id", in.ID}} {
		if f.value == "" {
			continue
		}
		if err := job.ValidateName(f.name, f.value, job.MaxName); err != nil {
			return badParameter(f.name, err)
		}
	}
	if in.ID != "" && in.Space == "" {
		return badFields(FieldProblem{"space", "must be given with an id"})
	}
	return nil
}

// lastEventID is the sequence up to which a reader has read, if it says so.
func lastEventID(r *http.Request) (last uint64, given bool, p *Problem) {
	values := r.Header.Values("Last-Event-ID")
	if len(values) == 0 {
		return 0, false, nil
	}
	last, err := strconv.ParseUint(values[0], 10, 64)
	if err != nil || len(values) > 1 {
		return 0, false, badFields(FieldProblem{"Last-Event-ID", "must be the id of an event, once: a number without a fraction"})
	}
	return last, true, nil
}
