package httpapi

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
)

func TestMain(m *testing.M) { natstest.Main(m) }

// soon is how long a test waits for what must come.
const soon = 30 * time.Second

// store is a job queue whose answers a test decides.
type store struct {
	mu   sync.Mutex
	jobs map[job.Key]*job.Job

	// fail, where set, is asked before anything is done.
	fail func(ctx context.Context, key job.Key) error
}

func newStore() *store { return &store{jobs: make(map[job.Key]*job.Job)} }

func (s *store) EnqueueSpec(ctx context.Context, spec job.Spec) (job.Enqueued, error) {
	out, err := s.EnqueueMany(ctx, []job.Spec{spec})
	return out[0], err
}

func (s *store) EnqueueMany(ctx context.Context, specs []job.Spec) ([]job.Enqueued, error) {
	out := make([]job.Enqueued, len(specs))
	var first error
	for i, spec := range specs {
		out[i].Key = spec.Key()
		if s.fail != nil {
			if out[i].Err = s.fail(ctx, spec.Key()); out[i].Err != nil {
				first = out[i].Err
				continue
			}
		}
		s.mu.Lock()
		if s.jobs[spec.Key()] == nil {
			s.jobs[spec.Key()], out[i].Created = spec.Job(), true
		}
		s.mu.Unlock()
	}
	return out, first
}

func (s *store) Get(ctx context.Context, key job.Key) (*job.Job, error) {
	if s.fail != nil {
		if err := s.fail(ctx, key); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var queues []string
	var found *job.Job
	for k, j := range s.jobs {
		if k.Space == key.Space && k.ID == key.ID && (key.Queue == "" || k.Queue == key.Queue) {
			found = j
			queues = append(queues, k.Queue)
		}
	}
	switch len(queues) {
	case 0:
		return nil, job.ErrNotFound
	case 1:
		return found, nil
	default:
		return nil, &job.AmbiguousError{Space: key.Space, ID: key.ID, Queues: queues}
	}
}

// The tokens of the tests.
const (
	secretAll  = "all-all-all-all-all-all-all"
	secretAcme = "acme-acme-acme-acme-acme-acme"
)

func testTokens(t testing.TB) *Tokens {
	t.Helper()
	all, err := HashToken("all", secretAll, nil)
	require.NoError(t, err)
	acme, err := HashToken("acme", secretAcme, []string{"acme", "a b,c"})
	require.NoError(t, err)
	tokens, err := ParseTokens(all + "\n" + acme)
	require.NoError(t, err)
	return tokens
}

// served is an API that is served.
type served struct {
	t     testing.TB
	url   string
	store *store
	log   *logged
}

// logged is a log that a test reads.
type logged struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// serveTest serves an API, with tokens unless a test takes them away.
func serveTest(t testing.TB, adjust ...func(*Config)) *served {
	t.Helper()
	s := &served{t: t, store: newStore(), log: &logged{}}
	cfg := Config{Jobs: s.store, Tokens: testTokens(t), Logger: zerolog.New(s.log)}
	for _, f := range adjust {
		f(&cfg)
	}
	h, err := New(cfg)
	require.NoError(t, err)
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	s.url = srv.URL
	return s
}

// answer is what a request was answered with.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) problem(t testing.TB) Problem {
	t.Helper()
	require.Equal(t, problemType, a.header.Get("Content-Type"), a.body)
	var p Problem
	require.NoError(t, json.Unmarshal([]byte(a.body), &p), a.body)
	require.Equal(t, a.status, p.Status)
	require.Equal(t, "about:blank", p.Type)
	require.NotEmpty(t, p.Title)
	require.NotEmpty(t, p.Code)
	return p
}

// with changes a request before it is sent.
type with func(*http.Request)

func bearing(secret string) with {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+secret) }
}

func header(name, value string) with {
	return func(r *http.Request) {
		r.Header.Del(name)
		if value != "" {
			r.Header.Set(name, value)
		}
	}
}

// ask sends a request with the token for everything.
func (s *served) ask(method, path, body string, adjust ...with) answer {
	s.t.Helper()
	req, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	require.NoError(s.t, err)
	bearing(secretAll)(req)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, f := range adjust {
		f(req)
	}
	return s.send(req)
}

func (s *served) send(req *http.Request) answer {
	s.t.Helper()
	c := &http.Client{
		Timeout:       soon,
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := c.Do(req)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	return answer{resp.StatusCode, resp.Header, string(b)}
}
