package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// Code says what is wrong, in a word that does not change.
type Code string

// The codes.
const (
	CodeBadJSON          Code = "bad_json"           // 400: no JSON, a name twice, no UTF-8, too deep
	CodeBadRequest       Code = "bad_request"        // 400: the request could not be read
	CodeUnauthorized     Code = "unauthorized"       // 401: no token, or one that is not known
	CodeForbidden        Code = "forbidden"          // 403: from another site, under another host's name, or beyond what the token is good for
	CodeMissingScope     Code = "missing_scope"      // 403: the token does not have the scope of the operation
	CodeNotFound         Code = "not_found"          // 404: no such thing or route, or none for this token
	CodeMethodNotAllowed Code = "method_not_allowed" // 405
	CodeTimeout          Code = "request_timeout"    // 408: the body did not come in time
	CodeAmbiguous        Code = "ambiguous"          // 409: several queues have a job of this id
	CodeUnchanged        Code = "unchanged"          // 409: the state of the thing does not allow it
	CodeNotRequeuable    Code = "not_requeuable"     // 409: what is left of the job cannot be run again
	CodeInUse            Code = "in_use"             // 409: the queue has jobs, or workers
	CodeOwned            Code = "owned"              // 409: the schedule has another owner
	CodeUnreadable       Code = "unreadable"         // 409: what is stored there is none, or cannot be shown
	CodeNotInteger       Code = "not_integer"        // 409: what is to be added to is no integer, or would overflow
	CodeDuplicate        Code = "duplicate"          // 409: a call of the same key goes on
	CodeRefused          Code = "refused"            // 409: the handler refused the call, and says why
	CodeCancelled        Code = "cancelled"          // 409: the call's job was cancelled
	CodeGone             Code = "gone"               // 410: the call's job has ended and left no record
	CodeTooLarge         Code = "too_large"          // 413: the body, or the job or value for the store
	CodeMediaType        Code = "unsupported_media"  // 415: a body that is not application/json
	CodeBadField         Code = "bad_field"          // 422: a field or a parameter that cannot be so
	CodeKeyReused        Code = "key_reused"         // 422: the key of a call was used before, for another one
	CodeRateLimited      Code = "rate_limited"       // 429: the token, or the space, has used up its requests
	CodeQueueFull        Code = "queue_full"         // 429: the queue has too many ready jobs
	CodeInternal         Code = "internal"           // 500
	CodeJobFailed        Code = "job_failed"         // 500: the call's job ended without success
	CodeUnavailable      Code = "unavailable"        // 503: the store cannot be reached; nothing was changed
	CodeBusy             Code = "busy"               // 503: others change the same thing all the time; nothing was changed
	CodeOverCapacity     Code = "over_capacity"      // 503: as many calls, or streams, go on here as may
	CodeOutcomeUnknown   Code = "outcome_unknown"    // 503: it may have been done; a job may be sent again under its id
)

// Problem is an error as a caller sees it (RFC 9457).
type Problem struct {
	Type    string         `json:"type" doc:"Always about:blank; the code says what is wrong."`
	Title   string         `json:"title"`
	Status  int            `json:"status"`
	Code    Code           `json:"code" doc:"What is wrong, in a word that does not change."`
	Detail  string         `json:"detail,omitzero" doc:"What is wrong, for a person to read."`
	Errors  []FieldProblem `json:"errors,omitzero" doc:"The fields that are wrong."`
	Queues  []string       `json:"queues,omitzero" doc:"With ambiguous: the queues that have a job of this id."`
	Job     *Identity      `json:"job,omitzero" doc:"With outcome_unknown: the job that may have been stored. Sending it again under this id is safe. Of a call: its job."`
	RunID   string         `json:"runId,omitzero" doc:"Of a call: its run."`
	Found   *Changed       `json:"found,omitzero" doc:"With unchanged: how the job was found."`
	ErrorID string         `json:"errorId,omitzero" doc:"The name of the details in the server's log, and of their record."`

	retryAfter int // in seconds; of a 429
}

// FieldProblem is one field that is wrong.
type FieldProblem struct {
	Field  string `json:"field" doc:"A JSON Pointer into the body, or the name of a parameter."`
	Reason string `json:"reason"`
}

// Identity names a job.
type Identity struct {
	Queue string `json:"queue"`
	Space string `json:"space"`
	ID    string `json:"id"`
}

// Error is the detail.
func (p *Problem) Error() string { return p.Detail }

// GetStatus is the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders are headers that go with the problem.
func (p *Problem) GetHeaders() http.Header {
	switch p.Status {
	case http.StatusConflict:
		if p.Code == CodeDuplicate {
			return http.Header{"Retry-After": {"1"}}
		}
	case http.StatusServiceUnavailable:
		return http.Header{"Retry-After": {"1"}}
	case http.StatusTooManyRequests:
		return http.Header{"Retry-After": {strconv.Itoa(max(p.retryAfter, 1))}}
	}
	return nil
}

// ContentType is that of problems.
func (p *Problem) ContentType(string) string { return problemType }

const problemType = "application/problem+json"

func newProblem(status int, code Code, detail string) *Problem {
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Code: code, Detail: detail}
}

func badJSON(field, reason string) *Problem {
	p := newProblem(http.StatusBadRequest, CodeBadJSON, "the body is not JSON as it has to be")
	p.Errors = []FieldProblem{{cut(field), reason}}
	return p
}

func badFields(errs ...FieldProblem) *Problem {
	p := newProblem(http.StatusUnprocessableEntity, CodeBadField, "a field is not as it has to be")
	p.Errors = errs
	return p
}

// noSuchJob is the same for a job that is not there, for a space that a token does not name, and for a route.
func noSuchJob() *Problem {
	return newProblem(http.StatusNotFound, CodeNotFound, nothing)
}

const nothing = "there is no such thing"

// unchanged says that the state of a thing does not allow what was asked for.
func unchanged(detail string) *Problem {
	return newProblem(http.StatusConflict, CodeUnchanged, detail+": nothing was changed")
}

func internal() *Problem {
	return newProblem(http.StatusInternalServerError, CodeInternal, "something went wrong here; the error's id names the details in the log")
}

func unavailable() *Problem {
	return newProblem(http.StatusServiceUnavailable, CodeUnavailable, "the store cannot be reached; nothing was changed")
}

func unknownOutcome() *Problem {
	return newProblem(http.StatusServiceUnavailable, CodeOutcomeUnknown, unknownJob)
}

// because has the details logged with the request, under an id that the caller is given.
func (p *Problem) because(ctx context.Context, err error) *Problem {
	p.ErrorID = newID()
	if info := infoOf(ctx); info != nil {
		info.failures = append(info.failures, failure{p.ErrorID, err})
	}
	return p
}

// asProblem turns huma's own errors into ours, and notes the code of every problem for the log.
func asProblem(ctx huma.Context, _ string, v any) (any, error) {
	if m, ok := v.(*huma.ErrorModel); ok {
		p := newProblem(m.Status, CodeBadRequest, m.Detail)
		switch {
		case m.Status >= http.StatusInternalServerError:
			p = internal().because(ctx.Context(), m)
		case m.Status == http.StatusUnprocessableEntity:
			p = badFields()
		}
		if p.Status < http.StatusInternalServerError {
			for _, e := range m.Errors {
				_, field, _ := strings.Cut(e.Location, ".") // after where it stands
				p.Errors = append(p.Errors, FieldProblem{cut(field), cmp.Or(ourWords[e.Message], e.Message)})
			}
		}
		v = p
	}
	if p, ok := v.(*Problem); ok {
		if info := infoOf(ctx.Context()); info != nil {
			info.code, info.detail = p.Code, p.Detail
		}
	}
	return v, nil
}

// ourWords say what huma says of parameters.
var ourWords = map[string]string{
	"invalid integer": "must be a number without a fraction",
	"invalid boolean": "must be true or false",
}

// answers describes the statuses that an operation can answer with, in its OpenAPI document.
func answers(api huma.API, body reflect.Type, good []int, bad ...int) map[string]*huma.Response {
	schemas := api.OpenAPI().Components.Schemas
	out := make(map[string]*huma.Response)
	for _, status := range good {
		out[strconv.Itoa(status)] = &huma.Response{
			Description: http.StatusText(status),
			Content:     map[string]*huma.MediaType{"application/json": {Schema: schemas.Schema(body, true, body.Name())}},
		}
	}
	for _, status := range bad {
		out[strconv.Itoa(status)] = &huma.Response{
			Description: http.StatusText(status),
			Content:     map[string]*huma.MediaType{problemType: {Schema: schemas.Schema(reflect.TypeFor[Problem](), true, "Problem")}},
		}
	}
	return out
}
