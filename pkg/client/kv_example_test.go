package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/embedded"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

// Stock is what the example keeps.
type Stock struct{ Cups int }

// buy is the example of docs/kv.md.
func buy(ctx context.Context, c *client.Client, cups int) error {
	shop := c.KV().Space("shop") // in a handler: kv.FromContext(ctx)

	// A window of a minute: whoever comes first opens it, and nobody keeps it open.
	visits, err := shop.Increment(ctx, "visits", 1, time.Minute)
	if err != nil {
		return err
	}
	if visits > 100 {
		return job.Refuse(job.CodeOverCapacity, "Too many visitors. Please come back in a minute.")
	}

	// The next value is worked out from the present one, and again whenever somebody else was faster.
	_, err = kv.Change(ctx, shop, "stock", func(s *Stock) (*Stock, error) {
		if s == nil || s.Cups < cups {
			return nil, job.Refuse("sold_out", "There are not enough left.")
		}
		return &Stock{Cups: s.Cups - cups}, nil
	}, nil)
	if err != nil {
		return err
	}

	// The ten best customers, each by their largest order.
	_, _, err = shop.List("best").Put(ctx, "ada", float64(cups), nil, kv.Keep(10), kv.HigherOnly())
	return err
}

// The key/value store is on the client's connection.
func ExampleClient_KV() {
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

	shop := c.KV().Space("shop")
	if err := kv.Set(ctx, shop, "stock", Stock{Cups: 5}, 0); err != nil {
		log.Fatal(err)
	}
	for _, cups := range []int{3, 4} {
		var refusal *job.Refusal
		switch err := buy(ctx, c, cups); {
		case errors.As(err, &refusal):
			fmt.Println("refused:", refusal.Message)
		case err != nil:
			log.Fatal(err)
		default:
			fmt.Println("bought", cups)
		}
	}
	// What is there, and from then on what changes.
	for e, err := range shop.Watch(ctx, "", kv.WatchOptions{}) {
		if err != nil {
			log.Fatal(err)
		}
		if e.Kind == kv.EventWatching {
			break
		}
		if e.Key == "stock" {
			fmt.Println(e.Kind, e.Key, e.Value)
		}
	}
	// Output:
	// bought 3
	// refused: There are not enough left.
	// there stock {"Cups":2}
}

func TestTheDocumentShowsTheExample(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/kv.md")
	require.NoError(t, err)
	here, err := os.ReadFile("kv_example_test.go")
	require.NoError(t, err)
	flat := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	_, block, found := strings.Cut(string(doc), "```go\n")
	require.True(t, found)
	block, _, found = strings.Cut(block, "```")
	require.True(t, found)
	require.Contains(t, flat(string(here)), flat(block))
}
