package worker_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"github.com/jetcrew/jetcrew/pkg/embedded"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/streams"
	"github.com/jetcrew/jetcrew/worker"
)

type charge struct {
	Customer string `json:"customer"`
	Cents    int    `json:"cents"`
}

// A handler names its steps, and says by its error what is to become of the job.
func ExampleHandle() {
	if err := chargeAll(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// ann succeeded {"receipt":"ann-500"}
	// bob dead step "charge" failed: card declined
}

func chargeAll() error {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	server, err := embedded.Start(embedded.Config{})
	if err != nil {
		return err
	}
	defer server.Shutdown()
	nc, err := nats.Connect(server.URL())
	if err != nil {
		return err
	}
	defer nc.Close()
	queue, err := streams.Open(ctx, nc, streams.Config{})
	if err != nil {
		return err
	}
	defer queue.Close()

	w, err := worker.New(queue, worker.Config{
		Queues: map[string]int{"billing": 2},
		Retry:  worker.RetryPolicy{Base: time.Millisecond, Max: time.Second},
	})
	if err != nil {
		return err
	}
	worker.Handle(w, "charge", func(ctx context.Context, _ *job.Job, in charge) (any, error) {
		err := job.Step(ctx, "charge", func(context.Context) error {
			if in.Customer == "bob" {
				return errors.New("card declined")
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		return map[string]string{"receipt": fmt.Sprintf("%s-%d", in.Customer, in.Cents)}, nil
	}, worker.WithTimeout(10*time.Second))

	running, drain := context.WithCancel(ctx)
	defer drain()
	ended := make(chan error, 1)
	go func() { ended <- w.Run(running) }()
	for _, id := range []string{"ann", "bob"} {
		input := jsontext.Value(fmt.Sprintf(`{"customer":%q,"cents":500}`, id))
		if _, err := queue.Enqueue(ctx, job.Spec{Queue: "billing", ID: id, Type: "charge", Input: input}); err != nil {
			return err
		}
		j, err := untilEnded(ctx, queue, job.Key{Queue: "billing", Space: job.DefaultSpace, ID: id})
		if err != nil {
			return err
		}
		fmt.Println(id, j.Status, string(j.Result)+j.Error)
	}
	drain()
	return <-ended
}

func untilEnded(ctx context.Context, queue job.Queue, key job.Key) (*job.Job, error) {
	for {
		j, err := queue.Get(ctx, key)
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
