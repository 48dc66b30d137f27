package job

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Validate checks what a job is asked to be (not where it is in its life). Its errors are *FieldError.
func (j *Job) Validate() error {
	for _, f := range []struct {
		name, value string
		limit       int
	}{
		{"queue", j.Queue, MaxName},
		{"space", j.Space, MaxName},
		{"id", j.ID, MaxName},
		{"type", j.Type, MaxName},
		{"environment", j.Environment, MaxShortName},
	} {
		if err := ValidateName(f.name, f.value, f.limit); err != nil {
			return err
		}
	}
	if len(j.RunID) > MaxName || !utf8.ValidString(j.RunID) {
		return &FieldError{"runId", fmt.Sprintf("must be UTF-8 of at most %d bytes", MaxName)}
	}
	if !j.Trigger.Valid() {
		return &FieldError{"trigger", fmt.Sprintf("must be call, webhook, schedule or custom, not %q", j.Trigger)}
	}
	if err := validateInput(j.Input); err != nil {
		return err
	}
	if j.MaxAttempts < 1 || j.MaxAttempts > MaxMaxAttempts {
		return &FieldError{"maxAttempts", fmt.Sprintf("must be 1 to %d, not %d", MaxMaxAttempts, j.MaxAttempts)}
	}
	if j.Missed < 0 {
		return &FieldError{"missed", "must not be negative"}
	}
	if j.Timeout < 0 {
		return &FieldError{"timeout", "must not be negative"}
	}
	for _, f := range []struct {
		name string
		t    time.Time
	}{{"dueAt", j.DueAt}, {"deadline", j.Deadline}} {
		if !validInstant(f.t) {
			return &FieldError{f.name, "must be a year from 1970 to 9999"}
		}
	}
	if r := j.Retry; r != nil && (r.Base < 0 || r.Max < 0) {
		return &FieldError{"retry", "base and max must not be negative"}
	}
	return nil
}

// ValidateName refuses a name that is empty, longer than limit bytes, or no UTF-8 text.
func ValidateName(field, v string, limit int) error {
	switch {
	case v == "":
		return &FieldError{field, "must not be empty"}
	case len(v) > limit:
		return &FieldError{field, fmt.Sprintf("has %d bytes, at most %d are allowed", len(v), limit)}
	case !utf8.ValidString(v):
		return &FieldError{field, "is not valid UTF-8"}
	case strings.ContainsRune(v, 0):
		return &FieldError{field, "must not contain a NUL"}
	}
	return nil
}

// validateInput takes nothing or one JSON object, without duplicate names and in valid UTF-8.
func validateInput(v jsontext.Value) error {
	if v == nil {
		return nil
	}
	if !v.IsValid() { // also refuses duplicate names and invalid UTF-8
		return &FieldError{"input", "is not valid JSON (or has duplicate names, or is no UTF-8)"}
	}
	if v.Kind() != '{' {
		return &FieldError{"input", "must be a JSON object"}
	}
	return nil
}

// validInstant takes the zero time and what RFC 3339 can write.
func validInstant(t time.Time) bool {
	return t.IsZero() || t.Year() >= 1970 && t.Year() <= 9999
}
