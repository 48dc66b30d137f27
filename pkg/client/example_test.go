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
