package command_test

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"github.com/jetcrew/jetcrew/pkg/embedded"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/streams"
	"github.com/jetcrew/jetcrew/worker"
	"github.com/jetcrew/jetcrew/worker/command"
)

// A program handles the jobs of a type: its input is on standard input, its exit code says how it went.
func ExampleNew() {
	shout, err := command.New(command.Config{
		Args: []string{"sh", "-c", `
			[ "$JETCREW_JOB_ID" = quiet ] && { echo "it is quiet here" >&2; exit 65; }
			tr a-z A-Z`},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer shout.Close()
	for _, id := range []string{"loud", "quiet"} {
		j, err := runOne(shout, job.Spec{ID: id, Type: "shout", Input: jsontext.Value(`{"say":"hello"}`)})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(id, j.Status, string(j.Result)+j.Error)
	}
	// Output:
	// loud succeeded {"SAY":"HELLO"}
	// quiet dead the program gave up (exit code 65): it is quiet here
}

// runOne runs a worker until the job has ended.
func runOne(c *command.Command, spec job.Spec) (*job.Job, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server, err := embedded.Start(embedded.Config{})
	if err != nil {
		return nil, err
	}
	defer server.Shutdown()
	nc, err := nats.Connect(server.URL())
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	queue, err := streams.Open(ctx, nc, streams.Config{})
	if err != nil {
		return nil, err
	}
	defer queue.Close()
	w, err := worker.New(queue, worker.Config{})
	if err != nil {
		return nil, err
	}
	worker.Handle(w, spec.Type, c.Run, worker.WithTimeout(10*time.Second))

	enqueued, err := queue.Enqueue(ctx, spec)
	if err != nil {
		return nil, err
	}
	running, drain := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(running) }()
	defer func() { drain(); <-ended }()
	for {
		j, err := queue.Get(ctx, enqueued.Key)
		if err != nil || j.Status.Terminal() {
			return j, err
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
