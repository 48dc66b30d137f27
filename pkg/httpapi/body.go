package httpapi

import (
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/jetcrew/jetcrew/pkg/config"
)

// readBody reads a body within the limits of its operation.
func readBody(w http.ResponseWriter, r *http.Request, timeout time.Duration, limit int64) ([]byte, *Problem) {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if charset := params["charset"]; err != nil || kind != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return nil, newProblem(http.StatusUnsupportedMediaType, CodeMediaType, "the body has to be application/json, in UTF-8")
	}
	err = http.NewResponseController(w).SetReadDeadline(time.Now().Add(timeout))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, unreadable()
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var tooLarge *http.MaxBytesError
	var late net.Error
	switch {
	case err == nil:
		return body, checkJSON(body)
	case errors.As(err, &tooLarge):
		return nil, newProblem(http.StatusRequestEntityTooLarge, CodeTooLarge, "the body is larger than is taken here")
	case errors.As(err, &late) && late.Timeout():
		return nil, newProblem(http.StatusRequestTimeout, CodeTimeout, "the body did not come in time")
	default:
		return nil, unreadable()
	}
}

func unreadable() *Problem {
	return newProblem(http.StatusBadRequest, CodeBadRequest, "the body could not be read to its end")
}

// bodyOf is the body of the request that ctx belongs to: JSON in which no name stands twice.
func bodyOf(ctx context.Context) []byte { return infoOf(ctx).body }

// strict takes no member that nothing would be done with, and durations as the command line has them.
var strict = json.JoinOptions(
	json.RejectUnknownMembers(true),
	json.WithUnmarshalers(json.UnmarshalFromFunc(func(dec *jsontext.Decoder, d *time.Duration) error {
		tok, err := dec.ReadToken()
		if err != nil {
			return err
		}
		if tok.Kind() != '"' {
			return errors.New("a duration is text")
		}
		*d, err = config.ParseDuration(tok.String())
		return err
	})),
)

// decodeBody reads the body of the request that ctx belongs to, a JSON object, into v.
func decodeBody(ctx context.Context, v any) *Problem {
	body := bodyOf(ctx)
	if jsontext.Value(body).Kind() != '{' {
		return badFields(FieldProblem{"", "must be a JSON object"})
	}
	err := json.Unmarshal(body, v, strict)
	if err == nil {
		return nil
	}
	var s *json.SemanticError
	if !errors.As(err, &s) {
		return badFields(FieldProblem{"", "cannot be read"})
	}
	reason := "is not as it has to be"
	switch {
	case errors.Is(s.Err, json.ErrUnknownName):
		reason = "is not known"
	case s.GoType != nil:
		reason = "must be " + wanted(s.GoType)
	}
	return badFields(FieldProblem{cut(string(s.JSONPointer)), reason})
}

// wanted says in JSON's words what a member has to be.
func wanted(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return `a duration such as "90s", "12h" or "7d"`
	case reflect.TypeFor[time.Time]():
		return `an instant such as "2030-01-02T15:04:05Z"`
	}
	switch t.Kind() {
	case reflect.Pointer:
		return wanted(t.Elem())
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a number without a fraction"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "a list"
	default:
		return "an object"
	}
}

// parseDuration reads a parameter that is a duration; an empty one is 0.
func parseDuration(name, given string) (time.Duration, *Problem) {
	if given == "" {
		return 0, nil
	}
	d, err := config.ParseDuration(given)
	if err != nil {
		return 0, badFields(FieldProblem{name, "must be a duration such as 90s, 12h or 7d"})
	}
	return d, nil
}
