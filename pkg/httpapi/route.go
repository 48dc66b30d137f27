package httpapi

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
	"github.com/jetcrew/jetcrew/scheduler"
)

// place is where an operation says which space it touches.
type place int

const (
	inPath    place = iota // the path names it as {space}
	inRequest              // the query or the body does: the handler authorizes what they name
	inFleet                // none: it is about what belongs to all of them
	nowhere                // none: it asks the store nothing
)

// route is an operation, with all that is true of it before anybody looks at what it does.
type route struct {
	id, method, path string
	summary, says    string
	scope            Scope
	place            place
	body             reflect.Type    // describes the body; nil: there is none
	maxBody          int64           // defaults to Config.MaxBody
	long             bool            // it may take Config.LongTimeout
	good             []int           // statuses of success, the usual one first; defaults to 200
	also             []int           // refusals beside those that follow from the above
	query            map[string]bool // its parameters, and whether they can be given again
}

// routes is where operations are registered.
type routes struct {
	api huma.API
	cfg *Config
}

// reply is an answer with a status or a header that is not the usual one.
type reply struct {
	status   int
	location string
	body     any
}

// shown is an answer that is written as jetcrew writes its documents, and described as a D.
type shown[D any] struct{ v any }

// MarshalJSON writes the answer.
func (s shown[D]) MarshalJSON() ([]byte, error) { return job.Encode(s.v) }

// Schema is for the OpenAPI document.
func (shown[D]) Schema(r huma.Registry) *huma.Schema {
	t := reflect.TypeFor[D]()
	return r.Schema(t, true, t.Name())
}

type output[D any] struct {
	Status   int
	Location string `header:"Location"`
	Body     shown[D]
}

// add registers an operation. do is called when the caller may, the parameters are in order and the body is there, with a
// context that ends in time; D describes what it answers.
func add[D, I any](r *routes, rt route, do func(context.Context, *I) (any, error)) {
	if rt.good == nil {
		rt.good = []int{http.StatusOK}
	}
	if rt.maxBody == 0 {
		rt.maxBody = r.cfg.MaxBody
	}
	rt.query = queryOf(reflect.TypeFor[I]())
	huma.Register(r.api, huma.Operation{
		OperationID: rt.id, Method: rt.method, Path: rt.path, Summary: rt.summary, Description: rt.says,
		Security:      []map[string][]string{{tokenScheme: {string(rt.scope)}}},
		DefaultStatus: rt.good[0],
		Responses:     answers(r.api, reflect.TypeFor[D](), rt.good, rt.refusals()...),
	}, func(ctx context.Context, in *I) (*output[D], error) {
		a, err := r.serve(ctx, &rt, func(ctx context.Context) (any, error) { return do(ctx, in) })
		if err != nil {
			return nil, err
		}
		return &output[D]{a.status, a.location, shown[D]{a.body}}, nil
	})
	if rt.body != nil {
		describeBody(r.api, &rt)
	}
}

// refusals are the statuses with which the operation may be refused.
func (rt *route) refusals() []int {
	out := append([]int{401, 403, 405, 422, 429, 503}, rt.also...)
	if rt.place != nowhere {
		out = append(out, 500)
	}
	if rt.place == inPath || rt.place == inRequest {
		out = append(out, 404)
	}
	if rt.body != nil {
		out = append(out, 400, 408, 413, 415)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// serve is what all operations have in common.
func (r *routes) serve(ctx context.Context, rt *route, do func(context.Context) (any, error)) (reply, error) {
	if p := r.guard(ctx, rt); p != nil {
		return reply{}, p
	}
	limit := r.cfg.Timeout
	if rt.long {
		limit = r.cfg.LongTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	infoOf(ctx).ran = true
	v, err := do(ctx)
	if err != nil {
		return reply{}, rt.explain(ctx, err)
	}
	a, ok := v.(reply)
	if !ok {
		a.body = v
	}
	if a.status == 0 {
		a.status = rt.good[0]
	}
	return a, nil
}

// guard refuses what the caller may not do, what cannot be done now, and what is wrong with the request itself; then it
// reads the body.
func (r *routes) guard(ctx context.Context, rt *route) (p *Problem) {
	in := infoOf(ctx)
	in.scope = rt.scope
	switch rt.place {
	case inPath:
		p = authorized(ctx, in.request.PathValue("space"))
	case inFleet:
		p = authorized(ctx, fleet)
	default:
		p = authorized(ctx)
	}
	if p != nil {
		return p
	}
	if p := checkPath(rt.path, in.request); p != nil {
		return p
	}
	if p := rt.checkQuery(in.request.URL.RawQuery); p != nil {
		return p
	}
	if rt.place != nowhere && !r.cfg.Connected() {
		return unavailable().because(ctx, errDisconnected)
	}
	if rt.body == nil {
		return nil
	}
	in.body, p = readBody(in.writer, in.request, r.cfg.BodyTimeout, rt.maxBody)
	return p
}

var wildcards = regexp.MustCompile(`\{(\w+)\}`)

// checkPath refuses names in the path that nothing can have.
func checkPath(pattern string, r *http.Request) *Problem {
	for _, m := range wildcards.FindAllStringSubmatch(pattern, -1) {
		name, value := m[1], r.PathValue(m[1])
		var err error
		switch name {
		case "key", "list":
			err = kv.CheckKey(value)
		case "entry": // the store says what it may be
		case "name":
			err = job.ValidateName(name, value, scheduler.MaxName)
		default:
			err = job.ValidateName(name, value, job.MaxName)
		}
		if err != nil {
			return badParameter(name, err)
		}
	}
	return nil
}

// mayBeEmpty are the parameters of which nothing is a value as well. That of any other is a mistake, such as a script's
// variable that is not set, and must not mean all.
var mayBeEmpty = []string{"owner", "prefix", "timezone"}

// checkQuery refuses parameters that the operation does not know, that are given twice, or that are empty: one that is
// misspelt would narrow nothing.
func (rt *route) checkQuery(raw string) *Problem {
	given, err := url.ParseQuery(raw)
	if err != nil {
		return badFields(FieldProblem{"", "the query cannot be read: a % has to be written as %25, a ; as %3B"})
	}
	var errs []FieldProblem
	for name, values := range given {
		again, known := rt.query[name]
		switch {
		case !known:
			errs = append(errs, FieldProblem{cut(name), "is not known here; there are " + cmp.Or(strings.Join(slices.Sorted(maps.Keys(rt.query)), ", "), "none")})
		case len(values) > 1 && !again:
			errs = append(errs, FieldProblem{name, "is given twice"})
		case slices.Contains(values, "") && !slices.Contains(mayBeEmpty, name):
			errs = append(errs, FieldProblem{name, "must not be empty"})
		}
	}
	if len(errs) == 0 {
		return nil
	}
	slices.SortFunc(errs, func(a, b FieldProblem) int { return strings.Compare(a.Field, b.Field) })
	return badFields(errs[:min(len(errs), maxProblems)]...)
}

// queryOf are the query parameters of an input.
func queryOf(t reflect.Type) map[string]bool {
	out := make(map[string]bool)
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("query"), ","); name != "" {
			out[name] = f.Type.Kind() == reflect.Slice
		}
	}
	return out
}

// explain is explain for what the operation failed with. One that may have changed something when no answer came does
// not say that it did not; and fields of an operation without a body are those of its parameters.
func (rt *route) explain(ctx context.Context, err error) *Problem {
	p := explain(ctx, err)
	if p.Code == CodeUnavailable && rt.method != http.MethodGet {
		id := p.ErrorID
		p = newProblem(http.StatusServiceUnavailable, CodeOutcomeUnknown, "the store did not answer, so it may have been done or not")
		p.ErrorID = id
	}
	if rt.body == nil {
		for i := range p.Errors {
			p.Errors[i].Field = strings.TrimPrefix(p.Errors[i].Field, "/")
		}
	}
	return p
}
