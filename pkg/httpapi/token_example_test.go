package httpapi_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/embedded"
	"github.com/jetcrew/jetcrew/pkg/httpapi"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

// A token that may put jobs into one space, for 90 days.
func ExampleAccess_CreateToken() {
	ctx := context.Background()
	srv, err := embedded.Start(embedded.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer srv.Shutdown()
	c, err := client.Connect(ctx, client.Config{URLs: []string{srv.URL()}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	access := httpapi.NewAccess(httpapi.AccessConfig{
		Open:  func(ctx context.Context) (kv.Adapter, error) { return c.OpenKV(ctx) },
		Clock: c,
	})
	defer access.Close()
	api, err := httpapi.New(httpapi.Config{Jobs: c, Access: access})
	if err != nil {
		log.Fatal(err)
	}
	_, secret, err := access.CreateToken(ctx, httpapi.TokenSpec{
		Name: "shop", Scopes: []httpapi.Scope{httpapi.ScopeEnqueue}, Spaces: []string{"acme"}, Expires: 90 * 24 * time.Hour,
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, space := range []string{"acme", "other"} {
		r := httptest.NewRequest(http.MethodPost, "/v1/jobs", strings.NewReader(`{"type":"email","space":"`+space+`"}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+secret)
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		fmt.Println(space, w.Code)
	}
	// Output:
	// acme 201
	// other 404
}
