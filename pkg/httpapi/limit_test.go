package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// client asks over one connection, and answers statuses.
func (s *served) client() func(method, path string, adjust ...with) int {
	tr := &http.Transport{}
	s.t.Cleanup(tr.CloseIdleConnections)
	c := &http.Client{Timeout: soon, Transport: tr}
	return func(method, path string, adjust ...with) int {
		s.t.Helper()
		req, err := http.NewRequest(method, s.url+path, nil)
		require.NoError(s.t, err)
		bearing(secretAll)(req)
		for _, f := range adjust {
			f(req)
		}
		resp, err := c.Do(req)
		require.NoError(s.t, err)
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(s.t, err)
		return resp.StatusCode
	}
}

func TestATokensRateIsTheFleets(t *testing.T) {
	t.Parallel()
	store, clock := newFickle(), newMoving()
	cfg := AccessConfig{Clock: clock, TokenRate: config.Rate{Count: 10, Per: time.Hour}, flushEvery: time.Hour}
	one := serveTest(t, func(c *Config) { c.Access = accessOf(t, store, cfg) })
	two := serveTest(t, func(c *Config) { c.Access = accessOf(t, store, cfg) })
	const path = "/v1/jobs/acme/none"
	for i := range 10 {
		require.Equal(t, 404, []*served{one, two}[i%2].ask("GET", path, "").status, i)
	}
	for _, s := range []*served{one, two} {
		got := s.ask("GET", path, "")
		require.Equal(t, 429, got.status)
		require.Equal(t, CodeRateLimited, got.problem(t).Code)
		wait, err := strconv.Atoi(got.header.Get("Retry-After"))
		require.NoError(t, err)
		require.Equal(t, 3600-4*60-5, wait, "until the hour is over")
		require.Equal(t, 404, s.ask("GET", path, "", bearing(secretAcme)).status, "another token has its own")
		require.Equal(t, 200, s.ask("GET", "/healthz", "").status)
	}
	before := store.writes.Load()
	ask := one.client()
	for range 1000 {
		require.Equal(t, 429, ask("GET", path))
	}
	require.Equal(t, before, store.writes.Load(), "a flood of requests is no flood of writes")
	clock.forward(time.Hour)
	require.Equal(t, 404, one.ask("GET", path, "").status, "the window has closed")
}

func TestASpacesRateIsCountedOncePerRequest(t *testing.T) {
	t.Parallel()
	a := accessOf(t, newFickle(), AccessConfig{SpaceRate: config.Rate{Count: 2, Per: time.Minute}})
	s := serveTest(t, func(c *Config) { c.Access = a })
	const bulk = `{"jobs":[{"type":"t","space":"acme"},{"type":"t","space":"acme"},{"type":"t","space":"acme"}]}`
	require.Equal(t, 200, s.ask("POST", "/v1/jobs/bulk", bulk).status)
	require.Equal(t, 404, s.ask("GET", "/v1/jobs/acme/none", "", bearing(secretAcme)).status)
	for range 3 {
		require.Equal(t, 404, s.ask("GET", "/v1/jobs/other/none", "", bearing(secretAcme)).status, "who may not counts for nothing")
	}
	got := s.ask("POST", "/v1/jobs/bulk", bulk)
	require.Equal(t, 429, got.status, got.body)
	require.Equal(t, CodeRateLimited, got.problem(t).Code)
	require.Equal(t, 404, s.ask("GET", "/v1/jobs/other/none", "").status)
	for _, r := range recorded(t, s, 4) {
		require.Equal(t, map[Code]string{CodeRateLimited: "acme", CodeNotFound: "other"}[r.Code], r.Space)
	}
}

func TestWithoutTheStoreEachProcessCountsForItself(t *testing.T) {
	t.Parallel()
	store := newFickle()
	a := accessOf(t, store, AccessConfig{SpaceRate: config.Rate{Count: 3, Per: time.Hour}, flushEvery: time.Hour})
	s := serveTest(t, func(c *Config) { c.Access = a })
	const path = "/v1/jobs/acme/none"
	store.away.Store(true)
	for range 3 {
		require.Equal(t, 404, s.ask("GET", path, "").status)
	}
	require.Equal(t, 429, s.ask("GET", path, "").status)
	require.Contains(t, s.ask("GET", "/healthz", "").body, "ok")
}

func TestTheNumberOfNamesThatAreCountedIsBounded(t *testing.T) {
	t.Parallel()
	l := &limiter{rate: config.Rate{Count: 5, Per: time.Hour}}
	asked := 0
	count := func(context.Context, string, int64, int64, time.Duration) (int64, error) {
		asked++
		return 1, nil
	}
	now := stopped{}.Now()
	for i := range maxWindows + 5 {
		wait, err := l.take(t.Context(), strconv.Itoa(i), now, count)
		require.NoError(t, err)
		require.Zero(t, wait, i)
	}
	wait, err := l.take(t.Context(), "one more", now, count)
	require.NoError(t, err)
	require.Positive(t, wait, "those beyond share one count")
	require.Equal(t, maxWindows, asked)
	require.Len(t, l.windows, maxWindows)
}

// backlog is Queues that counts as a test says.
type backlog struct {
	anyQueues
	ready atomic.Int64
	fails atomic.Bool
	asked atomic.Int64
}

func (c *backlog) Count(context.Context) (*job.Counts, error) {
	c.asked.Add(1)
	if c.fails.Load() {
		return nil, errors.New("no")
	}
	return &job.Counts{Queues: map[string]job.QueueCounts{"mail": {Ready: int(c.ready.Load())}}}, nil
}

func TestAFullQueueTakesNoMore(t *testing.T) {
	t.Parallel()
	q := &backlog{}
	q.ready.Store(3)
	s := serveTest(t, func(c *Config) { c.Queues, c.MaxReady = q, 4 })
	const mail = `{"type":"t","queue":"mail"}`
	require.Equal(t, 201, s.ask("POST", "/v1/jobs", `{"type":"t","queue":"other"}`).status)
	q.ready.Store(4)
	natstest.Eventually(t, soon, func() bool { return s.ask("POST", "/v1/jobs", mail).status == 429 })
	got := s.ask("POST", "/v1/jobs", mail)
	require.Equal(t, 429, got.status)
	require.Equal(t, CodeQueueFull, got.problem(t).Code)
	require.Equal(t, "1", got.header.Get("Retry-After"))
	got = s.ask("POST", "/v1/jobs/bulk", `{"jobs":[{"type":"t"},`+mail+`]}`)
	require.Equal(t, 429, got.status, got.body)
	require.Equal(t, 201, s.ask("POST", "/v1/jobs", `{"type":"t","queue":"other"}`).status)
	q.ready.Store(0)
	natstest.Eventually(t, soon, func() bool { return s.ask("POST", "/v1/jobs", mail).status == 201 })
	q.fails.Store(true)
	natstest.Eventually(t, soon, func() bool {
		before := q.asked.Load()
		require.Equal(t, 201, s.ask("POST", "/v1/jobs", fmt.Sprintf(`{"type":"t","queue":"other-%d"}`, time.Now().UnixNano())).status, "what cannot be counted is let through")
		return q.asked.Load() > before
	})
	_, err := New(Config{Jobs: newStore(), MaxReady: 1})
	require.ErrorContains(t, err, "MaxReady")
}
