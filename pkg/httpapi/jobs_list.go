package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// lister serves the listing of jobs.
type lister struct{ *Config }

func registerList(r *routes) {
	add[JobPage](r, route{
		id: "listJobs", method: http.MethodGet, path: "/v1/jobs", scope: ScopeRead, place: inRequest,
		summary: "List jobs, the newest update first",
		says: "Without a space, the jobs of all spaces that the token is good for. A listing that has looked at many jobs in " +
			"vain stops, with a cursor to go on from. A cursor belongs to its filter: where since or until said how long " +
			"ago, go on with the instants in the answer.",
	}, lister{r.cfg}.list)
}

// JobPage is a part of a listing.
type JobPage struct {
	Jobs     []Record  `json:"jobs"`
	Next     string    `json:"next,omitempty" doc:"The cursor to go on from; without one there is nothing more."`
	Total    *int      `json:"total,omitempty" doc:"How many jobs fit in all, where that is known."`
	Seq      uint64    `json:"seq,omitempty" doc:"It is true for the store as it was at this sequence of the stream,"`
	At       time.Time `json:"at,omitempty" doc:"and at this instant."`
	Stopped  bool      `json:"stopped,omitempty" doc:"It has looked at many jobs in vain, and goes on if asked to."`
	Looked   int       `json:"looked,omitempty" doc:"At how many records it looked."`
	LookedTo time.Time `json:"lookedTo,omitempty" doc:"Back to which update."`
	Since    time.Time `json:"since,omitempty" doc:"What since came to."`
	Until    time.Time `json:"until,omitempty" doc:"What until came to."`
}

type listInput struct {
	Space  []string `query:"space,explode" doc:"Of this space; can be given again."`
	Queue  string   `query:"queue"`
	Type   string   `query:"type"`
	Status []string `query:"status,explode" doc:"Of these statuses: pending, ready, due, running, succeeded, failed, dead, cancelled; can be given again, or with commas."`
	Since  string   `query:"since" doc:"Last updated at this instant or later, or so long ago at most: 12h, 7d, 2030-01-31T09:00:00Z."`
	Until  string   `query:"until" doc:"Last updated before this instant, or longer ago."`
	Limit  int      `query:"limit" minimum:"1" maximum:"1000" default:"50"`
	Cursor string   `query:"cursor" doc:"Go on from here, with the same filter: next of an earlier page."`
}

func (l lister) list(ctx context.Context, in *listInput) (any, error) {
	given := JobFilter{
		Spaces: in.Space, AllSpaces: len(in.Space) == 0, Queue: in.Queue, Type: in.Type, Statuses: splitStatuses(in.Status),
		Since: in.Since, Until: in.Until,
	}
	filter, p := given.filter(ctx, l.Operator.Now(), func(field string) string { return field })
	if p != nil {
		return nil, p
	}
	got, err := l.Operator.List(ctx, job.ListRequest{Filter: filter, Limit: in.Limit, Cursor: in.Cursor})
	if err != nil {
		return nil, err
	}
	return got.Listing(&filter), nil
}

// splitStatuses are the statuses that a parameter names, which can be given again, or with commas.
func splitStatuses(given []string) []job.Status {
	var out []job.Status
	for _, g := range given {
		for s := range strings.SplitSeq(g, ",") {
			out = append(out, job.Status(strings.TrimSpace(s)))
		}
	}
	return out
}

// JobFilter says which jobs are meant. What is left out does not narrow, except for the spaces.
type JobFilter struct {
	Spaces    []string     `json:"spaces,omitempty" doc:"Of these spaces."`
	AllSpaces bool         `json:"allSpaces,omitempty" doc:"Instead: of all spaces that the token is good for."`
	Queue     string       `json:"queue,omitempty"`
	Type      string       `json:"type,omitempty"`
	Statuses  []job.Status `json:"statuses,omitempty" doc:"Of these: pending, ready, due, running, succeeded, failed, dead, cancelled."`
	Since     string       `json:"since,omitempty" doc:"Last updated at this instant or later, or so long ago at most." example:"12h"`
	Until     string       `json:"until,omitempty" doc:"Last updated before this instant, or longer ago."`
}

// narrows reports whether it leaves jobs out. That jobs of every space are meant does not.
func (f *JobFilter) narrows() bool {
	return len(f.Spaces) > 0 || f.Queue != "" || f.Type != "" || len(f.Statuses) > 0 || f.Since != "" || f.Until != ""
}

// filter is the job.Filter, for the caller's spaces alone. Problems name their fields as name does: space, queue, type,
// status, since and until.
func (f *JobFilter) filter(ctx context.Context, now time.Time, name func(string) string) (job.Filter, *Problem) {
	out := job.Filter{Spaces: f.Spaces, AllSpaces: f.AllSpaces, Queue: f.Queue, Type: f.Type, Statuses: f.Statuses}
	for _, m := range []struct {
		field, given string
		to           *time.Time
	}{{"since", f.Since, &out.From}, {"until", f.Until, &out.To}} {
		at, p := parseMoment(name(m.field), m.given, now)
		if p != nil {
			return out, p
		}
		*m.to = at
	}
	var field *job.FieldError
	if errors.As(out.Validate(), &field) {
		at := map[string]string{"spaces": "space", "to": "until"}[field.Field]
		if at == "" {
			at = field.Field
		}
		return out, badFields(FieldProblem{name(at), field.Reason})
	}
	if p := authorized(ctx, out.Spaces...); p != nil {
		return out, p
	}
	if c := callerOf(ctx); out.AllSpaces && len(c.spaces) > 0 {
		out.Spaces, out.AllSpaces = c.spaces, false
	}
	return out, nil
}

// maxAgo is the longest time to look back; no job is older.
const maxAgo = 100 * 365 * 24 * time.Hour

// parseMoment reads an instant, or how long ago it was; of nothing, the zero time.
func parseMoment(name, given string, now time.Time) (time.Time, *Problem) {
	if given == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339, given); err == nil {
		return job.Millis(at), nil
	}
	ago, err := config.ParseDuration(given)
	if err != nil || ago < 0 || ago > maxAgo {
		return time.Time{}, badFields(FieldProblem{name, "must be an instant such as 2030-01-31T09:00:00Z, or how long ago, such as 90s, 12h or 7d"})
	}
	return job.Millis(now.Add(-ago)), nil
}
