package bench_test

import (
	"context"
	"fmt"
	"log"

	"github.com/nats-io/nats.go"

	"github.com/jetcrew/jetcrew/pkg/bench"
	"github.com/jetcrew/jetcrew/pkg/embedded"
)

// Enqueueing on a server, beside raw JetStream.
func ExampleRun() {
	srv, err := embedded.Start(embedded.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Shutdown()
	nc, err := nats.Connect(srv.URL())
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()
	rep, err := bench.Run(context.Background(), nc, bench.Config{Jobs: 100, Rounds: 1, Cases: []string{"enqueue"}})
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range rep.Figures { // rep.Print writes a table for people
		fmt.Println(f.Name, f.Unit, f.Ratio > 0)
	}
	// Output: enqueue, pipelined /s true
}
