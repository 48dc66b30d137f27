package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/embedded"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/streams"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func connect(t *testing.T, cfg client.Config) *client.Client {
	t.Helper()
	if len(cfg.URLs) == 0 && cfg.Context == "" {
		srv, err := embedded.Start(embedded.Config{})
		require.NoError(t, err)
		t.Cleanup(srv.Shutdown)
		cfg.URLs = []string{srv.URL()}
	}
	c, err := client.Connect(within(t), cfg)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// serve runs a server that asks for credentials.
func serve(t *testing.T, opts server.Options) *server.Server {
	t.Helper()
	opts.Host, opts.NoSigs, opts.StoreDir = "127.0.0.1", true, t.TempDir()
	if opts.Port == 0 {
		opts.Port = server.RANDOM_PORT
	}
	s, err := server.NewServer(&opts)
	require.NoError(t, err)
	s.Start()
	require.True(t, s.ReadyForConnections(10*time.Second))
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s
}

type input struct {
	To string `json:"to"`
}

func TestWhatIsEnqueuedCanBeRead(t *testing.T) {
	c := connect(t, client.Config{})
	ctx := within(t)
	due := c.Now().Add(time.Hour)
	e, err := c.Enqueue(ctx, "email", input{"ada@example.com"},
		client.WithID("welcome"), client.WithSpace("acme"), client.WithQueue("mail"), client.WithDueAt(due),
		client.WithMaxAttempts(7), client.WithTimeout(time.Minute), client.WithDeadline(due.Add(time.Hour)),
		client.WithRetry(time.Second, time.Minute))
	require.NoError(t, err)
	require.True(t, e.Created)

	j, err := c.Get(ctx, job.Key{Space: "acme", ID: "welcome"})
	require.NoError(t, err)
	require.Equal(t, e.Key, j.Key())
	require.Equal(t, job.Pending, j.Status)
	require.JSONEq(t, `{"to":"ada@example.com"}`, string(j.Input))
	require.Equal(t, 7, j.MaxAttempts)
	require.Equal(t, time.Minute, j.Timeout)
	require.Equal(t, &job.Retry{Base: time.Second, Max: time.Minute}, j.Retry)
	require.WithinDuration(t, due, j.DueAt, time.Millisecond)

	again, err := c.Enqueue(ctx, "email", nil, client.WithID("welcome"), client.WithSpace("acme"), client.WithQueue("mail"))
	require.NoError(t, err)
	require.False(t, again.Created)

	_, err = c.Get(ctx, job.Key{ID: "welcome"})
	require.ErrorIs(t, err, job.ErrNotFound, "another space's job is not to be seen")
}

func TestInputsOfAllKinds(t *testing.T) {
	c := connect(t, client.Config{})
	ctx := within(t)
	for name, in := range map[string]any{
		"struct": input{"x"}, "map": map[string]string{"to": "x"}, "bytes": []byte(`{"to":"x"}`), "pointer": &input{"x"},
	} {
		_, err := c.Enqueue(ctx, "t", in, client.WithID(name))
		require.NoError(t, err, name)
		j, err := c.Get(ctx, job.Key{ID: name})
		require.NoError(t, err, name)
		require.JSONEq(t, `{"to":"x"}`, string(j.Input), name)
	}
	for name, in := range map[string]any{
		"list": []int{1}, "text": "x", "broken": []byte(`{`), "twice": []byte(`{"a":1,"a":2}`), "channel": make(chan int),
	} {
		_, err := c.Enqueue(ctx, "t", in)
		var f *job.FieldError
		require.ErrorAs(t, err, &f, name)
		require.Equal(t, "input", f.Field, name)
	}
}

func TestManyAndAll(t *testing.T) {
	c := connect(t, client.Config{})
	ctx := within(t)
	out, err := c.EnqueueMany(ctx, []job.Spec{{ID: "a", Type: "t"}, {ID: "b", Type: ""}, {ID: "c", Type: "t"}})
	require.Error(t, err)
	require.Len(t, out, 3)
	require.True(t, out[0].Created)
	require.Error(t, out[1].Err)
	require.True(t, out[2].Created)

	_, err = c.EnqueueAll(ctx, []job.Spec{{ID: "d", Type: "t"}, {ID: "c", Type: "t"}})
	var conflict *job.ConflictError
	require.ErrorAs(t, err, &conflict)
	require.Len(t, conflict.Keys, 1)
	_, err = c.Get(ctx, job.Key{ID: "d"})
	require.ErrorIs(t, err, job.ErrNotFound)
}

func TestMiddlewareStandsAroundEveryEnqueue(t *testing.T) {
	var order []string
	mark := func(name string) func(client.EnqueueFunc) client.EnqueueFunc {
		return func(next client.EnqueueFunc) client.EnqueueFunc {
			return func(ctx context.Context, specs []job.Spec) ([]job.Enqueued, error) {
				order = append(order, fmt.Sprintf("%s %d", name, len(specs)))
				for _, s := range specs {
					if s.Type == "forbidden" {
						return nil, errors.New("not this type")
					}
				}
				return next(ctx, specs)
			}
		}
	}
	c := connect(t, client.Config{Middleware: []func(client.EnqueueFunc) client.EnqueueFunc{mark("outer"), mark("inner")}})
	ctx := within(t)
	_, err := c.Enqueue(ctx, "t", nil)
	require.NoError(t, err)
	_, err = c.EnqueueMany(ctx, []job.Spec{{Type: "t"}, {Type: "t"}})
	require.NoError(t, err)
	_, err = c.EnqueueAll(ctx, []job.Spec{{Type: "forbidden"}})
	require.ErrorContains(t, err, "not this type")
	require.Equal(t, []string{"outer 1", "inner 1", "outer 2", "inner 2", "outer 1"}, order)
}

func TestNoServer(t *testing.T) {
	_, err := client.Connect(within(t), client.Config{URLs: []string{"nats://user:canary-pw@127.0.0.1:1", "nats://canary-token@127.0.0.1:1"}})
	require.ErrorIs(t, err, nats.ErrNoServers)
	require.ErrorContains(t, err, "nats://127.0.0.1:1")
	require.NotContains(t, err.Error(), "canary")
}

func TestURLsThatAreNone(t *testing.T) {
	for _, u := range []string{
		"http://user:canary@a", "nats://u:canary@", "nats://u:canary@a:port", "nats://u:canary%zz@a", "nats://u:can ary@a b", "://canary@a", "",
	} {
		_, err := client.Connect(within(t), client.Config{URLs: []string{u}})
		require.ErrorIs(t, err, client.ErrConfig, u)
		require.NotContains(t, err.Error(), "canary")
		require.NotContains(t, err.Error(), "can ary")
	}
}

func TestCredentials(t *testing.T) {
	kp, err := nkeys.CreateUser()
	require.NoError(t, err)
	seed, err := kp.Seed()
	require.NoError(t, err)
	public, err := kp.PublicKey()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "seed")
	require.NoError(t, os.WriteFile(file, seed, 0o600))
	s := serve(t, server.Options{
		JetStream: true,
		Users:     []*server.User{{Username: "ada", Password: "canary-right"}},
		Nkeys:     []*server.NkeyUser{{Nkey: public}},
	})
	url := s.ClientURL()

	connect(t, client.Config{URLs: []string{url}, User: "ada", Password: "canary-right"})
	connect(t, client.Config{URLs: []string{url}, NKey: file})
	connect(t, client.Config{URLs: []string{strings.Replace(url, "nats://", "nats://ada:canary-right@", 1)}})

	for name, cfg := range map[string]client.Config{
		"none":     {},
		"password": {User: "ada", Password: "canary-wrong"},
		"token":    {Token: "canary-token"},
	} {
		cfg.URLs = []string{url}
		_, err := client.Connect(within(t), cfg)
		require.ErrorIs(t, err, nats.ErrAuthorization, name)
		require.ErrorContains(t, err, url, name)
		require.NotContains(t, err.Error(), "canary", name)
	}
	_, err = client.Connect(within(t), client.Config{URLs: []string{strings.Replace(url, "nats://", "nats://ada:canary-wrong@", 1)}})
	require.ErrorIs(t, err, nats.ErrAuthorization)
	require.NotContains(t, err.Error(), "canary")

	for name, cfg := range map[string]client.Config{
		"two identities": {User: "ada", Token: "t"},
		"no seed file":   {NKey: "/does/not/exist"},
		"half of TLS":    {TLSCert: "x"},
	} {
		_, err := client.Connect(within(t), cfg)
		require.ErrorIs(t, err, client.ErrConfig, name)
	}
	_, err = client.Connect(within(t), client.Config{URLs: []string{url}, Credentials: "/does/not/exist"})
	require.ErrorContains(t, err, "/does/not/exist")
}

func TestNATSContext(t *testing.T) {
	srv, err := embedded.Start(embedded.Config{})
	require.NoError(t, err)
	t.Cleanup(srv.Shutdown)
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	dir := filepath.Join(home, "nats", "context")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "here.json"), fmt.Appendf(nil, `{"url":%q}`, srv.URL()), 0o600))

	c := connect(t, client.Config{Context: "here"})
	_, err = c.Enqueue(within(t), "t", nil)
	require.NoError(t, err)

	_, err = client.Connect(within(t), client.Config{Context: "elsewhere"})
	require.ErrorIs(t, err, client.ErrConfig)
	require.ErrorContains(t, err, "elsewhere")
	_, err = client.Connect(within(t), client.Config{Context: "here", URLs: []string{srv.URL()}})
	require.ErrorIs(t, err, client.ErrConfig)
}

func TestNoJetStream(t *testing.T) {
	s := serve(t, server.Options{})
	_, err := client.Connect(within(t), client.Config{URLs: []string{s.ClientURL()}})
	require.ErrorIs(t, err, streams.ErrNoJetStream)
}

func TestAnOutageIsLoggedOnceWhenItBeginsAndOnceWhenItEnds(t *testing.T) {
	dir := t.TempDir()
	srv, err := embedded.Start(embedded.Config{Dir: dir})
	require.NoError(t, err)
	var port int
	_, err = fmt.Sscanf(srv.URL(), "nats://127.0.0.1:%d", &port)
	require.NoError(t, err)
	log := &lockedBuffer{}
	c := connect(t, client.Config{URLs: []string{srv.URL()}, Logger: zerolog.New(log)})
	srv.Shutdown()
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "lost") }, 10*time.Second, 5*time.Millisecond)
	srv, err = embedded.Start(embedded.Config{Dir: dir, Port: port})
	require.NoError(t, err)
	t.Cleanup(srv.Shutdown)
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "is back") }, 10*time.Second, 5*time.Millisecond)
	_, err = c.Enqueue(within(t), "t", nil)
	require.NoError(t, err)
	c.Close()
	c.Close()
	require.Equal(t, 1, strings.Count(log.String(), "connection to NATS lost"), log)
	require.Equal(t, 1, strings.Count(log.String(), "connection to NATS is back"), log)
	require.Contains(t, log.String(), "afterMs")
	require.NotContains(t, log.String(), "closed for good")
}

func TestAnEndedContextConnectsNowhere(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := client.Connect(ctx, client.Config{})
	require.ErrorIs(t, err, context.Canceled)
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
