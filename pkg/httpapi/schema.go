package httpapi

import (
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// The types in this file describe bodies for the OpenAPI document. What is read and written is a job.Spec and a
// job.Job; a test holds them together.

// Spec is a job that is asked for.
type Spec struct {
	Type        string         `json:"type" maxLength:"191" doc:"Which handler runs it." example:"email"`
	ID          string         `json:"id,omitempty" maxLength:"191" doc:"Names the job; a new one if left out. With it, asking twice makes one job."`
	Space       string         `json:"space,omitempty" maxLength:"191" default:"default"`
	Queue       string         `json:"queue,omitempty" maxLength:"191" default:"default"`
	Environment string         `json:"environment,omitempty" maxLength:"64" default:"main"`
	Trigger     string         `json:"trigger,omitempty" enum:"call,webhook,schedule,custom" default:"custom"`
	Input       map[string]any `json:"input,omitempty" doc:"What the handler is given."`
	Delay       string         `json:"delay,omitempty" doc:"How long it waits, counted from the store's now. Not together with dueAt." example:"30s"`
	DueAt       time.Time      `json:"dueAt,omitempty" doc:"The instant that it waits for."`
	MaxAttempts int            `json:"maxAttempts,omitempty" minimum:"0" maximum:"1000000" default:"3"`
	Missed      int            `json:"missed,omitempty" minimum:"0" doc:"Owed fires of a schedule that it stands for."`
	RunID       string         `json:"runId,omitempty" maxLength:"191"`
	Timeout     string         `json:"timeout,omitempty" doc:"How long one attempt may take." example:"1m"`
	Deadline    time.Time      `json:"deadline,omitempty" doc:"No attempt starts or goes on past it."`
	Retry       *Retry         `json:"retry,omitempty" doc:"The waits between attempts, instead of the worker's."`
}

// Retry is a backoff.
type Retry struct {
	Base string `json:"base,omitempty" doc:"The first wait; it doubles per attempt." example:"30s"`
	Max  string `json:"max,omitempty" doc:"The longest wait." example:"15m"`
}

// SpecMany are jobs that are asked for.
type SpecMany struct {
	Jobs []Spec `json:"jobs" minItems:"1" maxItems:"1000"`
}

// Record is a job's record. It may have members that are not described here.
type Record struct {
	ID              string         `json:"id"`
	Space           string         `json:"space"`
	Type            string         `json:"type"`
	Queue           string         `json:"queue"`
	Environment     string         `json:"environment,omitempty"`
	Trigger         string         `json:"trigger,omitempty"`
	Input           map[string]any `json:"input,omitempty"`
	DueAt           time.Time      `json:"dueAt,omitempty"`
	MaxAttempts     int            `json:"maxAttempts,omitempty"`
	Missed          int            `json:"missed,omitempty"`
	Timeout         string         `json:"timeout,omitempty"`
	Deadline        time.Time      `json:"deadline,omitempty"`
	Retry           *Retry         `json:"retry,omitempty"`
	Status          string         `json:"status,omitempty" enum:"pending,running,succeeded,failed,dead,cancelled"`
	RunAt           time.Time      `json:"runAt,omitempty" doc:"When its next attempt may start."`
	Attempts        int            `json:"attempts" doc:"Attempts used, the running one included."`
	StartedAt       time.Time      `json:"startedAt,omitempty"`
	LeaseUntil      time.Time      `json:"leaseUntil,omitempty"`
	WorkerID        string         `json:"workerId,omitempty"`
	RunID           string         `json:"runId,omitempty"`
	CancelRequested bool           `json:"cancelRequested,omitempty"`
	CreatedAt       time.Time      `json:"createdAt,omitempty"`
	UpdatedAt       time.Time      `json:"updatedAt,omitempty"`
	Error           string         `json:"error,omitempty"`
	Result          any            `json:"result,omitempty"`
	History         []Attempt      `json:"history,omitempty" doc:"The newest 25 attempts."`
	Progress        map[string]any `json:"progress,omitempty" doc:"How far the attempt is that runs, or ran last."`
	Log             []any          `json:"log,omitempty" doc:"The newest lines that handlers wrote."`
	Raw             []byte         `json:"raw,omitempty" doc:"The bytes of a message that was no job and was set aside."`
	_               struct{}       `additionalProperties:"true"`
}

// Attempt is one entry of a job's history.
type Attempt struct {
	Attempt   int       `json:"attempt"`
	Status    string    `json:"status" enum:"succeeded,failed,cancelled,lost"`
	StartedAt time.Time `json:"startedAt,omitempty"`
	EndedAt   time.Time `json:"endedAt,omitempty"`
	WorkerID  string    `json:"workerId,omitempty"`
	RunID     string    `json:"runId,omitempty"`
	Error     string    `json:"error,omitempty"`
	_         struct{}  `additionalProperties:"true"`
}

// describeBody says in the OpenAPI document what an operation takes. huma is not told before the route is made, so that it
// leaves the reading of the body to us.
func describeBody(api huma.API, rt *route) {
	doc := api.OpenAPI()
	item := doc.Paths[rt.path]
	op := map[string]*huma.Operation{http.MethodPost: item.Post, http.MethodPut: item.Put, http.MethodPatch: item.Patch}[rt.method]
	op.RequestBody = &huma.RequestBody{
		Required: true,
		Content: map[string]*huma.MediaType{
			"application/json": {Schema: doc.Components.Schemas.Schema(rt.body, true, rt.body.Name())},
		},
	}
}
