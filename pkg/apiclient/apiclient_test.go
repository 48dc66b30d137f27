package apiclient_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/jetcrew/jetcrew/pkg/apiclient"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
	"github.com/jetcrew/jetcrew/scheduler"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answering is a client of a server that answers what a function says.
func answering(t *testing.T, do http.HandlerFunc) *apiclient.Client {
	t.Helper()
	return answeringWith(t, apiclient.Config{Token: "secret-token"}, do)
}

func answeringWith(t *testing.T, cfg apiclient.Config, do http.HandlerFunc) *apiclient.Client {
	t.Helper()
	srv := httptest.NewServer(do)
	t.Cleanup(srv.Close)
	cfg.URL = srv.URL + "/prefix/"
	c, err := apiclient.New(cfg)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func reply(w http.ResponseWriter, status int, kind, body string) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	fmt.Fprint(w, body)
}

func problem(w http.ResponseWriter, status int, code, more string) {
	reply(w, status, "application/problem+json", fmt.Sprintf(`{"type":"about:blank","status":%d,"code":%q,"detail":"so it is"%s}`, status, code, more))
}

func TestProblemsAreTheSentinelsOfTheirPackages(t *testing.T) {
	t.Parallel()
	get := func(ctx context.Context, c *apiclient.Client) error {
		_, err := c.Get(ctx, job.Key{ID: "a"})
		return err
	}
	queue := func(ctx context.Context, c *apiclient.Client) error { return c.DeleteQueue(ctx, "q") }
	requeue := func(ctx context.Context, c *apiclient.Client) error {
		_, err := c.Requeue(ctx, job.Key{ID: "a"})
		return err
	}
	schedule := func(ctx context.Context, c *apiclient.Client) error { return c.Schedules().Delete(ctx, "s", "n") }
	put := func(ctx context.Context, c *apiclient.Client) error {
		_, _, err := c.Schedules().Put(ctx, "", scheduler.Spec{Name: "n", Type: "t", Cron: "@daily"})
		return err
	}
	add := func(ctx context.Context, c *apiclient.Client) error {
		_, err := c.Space("s").Increment(ctx, "k", 1, 0)
		return err
	}
	for _, x := range []struct {
		status int
		code   string
		do     func(context.Context, *apiclient.Client) error
		want   error
	}{
		{404, "not_found", get, job.ErrNotFound},
		{404, "not_found", queue, job.ErrNoQueue},
		{404, "not_found", schedule, scheduler.ErrNotFound},
		{409, "ambiguous", get, job.ErrAmbiguous},
		{409, "in_use", queue, job.ErrQueueInUse},
		{409, "not_requeuable", requeue, job.ErrNotRequeuable},
		{409, "owned", put, scheduler.ErrOwned},
		{409, "not_integer", add, kv.ErrNotInteger},
		{413, "too_large", put, job.ErrTooLarge},
		{413, "too_large", add, kv.ErrTooLarge},
		{401, "unauthorized", get, apiclient.ErrUnauthorized},
		{403, "forbidden", queue, apiclient.ErrForbidden},
		{403, "missing_scope", queue, apiclient.ErrForbidden},
		{503, "outcome_unknown", requeue, job.ErrUnknown},
		{503, "outcome_unknown", add, kv.ErrUnknown},
	} {
		var asked atomic.Int32
		c := answering(t, func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			problem(w, x.status, x.code, `,"queues":["x","y"]`)
		})
		err := x.do(t.Context(), c)
		require.ErrorIs(t, err, x.want, x.code)
		require.EqualValues(t, 1, asked.Load(), "%s: asking again would come to the same, or do it twice", x.code)
		require.NotContains(t, err.Error(), "secret-token")
		require.NotContains(t, err.Error(), "\n")
	}
	c := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		problem(w, 422, "bad_field", `,"errors":[{"field":"/retry/base","reason":"must be there"}]`)
	})
	var field *job.FieldError
	require.ErrorAs(t, get(t.Context(), c), &field)
	require.Equal(t, job.FieldError{Field: "retry.base", Reason: "must be there"}, *field)
	c = answering(t, func(w http.ResponseWriter, _ *http.Request) {
		problem(w, 409, "unchanged", `,"found":{"queue":"q","space":"default","id":"a","done":false,"status":"running","cancelRequested":true}`)
	})
	ch, err := c.Cancel(t.Context(), job.Key{ID: "a"})
	require.NoError(t, err)
	require.Equal(t, job.Changed{Key: job.Key{Queue: "q", Space: "default", ID: "a"}, Status: job.Running, CancelRequested: true}, ch)
}

func TestWhatWasNotDoneIsAskedAgain(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		status     int
		code, wait string
	}{{429, "rate_limited", "0"}, {503, "unavailable", "1"}, {503, "busy", ""}, {503, "over_capacity", "0"}} {
		ids := make(chan string, 10)
		var asked atomic.Int32
		c := answering(t, func(w http.ResponseWriter, r *http.Request) {
			ids <- r.Header.Get("X-Request-Id")
			if asked.Add(1) < 3 {
				w.Header().Set("Retry-After", x.wait)
				problem(w, x.status, x.code, "")
				return
			}
			reply(w, 200, "application/json", `{"queue":"q","space":"default","id":"a","done":true}`)
		})
		begun := time.Now()
		ch, err := c.Requeue(t.Context(), job.Key{ID: "a"})
		require.NoError(t, err, x.code)
		require.True(t, ch.Done)
		require.Equal(t, <-ids, <-ids, "the API's log shows what belongs together")
		if x.wait == "1" {
			require.GreaterOrEqual(t, time.Since(begun), 2*time.Second)
		}
	}
	// For longer than anybody waits, or than the caller does, it is not waited at all.
	for _, wait := range []string{"3600", "10"} {
		var asked atomic.Int32
		c := answering(t, func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			w.Header().Set("Retry-After", wait)
			problem(w, 429, "rate_limited", "")
		})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_, err := c.Count(ctx)
		require.ErrorIs(t, err, apiclient.ErrRateLimited)
		require.NoError(t, ctx.Err())
		require.EqualValues(t, 1, asked.Load())
		cancel()
	}
}

func TestWhatMayHaveBeenDoneIsNotDoneTwice(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	cut := func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		panic(http.ErrAbortHandler) // the connection ends without an answer
	}
	c := answering(t, cut)
	_, err := c.Space("s").Increment(t.Context(), "k", 1, 0)
	require.ErrorIs(t, err, kv.ErrUnknown)
	require.ErrorIs(t, err, apiclient.ErrUnreachable)
	require.EqualValues(t, 1, asked.Load())
	_, err = c.Requeue(t.Context(), job.Key{ID: "a"})
	require.ErrorIs(t, err, job.ErrUnknown)
	require.EqualValues(t, 2, asked.Load())

	// A job with an id is the same job.
	ids := make(chan string, 10)
	c = answering(t, func(w http.ResponseWriter, r *http.Request) {
		var spec job.Spec
		body, _ := io.ReadAll(r.Body)
		_ = job.Decode(body, &spec)
		ids <- spec.ID
		if len(ids) < 2 {
			panic(http.ErrAbortHandler)
		}
		reply(w, 201, "application/json", fmt.Sprintf(`{"queue":"default","space":"default","id":%q,"created":true}`, spec.ID))
	})
	e, err := c.EnqueueSpec(t.Context(), job.Spec{Type: "t"})
	require.NoError(t, err)
	require.True(t, e.Created)
	require.Equal(t, e.Key.ID, <-ids)
	require.Equal(t, e.Key.ID, <-ids)
}

func TestAnAPIThatIsAwayIsUnreachableAndNothingWasDone(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.NotFoundHandler())
	srv.Close()
	c, err := apiclient.New(apiclient.Config{URL: srv.URL})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Requeue(t.Context(), job.Key{ID: "a"})
	require.ErrorIs(t, err, apiclient.ErrUnreachable)
	require.NotErrorIs(t, err, job.ErrUnknown, "it was never sent")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = c.Wait(ctx, job.Key{ID: "a"})
	require.ErrorIs(t, err, context.DeadlineExceeded, "it may be back in time")
}

func TestTheTokenGoesNowhereElse(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 302, 307, 308} {
		var strayed atomic.Int32
		other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { strayed.Add(1) }))
		c := answering(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer secret-token" {
				t.Error("it goes to the API itself")
			}
			http.Redirect(w, r, other.URL+"/x?y=z", status)
		})
		_, err := c.Get(t.Context(), job.Key{ID: "a"})
		require.ErrorIs(t, err, apiclient.ErrAnswer)
		require.ErrorContains(t, err, "redirects to "+other.URL)
		_, err = c.EnqueueSpec(t.Context(), job.Spec{Type: "t"})
		require.ErrorIs(t, err, apiclient.ErrAnswer)
		require.Zero(t, strayed.Load())
		other.Close()
	}
}

func TestGarbageIsOneClearLine(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("x", 10<<20)
	for name, x := range map[string]struct {
		status     int
		kind, body string
		want       string
		doneOrNot  bool // of something that changes something, nobody knows
	}{
		"a proxy's page":          {502, "text/html", "<html>\n<h1>Bad Gateway</h1>", "502 Bad Gateway with text/html", true},
		"a login page":            {200, "text/html; charset=utf-8", "<html>" + huge, "200 OK with text/html", true},
		"a page that refuses":     {403, "text/html", "<html>", "403 Forbidden with text/html", false},
		"nothing":                 {200, "", "", "no content type", true},
		"half a JSON":             {200, "application/json", `{"queue":"q","spa`, "cut off", true},
		"another JSON":            {200, "application/json", `[1,2]`, "is not jetcrew's JSON", true},
		"JSON that is no problem": {500, "application/json", `{"error":"boom"}`, "is not jetcrew's JSON", true},
		"a problem of another's":  {404, "application/problem+json", `{"title":"x"}`, "is not jetcrew's JSON", false},
		"10 MB":                   {200, "application/json", `"` + huge + `"`, "more than 1048576 bytes", true},
	} {
		c := answeringWith(t, apiclient.Config{MaxAnswer: 1 << 20}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = []string{x.kind}
			w.WriteHeader(x.status)
			fmt.Fprint(w, x.body)
		})
		_, err := c.Get(t.Context(), job.Key{ID: "a"})
		require.ErrorIs(t, err, apiclient.ErrAnswer, name)
		require.ErrorContains(t, err, x.want, name)
		require.NotContains(t, err.Error(), "\n", name)
		require.Less(t, len(err.Error()), 300, name)
		_, err = c.Requeue(t.Context(), job.Key{ID: "a"})
		require.Equal(t, x.doneOrNot, isUnknown(err), "%s: %v", name, err)
	}
}

func isUnknown(err error) bool {
	return err != nil && strings.Contains(err.Error(), job.ErrUnknown.Error())
}

func TestNamesAreSaidAsTheyAre(t *testing.T) {
	t.Parallel()
	paths := make(chan string, 1)
	c := answering(t, func(w http.ResponseWriter, r *http.Request) {
		paths <- r.RequestURI
		problem(w, 404, "not_found", "")
	})
	for key, want := range map[job.Key]string{
		{ID: "a"}:                                "/prefix/v1/jobs/default/a",
		{Space: "..", ID: "."}:                   "/prefix/v1/jobs/%2E%2E/%2E",
		{Space: "x/y", ID: "a b?%#", Queue: "&"}: "/prefix/v1/jobs/x%2Fy/a%20b%3F%25%23?queue=%26",
	} {
		_, err := c.Get(t.Context(), key)
		require.ErrorIs(t, err, job.ErrNotFound)
		require.Equal(t, want, <-paths)
	}
}

func TestManyJobsAreBrokenOffAndGoneOnWith(t *testing.T) {
	t.Parallel()
	answers := []string{
		`{"looked":100,"toLook":300,"matched":80,"done":50,"left":1,"failed":2,"errors":[{"key":{"queue":"q","space":"s","id":"x"},"error":"no"}],"brokenOff":true}`,
		`{"looked":250,"toLook":250,"matched":29,"done":27,"left":0,"failed":2}`,
	}
	bodies := make(chan string, 5)
	c := answering(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		bodies <- string(b)
		reply(w, 200, "application/json", answers[len(bodies)-1])
	})
	var told []int
	r, err := c.Bulk(t.Context(), job.BulkRequest{
		Operation: job.OpCancel, Filter: job.Filter{AllSpaces: true}, Limit: 90, Progress: func(r job.BulkResult) { told = append(told, r.Done) },
	})
	require.NoError(t, err)
	require.Equal(t, job.BulkResult{Looked: 350, ToLook: 350, Matched: 79, Done: 77, Failed: 2}, r)
	require.Equal(t, []int{50, 77}, told)
	require.Contains(t, <-bodies, `"limit":90`)
	require.Contains(t, <-bodies, `"limit":40`)

	c = answering(t, func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, "application/json", `{"looked":5,"done":0,"brokenOff":true}`)
	})
	_, err = c.Bulk(t.Context(), job.BulkRequest{Operation: job.OpCancel, Filter: job.Filter{AllSpaces: true}})
	require.ErrorContains(t, err, "broken off", "asking for ever would not help")
}

func TestAClockThatIsElsewhereIsFollowed(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{-time.Hour, 0, 24 * time.Hour} {
		c := answering(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
			problem(w, 404, "not_found", "")
		})
		require.WithinDuration(t, time.Now().Add(ahead), c.Now(), time.Minute)
	}
}

func TestWhatIsNoAddressOrNoTokenIsRefused(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "jobs.example.com", "ftp://x", "http://", "https://ada:secret@x", "https://x?y=z", "https://x#y", "http://[::1", "https://x/%zz?secret"} {
		_, err := apiclient.New(apiclient.Config{URL: url})
		require.ErrorContains(t, err, "URL: must", url)
		require.NotContains(t, err.Error(), "secret")
	}
	for _, token := range []string{"a b", "a\n", "é", "a\x00"} {
		_, err := apiclient.New(apiclient.Config{URL: "https://x", Token: token})
		require.ErrorContains(t, err, "token: must", "%q", token)
		require.NotContains(t, err.Error(), token)
	}
}

func TestWhatTheAPICannotDoIsSaid(t *testing.T) {
	t.Parallel()
	c := answering(t, func(w http.ResponseWriter, _ *http.Request) { t.Error("it was asked") })
	for field, req := range map[string]job.ListRequest{
		"order": {Order: job.ByCreated}, "offset": {Offset: 5}, "limit": {Limit: -1},
	} {
		req.Filter = job.Filter{AllSpaces: true}
		_, err := c.List(t.Context(), req)
		var f *job.FieldError
		require.ErrorAs(t, err, &f, field)
		require.Equal(t, field, f.Field)
	}
	_, err := c.EnqueueMany(t.Context(), []job.Spec{{Type: "t"}, {}})
	require.ErrorContains(t, err, "job 1: type")
}
