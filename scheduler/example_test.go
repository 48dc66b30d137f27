package scheduler_test

import (
	"context"
	"fmt"
	"log"

	"github.com/nats-io/nats.go"

	"github.com/jetcrew/jetcrew/pkg/embedded"
	"github.com/jetcrew/jetcrew/scheduler"
)

// One process of the fleet does what one is enough for.
func ExampleElection() {
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

	ctx, stop := context.WithCancel(context.Background())
	e, err := scheduler.NewElection(ctx, nc, scheduler.Config{ID: "me"})
	if err != nil {
		log.Fatal(err)
	}
	e.Run(ctx, func(ctx context.Context, alive func()) {
		alive() // at least once a minute, or the lead is given up
		l, err := e.Leader(ctx)
		fmt.Println(l.ID, err)
		stop()
		<-ctx.Done() // when the lead is lost, or the election is left
	})
	// Output: me <nil>
}
