package streams_test

import (
	"context"
	"fmt"
	"log"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"github.com/jetcrew/jetcrew/pkg/embedded"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/streams"
)

// A job goes in, is done once, and its record can be read.
func Example() {
	server, err := embedded.Start(embedded.Config{}) // any NATS server with JetStream will do
	if err != nil {
		log.Fatal(err)
	}
	defer server.Shutdown()
	nc, err := nats.Connect(server.URL())
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()

	ctx := context.Background()
	store, err := streams.Open(ctx, nc, streams.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	asked, err := store.Enqueue(ctx, job.Spec{ID: "hello", Type: "email", Input: jsontext.Value(`{"to":"ann"}`)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(asked.Key, "is new:", asked.Created)

	consumer, err := store.Consume(ctx, job.ConsumerConfig{WorkerID: "worker-1", Slots: 1})
	if err != nil {
		log.Fatal(err)
	}
	claim, err := consumer.Claim(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, attempt %d: %s\n", claim.Job().Type, claim.Job().Attempts, claim.Job().Input)
	if _, err := claim.Settle(ctx, job.Succeed(jsontext.Value(`"sent"`))); err != nil {
		log.Fatal(err)
	}
	if err := consumer.Close(ctx); err != nil {
		log.Fatal(err)
	}

	record, err := store.Get(ctx, asked.Key)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(record.Status, string(record.Result))
	// Output:
	// default/default/hello is new: true
	// email, attempt 1: {"to":"ann"}
	// succeeded "sent"
}
