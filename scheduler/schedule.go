package scheduler

import (
	"bytes"
	"cmp"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/scheduler/cron"
)

// MissedPolicy says what becomes of fires that nobody could make when they were due.
type MissedPolicy string

// The policies for missed fires.
const (
	// MissedOne makes one job of all fires that are owed; it says how many it stands for besides its own.
	MissedOne MissedPolicy = "one"
	// MissedSkip makes a job of the newest owed fire if it is due for less than SkipAfter, and of no other.
	MissedSkip MissedPolicy = "skip"
	// MissedEach makes a job of each owed fire, the newest MissedLimit of them, oldest first.
	MissedEach MissedPolicy = "each"
)

// Overlap says what a fire does while the job of the schedule's last fire has not ended.
type Overlap string

// The policies for overlaps.
const (
	OverlapAllow   Overlap = "allow"
	OverlapSkip    Overlap = "skip"    // the fire makes no job
	OverlapReplace Overlap = "replace" // the last fire's job is cancelled
)

// Limits of a schedule.
const (
	// MaxName is how many bytes a schedule's name may have: the ids of its jobs begin with it.
	MaxName = 160
	// MaxMissedLimit bounds how many owed fires become jobs of their own.
	MaxMissedLimit = 1000
	// DefaultMissedLimit is how many do where a schedule does not say.
	DefaultMissedLimit = 10
	// MaxJitter bounds the spread of a schedule's fires.
	MaxJitter = 24 * time.Hour
	// SkipAfter is how late a fire may be made under MissedSkip: long enough for another leader to take over.
	SkipAfter = time.Minute
)

// Spec is what is declared of a schedule. Name, Type and Cron are required.
type Spec struct {
	Space       string         `json:"space,omitzero"` // defaults to "default"
	Name        string         `json:"name"`           // 1 to MaxName bytes of UTF-8
	Type        string         `json:"type"`
	Queue       string         `json:"queue,omitzero"` // defaults to "default"
	Cron        string         `json:"cron"`           // five fields, @hourly and its kin, or @every 90s
	Timezone    string         `json:"timezone,omitzero"`
	Environment string         `json:"environment,omitzero"` // defaults to "main"
	Input       jsontext.Value `json:"input,omitzero"`       // of each job; a JSON object
	MaxAttempts int            `json:"maxAttempts,omitzero"` // of each job; defaults to 3
	Timeout     time.Duration  `json:"timeout,omitzero"`     // of each attempt; 0: none
	// Enabled is whether it fires. Nil leaves it as it is, and a new schedule enabled: so what an operator
	// disabled stays so when the program that declares it starts again.
	Enabled *bool `json:"enabled,omitzero"`
	// Jitter spreads the schedules of one instant: each fires up to so much later, always by the same amount.
	Jitter time.Duration `json:"jitter,omitzero"`

	MissedPolicy MissedPolicy `json:"missedPolicy,omitzero"` // defaults to MissedOne
	MissedLimit  int          `json:"missedLimit,omitzero"`  // for MissedEach; defaults to 10
	Overlap      Overlap      `json:"overlap,omitzero"`      // defaults to OverlapAllow
}

// Schedule is a schedule's record.
//
// One that was read keeps the members that it does not know.
type Schedule struct {
	Spec

	// Owner is the program that declares the schedule; empty where people do.
	Owner string `json:"owner,omitzero"`
	// NextRunAt is the promised instant of the next fire.
	NextRunAt time.Time `json:"nextRunAt,omitzero"`
	// PromisedQueue is where the job of the next fire may stand already, if not in Queue: the fire was due when the queue
	// was changed.
	PromisedQueue string `json:"promisedQueue,omitzero"`
	// LastFireAt is the promised instant of the last fire, not when it was made.
	LastFireAt time.Time `json:"lastFireAt,omitzero"`
	// LastJob is what the last fire was enqueued as.
	LastJob *job.Key `json:"lastJob,omitzero"`
	// Missed counts the fires that got no job of their own since nobody made them when they were due.
	Missed int `json:"missed,omitzero"`
	// Skipped counts the fires that made no job since the last one's had not ended.
	Skipped int `json:"skipped,omitzero"`
	// Error is why the last fire could not be enqueued.
	Error     string    `json:"error,omitzero"`
	CreatedAt time.Time `json:"createdAt,omitzero"`
	UpdatedAt time.Time `json:"updatedAt,omitzero"`

	// Extra holds the members that this version does not know.
	Extra jsontext.Value `json:",embed"`
}

// Active reports whether the schedule fires.
func (s *Spec) Active() bool { return s.Enabled == nil || *s.Enabled }

// Cron is a spec that fires by a cron expression: five fields, or a name such as "@daily".
func Cron(expr string, s Spec) Spec {
	s.Cron = expr
	return s
}

// Every is a spec that fires in an interval of whole seconds, counted from when it was first declared.
func Every(interval time.Duration, s Spec) Spec {
	s.Cron = "@every " + interval.String()
	return s
}

// Normalize fills in the defaults and refuses what cannot be a schedule, with a *job.FieldError.
func (s *Spec) Normalize() error {
	setDefault(&s.Space, job.DefaultSpace)
	setDefault(&s.Queue, job.DefaultQueue)
	setDefault(&s.Environment, job.DefaultEnvironment)
	setDefault(&s.MissedPolicy, MissedOne)
	setDefault(&s.Overlap, OverlapAllow)
	if s.MaxAttempts == 0 {
		s.MaxAttempts = job.DefaultMaxAttempts
	}
	if s.MissedPolicy == MissedEach && s.MissedLimit == 0 {
		s.MissedLimit = DefaultMissedLimit
	}
	if err := job.ValidateName("name", s.Name, MaxName); err != nil {
		return err
	}
	if s.Input != nil {
		s.Input = bytes.Clone(s.Input)
		if err := s.Input.Compact(); err != nil {
			return &job.FieldError{Field: "input", Reason: "is not valid JSON: " + err.Error()}
		}
	}
	asJob := s.job("of a schedule", 0)
	if err := asJob.Normalize(); err != nil {
		return err
	}
	switch {
	case s.MissedPolicy != MissedOne && s.MissedPolicy != MissedSkip && s.MissedPolicy != MissedEach:
		return &job.FieldError{Field: "missedPolicy", Reason: fmt.Sprintf("must be one, skip or each, not %q", s.MissedPolicy)}
	case s.Overlap != OverlapAllow && s.Overlap != OverlapSkip && s.Overlap != OverlapReplace:
		return &job.FieldError{Field: "overlap", Reason: fmt.Sprintf("must be allow, skip or replace, not %q", s.Overlap)}
	case s.MissedLimit != 0 && s.MissedPolicy != MissedEach:
		return &job.FieldError{Field: "missedLimit", Reason: "is for the missedPolicy each alone"}
	case s.MissedLimit < 0 || s.MissedLimit > MaxMissedLimit:
		return &job.FieldError{Field: "missedLimit", Reason: fmt.Sprintf("must be 1 to %d, not %d", MaxMissedLimit, s.MissedLimit)}
	case s.Jitter < 0 || s.Jitter > MaxJitter || s.Jitter%time.Second != 0:
		return &job.FieldError{Field: "jitter", Reason: fmt.Sprintf("must be whole seconds from 0s to %s, not %s", MaxJitter, s.Jitter)}
	}
	spec, err := cron.Parse(s.Cron, s.Timezone)
	if err != nil {
		return err
	}
	s.Cron = spec.String() // one way to write it
	return nil
}

func setDefault[T ~string](p *T, v T) {
	if *p == "" {
		*p = v
	}
}

// job is what a fire enqueues.
func (s *Spec) job(id string, missed int) job.Spec {
	return job.Spec{
		ID: id, Space: s.Space, Queue: s.Queue, Type: s.Type, Environment: s.Environment, Trigger: job.TriggerSchedule,
		Input: s.Input, MaxAttempts: s.MaxAttempts, Timeout: s.Timeout, Missed: missed,
	}
}

// sameTiming reports whether two specs promise the same instants.
func (s *Spec) sameTiming(o *Spec) bool { return s.sameCron(o) && s.Jitter == o.Jitter }

// sameCron reports whether they do but for their jitter.
func (s *Spec) sameCron(o *Spec) bool {
	return s.Cron == o.Cron && cmp.Or(s.Timezone, "UTC") == cmp.Or(o.Timezone, "UTC") && s.Environment == o.Environment
}
