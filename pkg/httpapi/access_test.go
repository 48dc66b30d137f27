package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/kvbucket"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

// moving is a clock that a test sets.
type moving struct{ at atomic.Int64 }

func (m *moving) Now() time.Time          { return time.Unix(0, m.at.Load()).UTC() }
func (m *moving) forward(d time.Duration) { m.at.Add(int64(d)) }

func newMoving() *moving {
	m := &moving{}
	m.at.Store(stopped{}.Now().UnixNano())
	return m
}

// fickle is an adapter that fails when a test says so, and counts what is written.
type fickle struct {
	kv.Adapter
	away   atomic.Bool
	writes atomic.Int64
}

var errAway = errors.New("away")

func newFickle() *fickle { return &fickle{Adapter: kv.NewMemory(kv.MemoryOptions{})} }

func (f *fickle) Get(ctx context.Context, key string) (string, bool, error) {
	if f.away.Load() {
		return "", false, errAway
	}
	return f.Adapter.Get(ctx, key)
}

func (f *fickle) Swap(ctx context.Context, key string, expected *string, next string, ttl time.Duration) (bool, error) {
	if f.away.Load() {
		return false, errAway
	}
	f.writes.Add(1)
	return f.Adapter.Swap(ctx, key, expected, next, ttl)
}

func (f *fickle) Increment(ctx context.Context, key string, amount int64) (int64, error) {
	if f.away.Load() {
		return 0, errAway
	}
	f.writes.Add(1)
	return f.Adapter.Increment(ctx, key, amount)
}

// guardedBy serves an API whose tokens are the stored ones alone.
func guardedBy(t *testing.T, a *Access, adjust ...func(*Config)) *served {
	return serveTest(t, append([]func(*Config){func(c *Config) {
		c.Tokens, c.Access, c.KV = nil, a, kv.New(must(a.cfg.Open(t.Context())), kv.Options{})
	}}, adjust...)...)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (s *served) make(spec TokenSpec, a *Access) string {
	s.t.Helper()
	_, secret, err := a.CreateToken(context.Background(), spec)
	require.NoError(s.t, err)
	return secret
}

func TestAStoredTokenIsGoodForWhatItNames(t *testing.T) {
	t.Parallel()
	a := accessOf(t, newFickle(), AccessConfig{})
	s := guardedBy(t, a)
	secret := s.make(TokenSpec{Name: "shop", Scopes: []Scope{ScopeEnqueue, ScopeKVRead}, Spaces: []string{"acme"}}, a)
	shop := bearing(secret)
	require.Equal(t, 201, s.ask("POST", "/v1/jobs", `{"type":"t","id":"j","space":"acme"}`, shop).status)

	answer := s.ask("GET", "/v1/jobs/acme/j", "", shop)
	require.Equal(t, 403, answer.status)
	p := answer.problem(t)
	require.Equal(t, CodeMissingScope, p.Code)
	require.Contains(t, p.Detail, "read")
	for _, other := range []answerOf{
		{"POST", "/v1/jobs", `{"type":"t","space":"other"}`}, {"GET", "/v1/kv/other/k", ""}, {"GET", "/v1/kv/other", ""},
	} {
		got := s.ask(other.method, other.path, other.body, shop)
		require.Equal(t, 404, got.status, other)
		require.Equal(t, CodeNotFound, got.problem(t).Code)
	}
	require.Equal(t, 403, s.ask("GET", "/v1/tokens", "", shop).status)
	require.NotContains(t, s.log.String(), secret)
}

// answerOf is a request.
type answerOf struct{ method, path, body string }

func TestTokensThatDoNotCall(t *testing.T) {
	t.Parallel()
	clock := newMoving()
	a := accessOf(t, newFickle(), AccessConfig{Clock: clock})
	s := guardedBy(t, a)
	short := s.make(TokenSpec{Name: "short", Scopes: []Scope{ScopeRead}, Expires: time.Hour}, a)
	ended := s.make(TokenSpec{Name: "ended", Scopes: []Scope{ScopeRead}}, a)
	const path = "/v1/jobs/default/none"
	require.Equal(t, 404, s.ask("GET", path, "", bearing(short)).status)
	_, err := a.RevokeToken(t.Context(), "ended")
	require.NoError(t, err)
	clock.forward(time.Hour)
	for name, c := range map[string]struct {
		with   with
		detail string
	}{
		"none":    {header("Authorization", ""), "required"},
		"wrong":   {bearing("jc_" + strings.Repeat("a", 52)), "required"},
		"empty":   {bearing(""), "required"},
		"scheme":  {header("Authorization", "Basic "+ended), "required"},
		"longer":  {bearing(short + "x"), "required"},
		"expired": {bearing(short), "expired"},
		"revoked": {bearing(ended), "revoked"},
		"two":     {func(r *http.Request) { r.Header["Authorization"] = []string{"Bearer " + short, "Bearer " + ended} }, "required"},
	} {
		got := s.ask("GET", path, "", c.with)
		require.Equal(t, 401, got.status, name)
		p := got.problem(t)
		require.Equal(t, CodeUnauthorized, p.Code, name)
		require.Contains(t, p.Detail, c.detail, name)
		require.Equal(t, `Bearer realm="jetcrew"`, got.header.Get("WWW-Authenticate"))
	}
}

func TestAHeaderCannotBeWrittenByACaller(t *testing.T) {
	t.Parallel()
	a := accessOf(t, newFickle(), AccessConfig{})
	log := &logged{}
	r := run(t, &Server{Handler: handler(t, newStore(), func(c *Config) { c.Access, c.Logger = a, zerolog.New(log) })})
	c := r.dial(t)
	_, err := io.WriteString(c, "GET /v1/jobs/a/b%0d%0aSet-Cookie:%20x=1 HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: a\tb\r\n"+
		"Authorization: Bearer x\xff\xfey\r\nConnection: close\r\n\r\n")
	require.NoError(t, err)
	b, err := io.ReadAll(c)
	require.NoError(t, err)
	head, _, _ := strings.Cut(string(b), "\r\n\r\n")
	require.Contains(t, head, "404 Not Found")
	require.NotContains(t, head, "Set-Cookie")
	require.NotContains(t, head, "a\tb")
	require.Regexp(t, `X-Request-Id: [a-z2-7]{16}`, head)
	require.NotContains(t, log.String(), "\n\n")
}

func TestTheFirstStoredTokenClosesTheAPIForGood(t *testing.T) {
	t.Parallel()
	store := newFickle()
	a, other := accessOf(t, store, AccessConfig{}), accessOf(t, store, AccessConfig{})
	s := guardedBy(t, a)
	nobody := header("Authorization", "")
	require.Equal(t, 201, s.ask("POST", "/v1/jobs", one, nobody).status, "it is open")
	closed, err := a.Closed(t.Context())
	require.NoError(t, err)
	require.False(t, closed)

	_, secret, err := other.CreateToken(t.Context(), TokenSpec{Name: "first", Scopes: []Scope{ScopeEnqueue}}) // by another process
	require.NoError(t, err)
	natstest.Eventually(t, soon, func() bool { return s.ask("POST", "/v1/jobs", one, nobody).status == 401 })
	require.Equal(t, 200, s.ask("POST", "/v1/jobs", one, bearing(secret)).status)
	_, err = other.RevokeToken(t.Context(), "first")
	require.NoError(t, err)
	natstest.Eventually(t, soon, func() bool { return s.ask("POST", "/v1/jobs", one, bearing(secret)).status == 401 })
	require.Equal(t, 401, s.ask("POST", "/v1/jobs", one, nobody).status, "the last one is gone, and it is closed")

	again := guardedBy(t, accessOf(t, store, AccessConfig{})) // a restart
	require.Equal(t, 401, again.ask("POST", "/v1/jobs", one, nobody).status)
	_, err = kv.New(store, kv.Options{}).Space("tokens").Wipe(t.Context())
	require.NoError(t, err)
	_, err = store.Wipe(t.Context(), reservedPrefix) // somebody removes all of it
	require.NoError(t, err)
	a.tokens.forget()
	require.Equal(t, 401, s.ask("POST", "/v1/jobs", one, nobody).status, "what was closed does not open")
}

func TestWhoCannotBeLookedUpIsNotToldToBeWrong(t *testing.T) {
	t.Parallel()
	store := newFickle()
	a := accessOf(t, store, AccessConfig{})
	s := guardedBy(t, a)
	secret := s.make(TokenSpec{Name: "known", Scopes: []Scope{ScopeRead}}, a)
	static := serveTest(t, func(c *Config) { c.Access = a })
	const path = "/v1/jobs/default/none"
	require.Equal(t, 404, s.ask("GET", path, "", bearing(secret)).status)
	store.away.Store(true)
	natstest.Eventually(t, soon, func() bool { return s.ask("GET", path, "", bearing("another-token-entirely-it-is")).status == 503 })
	got := s.ask("GET", path, "", bearing("another-token-entirely-it-is"))
	require.Equal(t, CodeUnavailable, got.problem(t).Code)
	require.NotEmpty(t, got.header.Get("Retry-After"))
	require.Equal(t, 404, s.ask("GET", path, "", bearing(secret)).status, "it was good a moment ago")
	require.Equal(t, 401, s.ask("GET", path, "", header("Authorization", "")).status)
	require.Equal(t, 404, static.ask("GET", path, "").status, "tokens given at the start need no store")

	fresh := guardedBy(t, accessOf(t, store, AccessConfig{})) // that has never read it
	require.Equal(t, 503, fresh.ask("GET", path, "", header("Authorization", "")).status, "nobody knows whether it is open")
	require.Equal(t, 503, fresh.ask("GET", path, "", bearing(secret)).status)
	require.Equal(t, 200, fresh.ask("GET", "/healthz", "").status)
	store.away.Store(false)
	natstest.Eventually(t, soon, func() bool { return fresh.ask("GET", path, "", bearing(secret)).status == 404 })
}

func TestWithoutAStoreThereAreNoTokens(t *testing.T) {
	t.Parallel()
	a := NewAccess(AccessConfig{Open: func(context.Context) (kv.Adapter, error) { return nil, ErrNoStore }, Clock: stopped{}})
	t.Cleanup(a.Close)
	s := serveTest(t, func(c *Config) { c.Access = a })
	require.Equal(t, 401, s.ask("GET", "/v1/tokens", "", bearing("another-token-entirely-it-is")).status)
	require.JSONEq(t, `{"tokens":[]}`, s.ask("GET", "/v1/tokens", "").body)
	require.JSONEq(t, `{"refusals":[]}`, s.ask("GET", "/v1/refusals", "").body)
	require.Equal(t, 404, s.ask("DELETE", "/v1/tokens/x", "").status)
}

func TestNoSpaceReachesWhatTheAPIKeeps(t *testing.T) {
	t.Parallel()
	store := newFickle()
	a := accessOf(t, store, AccessConfig{})
	s := serveTest(t, func(c *Config) { c.Access, c.KV = a, kv.New(store, kv.Options{}) })
	secret := s.make(TokenSpec{Name: "hidden", Scopes: []Scope{ScopeAdmin}}, a)
	for _, space := range []string{"api", "tokens", "api/=", "=", "..", "/", "api/=/v/tokens", "%3D"} {
		in := strings.NewReplacer("/", "%2F", ".", "%2E", "%", "%25").Replace(space)
		require.Equal(t, 404, s.ask("GET", "/v1/kv/"+in+"/all", "").status, space)
		got := s.ask("GET", "/v1/kv/"+in, "")
		require.Equal(t, 200, got.status, got.body)
		require.Contains(t, got.body, `"keys":[]`, space)
		require.Equal(t, 200, s.ask("POST", "/v1/kv/"+in+"/wipe", "").status)
		require.Equal(t, 200, s.ask("PUT", "/v1/kv/"+in+"/all", `{"tokens":[]}`).status)
	}
	require.Equal(t, 200, s.ask("GET", "/v1/tokens", "", bearing(secret)).status, "it is there, and good")
	stored := 0
	for key, err := range store.Keys(t.Context(), reservedPrefix) {
		require.NoError(t, err)
		value, _, err := store.Adapter.Get(t.Context(), key)
		require.NoError(t, err)
		require.NotContains(t, value, secret)
		stored++
	}
	require.NotZero(t, stored)

	// A NATS user of a space may have "*.<space>.>" of the bucket: none of these is the API's.
	segment := func(key string) string { return strings.Split(kvbucket.Subject("jetcrew", key), ".")[3] }
	ours := segment(reservedPrefix + "v/tokens/all")
	for _, space := range []string{"=", "=3D", "/", "", "tokens", "%3D"} {
		for _, key := range mustKeys(t, space) {
			require.NotEqual(t, ours, segment(key), space)
		}
	}
}

// mustKeys are the adapter's keys of a value in a space; none where nothing can be called so.
func mustKeys(t *testing.T, space string) []string {
	t.Helper()
	adapter := kv.NewMemory(kv.MemoryOptions{})
	if err := kv.New(adapter, kv.Options{}).Space(space).Set(t.Context(), "k", 1, 0); err != nil {
		require.Empty(t, space)
		return nil
	}
	var keys []string
	for key, err := range adapter.Keys(t.Context(), "") {
		require.NoError(t, err)
		keys = append(keys, key)
	}
	require.Len(t, keys, 1)
	return keys
}

func TestTokensAreMadeListedAndRevokedOverHTTP(t *testing.T) {
	t.Parallel()
	a := accessOf(t, newFickle(), AccessConfig{})
	s := serveTest(t, func(c *Config) { c.Access = a })
	got := s.ask("POST", "/v1/tokens", `{"name":"shop","scopes":["enqueue"],"spaces":["acme"],"expires":"90d"}`)
	require.Equal(t, 201, got.status, got.body)
	require.Equal(t, "/v1/tokens/shop", got.header.Get("Location"))
	var made TokenMade
	require.NoError(t, json.Unmarshal([]byte(got.body), &made))
	require.Equal(t, stopped{}.Now().AddDate(0, 0, 90), made.ExpiresAt)
	require.Equal(t, 409, s.ask("POST", "/v1/tokens", `{"name":"shop","scopes":["enqueue"]}`).status)
	require.Equal(t, 409, s.ask("POST", "/v1/tokens", `{"name":"acme","scopes":["enqueue"]}`).status, "a token of the file is called so")
	require.Equal(t, 201, s.ask("POST", "/v1/jobs", `{"type":"t","space":"acme"}`, bearing(made.Secret)).status)

	natstest.Eventually(t, soon, func() bool { return strings.Contains(s.ask("GET", "/v1/tokens", "").body, "lastUsedAt") })
	list := s.ask("GET", "/v1/tokens", "").body
	require.NotContains(t, list, made.Secret)
	require.NotContains(t, list, "sha256")
	for _, r := range []answerOf{{"GET", "/v1/tokens", ""}, {"DELETE", "/v1/tokens/shop", ""}, {"POST", "/v1/tokens", `{"name":"mine","scopes":["admin"]}`}} {
		got := s.ask(r.method, r.path, r.body, bearing(secretAcme))
		require.Equal(t, 403, got.status, "who is good for some spaces makes no tokens, whatever the scopes")
	}
	require.Equal(t, 200, s.ask("DELETE", "/v1/tokens/shop", "").status)
	require.Equal(t, 401, s.ask("POST", "/v1/jobs", one, bearing(made.Secret)).status)
	require.Equal(t, 201, s.ask("POST", "/v1/tokens", `{"name":"shop","scopes":["enqueue"]}`).status, "the name is free again")
	require.Equal(t, 401, s.ask("POST", "/v1/jobs", one, bearing(made.Secret)).status)

	for body, field := range map[string]string{
		`{"scopes":["read"]}`:                                      "/name",
		`{"name":"a b","scopes":["read"]}`:                         "/name",
		`{"name":"x"}`:                                             "/scopes",
		`{"name":"x","scopes":["all"]}`:                            "/scopes",
		`{"name":"x","scopes":["read","read"]}`:                    "/scopes",
		`{"name":"x","scopes":["read"],"spaces":[""]}`:             "/spaces",
		`{"name":"x","scopes":["admin"],"spaces":["acme"]}`:        "/spaces",
		`{"name":"x","scopes":["read"],"expires":"-1s"}`:           "/expires",
		`{"name":"x","scopes":["read"],"expires":3}`:               "/expires",
		`{"name":"x","scopes":["read"],"secret":"of-my-own-make"}`: "/secret",
	} {
		got := s.ask("POST", "/v1/tokens", body)
		require.Equal(t, 422, got.status, body)
		require.Equal(t, field, got.problem(t).Errors[0].Field, body)
	}
}

func TestTokensAreOfABoundedNumber(t *testing.T) {
	t.Parallel()
	clock := newMoving()
	a := accessOf(t, newFickle(), AccessConfig{Clock: clock})
	for i := range maxStored {
		_, _, err := a.CreateToken(t.Context(), TokenSpec{Name: fmt.Sprint("t", i), Scopes: []Scope{ScopeRead}})
		require.NoError(t, err)
	}
	_, _, err := a.CreateToken(t.Context(), TokenSpec{Name: "more", Scopes: []Scope{ScopeRead}})
	require.ErrorIs(t, err, ErrManyTokens)
	_, err = a.RevokeToken(t.Context(), "t7")
	require.NoError(t, err)
	clock.forward(time.Second)
	_, _, err = a.CreateToken(t.Context(), TokenSpec{Name: "more", Scopes: []Scope{ScopeRead}})
	require.NoError(t, err)
	_, err = a.RevokeToken(t.Context(), "t7")
	require.ErrorIs(t, err, ErrNoToken, "it made room")
}

func TestOneOfManyWhoMakeATokenOfANameMakesIt(t *testing.T) {
	t.Parallel()
	store := newFickle()
	var made atomic.Int64
	var wg sync.WaitGroup
	for range 12 {
		a := accessOf(t, store, AccessConfig{})
		wg.Go(func() {
			_, _, err := a.CreateToken(context.Background(), TokenSpec{Name: "one", Scopes: []Scope{ScopeRead}})
			var refusal *job.Refusal
			if err == nil {
				made.Add(1)
			} else if !errors.Is(err, ErrTokenExists) && !errors.As(err, &refusal) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, made.Load())
}
