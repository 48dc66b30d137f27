package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// bulk serves an operation on all jobs that a filter means.
type bulk struct {
	*Config
	op       job.Operation
	statuses []job.Status // where the filter names none
}

// Bulk asks for an operation on many jobs.
type Bulk struct {
	Filter JobFilter `json:"filter"`
	All    bool      `json:"all,omitempty" doc:"All jobs are meant, though nothing but allSpaces stands in the filter."`
	Limit  int       `json:"limit,omitempty" minimum:"0" doc:"Stop after so many changes; 0: none."`
	DryRun bool      `json:"dryRun,omitempty" doc:"Change nothing, only count."`
}

// BulkDone says what became of an operation on many jobs.
type BulkDone struct {
	job.BulkResult
	BrokenOff bool `json:"brokenOff,omitempty" doc:"The time for one request was over: asking again goes on with what is left."`
}

func registerBulk(r *routes) {
	for _, b := range []struct {
		bulk
		id, path, summary, says string
	}{
		{bulk{op: job.OpCancel}, "cancelJobs", "cancel", "Cancel all jobs that a filter means", ""},
		{
			// What has succeeded is not run again because somebody forgot to say which jobs are meant.
			bulk{op: job.OpRequeue, statuses: []job.Status{job.Failed, job.Dead}},
			"requeueJobs", "requeue", "Requeue all jobs that a filter means",
			" Those that failed or are dead, unless the filter names statuses.",
		},
		{bulk{op: job.OpRunNow}, "runJobsNow", "run-now", "Start all jobs now that a filter means", ""},
		{bulk{op: job.OpDelete}, "deleteJobs", "delete", "Delete the records of all jobs that a filter means", ""},
	} {
		b.Config = r.cfg
		add[BulkDone](r, route{
			id: b.id, method: http.MethodPost, path: "/v1/jobs/" + b.path, scope: ScopeOperate, place: inRequest, summary: b.summary,
			says: "The filter names spaces, or says allSpaces; what else it says narrows. With allSpaces alone, all has to be said " +
				"as well." + b.says + " Asking again does no harm, and goes on with what is left.",
			body: reflect.TypeFor[Bulk](), long: true,
		}, b.run)
	}
}

func (b bulk) run(ctx context.Context, _ *struct{}) (any, error) {
	var in Bulk
	if p := decodeBody(ctx, &in); p != nil {
		return nil, p
	}
	field := func(name string) string {
		switch name {
		case "space":
			name = "spaces"
		case "status":
			name = "statuses"
		}
		return "/filter/" + name
	}
	switch f := &in.Filter; {
	case !f.AllSpaces && len(f.Spaces) == 0:
		return nil, badFields(FieldProblem{"/filter/spaces", "must name a space at least; allSpaces means all of them"})
	case !f.narrows() && !in.All:
		return nil, badFields(FieldProblem{"/filter", "must leave jobs out, or all has to be true"})
	case in.Limit < 0:
		return nil, badFields(FieldProblem{"/limit", "must not be negative"})
	}
	filter, p := in.Filter.filter(ctx, b.Operator.Now(), field)
	if p != nil {
		return nil, p
	}
	if len(filter.Statuses) == 0 {
		filter.Statuses = b.statuses
	}
	if p := takes(b.op, filter.Statuses, field("status")); p != nil {
		return nil, p
	}
	return runBulk(ctx, b.Operator, job.BulkRequest{Operation: b.op, Filter: filter, Limit: in.Limit, DryRun: in.DryRun})
}

// takes refuses statuses of jobs to which nothing would ever be done.
func takes(op job.Operation, statuses []job.Status, field string) *Problem {
	allowed := job.Filter{Statuses: op.Statuses()}
	for _, s := range statuses {
		if !allowed.FitsStatus(s, job.Ready) && !allowed.FitsStatus(s, job.Due) {
			return badFields(FieldProblem{field, fmt.Sprintf("%s is for jobs that are %v, not for %s ones", op, allowed.Statuses, s)})
		}
	}
	return nil
}

// bulkOperator is what bulk operations are asked of.
type bulkOperator interface {
	Bulk(ctx context.Context, req job.BulkRequest) (job.BulkResult, error)
}

// runBulk does it for as long as a request may take. What was done by then is an answer as well.
func runBulk(ctx context.Context, o bulkOperator, req job.BulkRequest) (any, error) {
	r, err := o.Bulk(ctx, req)
	late := r.Looked > 0 && errors.Is(ctx.Err(), context.DeadlineExceeded)
	if err != nil && !late {
		return nil, err
	}
	return BulkDone{r, err != nil}, nil
}
