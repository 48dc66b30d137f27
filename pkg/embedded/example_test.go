package embedded_test

import (
	"fmt"
	"log"

	"github.com/nats-io/nats.go"

	"github.com/jetcrew/jetcrew/pkg/embedded"
)

// A server for a test or for development: nothing to install.
func Example() {
	srv, err := embedded.Start(embedded.Config{}) // in a temporary directory, on a free port
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Shutdown()
	nc, err := nats.Connect(srv.URL())
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()
	fmt.Println(nc.IsConnected())
	// Output: true
}
