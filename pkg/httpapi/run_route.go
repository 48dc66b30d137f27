package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// runs serves the runs of calls.
type runs struct{ *Config }

func registerRuns(r *routes) {
	s := runs{r.cfg}
	add[RunList](r, route{
		id: "listRuns", method: http.MethodGet, path: "/v1/runs", scope: ScopeRead, place: inRequest,
		summary: "List the runs that go on in this process, the oldest first",
		says:    "Of the spaces that the token is good for. Other processes have others.",
	}, s.list)
	add[CancelledRun](r, route{
		id: "cancelRun", method: http.MethodPost, path: "/v1/runs/{space}/{runId}/cancel", scope: ScopeCall,
		summary: "Cancel a run of one's own, in whichever process it goes on",
		says:    "Its job ends if it waits, and is stopped if it runs. A run of another token's is answered as one that does not exist.",
	}, s.cancel)
}

// RunList are runs.
type RunList struct {
	Runs []Run `json:"runs"`
}

// Run is one that goes on.
type Run struct {
	RunID     string    `json:"runId"`
	Kind      string    `json:"kind" enum:"call,render"`
	Space     string    `json:"space"`
	Type      string    `json:"type"`
	Caller    string    `json:"caller,omitempty" doc:"The name of the token that it belongs to."`
	Job       *Identity `json:"job,omitempty"`
	StartedAt time.Time `json:"startedAt" doc:"By the clock of the process."`
}

type runsInput struct {
	Space string `query:"space" doc:"Of this space."`
}

func (s runs) list(ctx context.Context, in *runsInput) (any, error) {
	if in.Space != "" {
		if err := job.ValidateName("space", in.Space, job.MaxName); err != nil {
			return nil, badParameter("space", err)
		}
		if p := authorized(ctx, in.Space); p != nil {
			return nil, p
		}
	}
	out := RunList{Runs: []Run{}}
	for _, i := range s.Calls.cfg.Guards.Active() {
		if !callerOf(ctx).may(i.Space) || in.Space != "" && in.Space != i.Space {
			continue
		}
		r := Run{RunID: i.RunID, Kind: string(i.Kind), Space: i.Space, Type: i.Type, Caller: i.Caller, StartedAt: i.Started.UTC().Truncate(time.Millisecond)}
		if i.Job != (job.Key{}) {
			id := identity(i.Job)
			r.Job = &id
		}
		out.Runs = append(out.Runs, r)
	}
	return out, nil
}

// CancelledRun is a run that was cancelled.
type CancelledRun struct {
	RunID  string     `json:"runId"`
	Space  string     `json:"space"`
	Status job.Status `json:"status,omitempty" doc:"Of its job: cancelled, or running for as long as it is being stopped. Left out: the job is not there yet."`
}

type runInput struct {
	Space string `path:"space"`
	RunID string `path:"runId"`
}

func (s runs) cancel(ctx context.Context, in *runInput) (any, error) {
	guards, who := s.Calls.cfg.Guards, callerOf(ctx).name
	owns, err := guards.Cancel(ctx, in.Space, who, in.RunID)
	if err != nil {
		return nil, err
	}
	key := job.Key{Space: in.Space, ID: in.RunID} // as decodeCall names them
	if here, ok := guards.Get(in.Space, in.RunID); ok {
		// A worker of guarded types has it under the same name while an attempt goes on, and takes the name along.
		owns = owns || here.Caller == who
		key = here.Job
	}
	if !owns {
		return nil, noSuchJob()
	}
	ch, err := s.Calls.cfg.Jobs.Cancel(ctx, key)
	if err != nil && !errors.Is(err, job.ErrNotFound) {
		return nil, err
	}
	return CancelledRun{in.RunID, in.Space, ch.Status}, nil
}
