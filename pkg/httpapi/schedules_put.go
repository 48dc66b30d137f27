package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/scheduler"
)

// firesShown is how many of the next fires are shown where nobody says.
const firesShown = 5

func registerPutSchedules(r *routes, s schedules) {
	tooLargeOrOwned := []int{http.StatusConflict, http.StatusRequestEntityTooLarge}
	add[SchedulePut](r, route{
		id: "putSchedule", method: http.MethodPut, path: "/v1/schedules/{space}/{name}", scope: ScopeConfigure,
		summary: "Add a schedule, or change the one of its name",
		says: "All of it is declared anew: what is left out gets its default, but one that was disabled stays so. Its next fire stays " +
			"as it was promised unless its cron expression, zone or environment changes. 409 if another owner declares it.",
		body: reflect.TypeFor[ScheduleSpec](), good: []int{http.StatusOK, http.StatusCreated}, also: tooLargeOrOwned,
	}, onSchedules(s, s.put))
	add[scheduler.Plan](r, route{
		id: "reconcileSchedules", method: http.MethodPut, path: "/v1/schedules/{space}", scope: ScopeConfigure, long: true,
		summary: "Make an owner's schedules in a space those that are given",
		says: "Puts each, and deletes the owner's others; nobody else's are touched. All are checked before anything is written, and " +
			"nothing is if another owner declares one of them. Asking again goes on with what is left.",
		body: reflect.TypeFor[ScheduleSet](), maxBody: r.cfg.MaxBulkBody, also: tooLargeOrOwned,
	}, onSchedules(s, s.reconcile))
}

type putInput struct {
	PathSchedule
	Owner  string `query:"owner" doc:"The program that declares it; people do, without."`
	DryRun bool   `query:"dryRun" doc:"Change nothing, only say what would be done."`
}

func (s schedules) put(ctx context.Context, store Schedules, in *putInput) (any, error) {
	var spec scheduler.Spec
	if p := decodeBody(ctx, &spec); p != nil {
		return nil, p
	}
	if p := settle(&spec, in.Space, in.Name, ""); p != nil {
		return nil, p
	}
	if in.Owner != "" {
		if err := job.ValidateName("owner", in.Owner, job.MaxName); err != nil {
			return nil, badParameter("owner", err)
		}
	}
	sched, change, err := putOrSay(ctx, store, in.Owner, spec, in.DryRun)
	if err != nil {
		return nil, err
	}
	next, err := firesOf(sched, firesShown)
	if err != nil {
		return nil, err
	}
	out := reply{body: scheduler.PutDone{
		Change: change, Schedule: sched, Next: next, Warnings: s.doubts(ctx, store.Now(), []scheduler.Spec{sched.Spec}),
	}}
	if change == scheduler.Created && !in.DryRun {
		out.status = http.StatusCreated
	}
	return out, nil
}

// putOrSay puts a schedule, or answers what it would be.
func putOrSay(ctx context.Context, store Schedules, owner string, spec scheduler.Spec, dryRun bool) (*scheduler.Schedule, scheduler.Change, error) {
	if !dryRun {
		return store.Put(ctx, owner, spec)
	}
	old, err := store.Get(ctx, spec.Space, spec.Name)
	if err != nil && !errors.Is(err, scheduler.ErrNotFound) && !errors.Is(err, scheduler.ErrUnreadable) {
		return nil, "", err
	}
	return scheduler.Changed(old, owner, spec, store.Now())
}

// settle checks a spec that stands at a JSON Pointer, of a schedule whose space, and name where there is one, are known.
func settle(spec *scheduler.Spec, space, name, at string) *Problem {
	for _, f := range []struct {
		field, known string
		given        *string
	}{{"space", space, &spec.Space}, {"name", name, &spec.Name}} {
		switch {
		case f.known == "":
		case *f.given == "":
			*f.given = f.known
		case *f.given != f.known:
			return badFields(FieldProblem{at + "/" + f.field, "must be left out, or be what the path says"})
		}
	}
	var field *job.FieldError
	switch err := spec.Normalize(); {
	case errors.As(err, &field):
		return badFields(FieldProblem{at + "/" + field.Field, field.Reason})
	case err != nil:
		return badFields(FieldProblem{at, "cannot be a schedule"})
	}
	return nil
}

type reconcileInput struct {
	Space  string `path:"space"`
	DryRun bool   `query:"dryRun" doc:"Change nothing, only say what would be done."`
}

func (s schedules) reconcile(ctx context.Context, store Schedules, in *reconcileInput) (any, error) {
	var set struct {
		Owner     string           `json:"owner"`
		Schedules []scheduler.Spec `json:"schedules"`
	}
	if p := decodeBody(ctx, &set); p != nil {
		return nil, p
	}
	if p := checkSet(in.Space, set.Owner, set.Schedules); p != nil {
		return nil, p
	}
	have, err := store.List(ctx, scheduler.Filter{Space: in.Space})
	if err != nil {
		return nil, err
	}
	plan, err := planOf(have, set.Owner, set.Schedules, store.Now())
	if err != nil {
		return nil, err
	}
	if !in.DryRun {
		report, err := store.Reconcile(ctx, in.Space, set.Owner, set.Schedules)
		if err != nil {
			return nil, err
		}
		plan = carriedOut(plan, report)
	}
	return scheduler.Plan{DryRun: in.DryRun, Schedules: plan, Warnings: s.doubts(ctx, store.Now(), set.Schedules)}, nil
}

// checkSet checks all schedules of an owner.
func checkSet(space, owner string, specs []scheduler.Spec) *Problem {
	if err := job.ValidateName("owner", owner, job.MaxName); err != nil {
		return badParameter("/owner", err)
	}
	if specs == nil {
		return badFields(FieldProblem{"/schedules", "must be a list; an empty one deletes all that the owner has"})
	}
	var errs []FieldProblem
	first := make(map[string]int)
	for i := range specs {
		at := "/schedules/" + strconv.Itoa(i)
		p := settle(&specs[i], space, "", at)
		if before, twice := first[specs[i].Name]; p == nil && twice {
			p = badFields(FieldProblem{at + "/name", fmt.Sprintf("stands at /schedules/%d already", before)})
		}
		first[specs[i].Name] = i
		if p != nil {
			if errs = append(errs, p.Errors...); len(errs) >= maxProblems {
				break
			}
		}
	}
	if len(errs) > 0 {
		return badFields(errs[:min(len(errs), maxProblems)]...)
	}
	return nil
}

// planOf is what a set of schedules comes to, by what is stored. With another owner's among them nothing is done at all.
func planOf(have scheduler.Listing, owner string, specs []scheduler.Spec, now time.Time) ([]scheduler.Planned, error) {
	stored := make(map[string]*scheduler.Schedule)
	for i := range have.Schedules {
		stored[have.Schedules[i].Name] = &have.Schedules[i]
	}
	plan := []scheduler.Planned{}
	for _, spec := range specs {
		next, change, err := scheduler.Changed(stored[spec.Name], owner, spec, now)
		if err != nil {
			return nil, err
		}
		plan = append(plan, scheduler.Planned{Space: next.Space, Name: next.Name, Change: change, NextRunAt: next.NextRunAt})
		delete(stored, spec.Name)
	}
	for i := range have.Schedules {
		if old := &have.Schedules[i]; stored[old.Name] != nil && old.Owner == owner {
			plan = append(plan, scheduler.Planned{Space: old.Space, Name: old.Name, Change: scheduler.Deleted})
		}
	}
	return plan, nil
}

// carriedOut is a plan by what was really done: others may have been at it at the same time.
func carriedOut(plan []scheduler.Planned, r scheduler.Report) []scheduler.Planned {
	done := make(map[string]scheduler.Change)
	for change, names := range map[scheduler.Change][]string{
		scheduler.Created: r.Created, scheduler.Updated: r.Updated, scheduler.Unchanged: r.Unchanged, scheduler.Deleted: r.Deleted,
	} {
		for _, name := range names {
			done[name] = change
		}
	}
	out := plan[:0]
	for _, o := range plan {
		if change, ok := done[o.Name]; ok {
			o.Change = change
			out = append(out, o)
		}
	}
	return out
}
