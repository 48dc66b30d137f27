package apiclient_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"

	"github.com/jetcrew/jetcrew/pkg/apiclient"
	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/embedded"
	"github.com/jetcrew/jetcrew/pkg/httpapi"
	"github.com/jetcrew/jetcrew/pkg/job"
)

func Example() {
	// What "jetcrew serve" does.
	srv, err := embedded.Start(embedded.Config{})
	if err != nil {
		panic(err)
	}
	defer srv.Shutdown()
	ctx := context.Background()
	nc, err := client.Connect(ctx, client.Config{URLs: []string{srv.URL()}})
	if err != nil {
		panic(err)
	}
	defer nc.Close()
	h, err := httpapi.New(httpapi.Config{Jobs: nc, Operator: nc, Queues: nc, KV: nc.KV()})
	if err != nil {
		panic(err)
	}
	web := httptest.NewServer(h)
	defer web.Close()

	c, err := apiclient.New(apiclient.Config{URL: web.URL})
	if err != nil {
		panic(err)
	}
	defer c.Close()
	for range 2 {
		e, err := c.EnqueueSpec(ctx, job.Spec{Type: "email", ID: "welcome-42"})
		fmt.Println(e.Key, e.Created, err)
	}
	ch, err := c.Cancel(ctx, job.Key{ID: "welcome-42"})
	fmt.Println(ch.Done, ch.Status, err)
	_, err = c.Get(ctx, job.Key{ID: "nobody"})
	fmt.Println(errors.Is(err, job.ErrNotFound))
	// Output:
	// default/default/welcome-42 true <nil>
	// default/default/welcome-42 false <nil>
	// true cancelled <nil>
	// true
}
