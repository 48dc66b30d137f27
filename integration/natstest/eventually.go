package natstest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

var errNotYet = errors.New("the condition does not hold")

// Eventually asks a condition again and again until it holds or answers nil,
// and ends the test if it does not within d. The last error and msg are part
// of the failure. The condition runs in the test's own goroutine.
func Eventually[C func() bool | func() error](t testing.TB, d time.Duration, cond C, msg ...any) {
	t.Helper()
	if err := poll(d, asErrors(cond)); err != nil {
		what := strings.TrimSpace(fmt.Sprintln(msg...))
		if what != "" {
			what += ": "
		}
		t.Fatalf("%safter %s: %v", what, d, err)
	}
}

func asErrors[C func() bool | func() error](cond C) func() error {
	if f, ok := any(cond).(func() error); ok {
		return f
	}
	f := any(cond).(func() bool)
	return func() error {
		if f() {
			return nil
		}
		return errNotYet
	}
}

// stop is an error after which polling is of no use.
type stop struct{ error }

// poll asks until the answer is nil or a stop, or d has passed: often at first,
// ten times a second later.
func poll(d time.Duration, ask func() error) error {
	const slowest = 100 * time.Millisecond
	deadline := time.Now().Add(d)
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, slowest) {
		err := ask()
		if err == nil || errors.As(err, new(stop)) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(pause)
	}
}
