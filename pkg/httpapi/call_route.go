package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/pkg/guard"
	"github.com/jetcrew/jetcrew/pkg/job"
)

const (
	// maxWait is how long a call may ask to wait for its job.
	maxWait = 5 * time.Minute
	// maxKey is how many bytes an Idempotency-Key may have.
	maxKey = 255
	// answerTime is what is left for the answer after a wait.
	answerTime = 30 * time.Second
	// callTries is how often a call looks anew who has its key.
	callTries = 5
)

// calls serves calls: jobs whose callers wait for what comes of them.
type calls struct{ *Config }

func registerCalls(r *routes) {
	c := calls{r.cfg}
	add[Called](r, route{
		id: "call", method: http.MethodPost, path: "/v1/calls", scope: ScopeCall, place: inRequest,
		summary: "Put a job in, and wait for what comes of it",
		says: "200: it has succeeded. 202: it has not ended yet; Location is the job's. A caller that does not wait any longer cancels nothing: " +
			"the job goes on. 409: refused (detail says why), cancelled, or duplicate (a call of the same Idempotency-Key goes on: job says which). " +
			"410: it has ended and left no record. 500 with job_failed: it has ended otherwise, and errorId names the record of it.",
		body: reflect.TypeFor[Call](), long: true, good: []int{http.StatusOK, http.StatusAccepted},
		also: []int{http.StatusConflict, http.StatusGone},
	}, c.call)
	registerRuns(r)
}

// Call is a call that is asked for. Its job is given its id.
type Call struct {
	Type        string         `json:"type" maxLength:"191" doc:"Which handler runs it." example:"echo"`
	Space       string         `json:"space,omitempty" maxLength:"191" default:"default"`
	Queue       string         `json:"queue,omitempty" maxLength:"191" default:"default"`
	Environment string         `json:"environment,omitempty" maxLength:"64" default:"main"`
	Input       map[string]any `json:"input,omitempty" doc:"What the handler is given."`
	MaxAttempts int            `json:"maxAttempts,omitempty" minimum:"0" maximum:"1000000" default:"3"`
	Timeout     string         `json:"timeout,omitempty" doc:"How long one attempt may take." example:"1m"`
	Deadline    time.Time      `json:"deadline,omitempty" doc:"No attempt starts or goes on past it."`
	Retry       *Retry         `json:"retry,omitempty" doc:"The waits between attempts, instead of the worker's."`
}

// callMembers are the names that a call may have.
var callMembers = memberNames(reflect.TypeFor[Call]())

// Called is what came of a call so far.
type Called struct {
	Identity
	RunID  string     `json:"runId" doc:"By which it can be cancelled."`
	Status job.Status `json:"status,omitzero" doc:"Left out: it has not ended yet."`
	Result any        `json:"result,omitempty" doc:"What the handler answered."`
}

type callInput struct {
	Wait string `query:"wait" doc:"How long to wait: 0s to 5m." default:"30s"`
	Key  string `header:"Idempotency-Key" doc:"Names the call among the token's own in its space: 1 to 255 printable ASCII characters. While it goes on, another of that name is refused. If the API keeps answers, whoever asks again gets the same one, with the header Idempotency-Replayed."`
}

func (c calls) call(ctx context.Context, in *callInput) (any, error) {
	wait, p := parseWait(in.Wait)
	var name string
	if p == nil {
		name, p = idempotencyKey(infoOf(ctx).request)
	}
	var spec job.Spec
	if p == nil {
		spec, p = decodeCall(bodyOf(ctx))
	}
	if p == nil {
		p = authorized(ctx, spec.Space)
	}
	if p != nil {
		return nil, p
	}
	var key guard.Key
	if name != "" {
		var err error
		if key, err = callKey(callerOf(ctx).name, name, &spec); err != nil {
			return nil, err
		}
	}
	spec.Trace = traceOf(infoOf(ctx).request.Header)
	b, err := c.begin(ctx, key, name, spec)
	if err != nil {
		return nil, err
	}
	if b.kept != nil {
		infoOf(ctx).writer.Header().Set("Idempotency-Replayed", "true")
		return calledOf(ctx, b.kept, b.runID)
	}
	return c.await(ctx, b, wait)
}

// begun is a call that goes on, or the kept end of an earlier one.
type begun struct {
	runID string
	key   job.Key
	ended <-chan ending
	kept  *job.Job
}

// begin makes a call's run, and puts its job in.
func (c calls) begin(ctx context.Context, key guard.Key, name string, spec job.Spec) (*begun, error) {
	who := callerOf(ctx).name
	q := guard.Request{
		Space: spec.Space, Type: spec.Type, Caller: who, Key: key, RunID: spec.RunID, Job: spec.Key(), Timeout: c.Calls.cfg.Timeout,
	}
	for range callTries {
		run, err := c.Calls.cfg.Guards.Begin(c.Calls.ctx, q)
		if err == nil {
			return c.start(ctx, run, spec)
		}
		var kept *guard.Replay
		if errors.As(err, &kept) {
			j := &job.Job{}
			if err := job.Decode(kept.Result, j); err != nil {
				return nil, fmt.Errorf("the kept answer of run %q: %w", kept.RunID, err)
			}
			return &begun{runID: kept.RunID, kept: j}, nil
		}
		if c.Calls.ctx.Err() != nil {
			return nil, ending503()
		}
		var refusal *job.Refusal
		if !errors.As(err, &refusal) {
			return nil, err
		}
		if refusal.Code != job.CodeDuplicate {
			return nil, refusedBegin(refusal)
		}
		has, err := c.Calls.holder(ctx, c.Jobs, key)
		if err != nil {
			return nil, err
		}
		if has == nil {
			continue
		}
		if p := c.taken(ctx, has, who, name, key); p != nil {
			return nil, p
		}
		// Whoever had it is not there any more, or about to go: its job is ours to answer, or to put in.
		q.RunID, q.Job = has.RunID, has.Job
		spec.RunID, spec.ID, spec.Queue = has.RunID, has.Job.ID, has.Job.Queue
	}
	return nil, duplicateCall(nil, "")
}

// taken is why a call cannot have its key; nil where it can take it over.
func (c calls) taken(ctx context.Context, has *taken, who, name string, key guard.Key) *Problem {
	if has.job == nil {
		return nil
	}
	spec := specOf(has.job)
	had, err := callKey(who, name, &spec)
	switch {
	case err != nil || had != key:
		return keyReused()
	case !has.job.Status.Terminal():
		return duplicateCall(has.job, has.RunID)
	}
	return nil
}

// start puts the job of a run in. A job that is there already is that of a run which was taken over.
func (c calls) start(ctx context.Context, run *guard.Run, spec job.Spec) (*begun, error) {
	b := &begun{runID: run.ID(), key: spec.Key()}
	if _, err := c.Jobs.EnqueueSpec(ctx, spec); err != nil {
		p := explainOne(ctx, spec, err)
		if p.Code == CodeOutcomeUnknown {
			c.Calls.follow(run) // which finds out
			p.RunID = run.ID()
			return nil, p
		}
		return nil, errors.Join(p, run.End())
	}
	b.ended = c.Calls.follow(run)
	return b, nil
}

// await waits for the end of a call's job.
func (c calls) await(ctx context.Context, b *begun, wait time.Duration) (any, error) {
	i := infoOf(ctx)
	err := http.NewResponseController(i.writer).SetWriteDeadline(time.Now().Add(wait + answerTime))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, err
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case end := <-b.ended:
		switch {
		case errors.Is(end.err, errCallsEnded):
			return accepted(b), nil
		case errors.Is(end.err, job.ErrNotFound):
			p := newProblem(http.StatusGone, CodeGone, "the job has ended and left no record, or was deleted")
			p.name(b.key, b.runID)
			return nil, p
		case end.err != nil:
			return nil, end.err
		}
		return calledOf(ctx, end.job, b.runID)
	case <-t.C:
	case <-c.Calls.ctx.Done():
	case <-i.request.Context().Done():
		return nil, i.request.Context().Err() // there is nobody to be told
	}
	return accepted(b), nil
}

func accepted(b *begun) reply {
	return reply{status: http.StatusAccepted, location: location(b.key), body: Called{identity(b.key), b.runID, "", nil}}
}

// calledOf is what a caller may know of an ended job: only what was written for callers.
func calledOf(ctx context.Context, j *job.Job, runID string) (any, error) {
	var p *Problem
	switch j.Status {
	case job.Succeeded:
		out := Called{Identity: identity(j.Key()), RunID: runID, Status: j.Status}
		if len(j.Result) > 0 {
			out.Result = j.Result
		}
		return reply{status: http.StatusOK, location: location(j.Key()), body: out}, nil
	case job.Failed:
		p = newProblem(http.StatusConflict, CodeRefused, j.Error)
	case job.Cancelled:
		p = newProblem(http.StatusConflict, CodeCancelled, "the job was cancelled")
	default:
		p = newProblem(http.StatusInternalServerError, CodeJobFailed, "the job has failed; the error's id names the details in the log")
		p = p.because(ctx, fmt.Errorf("job %s is %s: %s", j.Key(), j.Status, j.Error))
	}
	p.name(j.Key(), runID)
	return nil, p
}

// name says which job and run a problem is about.
func (p *Problem) name(k job.Key, runID string) {
	id := identity(k)
	p.Job, p.RunID = &id, runID
}

func duplicateCall(j *job.Job, runID string) *Problem {
	p := newProblem(http.StatusConflict, CodeDuplicate, "a call of this Idempotency-Key goes on already; job says which, where that is known")
	if j != nil {
		p.name(j.Key(), runID)
	}
	return p
}

func keyReused() *Problem {
	p := newProblem(http.StatusUnprocessableEntity, CodeKeyReused, "this Idempotency-Key was used before, for another call")
	p.Errors = []FieldProblem{{"Idempotency-Key", "was used before, for another body"}}
	return p
}

func ending503() *Problem {
	return newProblem(http.StatusServiceUnavailable, CodeUnavailable, "this process is ending; nothing was changed")
}

// refusedBegin is what a caller is told whose run the guards refuse.
func refusedBegin(r *job.Refusal) *Problem {
	if r.Code == guard.CodeKeyReused {
		return keyReused()
	}
	return newProblem(http.StatusServiceUnavailable, CodeOverCapacity, strings.TrimPrefix(r.Message, "over_capacity: "))
}

func parseWait(given string) (time.Duration, *Problem) {
	d, err := config.ParseDuration(given)
	if err != nil || d < 0 || d > maxWait {
		return 0, badFields(FieldProblem{"wait", "must be a duration of 0s to 5m, such as 30s"})
	}
	return d, nil
}

// idempotencyKey is the name that the caller gave the call; empty: none.
func idempotencyKey(r *http.Request) (string, *Problem) {
	values := r.Header.Values("Idempotency-Key")
	if len(values) == 0 {
		return "", nil
	}
	name := values[0]
	if len(values) > 1 || name == "" || len(name) > maxKey || strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c > '~' }) {
		return "", badFields(FieldProblem{"Idempotency-Key", fmt.Sprintf("must be given once, and be 1 to %d printable ASCII characters", maxKey)})
	}
	return name, nil
}

// decodeCall reads the body of a call. Its run has the name of its job, so that whoever knows the one finds the other.
func decodeCall(body []byte) (job.Spec, *Problem) {
	if errs := unknownMembers(body, "", callMembers); len(errs) > 0 {
		return job.Spec{}, badFields(errs...)
	}
	spec, p := decodeSpec(body)
	spec.RunID, spec.Trigger = spec.ID, job.TriggerCall
	return spec, p
}

// callKey is the key of a named call: of the caller's own, and for this very call.
func callKey(caller, name string, spec *job.Spec) (guard.Key, error) {
	whole := *spec
	whole.ID, whole.RunID, whole.Trace = "", "", job.Trace{}
	whole.Input = whole.Input.Clone()
	if whole.Input.Compact() == nil && string(whole.Input) == "{}" { // no input is the same
		whole.Input = nil
	}
	encoded, err := job.Encode(whole)
	if err != nil {
		return guard.Key{}, err
	}
	return guard.Named(spec.Space, caller, name, spec.Type, encoded)
}

// specOf is the call that a job was asked for by.
func specOf(j *job.Job) job.Spec {
	return job.Spec{
		Space: j.Space, Queue: j.Queue, Type: j.Type, Environment: j.Environment, Trigger: j.Trigger, Input: j.Input,
		MaxAttempts: j.MaxAttempts, Timeout: j.Timeout, Deadline: j.Deadline, Retry: j.Retry,
	}
}
