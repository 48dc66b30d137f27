package httpapi

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

// Whoever counts requests is told of each once, in words of the API's own.
func TestRequestsAreToldOf(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var all []Served
	s := serveTest(t, func(c *Config) {
		c.Tokens = nil
		c.Observe = func(one Served) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, one)
		}
	})
	const name = "canary-5cfae1"
	for i, c := range []struct {
		method, path, body string
		operation, as      string
		status             int
		code               Code
	}{
		{"POST", "/v1/jobs", `{"type":"t","id":"` + name + `"}`, "enqueueJob", "POST", 201, ""},
		{"GET", "/v1/jobs/default/" + name, "", "getJob", "GET", 200, ""},
		{"GET", "/v1/jobs/default/%2F", "", "getJob", "GET", 404, CodeNotFound},
		{"POST", "/v1/jobs", `{"type":7}`, "enqueueJob", "POST", 422, CodeBadField},
		{"GET", "/healthz", "", "health", "GET", 200, ""},
		{"GET", "/openapi.json", "", "openapi", "GET", 200, ""},
		{"GET", "/" + name, "", "", "", 404, CodeNotFound},
		{"DELETE", "/v1/jobs", "", "", "", 405, CodeMethodNotAllowed},
		{strings.ToUpper(name), "/v1/jobs", "", "", "", 405, CodeMethodNotAllowed},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, s.url+c.path, strings.NewReader(c.body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, c.status, resp.StatusCode, "%s %s", c.method, c.path)
		natstest.Eventually(t, soon, func() bool { mu.Lock(); defer mu.Unlock(); return len(all) > i }, "it is told of")
		mu.Lock()
		got := all[i]
		mu.Unlock()
		require.GreaterOrEqual(t, got.Took, 0*got.Took)
		got.Took = 0
		require.Equal(t, Served{Operation: c.operation, Method: c.as, Status: c.status, Code: c.code}, got, "%s %s", c.method, c.path)
	}
	require.Len(t, all, 9)
}
