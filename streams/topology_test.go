package streams

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/embedded"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// tryOpen opens a store that is expected to be refused.
func (p *place) tryOpen(t *testing.T, change ...func(*Config)) error {
	t.Helper()
	cfg := p.config()
	for _, f := range change {
		f(&cfg)
	}
	s, err := Open(t.Context(), natstest.Connect(t, p.url()), cfg)
	if err == nil {
		s.Close()
	}
	return err
}

func verify(c *Config) { c.Manage = ManageVerify }

func (p *place) jetStream(t *testing.T) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(natstest.Connect(t, p.url()))
	require.NoError(t, err)
	return js
}

func TestAConfigIsCheckedAtTheDoor(t *testing.T) {
	t.Parallel()
	p := server(t)
	for _, c := range []struct {
		says   string
		change func(*Config)
	}{
		{"namespace", func(c *Config) { c.Namespace = "A.b" }},
		{"namespace", func(c *Config) { c.Namespace = "x*" }},
		{"replicas", func(c *Config) { c.Replicas = 6 }},
		{"replicas", func(c *Config) { c.Replicas = -1 }},
		{"manage", func(c *Config) { c.Manage = "perhaps" }},
		{"lease", func(c *Config) { c.Lease = time.Second - 1 }},
		{"retention of dead", func(c *Config) { c.Retention.Dead = 10*time.Minute - 1 }},
		{"retention of failed", func(c *Config) { c.Retention.Failed = -2 }},
	} {
		require.ErrorContains(t, p.tryOpen(t, c.change), c.says)
	}
	var c Config
	require.NoError(t, c.normalize())
	require.Equal(t, Config{
		Namespace: "jetcrew", Replicas: 1, Manage: ManageCreate, Lease: 30 * time.Second, Logger: c.Logger,
		Retention: Retention{24 * time.Hour, 24 * time.Hour, 168 * time.Hour, 168 * time.Hour},
	}, c)
	for s, d := range map[state]time.Duration{stateSucceeded: 1, stateCancelled: 2, stateDead: 3, stateFailed: 4} {
		require.Equal(t, d, Retention{1, 2, 3, 4}.of(s))
	}
}

func TestAMissingStreamIsMade(t *testing.T) {
	t.Parallel()
	p := server(t)
	n := p.open(t)
	s, err := n.js.Stream(t.Context(), "JETCREW_JOBS")
	require.NoError(t, err)
	have := s.CachedInfo().Config
	_, drift := mend(have, n.streamConfig())
	require.Empty(t, drift)
	require.Equal(t, []string{"jetcrew.job.>", "jetcrew.alarm.>", "jetcrew.wake.>"}, have.Subjects)
	require.Empty(t, n.Drift())
	n.enqueue(spec("q", "1"))
	again := p.open(t)
	again.see(keyOf("q", "1"), job.Pending)
	require.Empty(t, again.Drift())
	other := p.openAs(t, Config{Namespace: "other"})
	_, err = other.Get(t.Context(), keyOf("q", "1"))
	require.ErrorIs(t, err, job.ErrNotFound)
}

func TestManyStoresOpenAtOnce(t *testing.T) {
	t.Parallel()
	p := server(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			n := p.open(t)
			n.work("q", newWriter())
		})
	}
	wg.Wait()
}

func TestAForeignStreamIsRefused(t *testing.T) {
	t.Parallel()
	for says, cfg := range map[string]jetstream.StreamConfig{
		"subjects":  {Name: "JETCREW_JOBS", Subjects: []string{"jetcrew.job.>"}, Retention: jetstream.WorkQueuePolicy},
		"retention": {Name: "JETCREW_JOBS", Subjects: names{"jetcrew"}.streamSubjects()},
	} {
		p := server(t)
		_, err := p.jetStream(t).CreateStream(t.Context(), cfg)
		require.NoError(t, err)
		err = p.tryOpen(t)
		require.ErrorIs(t, err, ErrTopology)
		require.ErrorContains(t, err, says)
	}
	p := server(t)
	_, err := p.jetStream(t).CreateStream(t.Context(), jetstream.StreamConfig{Name: "ELSE", Subjects: []string{"jetcrew.>"}})
	require.NoError(t, err)
	require.ErrorIs(t, p.tryOpen(t), ErrTopology, "another stream has its subjects")
}

func TestDriftIsMendedWhereThatIsSafe(t *testing.T) {
	t.Parallel()
	p := server(t)
	js := p.jetStream(t)
	n := p.open(t)
	cfg := n.streamConfig()
	cfg.MaxMsgs, cfg.MaxBytes, cfg.MaxAge, cfg.MaxMsgsPerSubject = 5, 1<<30, time.Hour, 3
	cfg.AllowDirect, cfg.MaxMsgSize = false, 1<<20
	_, err := js.UpdateStream(t.Context(), cfg)
	require.NoError(t, err)

	c := p.config()
	c.Manage = ManageVerify
	looks := p.openAs(t, c)
	for _, d := range looks.Drift() {
		require.False(t, d.Mended)
	}
	require.Len(t, looks.Drift(), 6)

	var log bytes.Buffer
	c = p.config()
	c.Logger = zerolog.New(&log)
	m := p.openAs(t, c)
	mended := map[string]bool{}
	for _, d := range m.Drift() {
		mended[d.Field] = d.Mended
		require.Contains(t, d.String(), d.Field)
	}
	require.Equal(t, map[string]bool{
		"max_msgs": true, "max_bytes": true, "max_age": true, "max_msgs_per_subject": true, "allow_direct": true, "max_msg_size": false,
	}, mended)
	require.Contains(t, log.String(), "settings drift")
	require.Len(t, p.open(t).Drift(), 1, "what was not mended is reported again")
}

func TestADriftingConsumer(t *testing.T) {
	t.Parallel()
	p := server(t)
	n := p.open(t)
	cfg := n.consumerConfig("ready-q", "jetcrew.job.ready.q.>", 7*time.Second)
	cfg.MaxDeliver = 5
	_, err := n.js.CreateConsumer(t.Context(), "JETCREW_JOBS", cfg)
	require.NoError(t, err)
	c := n.work("q", "w")
	require.Equal(t, 7*time.Second, c.Lease(), "a queue that has a lease keeps it")
	require.Len(t, n.Drift(), 1)
	require.True(t, n.Drift()[0].Mended)
	require.Contains(t, n.Drift()[0].String(), "ready-q: max_deliver is 5, want -1: ")
	have, err := n.js.Consumer(t.Context(), "JETCREW_JOBS", "ready-q")
	require.NoError(t, err)
	require.Equal(t, -1, have.CachedInfo().Config.MaxDeliver)

	cfg = n.consumerConfig("ready-z", "jetcrew.job.ready.other.>", time.Second)
	_, err = n.js.CreateConsumer(t.Context(), "JETCREW_JOBS", cfg)
	require.NoError(t, err)
	_, err = n.Enqueue(t.Context(), spec("z", "1"))
	require.ErrorIs(t, err, ErrTopology)
}

func TestVerifyMakesNothing(t *testing.T) {
	t.Parallel()
	p := server(t)
	err := p.tryOpen(t, verify)
	require.ErrorIs(t, err, ErrTopology)
	require.ErrorContains(t, err, "stream JETCREW_JOBS is missing")
	n := p.open(t)
	n.enqueue(spec("q", "1"))

	cfg := p.config()
	cfg.Manage = ManageVerify
	v := p.openAs(t, cfg)
	v.enqueue(spec("q", "2"))
	_, err = v.Enqueue(t.Context(), spec("new", "1"))
	require.ErrorIs(t, err, ErrTopology)
	require.ErrorContains(t, err, "consumer ready-new is missing")
	_, err = v.Consume(t.Context(), job.ConsumerConfig{Queue: "new", WorkerID: "w", Slots: 1})
	require.ErrorIs(t, err, ErrTopology)

	require.NoError(t, n.js.DeleteKeyValue(t.Context(), "JETCREW_WORKERS"))
	err = p.tryOpen(t, verify)
	require.ErrorIs(t, err, ErrTopology)
	require.ErrorContains(t, err, "bucket JETCREW_WORKERS is missing")
}

func TestAVanishedStreamIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	p := server(t)
	n := p.open(t)
	require.NoError(t, n.js.DeleteStream(t.Context(), "JETCREW_JOBS"))
	err := p.tryOpen(t)
	require.ErrorIs(t, err, ErrTopology)
	require.ErrorContains(t, err, "restore it")
	_, err = n.js.Stream(t.Context(), "JETCREW_JOBS")
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
	require.NoError(t, n.js.DeleteKeyValue(t.Context(), "JETCREW_WORKERS"))
	p.open(t) // a new beginning
}

func TestNoJetStreamIsSaid(t *testing.T) {
	t.Parallel()
	s, err := natsserver.NewServer(&natsserver.Options{Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, NoSigs: true, NoLog: true})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(soon))
	p := &place{urls: []string{s.ClientURL()}, ns: "jetcrew", replicas: 1}
	require.ErrorIs(t, p.tryOpen(t), ErrNoJetStream)
}

func TestAConsumerThatVanishesIsMadeAgain(t *testing.T) {
	t.Parallel()
	p := server(t)
	n := p.open(t)
	c := n.work("q", "w")
	n.enqueue(spec("q", "1"))
	settle(t, claimOne(t, c), job.Succeed(nil))
	held := n.enqueue(spec("q", "held"))
	cl := claimOne(t, c)
	n.see(held, job.Running)
	require.NoError(t, n.js.DeleteConsumer(t.Context(), "JETCREW_JOBS", "ready-q"))
	require.NoError(t, n.js.DeleteConsumer(t.Context(), "JETCREW_JOBS", "wake-q"))
	got := make(chan job.Claim, 1)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	go func() {
		if cl, err := c.Claim(ctx); err == nil {
			got <- cl
		}
		close(got)
	}()
	s := spec("q", "2")
	s.Delay = 100 * time.Millisecond
	n.enqueue(s)
	next := <-got
	require.NotNil(t, next)
	require.Equal(t, "2", next.Job().ID)
	require.Equal(t, 1, next.Job().Attempts)
	settle(t, next, job.Succeed(nil))
	settle(t, cl, job.Succeed(nil)) // handed out anew by the new consumer, and left to its holder
	n.clean("q", 3)
	require.Equal(t, 1, n.see(held, job.Succeeded).Attempts)
}

func TestAStreamThatVanishesIsWaitedFor(t *testing.T) {
	t.Parallel()
	p := server(t)
	n := p.open(t)
	c := n.work("q", "w")
	n.enqueue(spec("q", "1"))
	settle(t, claimOne(t, c), job.Succeed(nil))
	require.NoError(t, n.js.DeleteStream(t.Context(), "JETCREW_JOBS"))
	claimNone(t, c, 2*time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := n.Enqueue(ctx, spec("q", "2"))
	require.Error(t, err)
	_, err = n.js.Stream(t.Context(), "JETCREW_JOBS")
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound, "nobody made an empty one in its place")

	_, err = n.js.CreateStream(t.Context(), n.streamConfig()) // an operator restores it
	require.NoError(t, err)
	n.enqueue(spec("q", "3"))
	cl := claimOne(t, c)
	require.Equal(t, "3", cl.Job().ID)
	settle(t, cl, job.Succeed(nil))
	n.clean("q", 1)
}

func TestTheWorkersBucketIsMadeAgain(t *testing.T) {
	t.Parallel()
	p := server(t)
	n := p.open(t)
	c := n.work("q", "w")
	other := n.work("q", "other")
	key := n.enqueue(spec("q", "1"))
	cl := claimOne(t, c)
	n.see(key, job.Running)
	require.NoError(t, n.js.DeleteKeyValue(t.Context(), "JETCREW_WORKERS"))
	natstest.Eventually(t, soon, func() error {
		_, err := n.js.KeyValue(t.Context(), "JETCREW_WORKERS")
		return err
	})
	claimNone(t, other, 3*lease)
	settle(t, cl, job.Succeed(nil))
	require.Equal(t, 1, n.see(key, job.Succeeded).Attempts)
}

func TestAClosedConnectionEndsAClaim(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	c := n.work("q", "w")
	failed := make(chan error, 1)
	go func() {
		_, err := c.Claim(context.Background()) // ends with the connection
		failed <- err
	}()
	time.Sleep(50 * time.Millisecond)
	n.nc.Close()
	select {
	case err := <-failed:
		require.ErrorContains(t, err, "closed")
	case <-time.After(soon):
		require.Fail(t, "it waits for ever")
	}
}

func TestWorkGoesOnAfterARestartOfTheServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start := func(port int) *embedded.Server {
		s, err := embedded.Start(embedded.Config{Dir: dir, Port: port})
		require.NoError(t, err)
		t.Cleanup(s.Shutdown)
		return s
	}
	first := start(0)
	p := &place{urls: []string{first.URL()}, ns: "jetcrew", replicas: 1}
	n := p.open(t)
	c := n.work("q", "w")
	key := n.enqueue(spec("q", "held"))
	cl := claimOne(t, c)
	n.see(key, job.Running)
	port := portOf(t, first.URL())
	first.Shutdown()
	start(port)
	require.True(t, func() bool {
		got, err := n.Enqueue(t.Context(), spec("q", "2"))
		return err == nil && got.Created
	}())
	next := claimOne(t, c)
	if next.Job().ID == "held" { // the outage was longer than the lease
		require.Equal(t, 2, next.Job().Attempts)
		settle(t, next, job.Succeed(nil))
		next = claimOne(t, c)
	}
	require.Equal(t, "2", next.Job().ID)
	settle(t, next, job.Succeed(nil))
	if _, err := cl.Settle(t.Context(), job.Succeed(nil)); err != nil {
		require.ErrorIs(t, err, job.ErrLeaseLost)
		if j, err := n.Get(t.Context(), key); err != nil || j.Status != job.Succeeded {
			settle(t, claimOne(t, c), job.Succeed(nil))
		}
	}
	n.see(key, job.Succeeded)
	n.clean("q", 2)
}
