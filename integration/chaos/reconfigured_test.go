package chaos

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/streams"
)

// byHand changes a queue's consumer as an operator would with the NATS tools, and answers how it was.
func (c *crew) byHand(name string, change func(*jetstream.ConsumerConfig)) jetstream.ConsumerConfig {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	consumer, err := c.js.Consumer(ctx, stream, name)
	require.NoError(c.t, err)
	was := consumer.CachedInfo().Config
	cfg := was
	change(&cfg)
	_, err = c.js.UpdateConsumer(ctx, stream, cfg)
	require.NoError(c.t, err)
	c.faulted()
	return was
}

// configured is a queue's consumer as it is.
func (c *crew) configured(name string) jetstream.ConsumerConfig {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	consumer, err := c.js.Consumer(ctx, stream, name)
	require.NoError(c.t, err)
	return consumer.CachedInfo().Config
}

const ready = "ready-default"

// A queue's lease and limit may be changed by hand: workers go by what is there. So may it be paused.
func TestLeaseLimitAndPauseChangedByHand(t *testing.T) {
	heavy(t)
	t.Parallel()
	c := newCrew(t, natstest.StartServer(t, natstest.ServerConfig{}).URL(), workerConfig{Lease: 4 * time.Second})
	hands := []*hand{c.work("w1"), c.work("w2")}
	c.start(2, 20*time.Millisecond)
	for _, lease := range []time.Duration{time.Second, 10 * time.Second, 2 * time.Second} {
		c.progress(60)
		hands[len(c.faults)%2].busy(1)
		c.byHand(ready, func(cfg *jetstream.ConsumerConfig) { cfg.AckWait = lease })
	}
	for _, limit := range []int{1, 3, -1} {
		c.progress(60)
		c.byHand(ready, func(cfg *jetstream.ConsumerConfig) { cfg.MaxAckPending = limit })
	}
	c.progress(60)
	for _, name := range []string{ready, "wake-default"} {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		_, err := c.js.PauseConsumer(ctx, stream, name, time.Now().Add(3*time.Second))
		cancel()
		require.NoError(t, err)
		c.faulted()
	}
	c.progress(60)
	c.finish()
	c.check(vanished)
	require.Equal(t, 2*time.Second, c.configured(ready).AckWait, "a lease that was set by hand stands")
	c.dismiss(hands...)
}

// A filter that was narrowed strands jobs: no worker begins on such a queue, it says what it found, and nothing is
// lost by the time that the filter is as it was.
func TestFilterChangedByHand(t *testing.T) {
	heavy(t)
	t.Parallel()
	c := newCrew(t, natstest.StartServer(t, natstest.ServerConfig{}).URL(), workerConfig{Lease: 2 * time.Second})
	hands := []*hand{c.work("w1"), c.work("w2")}
	c.start(2, 20*time.Millisecond)
	c.progress(60)
	hands[0].busy(1)
	was := c.byHand(ready, func(cfg *jetstream.ConsumerConfig) { cfg.FilterSubject = "jetcrew.job.ready.default.nobody.>" })
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := c.store.Consume(ctx, job.ConsumerConfig{Queue: c.cfg.Queue, WorkerID: "newcomer", Slots: 1})
	require.ErrorIs(t, err, streams.ErrTopology)
	require.ErrorContains(t, err, `consumer ready-default has filter "jetcrew.job.ready.default.nobody.>"`)
	c.byHand(ready, func(cfg *jetstream.ConsumerConfig) { cfg.FilterSubject = was.FilterSubject })
	c.progress(60)
	c.finish()
	c.check(vanished)
	c.dismiss(hands...)
}

// With a limit of deliveries the server never again hands out what a worker took with it. A worker that begins takes
// the limit away, and what was stranded is run.
func TestLimitOfDeliveriesSetByHand(t *testing.T) {
	heavy(t)
	t.Parallel()
	c := newCrew(t, natstest.StartServer(t, natstest.ServerConfig{}).URL(), workerConfig{Lease: time.Second})
	steady, victim := c.work("steady"), c.work("victim")
	c.start(2, 50*time.Millisecond)
	c.progress(30)
	c.byHand(ready, func(cfg *jetstream.ConsumerConfig) { cfg.MaxDeliver = 1 })
	c.put(12, "held", input{Until: c.flag("go")})
	victim.busy(2)
	victim.Kill()
	c.faulted()
	require.NoError(t, os.WriteFile(c.flag("go"), nil, 0o600))
	c.progress(30)
	newcomer := c.work("newcomer")
	newcomer.says("settings drift")
	require.Equal(t, -1, c.configured(ready).MaxDeliver)
	c.finish()
	c.check(vanished)
	c.dismiss(steady, newcomer)
}

// What in the stream would lose jobs, or keep workers from reading them, is put right by whoever opens it next.
func TestStreamChangedByHand(t *testing.T) {
	heavy(t)
	t.Parallel()
	c := newCrew(t, natstest.StartServer(t, natstest.ServerConfig{}).URL(), workerConfig{Lease: 2 * time.Second})
	hands := []*hand{c.work("w1"), c.work("w2")}
	c.start(2, 20*time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := c.js.Stream(ctx, stream)
	require.NoError(t, err)
	was := s.CachedInfo().Config
	for _, change := range []struct {
		field string
		do    func(*jetstream.StreamConfig)
	}{
		{"max_age", func(cfg *jetstream.StreamConfig) { cfg.MaxAge = time.Hour }},
		{"max_msgs", func(cfg *jetstream.StreamConfig) { cfg.MaxMsgs = 1 << 20 }},
		{"max_bytes", func(cfg *jetstream.StreamConfig) { cfg.MaxBytes = 1 << 30 }},
		{"allow_direct", func(cfg *jetstream.StreamConfig) { cfg.AllowDirect = false }},
		{"max_msgs_per_subject", func(cfg *jetstream.StreamConfig) { cfg.MaxMsgsPerSubject = 5 }},
	} {
		c.progress(40)
		hands[len(c.faults)%2].busy(1)
		cfg := was
		change.do(&cfg)
		_, err := c.js.UpdateStream(ctx, cfg)
		require.NoError(t, err, change.field)
		c.faulted()
		nc, err := connect(c.cfg.URL)
		require.NoError(t, err)
		opened, err := streams.Open(ctx, nc, streams.Config{Lease: c.cfg.Lease})
		require.NoError(t, err, change.field)
		drift := opened.Drift()
		opened.Close()
		nc.Close()
		require.True(t, slices.ContainsFunc(drift, func(d streams.Drift) bool { return d.Field == change.field && d.Mended }),
			"%s: %v", change.field, drift)
		s, err := c.js.Stream(ctx, stream)
		require.NoError(t, err)
		require.Equal(t, was, s.CachedInfo().Config, fmt.Sprint(change.field, " was not put right"))
	}
	c.progress(60)
	c.finish()
	c.check(vanished)
	c.dismiss(hands...)
}
