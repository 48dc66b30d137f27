package job_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
)

var errUnreachable = errors.New("no connection")

// What a handler returns says what becomes of its job.
func Example() {
	handler := func(ctx context.Context, order string) error {
		switch order {
		case "unpaid":
			return job.Refuse("unpaid", "the order is not paid") // failed, with words for the caller
		case "unknown":
			return job.GiveUp(errors.New("no such order")) // dead, whatever attempts are left
		case "early":
			return job.Snooze(time.Hour, "the shop is closed") // later, without using an attempt
		}
		job.Progress(ctx, 50, "percent")
		return job.Step(ctx, "ship", func(context.Context) error { // tried again, with backoff
			return errUnreachable
		})
	}
	for _, order := range []string{"unpaid", "unknown", "early", "42"} {
		fmt.Println(handler(context.Background(), order))
	}
	// Output:
	// the order is not paid
	// no such order
	// not now: the shop is closed: again in 1h0m0s
	// step "ship" failed: no connection
}

// A spec is checked before it is stored; the error names the field.
func ExampleSpec_Normalize() {
	spec := job.Spec{Type: "email", MaxAttempts: -1}
	err := spec.Normalize()
	var field *job.FieldError
	fmt.Println(errors.As(err, &field), field)
	// Output: true maxAttempts: must be 1 to 1000000, not -1
}
