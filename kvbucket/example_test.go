package kvbucket_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/jetcrew/jetcrew/kvbucket"
	"github.com/jetcrew/jetcrew/pkg/embedded"
	"github.com/jetcrew/jetcrew/streams"
)

// A bucket beside the jobs, on their clock.
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

	bucket, err := kvbucket.Open(ctx, nc, kvbucket.Config{Clock: store})
	if err != nil {
		log.Fatal(err)
	}
	defer bucket.Close()

	// Whoever comes first holds the lock, for a minute at most.
	for _, holder := range []string{"ann", "bob"} {
		mine, err := bucket.Swap(ctx, "lock/report", nil, holder, time.Minute)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(holder, "has it:", mine)
	}
	released, err := bucket.DeleteIf(ctx, "lock/report", "ann") // only if it is still hers
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("released:", released)

	for range 3 {
		if _, err := bucket.Increment(ctx, "v/acme/visits", 1); err != nil {
			log.Fatal(err)
		}
	}
	visits, _, err := bucket.Get(ctx, "v/acme/visits") // nats kv get JETCREW_KV v.acme.visits
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("visits:", visits)
	// Output:
	// ann has it: true
	// bob has it: false
	// released: true
	// visits: 3
}
