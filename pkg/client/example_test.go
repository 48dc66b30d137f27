package client_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/embedded"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// A producer names its jobs, so that it may ask twice.
func Example() {
	srv, err := embedded.Start(embedded.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Shutdown()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := client.Connect(ctx, client.Config{URLs: []string{srv.URL()}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	type Email struct {
		To string `json:"to"`
	}
	for range 2 {
		e, err := c.Enqueue(ctx, "email", Email{To: "ada@example.com"},
			client.WithID("welcome-42"), client.WithDelay(time.Hour))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.Key, e.Created)
	}
	j, err := c.Get(ctx, job.Key{ID: "welcome-42"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(j.Status, string(j.Input))
	// Output:
	// default/default/welcome-42 true
	// default/default/welcome-42 false
	// pending {"to":"ada@example.com"}
}

// What failed is tried again, once its reason is mended.
func ExampleClient_Bulk() {
	srv, err := embedded.Start(embedded.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Shutdown()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := client.Connect(ctx, client.Config{URLs: []string{srv.URL()}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	for _, id := range []string{"a", "b"} {
		if _, err := c.Enqueue(ctx, "email", nil, client.WithID(id)); err != nil {
			log.Fatal(err)
		}
	}
	if _, err := c.Cancel(ctx, job.Key{ID: "a"}); err != nil {
		log.Fatal(err)
	}
	r, err := c.Bulk(ctx, job.BulkRequest{
		Operation: job.OpRequeue,
		Filter:    job.Filter{Spaces: []string{"default"}, Type: "email", Statuses: []job.Status{job.Failed, job.Dead, job.Cancelled}},
	})
	if err != nil {
		log.Fatal(err)
	}
	n, err := c.Count(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Done, "requeued,", n.Ready, "ready")
	// Output:
	// 1 requeued, 2 ready
}
