package job

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Outcome is what a worker reports about an attempt that it held.
type Outcome struct {
	// Status is the end that the job came to, or Pending for another try.
	Status Status
	// Result of a success: any JSON, or nothing.
	Result jsontext.Value
	// Error of the attempt; it overwrites the record's, also with nothing.
	Error string
	// RunID names the run; empty keeps what the record has.
	RunID string
	// Delay before another try (Pending only). 0: at once.
	Delay time.Duration
	// Refund gives the attempt back and leaves the history as it was (Pending only): the job was not
	// started, or asked to run later. Without it, a job that has used all its attempts ends dead.
	Refund bool
}

// Succeed is the outcome of an attempt that did its work.
func Succeed(result jsontext.Value) Outcome { return Outcome{Status: Succeeded, Result: result} }

// HandBack is the outcome of a claim that was not started, or is to run later for no fault of its own.
func HandBack(delay time.Duration, why string) Outcome {
	return Outcome{Status: Pending, Delay: delay, Refund: true, Error: why}
}

// Fail is the outcome of an attempt that failed and is to be tried again after delay, if attempts are left.
func Fail(delay time.Duration, err string) Outcome {
	return Outcome{Status: Pending, Delay: delay, Error: err}
}

// AttemptStatus says how the history calls the attempt.
func (o Outcome) AttemptStatus() AttemptStatus {
	switch o.Status {
	case Succeeded:
		return AttemptSucceeded
	case Cancelled:
		return AttemptCancelled
	default:
		return AttemptFailed
	}
}
