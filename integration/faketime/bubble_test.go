package faketime

import (
	"os"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats-server/v2/server/ats"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/streams"
)

// moment is how late, in fake time, anything may be that only takes the machine's work: next to nothing, as the clock
// stands while somebody works. What rounds to whole seconds, or is looked for now and then, has its own bound.
const moment = 100 * time.Millisecond

func TestMain(m *testing.M) { goleak.VerifyTestMain(outside{m}) }

// outside runs the tests with the file stores' clock started outside of every bubble: it waits on a channel of the process,
// and inside would keep fake time from going on. So it tells real time there: see leaderBucket.
type outside struct{ *testing.M }

func (o outside) Run() int {
	ats.Register()
	defer ats.Unregister()
	return o.M.Run()
}

// heavy skips what takes too long for every run of all tests.
func heavy(t *testing.T) {
	t.Helper()
	if os.Getenv("JETCREW_CHAOS") == "" {
		t.Skip("takes long: set JETCREW_CHAOS (make chaos does)")
	}
}

// long skips what takes seconds where only short tests are asked for.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds")
	}
}

// spare is the longer of two lengths of fake time where there is real time for it.
func spare(short, full time.Duration) time.Duration {
	if os.Getenv("JETCREW_CHAOS") == "" {
		return short
	}
	return full
}

// world is a server in a bubble, and what a test does with it.
type world struct {
	t     *testing.T
	srv   *server.Server
	nc    *nats.Conn
	store *streams.Store // to look and to operate with
	begin time.Time      // when the test began
}

// bubble runs fn with a server, in fake time. It has to use the world's testing.T, which is the bubble's. Bubbles run one after the other: see emptyPools.
func bubble(t *testing.T, fn func(w *world)) {
	t.Helper()
	emptyPools()
	dir := t.TempDir()
	began := time.Now()
	var fake time.Duration
	synctest.Test(t, func(t *testing.T) {
		srv, err := server.NewServer(&server.Options{
			ServerName: "faketime", DontListen: true, NoSigs: true, NoLog: true, JetStream: true, StoreDir: dir,
			NoSystemAccount: true, SyncInterval: 24 * time.Hour, PingInterval: 30 * 24 * time.Hour,
		})
		require.NoError(t, err)
		srv.Start()
		require.True(t, srv.ReadyForConnections(time.Minute))
		t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
		w := &world{t: t, srv: srv, begin: time.Now()}
		w.nc = w.connect()
		w.store = w.open(w.nc)
		fn(w)
		fake = time.Since(w.begin)
	})
	t.Logf("%s of fake time in %s", fake.Round(time.Second), time.Since(began).Round(time.Millisecond))
}

// emptyPools has the client library forget the timers that it keeps to use again: those of one bubble are of no use in
// another. The second collection drops what the first one set aside.
func emptyPools() {
	runtime.GC()
	runtime.GC()
}

func (w *world) connect(opts ...nats.Option) *nats.Conn {
	w.t.Helper()
	opts = append([]nats.Option{
		nats.InProcessServer(w.srv), nats.MaxReconnects(-1), nats.PingInterval(30 * 24 * time.Hour),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}, opts...)
	nc, err := nats.Connect("", opts...)
	require.NoError(w.t, err)
	w.t.Cleanup(nc.Close)
	return nc
}

func (w *world) open(nc *nats.Conn, adjust ...func(*streams.Config)) *streams.Store {
	w.t.Helper()
	var cfg streams.Config
	for _, f := range adjust {
		f(&cfg)
	}
	s, err := streams.Open(w.t.Context(), nc, cfg)
	require.NoError(w.t, err)
	w.t.Cleanup(s.Close)
	return s
}

func (w *world) enqueue(s job.Spec) job.Key {
	w.t.Helper()
	if s.Type == "" {
		s.Type = "t"
	}
	e, err := w.store.Enqueue(w.t.Context(), s)
	require.NoError(w.t, err)
	require.True(w.t, e.Created)
	return e.Key
}

func (w *world) get(key job.Key) *job.Job {
	w.t.Helper()
	j, err := w.store.Get(w.t.Context(), key)
	require.NoError(w.t, err)
	return j
}

// gone wants a job's record to be gone.
func (w *world) gone(key job.Key) {
	w.t.Helper()
	_, err := w.store.Get(w.t.Context(), key)
	require.ErrorIs(w.t, err, job.ErrNotFound)
}

// ended waits for a job's end. It looks every ten seconds of fake time: instants are asserted by what the record and the
// handlers say.
func (w *world) ended(key job.Key) *job.Job {
	w.t.Helper()
	for range 1000 * 360 {
		if j := w.get(key); j.Status.Terminal() {
			return j
		}
		time.Sleep(10 * time.Second)
	}
	require.Fail(w.t, "a job has not ended in 1000 h", "%s", key)
	return nil
}

// lease makes the queue "default" with a lease. (Whoever enqueues first would make it with a lease of its own.)
func (w *world) lease(d time.Duration) {
	w.t.Helper()
	_, err := w.store.Configure(w.t.Context(), job.DefaultQueue, job.QueueSettings{Lease: &d})
	require.NoError(w.t, err)
}

// until sleeps until so long after the beginning of the test.
func (w *world) until(d time.Duration) { time.Sleep(time.Until(w.begin.Add(d))) }

// away is a time in which no client is there, only the server.
func (w *world) away(until time.Duration) {
	w.t.Helper()
	w.store.Close()
	w.nc.Close()
	w.until(until)
	w.nc = w.connect()
	w.store = w.open(w.nc)
}

// within wants an instant that is never early, and late by so much at most.
func within(t *testing.T, want, got time.Time, late time.Duration) {
	t.Helper()
	require.WithinRange(t, got, want, want.Add(late))
}
