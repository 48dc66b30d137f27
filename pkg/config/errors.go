package config

import (
	"errors"
	"fmt"

	"github.com/caarlos0/env/v11"
)

// Error says which variable is wrong, and what is allowed.
type Error struct {
	Variable string
	Flag     string // the flag that gave the value, if one did
	Reason   string // never holds a secret
}

func (e *Error) Error() string {
	if e.Flag != "" {
		return fmt.Sprintf("%s (%s): %s", e.Flag, e.Variable, e.Reason)
	}
	return fmt.Sprintf("%s: %s", e.Variable, e.Reason)
}

// parseErrors turns the parser's errors into ours: its texts name Go fields and types.
func parseErrors(err error, values map[string]string) []error {
	var all env.AggregateError
	if !errors.As(err, &all) {
		return []error{err}
	}
	var errs []error
	for _, err := range all.Errors {
		var p env.ParseError
		f, ok := field{}, false
		if errors.As(err, &p) {
			f, ok = byField[p.Name]
		}
		if !ok {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, f.refuse(values[f.variable]))
	}
	return errs
}

// refuse is the error for a value of this variable.
func (f field) refuse(value string) *Error {
	shown := fmt.Sprintf("%q", cut(value))
	if f.show != "" {
		shown = "the value"
	}
	return &Error{Variable: f.variable, Reason: fmt.Sprintf("%s is not allowed: it must be %s", shown, f.allowed)}
}

// cut keeps errors to a line.
func cut(s string) string {
	const limit = 80
	if len(s) <= limit {
		return s
	}
	return s[:limit] + "..."
}
