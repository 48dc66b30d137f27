package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

const one = `{"type":"email","id":"welcome","input":{"to":"ada"}}`

func TestAJobIsPutInOnceAndCanBeRead(t *testing.T) {
	s := serveTest(t)
	a := s.ask("POST", "/v1/jobs", one)
	require.Equal(t, 201, a.status, a.body)
	require.JSONEq(t, `{"queue":"default","space":"default","id":"welcome","created":true}`, a.body)
	where := a.header.Get("Location")
	require.Equal(t, "/v1/jobs/default/welcome?queue=default", where)

	a = s.ask("POST", "/v1/jobs", one)
	require.Equal(t, 200, a.status)
	require.JSONEq(t, `{"queue":"default","space":"default","id":"welcome","created":false}`, a.body)
	require.Equal(t, where, a.header.Get("Location"))

	for _, path := range []string{where, "/v1/jobs/default/welcome"} {
		a = s.ask("GET", path, "")
		require.Equal(t, 200, a.status)
		require.Equal(t, "application/json", a.header.Get("Content-Type"))
		var record map[string]any
		require.NoError(t, json.Unmarshal([]byte(a.body), &record))
		require.Equal(t, "email", record["type"])
		require.Equal(t, "pending", record["status"])
		require.Equal(t, map[string]any{"to": "ada"}, record["input"])
	}
}

func TestEveryFieldOfASpecGetsThrough(t *testing.T) {
	s := serveTest(t)
	a := s.ask("POST", "/v1/jobs", `{"type":"t","id":"i","space":"s","queue":"q","environment":"e","trigger":"webhook","input":{"a":[1]},
		"dueAt":"2100-01-01T00:00:00Z","maxAttempts":7,"missed":2,"runId":"r","timeout":"1m30s","deadline":"2101-01-01T00:00:00Z",
		"retry":{"base":"1s","max":"1h"}}`)
	require.Equal(t, 201, a.status, a.body)
	j := s.store.jobs[job.Key{Queue: "q", Space: "s", ID: "i"}]
	require.NotNil(t, j)
	due := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	require.True(t, j.DueAt.Equal(due) && j.Deadline.Equal(due.AddDate(1, 0, 0)))
	require.Equal(t, 90*time.Second, j.Timeout)
	require.Equal(t, &job.Retry{Base: time.Second, Max: time.Hour}, j.Retry)
	require.Equal(t, []any{"t", "e", job.TriggerWebhook, 7, 2, "r"}, []any{j.Type, j.Environment, j.Trigger, j.MaxAttempts, j.Missed, j.RunID})
	require.JSONEq(t, `{"a":[1]}`, string(j.Input))
}

func TestAJobWithoutANameIsGivenOne(t *testing.T) {
	s := serveTest(t)
	var ids []string
	for range 2 {
		a := s.ask("POST", "/v1/jobs", `{"type":"t"}`)
		require.Equal(t, 201, a.status)
		var e Enqueued
		require.NoError(t, json.Unmarshal([]byte(a.body), &e))
		require.NotEmpty(t, e.ID)
		ids = append(ids, e.ID)
	}
	require.NotEqual(t, ids[0], ids[1])
}

func TestNamesOfAllKindsCanBeReadBack(t *testing.T) {
	s := serveTest(t)
	for i, name := range []string{
		"a.b *>", "a/b", "/", "..", ".", "%2F", "a?b#c", "世界 😀", "a+b", "%", "a\r\nSet-Cookie: x=1", "a;b", strings.Repeat("x", 191),
	} {
		body, err := json.Marshal(map[string]string{"type": "t", "id": name, "space": name, "queue": fmt.Sprint("q", i)})
		require.NoError(t, err)
		a := s.ask("POST", "/v1/jobs", string(body))
		require.Equal(t, 201, a.status, "%q: %s", name, a.body)
		require.Empty(t, a.header.Get("Set-Cookie"))
		where := a.header.Get("Location")
		if name == "." || name == ".." { // a client takes these for steps of the path
			where = "/v1/jobs/" + strings.ReplaceAll(name, ".", "%2E") + "/" + strings.ReplaceAll(name, ".", "%2E")
		}
		a = s.ask("GET", where, "")
		require.Equal(t, 200, a.status, "%q at %s: %s", name, where, a.body)
		var record struct{ ID, Space string }
		require.NoError(t, json.Unmarshal([]byte(a.body), &record))
		require.Equal(t, name, record.ID)
		require.Equal(t, name, record.Space)
	}
}

func TestManyJobs(t *testing.T) {
	s := serveTest(t)
	s.ask("POST", "/v1/jobs", one)
	a := s.ask("POST", "/v1/jobs/bulk", `{"jobs":[`+one+`,{"type":"t","id":"b","space":"x"},{"type":"t","id":"c","queue":"y"}]}`)
	require.Equal(t, 200, a.status, a.body)
	require.JSONEq(t, `{"created":2,"existed":1,"failed":0,"jobs":[
		{"queue":"default","space":"default","id":"welcome","created":false},
		{"queue":"default","space":"x","id":"b","created":true},
		{"queue":"y","space":"default","id":"c","created":true}]}`, a.body)

	s.store.fail = func(_ context.Context, k job.Key) error {
		switch k.ID {
		case "large":
			return job.ErrTooLarge
		case "odd":
			return errors.New("canary")
		case "lost":
			return fmt.Errorf("no answer: %w", job.ErrUnknown)
		}
		return nil
	}
	a = s.ask("POST", "/v1/jobs/bulk", `{"jobs":[{"type":"t","id":"large"},{"type":"t","id":"odd"},{"type":"t","id":"lost"},{"type":"t","id":"good"}]}`)
	require.Equal(t, 207, a.status)
	require.NotContains(t, a.body, "canary")
	var many EnqueuedMany
	require.NoError(t, json.Unmarshal([]byte(a.body), &many))
	require.Equal(t, []int{1, 0, 3}, []int{many.Created, many.Existed, many.Failed})
	require.Equal(t, CodeTooLarge, many.Jobs[0].Error.Code)
	require.Equal(t, CodeInternal, many.Jobs[1].Error.Code)
	require.NotEmpty(t, many.Jobs[1].Error.ErrorID)
	require.Equal(t, CodeOutcomeUnknown, many.Jobs[2].Error.Code)
	require.Equal(t, &Identity{"default", "default", "lost"}, many.Jobs[2].Error.Job)
	require.Nil(t, many.Jobs[3].Error)
	require.Contains(t, s.log.String(), "canary", "the operator sees what the caller does not")
}

func TestNothingOfABulkRequestIsStoredUnlessAllOfItIsInOrder(t *testing.T) {
	s := serveTest(t)
	a := s.ask("POST", "/v1/jobs/bulk", `{"jobs":[`+one+`,{"id":"x"},{"type":"t","maxAttempts":-1},7]}`)
	require.Equal(t, 422, a.status)
	p := a.problem(t)
	require.Equal(t, []FieldProblem{
		{"/jobs/1/type", "must not be empty"}, {"/jobs/2/maxAttempts", "must be 1 to 1000000, not -1"}, {"/jobs/3", "must be a JSON object"},
	}, p.Errors)
	require.Empty(t, s.store.jobs)

	a = s.ask("POST", "/v1/jobs/bulk", `{"jobs":[{"type":"t","space":"acme"},{"type":"t","space":"other"}]}`, bearing(secretAcme))
	require.Equal(t, 404, a.status)
	require.Empty(t, s.store.jobs)
}

func TestWhoMayCall(t *testing.T) {
	s := serveTest(t)
	s.ask("POST", "/v1/jobs", `{"type":"t","id":"theirs","space":"other"}`)
	for name, adjust := range map[string]with{
		"no token":       header("Authorization", ""),
		"wrong token":    bearing("wrong-wrong-wrong-wrong-wrong"),
		"part of one":    bearing(secretAll[:len(secretAll)-1]),
		"empty":          header("Authorization", "Bearer "),
		"another scheme": header("Authorization", "Basic "+secretAll),
		"its hash":       bearing(strings.Split(strings.TrimSpace(mustHash(t)), ":")[1]),
	} {
		for _, path := range []string{"/v1/jobs/default/x", "/openapi.json", "/nowhere"} {
			a := s.ask("GET", path, "", adjust)
			require.Equal(t, 401, a.status, name)
			require.Equal(t, CodeUnauthorized, a.problem(t).Code)
			require.Contains(t, a.header.Get("WWW-Authenticate"), "Bearer")
		}
		require.Equal(t, 401, s.ask("POST", "/v1/jobs", one, adjust).status, name)
		require.Equal(t, 200, s.ask("GET", "/healthz", "", adjust).status, name)
		require.Equal(t, 200, s.ask("GET", "/readyz", "", adjust).status, name)
	}
	require.Equal(t, 200, s.ask("GET", "/openapi.json", "", header("Authorization", "bearer "+secretAll)).status)

	// Another space looks as if it were empty.
	theirs := s.ask("GET", "/v1/jobs/other/theirs", "", bearing(secretAcme))
	nobodys := s.ask("GET", "/v1/jobs/acme/nobody", "", bearing(secretAcme))
	require.Equal(t, 404, theirs.status)
	require.Equal(t, nobodys.body, theirs.body)
	require.Equal(t, 404, s.ask("POST", "/v1/jobs", one, bearing(secretAcme)).status, "the default space is not theirs")
	require.Equal(t, 201, s.ask("POST", "/v1/jobs", `{"type":"t","id":"ours","space":"acme"}`, bearing(secretAcme)).status)
	require.Equal(t, 200, s.ask("GET", "/v1/jobs/acme/ours", "", bearing(secretAcme)).status)
	require.Equal(t, 201, s.ask("POST", "/v1/jobs", `{"type":"t","space":"a b,c"}`, bearing(secretAcme)).status)

	log := s.log.String()
	require.Contains(t, log, `"caller":"acme"`)
	for _, secret := range []string{secretAll, secretAcme, "wrong-wrong"} {
		require.NotContains(t, log, secret)
	}
}

func mustHash(t *testing.T) string {
	line, err := HashToken("x", secretAll, nil)
	require.NoError(t, err)
	return line
}

func TestWithoutTokensOnlyThisMachineIsServed(t *testing.T) {
	s := serveTest(t, func(c *Config) { c.Tokens = nil })
	none := header("Authorization", "")
	require.Equal(t, 201, s.ask("POST", "/v1/jobs", one, none).status)
	require.Equal(t, 200, s.ask("GET", "/v1/jobs/default/welcome", "", none, func(r *http.Request) { r.Host = "localhost:8080" }).status)
	require.Equal(t, 200, s.ask("GET", "/v1/jobs/default/welcome", "", none, func(r *http.Request) { r.Host = "[::1]:8080" }).status)
	a := s.ask("GET", "/v1/jobs/default/welcome", "", none, func(r *http.Request) { r.Host = "evil.example:8080" })
	require.Equal(t, 403, a.status, "a name that was made to point here")
	require.Equal(t, CodeForbidden, a.problem(t).Code)

	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0"} {
		_, err := Listen(address, false)
		require.ErrorIs(t, err, ErrOpen, address)
	}
	for _, address := range []string{"127.0.0.1:0", "localhost:0"} {
		l, err := Listen(address, false)
		require.NoError(t, err, address)
		require.NoError(t, l.Close())
	}
	l, err := Listen("0.0.0.0:0", true)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	_, err = Listen("nowhere", false)
	require.Error(t, err)
}

func TestAnotherSitesPageChangesNothing(t *testing.T) {
	s := serveTest(t)
	a := s.ask("POST", "/v1/jobs", one, header("Sec-Fetch-Site", "cross-site"))
	require.Equal(t, 403, a.status)
	a = s.ask("POST", "/v1/jobs", one, header("Origin", "https://evil.example"))
	require.Equal(t, 403, a.status)
	for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "", "application/json; charset=latin1", "nonsense;;"} {
		a = s.ask("POST", "/v1/jobs", one, header("Content-Type", kind))
		require.Equal(t, 415, a.status, kind)
		require.Equal(t, CodeMediaType, a.problem(t).Code)
	}
	require.Empty(t, s.store.jobs)
	require.Equal(t, 201, s.ask("POST", "/v1/jobs", one, header("Content-Type", "application/json; charset=UTF-8")).status)
}

func TestRequestsAreNamed(t *testing.T) {
	s := serveTest(t)
	require.Equal(t, "mine-1.a_b", s.ask("GET", "/healthz", "", header("X-Request-Id", "mine-1.a_b")).header.Get("X-Request-Id"))
	for _, bad := range []string{"", "a b", "a\"b", strings.Repeat("x", 65), "é"} {
		id := s.ask("GET", "/nowhere", "", header("X-Request-Id", bad)).header.Get("X-Request-Id")
		require.NotEqual(t, bad, id)
		require.Regexp(t, `^[a-z0-9]{16}$`, id)
		require.Contains(t, s.log.String(), id)
	}
}

func TestNoAnswerIsKeptByACacheOrGuessedAt(t *testing.T) {
	s := serveTest(t)
	for _, path := range []string{"/healthz", "/v1/jobs/default/x", "/nowhere"} {
		h := s.ask("GET", path, "").header
		require.Equal(t, "no-store", h.Get("Cache-Control"))
		require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"))
	}
}

func TestBodiesThatAreRefused(t *testing.T) {
	s := serveTest(t, func(c *Config) { c.MaxBody, c.MaxBulkBody = 4096, 8192 })
	deep := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	for name, c := range map[string]struct {
		path, body string
		status     int
		code       Code
		field      string
	}{
		"empty":               {"/v1/jobs", " ", 400, CodeBadJSON, ""},
		"no JSON":             {"/v1/jobs", `{"type":`, 400, CodeBadJSON, "/type"},
		"a stray comma":       {"/v1/jobs", `{"type":"t",}`, 400, CodeBadJSON, ""},
		"two values":          {"/v1/jobs", one + one, 400, CodeBadJSON, ""},
		"twice":               {"/v1/jobs", `{"type":"t","type":"u"}`, 400, CodeBadJSON, "/type"},
		"twice further in":    {"/v1/jobs", `{"type":"t","input":{"a":{"b":1,"b":2}}}`, 400, CodeBadJSON, "/input/a/b"},
		"twice in bulk":       {"/v1/jobs/bulk", `{"jobs":[{"type":"t"},{"type":"t","id":"a","id":"b"}]}`, 400, CodeBadJSON, "/jobs/1/id"},
		"no UTF-8":            {"/v1/jobs", "{\"type\":\"t\",\"id\":\"\xff\"}", 400, CodeBadJSON, "/id"},
		"half a surrogate":    {"/v1/jobs", `{"type":"\ud800"}`, 400, CodeBadJSON, "/type"},
		"deep":                {"/v1/jobs", `{"type":"t","input":` + deep(200) + `}`, 400, CodeBadJSON, "/input" + strings.Repeat("/a", 99)},
		"a list":              {"/v1/jobs", `[1]`, 422, CodeBadField, ""},
		"null":                {"/v1/jobs", `null`, 422, CodeBadField, ""},
		"no type":             {"/v1/jobs", `{}`, 422, CodeBadField, "/type"},
		"a wrong type":        {"/v1/jobs", `{"type":7}`, 422, CodeBadField, "/type"},
		"an unknown name":     {"/v1/jobs", `{"type":"t","delayy":"1s"}`, 422, CodeBadField, "/delayy"},
		"unknown in retry":    {"/v1/jobs", `{"type":"t","retry":{"bsae":"1s"}}`, 422, CodeBadField, "/retry/bsae"},
		"another spelling":    {"/v1/jobs", `{"Type":"t"}`, 422, CodeBadField, "/Type"},
		"no duration":         {"/v1/jobs", `{"type":"t","delay":"soon"}`, 422, CodeBadField, "/delay"},
		"a number of seconds": {"/v1/jobs", `{"type":"t","timeout":30}`, 422, CodeBadField, "/timeout"},
		"a negative one":      {"/v1/jobs", `{"type":"t","delay":"-1s"}`, 422, CodeBadField, "/delay"},
		"no instant":          {"/v1/jobs", `{"type":"t","dueAt":"tomorrow"}`, 422, CodeBadField, "/dueAt"},
		"no number":           {"/v1/jobs", `{"type":"t","maxAttempts":1.5}`, 422, CodeBadField, "/maxAttempts"},
		"a huge number":       {"/v1/jobs", `{"type":"t","maxAttempts":1e99}`, 422, CodeBadField, "/maxAttempts"},
		"no object":           {"/v1/jobs", `{"type":"t","input":[1]}`, 422, CodeBadField, "/input"},
		"a wrong retry":       {"/v1/jobs", `{"type":"t","retry":{"base":1}}`, 422, CodeBadField, "/retry/base"},
		"a long name":         {"/v1/jobs", `{"type":"` + strings.Repeat("x", 192) + `"}`, 422, CodeBadField, "/type"},
		"a NUL":               {"/v1/jobs", `{"type":"t","id":"a\u0000"}`, 422, CodeBadField, "/id"},
		"too large":           {"/v1/jobs", `{"type":"t","input":{"a":"` + strings.Repeat("x", 4096) + `"}}`, 413, CodeTooLarge, ""},
		"no jobs":             {"/v1/jobs/bulk", `{}`, 422, CodeBadField, "/jobs"},
		"an empty list":       {"/v1/jobs/bulk", `{"jobs":[]}`, 422, CodeBadField, "/jobs"},
		"no list":             {"/v1/jobs/bulk", `{"jobs":7}`, 422, CodeBadField, "/jobs"},
		"a bare list":         {"/v1/jobs/bulk", `[` + one + `]`, 422, CodeBadField, ""},
		"something else":      {"/v1/jobs/bulk", `{"jobs":[` + one + `],"all":true}`, 422, CodeBadField, "/all"},
		"too many":            {"/v1/jobs/bulk", `{"jobs":[` + strings.Repeat(`{},`, 1000) + `{}]}`, 422, CodeBadField, "/jobs"},
		"too large a bulk":    {"/v1/jobs/bulk", `{"jobs":[{"type":"` + strings.Repeat("x", 9000) + `"}]}`, 413, CodeTooLarge, ""},
	} {
		a := s.ask("POST", c.path, c.body)
		require.Equal(t, c.status, a.status, "%s: %s", name, a.body)
		p := a.problem(t)
		require.Equal(t, c.code, p.Code, name)
		if c.status != 413 {
			require.NotEmpty(t, p.Errors, name)
			require.Equal(t, cut(c.field), p.Errors[0].Field, "%s: %s", name, a.body)
			require.NotEmpty(t, p.Errors[0].Reason, name)
		}
		for _, internal := range []string{"jsontext", "job.", "Go ", "json:", "strconv", "huma"} {
			require.NotContains(t, a.body, internal, name)
		}
	}
	require.Empty(t, s.store.jobs)
	require.Equal(t, 201, s.ask("POST", "/v1/jobs", `{"type":"t","input":`+deep(98)+`}`).status)
}

func TestParametersThatAreRefused(t *testing.T) {
	s := serveTest(t)
	for path, field := range map[string]string{
		"/v1/jobs/default/" + strings.Repeat("x", 192):        "id",
		"/v1/jobs/" + strings.Repeat("x", 192) + "/x":         "space",
		"/v1/jobs/default/%FF":                                "id",
		"/v1/jobs/default/a%00":                               "id",
		"/v1/jobs/default/x?queue=" + url.QueryEscape("\xff"): "queue",
	} {
		a := s.ask("GET", path, "")
		require.Equal(t, 422, a.status, path)
		require.Equal(t, field, a.problem(t).Errors[0].Field)
	}
}

func TestRoutesThatAreNotThere(t *testing.T) {
	s := serveTest(t)
	for _, path := range []string{"/", "/v1", "/v1/jobs/x", "/v1/jobs/a/b/c", "/docs", "/schemas/Spec", "/openapi.yaml"} {
		a := s.ask("GET", path, "")
		require.Contains(t, []int{404, 405}, a.status, path)
		a.problem(t)
	}
	a := s.ask("DELETE", "/v1/jobs", "")
	require.Equal(t, 405, a.status)
	require.Equal(t, CodeMethodNotAllowed, a.problem(t).Code)
	require.Equal(t, "POST", a.header.Get("Allow"))
}

func TestWhatGoesWrongInsideIsNotShown(t *testing.T) {
	s := serveTest(t)
	for _, fail := range []func() error{
		func() error { return errors.New("canary: nats://user:password@host") },
		func() error { panic("canary") },
	} {
		s.store.fail = func(context.Context, job.Key) error { return fail() }
		for _, a := range []answer{s.ask("POST", "/v1/jobs", one), s.ask("GET", "/v1/jobs/default/x", "")} {
			require.Equal(t, 500, a.status)
			p := a.problem(t)
			require.Equal(t, CodeInternal, p.Code)
			require.NotContains(t, a.body, "canary")
			require.NotEmpty(t, p.ErrorID)
			require.Regexp(t, `"errorId":"`+p.ErrorID+`","failure":"[^"]*canary`, s.log.String())
		}
	}
}
