package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/jetcrew/jetcrew/pkg/job"
)

const (
	// maxDepth is how deep the JSON of a request may be nested.
	maxDepth = 100
	// maxBulk is how many jobs one request may put in.
	maxBulk = 1000
	// maxProblems is how many wrong fields are named at a time.
	maxProblems = 20
)

// decodeSpec reads the body of a request for one job.
func decodeSpec(body []byte) (job.Spec, *Problem) {
	spec, errs := readSpec(body, "")
	if len(errs) > 0 {
		return job.Spec{}, badFields(errs...)
	}
	return spec, nil
}

// decodeBulk reads the body of a bulk request. Nothing is stored unless all of it is in order.
func decodeBulk(body []byte) ([]job.Spec, *Problem) {
	if errs := unknownMembers(body, "", []string{"jobs"}); len(errs) > 0 {
		return nil, badFields(errs...)
	}
	var list struct {
		Jobs []jsontext.Value `json:"jobs"`
	}
	if err := job.Decode(body, &list); err != nil {
		return nil, badFields(FieldProblem{"/jobs", "must be a list of jobs"})
	}
	if n := len(list.Jobs); n < 1 || n > maxBulk {
		return nil, badFields(FieldProblem{"/jobs", fmt.Sprintf("must be 1 to %d jobs, not %d", maxBulk, n)})
	}
	specs := make([]job.Spec, len(list.Jobs))
	var all []FieldProblem
	for i, v := range list.Jobs {
		spec, errs := readSpec(v, "/jobs/"+strconv.Itoa(i))
		specs[i] = spec
		if all = append(all, errs...); len(all) >= maxProblems {
			break
		}
	}
	if len(all) > 0 {
		return nil, badFields(all[:min(len(all), maxProblems)]...)
	}
	return specs, nil
}

// checkJSON refuses what is no JSON, names a member twice, is no UTF-8, is nested too deeply, or goes on after its
// end. The standard decoder takes most of that.
func checkJSON(body []byte) *Problem {
	dec := jsontext.NewDecoder(bytes.NewReader(body))
	for ended := false; ; {
		_, err := dec.ReadToken()
		if errors.Is(err, io.EOF) && ended {
			return nil
		}
		if err != nil {
			return syntaxProblem(body, err)
		}
		if ended {
			return badJSON("", "something follows the JSON value")
		}
		if dec.StackDepth() > maxDepth {
			return badJSON(string(dec.StackPointer()), fmt.Sprintf("is nested deeper than %d levels", maxDepth))
		}
		ended = dec.StackDepth() == 0
	}
}

func syntaxProblem(body []byte, err error) *Problem {
	var s *jsontext.SyntacticError
	switch {
	case !errors.As(err, &s):
		return badJSON("", "the body ends too early, or is empty")
	case errors.Is(s.Err, jsontext.ErrDuplicateName):
		return badJSON(string(s.JSONPointer), "is named twice")
	case !utf8.Valid(body) && s.ByteOffset < int64(len(body)) && !utf8.Valid(body[s.ByteOffset:]):
		return badJSON(string(s.JSONPointer), "is not valid UTF-8")
	default:
		return badJSON(string(s.JSONPointer), fmt.Sprintf("is not valid JSON at byte %d", s.ByteOffset))
	}
}

// readSpec reads one job, which stands at a JSON Pointer of the body.
func readSpec(b []byte, at string) (job.Spec, []FieldProblem) {
	if jsontext.Value(b).Kind() != '{' {
		return job.Spec{}, []FieldProblem{{at, "must be a JSON object"}}
	}
	if errs := unknownMembers(b, at, specMembers); len(errs) > 0 {
		return job.Spec{}, errs
	}
	var spec job.Spec
	if err := job.Decode(bytes.Clone(b), &spec); err != nil {
		return job.Spec{}, []FieldProblem{typeProblem(err, at)}
	}
	if spec.Retry != nil {
		var members struct {
			Retry jsontext.Value `json:"retry"`
		}
		if job.Decode(b, &members) == nil {
			if errs := unknownMembers(members.Retry, at+"/retry", memberNames(reflect.TypeFor[job.Retry]())); len(errs) > 0 {
				return job.Spec{}, errs
			}
		}
	}
	if err := spec.Normalize(); err != nil {
		var f *job.FieldError
		if !errors.As(err, &f) {
			return job.Spec{}, []FieldProblem{{at, "cannot be a job"}}
		}
		return job.Spec{}, []FieldProblem{{at + "/" + f.Field, f.Reason}}
	}
	return spec, nil
}

// unknownMembers names the members of an object that nothing would be done with.
func unknownMembers(b []byte, at string, known []string) []FieldProblem {
	var members map[string]jsontext.Value
	if err := job.Decode(b, &members); err != nil {
		return []FieldProblem{{at, "must be a JSON object"}}
	}
	var errs []FieldProblem
	for name := range members {
		if !slices.Contains(known, name) {
			errs = append(errs, FieldProblem{cut(at + "/" + pointerToken(name)), "is not known"})
		}
	}
	slices.SortFunc(errs, func(a, b FieldProblem) int { return strings.Compare(a.Field, b.Field) })
	return errs[:min(len(errs), maxProblems)]
}

// typeProblem says which member has a value of the wrong kind, and what it has to be, without a name of Go's.
func typeProblem(err error, at string) FieldProblem {
	var s *json.SemanticError
	if !errors.As(err, &s) {
		return FieldProblem{at, "cannot be read as a job"}
	}
	field := string(s.JSONPointer)
	reason := "must be text"
	switch name, _, _ := strings.Cut(strings.TrimPrefix(field, "/"), "/"); name {
	case "dueAt", "deadline":
		reason = `must be an instant such as "2030-01-02T15:04:05Z"`
	case "delay", "timeout":
		reason = `must be a duration such as "30s"`
	case "retry":
		reason = `must be an object such as {"base":"30s","max":"15m"}`
	case "maxAttempts", "missed":
		reason = "must be a number without a fraction"
	case "":
		reason = "must be a JSON object"
	}
	return FieldProblem{cut(at + field), reason}
}

// specMembers are the names that a job in a request may have.
var specMembers = memberNames(reflect.TypeFor[job.Spec]())

func memberNames(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "-" {
			names = append(names, name)
		}
	}
	return names
}

// pointerToken escapes a name for a JSON Pointer.
func pointerToken(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }

// cut keeps what is echoed to a line.
func cut(s string) string {
	const limit = 200
	if len(s) <= limit {
		return s
	}
	return cutTo(s, limit) + "…"
}

// cutTo is the beginning of a text, to a whole character.
func cutTo(s string, bytes int) string {
	if len(s) <= bytes {
		return s
	}
	for bytes > 0 && !utf8.RuneStart(s[bytes]) {
		bytes--
	}
	return s[:bytes]
}

// writeJSON writes answers as jetcrew writes its documents.
func writeJSON(w io.Writer, v any) error {
	b, err := job.Encode(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}
