package job

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Ready and Due are the two halves of Pending, for filters alone: no record has them as its status.
const (
	Ready Status = "ready" // may start now
	Due   Status = "due"   // waits for its instant
)

// FilterStatuses are the statuses that a filter may name.
var FilterStatuses = []Status{Pending, Ready, Due, Running, Succeeded, Failed, Dead, Cancelled}

// Filter says which jobs are meant. What is left out does not narrow, except for the spaces.
type Filter struct {
	Spaces    []string  // of any of these; a filter that names no space fits no job
	AllSpaces bool      // instead: of every space
	Queue     string    // of this queue
	Type      string    // of this type
	Statuses  []Status  // of any of these, see FilterStatuses
	From      time.Time // last updated at this instant or later
	To        time.Time // last updated before this instant
}

// Validate refuses what no job can fit, with a *FieldError.
func (f *Filter) Validate() error {
	if f.AllSpaces && len(f.Spaces) > 0 {
		return &FieldError{"spaces", "name spaces or ask for all of them, not both"}
	}
	for _, s := range f.Spaces {
		if err := ValidateName("space", s, MaxName); err != nil {
			return err
		}
	}
	for _, n := range []struct{ name, value string }{{"queue", f.Queue}, {"type", f.Type}} {
		if n.value == "" {
			continue
		}
		if err := ValidateName(n.name, n.value, MaxName); err != nil {
			return err
		}
	}
	for _, s := range f.Statuses {
		if !slices.Contains(FilterStatuses, s) {
			return &FieldError{"status", fmt.Sprintf("there is no status %q, only %s", s, joinStatuses(FilterStatuses))}
		}
	}
	if !f.From.IsZero() && !f.To.IsZero() && !f.From.Before(f.To) {
		return &FieldError{"to", "must be later than from"}
	}
	return nil
}

func joinStatuses(all []Status) string {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = string(s)
	}
	return strings.Join(names, ", ")
}

// Fits reports whether the filter means a job. half says which half of Pending it is in, Ready or Due, and does
// not matter for other jobs.
func (f *Filter) Fits(j *Job, half Status) bool {
	return f.FitsStatus(j.Status, half) &&
		(f.AllSpaces || slices.Contains(f.Spaces, j.Space)) &&
		(f.Queue == "" || f.Queue == j.Queue) &&
		(f.Type == "" || f.Type == j.Type) &&
		(f.From.IsZero() || !j.UpdatedAt.Before(f.From)) &&
		(f.To.IsZero() || j.UpdatedAt.Before(f.To))
}

// FitsStatus reports whether the filter means jobs of a status.
func (f *Filter) FitsStatus(s, half Status) bool {
	return len(f.Statuses) == 0 || slices.Contains(f.Statuses, s) || s == Pending && slices.Contains(f.Statuses, half)
}
