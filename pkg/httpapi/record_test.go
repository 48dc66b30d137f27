package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
)

func refusalsOf(t *testing.T, s *served) []Refusal {
	t.Helper()
	got := s.ask("GET", "/v1/refusals", "")
	require.Equal(t, 200, got.status, got.body)
	var list RefusalList
	require.NoError(t, json.Unmarshal([]byte(got.body), &list))
	return list.Refusals
}

// recorded waits until as many requests are recorded.
func recorded(t *testing.T, s *served, n int) []Refusal {
	t.Helper()
	var list []Refusal
	natstest.Eventually(t, soon, func() bool {
		list = refusalsOf(t, s)
		sum := 0
		for _, r := range list {
			sum += r.Count
		}
		return sum >= n
	})
	return list
}

func TestARefusedRequestLeavesARecord(t *testing.T) {
	t.Parallel()
	a := accessOf(t, newFickle(), AccessConfig{})
	s := serveTest(t, func(c *Config) { c.Access = a })
	acme := bearing(secretAcme)
	ended := s.make(TokenSpec{Name: "ended", Scopes: []Scope{ScopeRead}}, a)
	_, err := a.RevokeToken(t.Context(), "ended")
	require.NoError(t, err)
	reader := s.make(TokenSpec{Name: "reader", Scopes: []Scope{ScopeRead}}, a)
	require.Equal(t, 201, s.ask("POST", "/v1/jobs", one).status)
	require.Equal(t, 404, s.ask("GET", "/v1/jobs/default/nobody", "").status)

	require.Equal(t, 401, s.ask("POST", "/v1/jobs", one, header("Authorization", "")).status)
	require.Equal(t, 401, s.ask("POST", "/v1/jobs", one, bearing(ended)).status)
	require.Equal(t, 403, s.ask("POST", "/v1/jobs", one, bearing(reader)).status)
	require.Equal(t, 404, s.ask("POST", "/v1/jobs", one, acme, header("X-Request-Id", "mine")).status)
	require.Equal(t, 422, s.ask("POST", "/v1/jobs", `{"id":"x"}`).status)
	require.Equal(t, 415, s.ask("POST", "/v1/jobs", one, header("Content-Type", "text/plain")).status)
	list := recorded(t, s, 6)
	require.Len(t, list, 6, "what was done, and what was looked for and not there, is no refusal")
	byCode := make(map[Code][]Refusal)
	for _, r := range list {
		require.Equal(t, "POST /v1/jobs", r.Operation)
		require.Equal(t, stopped{}.Now(), r.FirstAt)
		require.NotEmpty(t, r.Request)
		require.NotEmpty(t, r.Detail)
		byCode[r.Code] = append(byCode[r.Code], r)
	}
	require.Len(t, byCode[CodeUnauthorized], 2)
	for _, r := range byCode[CodeUnauthorized] {
		require.Equal(t, r.Token == "", r.From != "")
		require.Contains(t, []string{"", "ended"}, r.Token)
	}
	require.Equal(t, "reader", byCode[CodeMissingScope][0].Token)
	require.Equal(t, Refusal{
		Token: "acme", Operation: "POST /v1/jobs", Space: "default", Status: 404, Code: CodeNotFound, Detail: nothing, Count: 1,
		FirstAt: stopped{}.Now(), LastAt: stopped{}.Now(), Request: "mine",
	}, byCode[CodeNotFound][0])
	require.Equal(t, "all", byCode[CodeBadField][0].Token)
}

func TestAFloodOfWrongTokensIsFewRecords(t *testing.T) {
	t.Parallel()
	store := newFickle()
	a := accessOf(t, store, AccessConfig{flushEvery: 100 * time.Millisecond})
	s := serveTest(t, func(c *Config) { c.Access = a })
	const flood = 1000
	c := s.client()
	began := time.Now()
	for i := range flood {
		require.Equal(t, 401, c("GET", "/v1/jobs/default/x", bearing(fmt.Sprintf("wrong-token-number-%06d", i))))
	}
	took := time.Since(began)
	list := recorded(t, s, flood)
	require.Len(t, list, 1)
	require.Equal(t, flood, list[0].Count)
	require.LessOrEqual(t, store.writes.Load(), int64(took/(100*time.Millisecond))+5, "a write each so often, whatever comes")
}

func TestRecordsAreOfABoundedNumberAndAge(t *testing.T) {
	t.Parallel()
	clock := newMoving()
	a := accessOf(t, newFickle(), AccessConfig{Clock: clock, flushEvery: time.Hour})
	for i := range 2 * maxRefusals {
		a.refused(Refusal{Token: fmt.Sprint("t", i), Operation: "GET /x", Status: 403, Code: CodeMissingScope, Request: "r"})
		a.failed(Failure{ErrorID: fmt.Sprintf("a%s", strings.Repeat("b", 1+i%20)), Request: "r", Error: "odd"})
		clock.forward(time.Millisecond)
		if i%100 == 99 {
			a.flush(t.Context(), soon, true)
		}
	}
	a.refused(Refusal{Operation: "GET /x", Space: "anything", Status: 401, Code: CodeUnauthorized, Request: "r"})
	a.flush(t.Context(), soon, true)
	list, err := a.Refusals(t.Context(), time.Time{}, 10_000)
	require.NoError(t, err)
	require.Len(t, list, maxRefusals+1, "callers without a token push out none that have one")
	require.Empty(t, list[0].Space)
	require.Equal(t, fmt.Sprint("t", 2*maxRefusals-1), list[1].Token, "the newest stay, and come first")
	list, err = a.Refusals(t.Context(), list[10].LastAt, 10_000)
	require.NoError(t, err)
	require.Len(t, list, 11)
	list, err = a.Refusals(t.Context(), time.Time{}, 3)
	require.NoError(t, err)
	require.Len(t, list, 3)

	clock.forward(recordsFor + time.Second)
	list, err = a.Refusals(t.Context(), time.Time{}, 10_000)
	require.NoError(t, err)
	require.Empty(t, list)
	_, err = a.Failure(t.Context(), "abb")
	require.ErrorIs(t, err, ErrNoRecord)
}

func TestRecordsWaitForTheStore(t *testing.T) {
	t.Parallel()
	store := newFickle()
	a := accessOf(t, store, AccessConfig{flushEvery: time.Hour})
	refuse := func() {
		a.refused(Refusal{Token: "x", Operation: "GET /x", Status: 403, Code: CodeMissingScope, Request: "r"})
	}
	store.away.Store(true)
	refuse()
	a.failed(Failure{ErrorID: "abcd", Request: "r", Error: "odd"})
	a.flush(t.Context(), soon, true)
	refuse()
	store.away.Store(false)
	a.flush(t.Context(), soon, true)
	list, err := a.Refusals(t.Context(), time.Time{}, 10)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, 2, list[0].Count)
	_, err = a.Failure(t.Context(), "abcd")
	require.NoError(t, err)
	refuse()
	a.Close()
	list, err = a.Refusals(t.Context(), time.Time{}, 10)
	require.NoError(t, err)
	require.Equal(t, 3, list[0].Count, "what is left is stored at the end")
}

func TestAnErrorsIDLeadsToWhatWentWrong(t *testing.T) {
	t.Parallel()
	a := accessOf(t, newFickle(), AccessConfig{})
	s := serveTest(t, func(c *Config) { c.Access = a })
	s.store.fail = func(context.Context, job.Key) error {
		return errors.New("disk: nats://joe:hunter22@db broke " + strings.Repeat("x", 5000))
	}
	got := s.ask("GET", "/v1/jobs/default/x", "")
	require.Equal(t, 500, got.status)
	id := got.problem(t).ErrorID
	require.NotContains(t, got.body, "disk")
	var f Failure
	natstest.Eventually(t, soon, func() bool {
		got = s.ask("GET", "/v1/errors/"+id, "")
		return got.status == 200
	})
	require.NoError(t, json.Unmarshal([]byte(got.body), &f))
	require.Equal(t, []any{id, "all", "GET /v1/jobs/{space}/{id}", "default", 500, CodeInternal}, []any{f.ErrorID, f.Token, f.Operation, f.Space, f.Status, f.Code})
	require.Contains(t, f.Error, "disk")
	require.NotContains(t, f.Error, "hunter22")
	require.Less(t, len(f.Error), maxFailureText+10)
	require.Equal(t, 403, s.ask("GET", "/v1/errors/"+id, "", bearing(secretAcme)).status)
	for _, none := range []string{"aaaa", "A", "%2E%2E", "%2F", "x:y"} {
		require.Equal(t, 404, s.ask("GET", "/v1/errors/"+none, "").status, none)
	}
}
