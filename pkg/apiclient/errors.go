package apiclient

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
	"github.com/jetcrew/jetcrew/scheduler"
)

// Errors that callers branch on, beside those of packages job, scheduler and kv.
var (
	// ErrUnreachable: there was no answer. What may have been done nevertheless is job.ErrUnknown as well, or kv.ErrUnknown.
	ErrUnreachable = errors.New("the API cannot be reached")
	// ErrAnswer: what answered is not jetcrew, or its answer is cut off or too long.
	ErrAnswer = errors.New("no answer of jetcrew's")
	// ErrUnauthorized: there is no token, or it is not known (any more).
	ErrUnauthorized = errors.New("the token is not good here")
	// ErrForbidden: the token is not good for this. Nothing was done.
	ErrForbidden = errors.New("the token does not allow it")
	// ErrRateLimited: too many requests, or too many ready jobs, for now. Nothing was done.
	ErrRateLimited = errors.New("too much at once")
)

const problemType = "application/problem+json"

// The codes that are told from each other.
const (
	codeNotFound       = "not_found"
	codeAmbiguous      = "ambiguous"
	codeUnchanged      = "unchanged"
	codeRateLimited    = "rate_limited"
	codeQueueFull      = "queue_full"
	codeUnavailable    = "unavailable"
	codeBusy           = "busy"
	codeOutcomeUnknown = "outcome_unknown"
	codeUnreadable     = "unreadable"
	codeOverCapacity   = "over_capacity"
)

// Error is an answer that says why something was not done, or may not have been. Its sentinel, such as job.ErrNotFound,
// is found by errors.Is, and a *job.FieldError or a *job.AmbiguousError by errors.As.
type Error struct {
	Status     int
	Code       string // what is wrong, in a word that does not change
	Detail     string // for a person to read
	RequestID  string // names the request in the API's log
	ErrorID    string // names the details there, if there are any
	RetryAfter time.Duration

	is    error
	found *changed
}

// Error says what is wrong, and where to look for more.
func (e *Error) Error() string {
	var b strings.Builder
	switch {
	case e.is == nil:
		fmt.Fprintf(&b, "%s (%d %s)", e.Detail, e.Status, e.Code)
	case e.ownWords():
		b.WriteString(e.is.Error())
	default:
		fmt.Fprintf(&b, "%s: %s", e.is, e.Detail)
	}
	switch {
	case e.ErrorID != "":
		fmt.Fprintf(&b, "; the API's log has more under %s", e.ErrorID)
	case e.Status >= 500 || e.Status == http.StatusForbidden || e.Status == http.StatusTooManyRequests:
		fmt.Fprintf(&b, "; request %s", e.RequestID)
	}
	return b.String()
}

// ownWords: the error that it is says all that the detail does.
func (e *Error) ownWords() bool {
	var f *job.FieldError
	return errors.As(e.is, &f) || e.Code == codeNotFound || e.Code == codeAmbiguous || e.Code == "owned"
}

// Unwrap is what it is here.
func (e *Error) Unwrap() error { return e.is }

// problemDocument is a problem as it is written.
type problemDocument struct {
	Code   string `json:"code"`
	Detail string `json:"detail"`
	Errors []struct {
		Field  string `json:"field"`
		Reason string `json:"reason"`
	} `json:"errors"`
	Queues  []string `json:"queues"`
	Found   *changed `json:"found"`
	ErrorID string   `json:"errorId"`
}

// meanings are what codes stand for here. What a 404 stands for, the call says.
var meanings = map[string]error{
	"unauthorized":   ErrUnauthorized,
	"forbidden":      ErrForbidden,
	"missing_scope":  ErrForbidden,
	codeRateLimited:  ErrRateLimited,
	codeQueueFull:    ErrRateLimited,
	"not_requeuable": job.ErrNotRequeuable,
	"in_use":         job.ErrQueueInUse,
	"owned":          scheduler.ErrOwned,
	codeUnreadable:   scheduler.ErrUnreadable,
	"not_integer":    kv.ErrNotInteger,
	"too_large":      job.ErrTooLarge,
	codeBusy:         scheduler.ErrBusy,
	codeUnavailable:  ErrUnreachable,
}

// problem is the error of an answer that is one.
func (c *Client) problem(cl *call, resp *http.Response, body []byte, id string) error {
	var p problemDocument
	if job.Decode(body, &p) != nil || p.Code == "" {
		return cl.unlessRefused(resp, fmt.Errorf("%w: %s answered %s with what is not jetcrew's JSON, or is cut off", ErrAnswer, c.base, resp.Status))
	}
	if given := resp.Header.Get("X-Request-Id"); given != "" && len(given) <= 64 {
		id = given
	}
	return cl.explain(&p, &Error{
		Status: resp.StatusCode, Code: p.Code, Detail: shorten(p.Detail, 300), RequestID: id, ErrorID: shorten(p.ErrorID, 64),
		RetryAfter: retryAfter(resp.Header), found: p.Found,
	})
}

// explain completes an error with what it is here.
func (cl *call) explain(p *problemDocument, e *Error) *Error {
	e.is = meanings[e.Code]
	if !strings.HasPrefix(cl.path, "/v1/schedules") && (e.Code == codeBusy || e.Code == codeUnreadable) {
		e.is = nil // their sentinels are about schedules
	}
	switch {
	case len(p.Errors) > 0:
		var all []error
		for _, f := range p.Errors {
			all = append(all, &job.FieldError{Field: fieldName(f.Field), Reason: shorten(f.Reason, 300)})
		}
		e.is = errors.Join(all...)
	case e.Code == codeAmbiguous:
		e.is = &job.AmbiguousError{Queues: p.Queues}
	case e.Code == codeNotFound:
		e.is = cl.missing
		if e.is == nil {
			e.Detail = "there is no such thing, or not for this token"
		}
	case e.Code == codeOutcomeUnknown:
		if e.is = cl.unknown; e.is == nil {
			e.is = job.ErrUnknown
		}
	case e.Code == "too_large" && cl.unknown != nil:
		e.is = kv.ErrTooLarge
	}
	return e
}

// fieldName is a JSON Pointer as fields are called elsewhere.
func fieldName(pointer string) string {
	name := strings.ReplaceAll(strings.TrimPrefix(pointer, "/"), "/", ".")
	name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
	if name == "" {
		name = "request"
	}
	return shorten(name, 200)
}

// foreign is the error of an answer that is not jetcrew's: a proxy's, or whatever else listens there.
func (c *Client) foreign(cl *call, resp *http.Response, kind string) error {
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		to := ""
		if u, err := resp.Location(); err == nil {
			to = " to " + shorten(u.Scheme+"://"+u.Host+u.EscapedPath(), 200)
		}
		return fmt.Errorf("%w: %s redirects%s, where the token is not sent: name the API's own address", ErrAnswer, c.base, to)
	}
	if kind == "" {
		kind = "no content type"
	}
	return cl.unlessRefused(resp, fmt.Errorf("%w: %s answered %s with %s: a proxy, or not \"jetcrew serve\" at all", ErrAnswer, c.base, shorten(resp.Status, 60), shorten(kind, 60)))
}

// unlessRefused leaves it open whether something was done, unless the status says that it was not.
func (cl *call) unlessRefused(resp *http.Response, err error) error {
	if resp.StatusCode >= 400 && resp.StatusCode < 500 || resp.StatusCode == http.StatusServiceUnavailable {
		return err
	}
	return cl.doubt(err)
}

// shorten cuts what is echoed to a line.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
