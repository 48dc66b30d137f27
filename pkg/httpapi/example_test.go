package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/embedded"
	"github.com/jetcrew/jetcrew/pkg/httpapi"
)

// A job over HTTP.
func Example() {
	srv, err := embedded.Start(embedded.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Shutdown()
	c, err := client.Connect(context.Background(), client.Config{URLs: []string{srv.URL()}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	api, err := httpapi.New(httpapi.Config{Jobs: c})
	if err != nil {
		log.Fatal(err)
	}
	server := httptest.NewServer(api)
	defer server.Close()

	for range 2 {
		resp, err := http.Post(server.URL+"/v1/jobs", "application/json", strings.NewReader(`{"type":"email","id":"welcome-42"}`))
		if err != nil {
			log.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		fmt.Println(resp.Status)
	}
	http.DefaultClient.CloseIdleConnections()
	// Output:
	// 201 Created
	// 200 OK
}
