package job

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
)

// Defaults of a Spec.
const (
	DefaultQueue       = "default"
	DefaultSpace       = "default"
	DefaultEnvironment = "main"
	DefaultMaxAttempts = 3
)

// Limits, in bytes.
const (
	MaxName        = 191 // space, queue, id, type, cron, workerId, runId
	MaxShortName   = 64  // environment, trigger, timezone
	MaxMaxAttempts = 1_000_000
)

// Spec is what a producer asks for. Only Type is required.
type Spec struct {
	ID          string         `json:"id,omitzero"`    // a new UUID (version 7) if empty
	Space       string         `json:"space,omitzero"` // defaults to "default"
	Queue       string         `json:"queue,omitzero"` // defaults to "default"
	Type        string         `json:"type"`
	Environment string         `json:"environment,omitzero"` // defaults to "main"
	Trigger     Trigger        `json:"trigger,omitzero"`     // defaults to custom
	Input       jsontext.Value `json:"input,omitzero"`       // a JSON object; none is {}
	Delay       time.Duration  `json:"delay,omitzero"`       // from the store's now
	DueAt       time.Time      `json:"dueAt,omitzero"`       // by the store's clock; not together with Delay
	MaxAttempts int            `json:"maxAttempts,omitzero"` // defaults to 3
	Missed      int            `json:"missed,omitzero"`
	RunID       string         `json:"runId,omitzero"`
	Timeout     time.Duration  `json:"timeout,omitzero"`  // of one attempt; 0: none
	Deadline    time.Time      `json:"deadline,omitzero"` // of the job; zero: none
	Retry       *Retry         `json:"retry,omitzero"`

	// Trace is what the job comes from. A producer that traces puts its own operation there, as a child of this one
	// unless its context says what it belongs to. What is not well-formed is left out.
	Trace Trace `json:"-"`
}

// Key is the identity that the spec asks for.
func (s *Spec) Key() Key { return Key{Queue: s.Queue, Space: s.Space, ID: s.ID} }

// Normalize fills in the defaults and refuses what no job can be, with a *FieldError that names the field.
func (s *Spec) Normalize() error {
	setDefault(&s.Queue, DefaultQueue)
	setDefault(&s.Space, DefaultSpace)
	setDefault(&s.Environment, DefaultEnvironment)
	if s.Trigger == "" {
		s.Trigger = TriggerCustom
	}
	if s.ID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return fmt.Errorf("new job id: %w", err)
		}
		s.ID = id.String()
	}
	if s.MaxAttempts == 0 {
		s.MaxAttempts = DefaultMaxAttempts
	}
	if s.Delay != 0 && !s.DueAt.IsZero() {
		return &FieldError{"delay", "give a delay or a dueAt, not both"}
	}
	if s.Delay < 0 {
		return &FieldError{"delay", "must not be negative"}
	}
	if !validInstant(s.DueAt) {
		return &FieldError{"dueAt", "must be a year from 1970 to 9999"}
	}
	s.Trace = NewTrace(s.Trace.Parent, s.Trace.State)
	j := s.Job()
	return j.Validate()
}

func setDefault(p *string, v string) {
	if *p == "" {
		*p = v
	}
}

// Job is the record that a normalized spec starts as. Instants that the store decides are left out.
func (s *Spec) Job() *Job {
	return &Job{
		ID: s.ID, Space: s.Space, Queue: s.Queue, Type: s.Type, Environment: s.Environment, Trigger: s.Trigger,
		Input: s.Input, DueAt: CeilMillis(s.DueAt), MaxAttempts: s.MaxAttempts, Missed: s.Missed, RunID: s.RunID,
		Timeout: s.Timeout, Deadline: s.Deadline, Retry: s.Retry, Status: Pending, Trace: s.Trace,
	}
}
