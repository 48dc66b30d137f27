package httpapi

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

func TestACallerOfSomeSpacesSeesTheseAlone(t *testing.T) {
	f := newFleet(t)
	s := serveTest(t, f.all)
	for _, space := range []string{"acme", "other"} {
		require.Equal(t, 201, s.ask("POST", "/v1/jobs", `{"type":"t","id":"j","space":"`+space+`"}`).status)
		require.Equal(t, 201, s.ask("PUT", "/v1/schedules/"+space+"/s", `{"type":"t","cron":"@daily"}`).status)
	}
	acme := bearing(secretAcme)
	var jobs struct{ Jobs []*job.Job }
	a := s.ask("GET", "/v1/jobs", "", acme)
	require.NoError(t, json.Unmarshal([]byte(a.body), &jobs), a.body)
	require.Len(t, jobs.Jobs, 1)
	require.Equal(t, "acme", jobs.Jobs[0].Space)
	var schedules struct{ Schedules []struct{ Space string } }
	a = s.ask("GET", "/v1/schedules", "", acme)
	require.NoError(t, json.Unmarshal([]byte(a.body), &schedules), a.body)
	require.Equal(t, []struct{ Space string }{{"acme"}}, schedules.Schedules)

	a = s.ask("POST", "/v1/jobs/cancel", `{"filter":{"allSpaces":true},"all":true}`, acme)
	require.Equal(t, 200, a.status, a.body)
	j, err := f.Get(t.Context(), job.Key{Space: "other", ID: "j"})
	require.NoError(t, err)
	require.Equal(t, job.Pending, j.Status, "all spaces are all of the caller's")
	for _, path := range []string{"/v1/queues", "/v1/workers", "/v1/counts", "/v1/scheduler"} {
		a := s.ask("GET", path, "", acme)
		require.Equal(t, 403, a.status, path)
		require.Equal(t, CodeForbidden, a.problem(t).Code)
	}
	require.Equal(t, 404, s.ask("PUT", "/v1/kv/other/k", "1", acme).status)
	require.Equal(t, 404, s.ask("DELETE", "/v1/schedules/other/s", "", acme).status)
}

func TestKeysOfAllKindsCanBeReadBack(t *testing.T) {
	s := serveTest(t, newFleet(t).all)
	for _, key := range []string{
		"a.b *>", "a/b", "/", "//", "a//b", "..", ".", "%2F", "a?b#c", "世界 😀", "a+b", "%", "a\r\nSet-Cookie: x=1", "a\x00b", strings.Repeat("x", 567),
	} {
		in := strings.ReplaceAll(url.PathEscape(key), ".", "%2E") // a client takes dots for steps of the path
		value, err := json.Marshal(key)
		require.NoError(t, err)
		a := s.ask("PUT", "/v1/kv/acme/"+in, string(value))
		require.Equal(t, 200, a.status, "%q: %s", key, a.body)
		a = s.ask("GET", "/v1/kv/acme/"+in, "")
		require.Equal(t, 200, a.status, "%q: %s", key, a.body)
		var got struct{ Space, Key, Value string }
		require.NoError(t, json.Unmarshal([]byte(a.body), &got))
		require.Equal(t, key, got.Key)
		require.Equal(t, key, got.Value)
		if len(key) <= 100 && key != "a\x00b" {
			a = s.ask("PUT", "/v1/schedules/acme/"+in, `{"type":"t","cron":"@daily"}`)
			require.Equal(t, 201, a.status, "%q: %s", key, a.body)
			require.Equal(t, 200, s.ask("GET", "/v1/schedules/acme/"+in, "").status, key)
		}
	}
	var all []string
	for after, more := "", true; more; {
		a := s.ask("GET", "/v1/kv/acme?limit=4"+map[bool]string{true: "&after=" + url.QueryEscape(after)}[after != ""], "")
		var page Keys
		require.NoError(t, json.Unmarshal([]byte(a.body), &page), a.body)
		all = append(all, page.Keys...)
		after, more = page.Keys[len(page.Keys)-1], page.More
	}
	require.Len(t, all, 15)
	require.IsIncreasing(t, all)
}

func TestRequestsThatAreRefusedNameTheField(t *testing.T) {
	s := serveTest(t, newFleet(t).all)
	for request, field := range map[string]string{
		"GET /v1/jobs?statsu=dead": "statsu", "GET /v1/jobs?status=odd": "status", "GET /v1/jobs?limit=0": "limit", "GET /v1/jobs?limit=x": "limit",
		"GET /v1/jobs?queue=": "queue", "GET /v1/jobs?queue=a&queue=b": "queue", "GET /v1/jobs?since=soon": "since", "GET /v1/jobs?cursor=x": "cursor",
		"GET /v1/jobs?since=1h&until=2h": "until",
		"POST /v1/jobs/cancel {}":        "/filter/spaces", `POST /v1/jobs/cancel {"filter":{"allSpaces":true}}`: "/filter",
		`POST /v1/jobs/cancel {"filter":{"spaces":["a"],"tpye":"x"}}`:          "/filter/tpye",
		`POST /v1/jobs/cancel {"filter":{"spaces":["a"],"statuses":["dead"]}}`: "/filter/statuses",
		`POST /v1/jobs/cancel {"filter":{"spaces":"a"}}`:                       "/filter/spaces",
		"POST /v1/queues/q/pause?for=soon":                                     "for", "POST /v1/queues/q/pause?until=2000-01-01T00:00:00Z": "until",
		"PATCH /v1/queues/q {}": "", `PATCH /v1/queues/q {"lease":"1ms"}`: "/lease", `PATCH /v1/queues/q {"retention":{"dead":"1s"}}`: "/retention/dead",
		`PUT /v1/schedules/s/n {"type":"t","cron":"x"}`:                                "/cron",
		`PUT /v1/schedules/s/n {"type":"t","cron":"@daily","name":"m"}`:                "/name",
		`PUT /v1/schedules/s {"owner":"o","schedules":[{"name":"n","cron":"@daily"}]}`: "/schedules/0/type",
		"GET /v1/cron/next?cron=x":                                                     "cron", "GET /v1/cron/next": "cron", "PUT /v1/kv/s/k?ttl=-1s 1": "ttl", "POST /v1/kv/s/k/expire": "ttl",
		"POST /v1/kv/s/k/swap {}": "/next", "PUT /v1/lists/s/l/a%20b {\"score\":1}": "/id", `PUT /v1/lists/s/l/a {"score":"1"}`: "/score",
	} {
		method, rest, _ := strings.Cut(request, " ")
		path, body, _ := strings.Cut(rest, " ")
		a := s.ask(method, path, body)
		require.Equal(t, 422, a.status, "%s: %s", request, a.body)
		p := a.problem(t)
		require.NotEmpty(t, p.Errors, request)
		require.Equal(t, field, p.Errors[0].Field, "%s: %s", request, a.body)
		require.NotEmpty(t, p.Errors[0].Reason)
	}
}
