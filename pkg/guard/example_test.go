package guard_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/jetcrew/jetcrew/pkg/guard"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

// A process has one set of guards. Here their store is memory; a fleet has a bucket of package kvbucket.
func Example() {
	ctx := context.Background()
	guards, err := guard.New(guard.Config{
		Store: kv.NewMemory(kv.MemoryOptions{}), ReplayWindow: time.Hour, Calls: 100, CallsPerSpace: 10, Renders: 2,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	input := jsontext.Value(`{"order":7}`)
	key, err := guard.Named("shop", "ada", "order-7", "charge", input) // her Idempotency-Key
	if err != nil {
		fmt.Println(err)
		return
	}
	charge := func(ctx context.Context, _ *guard.Run) (jsontext.Value, error) {
		fmt.Println("charging")
		return jsontext.Value(`{"charged":true}`), nil
	}
	for range 2 {
		result, replayed, err := guards.Do(ctx, guard.Request{Space: "shop", Type: "charge", Caller: "ada", Key: key, Timeout: time.Minute}, charge)
		fmt.Println(string(result), replayed, err)
	}
	// Output:
	// charging
	// {"charged":true} false <nil>
	// {"charged":true} true <nil>
}

// A second run of a key is refused, and whoever owns the first can stop it from anywhere.
func ExampleGuards_Cancel() {
	ctx := context.Background()
	store := kv.NewMemory(kv.MemoryOptions{})
	here, _ := guard.New(guard.Config{Store: store})
	there, _ := guard.New(guard.Config{Store: store}) // of another process
	key, _ := guard.Derived("shop", "report", "ada", jsontext.Value(`{"year":2026}`))
	q := guard.Request{Space: "shop", Type: "report", Caller: "ada", Key: key}

	run, err := here.Begin(ctx, q)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer run.End()
	_, err = there.Begin(ctx, q)
	var refusal *job.Refusal
	fmt.Println(errors.As(err, &refusal), refusal.Code)

	fmt.Println(there.Cancel(ctx, "shop", "eve", run.ID()))
	fmt.Println(there.Cancel(ctx, "shop", "ada", run.ID()))
	fmt.Println(run.Check(ctx)) // between two steps, or at run.Context()
	// Output:
	// true duplicate
	// false <nil>
	// true <nil>
	// cancel requested
}
