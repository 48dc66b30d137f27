// Package job is jetcrew's vocabulary: what a job is, how it is written as JSON, what a producer may ask
// for, and the values by which a handler says how its attempt ended.
//
// It does no I/O and imports nothing of jetcrew. Where jobs are kept, and how a worker takes them, is the
// business of other packages; they all speak in these terms.
package job

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Status says where a job is in its life.
type Status string

// The statuses. Pending covers both what may run now and what waits for its instant.
const (
	Pending   Status = "pending"
	Running   Status = "running"
	Succeeded Status = "succeeded"
	Failed    Status = "failed" // the handler ended it with a refusal
	Dead      Status = "dead"   // given up, or its attempts are exhausted, or it could not be read
	Cancelled Status = "cancelled"
)

// Terminal reports whether a job of this status has ended.
func (s Status) Terminal() bool {
	return s == Succeeded || s == Failed || s == Dead || s == Cancelled
}

// Valid reports whether s is one of the statuses.
func (s Status) Valid() bool { return s == Pending || s == Running || s.Terminal() }

// Trigger says what made a job.
type Trigger string

// The triggers.
const (
	TriggerCall     Trigger = "call"
	TriggerWebhook  Trigger = "webhook"
	TriggerSchedule Trigger = "schedule"
	TriggerCustom   Trigger = "custom"
)

// Valid reports whether t is one of the triggers.
func (t Trigger) Valid() bool {
	return t == TriggerCall || t == TriggerWebhook || t == TriggerSchedule || t == TriggerCustom
}

// Key is a job's identity. The queue is part of it: the same id in two queues names two jobs.
type Key struct {
	Queue string `json:"queue"`
	Space string `json:"space"`
	ID    string `json:"id"`
}

// String is the key as people write it: queue/space/id.
func (k Key) String() string { return fmt.Sprintf("%s/%s/%s", k.Queue, k.Space, k.ID) }

// Job is a job's record. Every instant in it is the store's.
//
// A Job that was read keeps the members it does not know, so that a program that rewrites it loses nothing
// that a newer version wrote.
type Job struct {
	ID          string         `json:"id"`
	Space       string         `json:"space"`
	Type        string         `json:"type"`
	Queue       string         `json:"queue"`
	Environment string         `json:"environment,omitzero"`
	Trigger     Trigger        `json:"trigger,omitzero"`
	Input       jsontext.Value `json:"input,omitzero"` // a JSON object
	DueAt       time.Time      `json:"dueAt,omitzero"`
	MaxAttempts int            `json:"maxAttempts,omitzero"`
	Missed      int            `json:"missed,omitzero"`   // owed fires that this job stands for
	Timeout     time.Duration  `json:"timeout,omitzero"`  // how long one attempt may take; 0: no limit
	Deadline    time.Time      `json:"deadline,omitzero"` // no attempt starts or goes on past it
	Retry       *Retry         `json:"retry,omitzero"`    // instead of the worker's policy

	Status          Status         `json:"status,omitzero"`
	RunAt           time.Time      `json:"runAt,omitzero"` // when its next attempt may start
	Attempts        int            `json:"attempts"`       // attempts used, the running one included
	StartedAt       time.Time      `json:"startedAt,omitzero"`
	LeaseUntil      time.Time      `json:"leaseUntil,omitzero"`
	WorkerID        string         `json:"workerId,omitzero"`
	RunID           string         `json:"runId,omitzero"`
	CancelRequested bool           `json:"cancelRequested,omitzero"`
	CreatedAt       time.Time      `json:"createdAt,omitzero"`
	UpdatedAt       time.Time      `json:"updatedAt,omitzero"`
	Error           string         `json:"error,omitzero"`
	Result          jsontext.Value `json:"result,omitzero"`
	History         []Attempt      `json:"history,omitzero"`
	Progress        *Mark          `json:"progress,omitzero"` // of the attempt that runs, or ran last
	Log             []LogLine      `json:"log,omitzero"`      // the newest MaxLogLines

	// Raw holds the bytes of a message that could not be read as a job and was set aside as dead.
	Raw []byte `json:"raw,omitzero"`

	// Trace is what the job comes from. It stands in the headers of its messages.
	Trace Trace `json:"-"`

	// Extra holds the members that this version does not know.
	Extra jsontext.Value `json:",embed"`
}

// Key is the job's identity.
func (j *Job) Key() Key { return Key{Queue: j.Queue, Space: j.Space, ID: j.ID} }

// Retry is a backoff: the first wait, doubled per attempt, up to the longest.
type Retry struct {
	Base time.Duration `json:"base,omitzero"`
	Max  time.Duration `json:"max,omitzero"`
}

// AttemptStatus says how one attempt ended.
type AttemptStatus string

// How an attempt can end. Lost means that whoever ran it stopped reporting.
const (
	AttemptSucceeded AttemptStatus = "succeeded"
	AttemptFailed    AttemptStatus = "failed"
	AttemptCancelled AttemptStatus = "cancelled"
	AttemptLost      AttemptStatus = "lost"
)

// LostError is the error of an attempt whose worker stopped reporting.
const LostError = "the worker holding this job stopped reporting"

// UnknownWorker stands in an attempt that was lost before its worker could write its name.
const UnknownWorker = "unknown"

// MaxHistory is how many attempts a record keeps, the newest ones. Their numbers go on counting.
const MaxHistory = 25

// MaxError is how many bytes of an error's text a record keeps.
const MaxError = 2048

// Attempt is one entry of a job's history.
type Attempt struct {
	Attempt   int            `json:"attempt"` // counts from 1, and goes on counting after a requeue
	Status    AttemptStatus  `json:"status"`
	StartedAt time.Time      `json:"startedAt,omitzero"`
	EndedAt   time.Time      `json:"endedAt,omitzero"`
	WorkerID  string         `json:"workerId,omitzero"`
	RunID     string         `json:"runId,omitzero"`
	Error     string         `json:"error,omitzero"`
	Extra     jsontext.Value `json:",embed"`
}

// AddAttempt appends a to the history under the next number, and keeps the newest MaxHistory entries.
func (j *Job) AddAttempt(a Attempt) {
	a.Attempt = 1
	if n := len(j.History); n > 0 {
		a.Attempt = j.History[n-1].Attempt + 1
	}
	if a.EndedAt.Before(a.StartedAt) {
		a.EndedAt = a.StartedAt
	}
	a.Error = CutError(a.Error)
	j.History = append(j.History[:len(j.History):len(j.History)], a)
	if over := len(j.History) - MaxHistory; over > 0 {
		j.History = j.History[over:]
	}
}
