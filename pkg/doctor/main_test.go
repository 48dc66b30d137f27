package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/scheduler"
	"github.com/jetcrew/jetcrew/streams"
)

func TestMain(m *testing.M) { natstest.Main(m) }

// patient is a deadline for each check that a busy machine does not miss.
const patient = 30 * time.Second

// atOnce has whatever there is count as old, also where it is thought to be of a moment from now.
var atOnce = &ages{-time.Hour, -time.Hour, -time.Hour, -time.Hour, -time.Hour}

// fleet is a server with all that jetcrew keeps on it.
type fleet struct {
	url string
	*client.Client
	js        jetstream.JetStream
	schedules *scheduler.Store
}

// empty is a server of the test's own with nothing on it.
func empty(t *testing.T) string {
	t.Helper()
	return natstest.Embedded(t).URL()
}

// settle makes all that jetcrew needs on a server, as jetcrew setup does, and a queue.
func settle(t *testing.T, url string, replicas int, opts ...nats.Option) *fleet {
	t.Helper()
	ctx := t.Context()
	c, err := client.Connect(ctx, client.Config{
		URLs: strings.Split(url, ","), Streams: streams.Config{Replicas: replicas, Lease: streams.MinLease}, Options: opts,
	})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	_, err = c.OpenKV(ctx)
	require.NoError(t, err)
	s, err := scheduler.OpenStore(ctx, c.Conn(), scheduler.StoreConfig{Replicas: replicas, Clock: c.Store()})
	require.NoError(t, err)
	_, err = scheduler.NewElection(ctx, c.Conn(), scheduler.Config{ID: "setup", Replicas: replicas})
	require.NoError(t, err)
	js, err := jetstream.New(c.Conn())
	require.NoError(t, err)
	f := &fleet{url: url, Client: c, js: js, schedules: s}
	require.NoError(t, f.consumer(t, "default").Close(ctx))
	return f
}

func (f *fleet) consumer(t *testing.T, queue string) job.Consumer {
	t.Helper()
	c, err := f.Store().Consume(t.Context(), job.ConsumerConfig{Queue: queue, WorkerID: "w-" + queue, Slots: 4})
	require.NoError(t, err)
	return c
}

// lead has somebody lead until the test ends.
func (f *fleet) lead(t *testing.T) {
	t.Helper()
	e, err := scheduler.NewElection(t.Context(), f.Conn(), scheduler.Config{ID: "leader-1"})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Run(ctx, func(ctx context.Context, alive func()) {
			tick := time.NewTicker(time.Second)
			defer tick.Stop()
			for ctx.Err() == nil {
				alive()
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	natstest.Eventually(t, patient, func() error {
		_, err := e.Leader(t.Context())
		return err
	}, "somebody leads")
}

func (f *fleet) enqueue(t *testing.T, specs ...job.Spec) {
	t.Helper()
	for _, s := range specs {
		_, err := f.Enqueue(t.Context(), s.Type, nil, client.WithID(s.ID), client.WithQueue(s.Queue))
		require.NoError(t, err)
	}
}

// edit changes a stream behind jetcrew's back.
func (f *fleet) edit(t *testing.T, stream string, change func(*jetstream.StreamConfig)) {
	t.Helper()
	s, err := f.js.Stream(t.Context(), stream)
	require.NoError(t, err)
	cfg := s.CachedInfo().Config
	change(&cfg)
	_, err = f.js.UpdateStream(t.Context(), cfg)
	require.NoError(t, err)
}

// editConsumer changes one of the jobs' consumers behind jetcrew's back.
func (f *fleet) editConsumer(t *testing.T, name string, change func(*jetstream.ConsumerConfig)) {
	t.Helper()
	c, err := f.js.Consumer(t.Context(), "JETCREW_JOBS", name)
	require.NoError(t, err)
	cfg := c.CachedInfo().Config
	change(&cfg)
	_, err = f.js.UpdateConsumer(t.Context(), "JETCREW_JOBS", cfg)
	require.NoError(t, err)
}

// examine makes a check on a connection of its own.
func examine(t *testing.T, url string, cfg Config, opts ...nats.Option) *Report {
	t.Helper()
	nc := natstest.Connect(t, url, opts...)
	if cfg.Timeout == 0 {
		cfg.Timeout = patient
	}
	r, err := Check(t.Context(), nc, cfg)
	require.NoError(t, err)
	nc.Close()
	return r
}

// has expects a finding of a check, with a level and a part of its text.
func (r *Report) has(t *testing.T, id string, l Level, text string) Finding {
	t.Helper()
	for _, f := range r.Findings {
		if f.ID == id && f.Level == l && strings.Contains(f.Text, text) {
			if l != OK {
				require.NotEmpty(t, f.Advice, "%s says what to do", id)
			}
			return f
		}
	}
	require.Fail(t, "no such finding", "%s: %s: %q in:\n%s", id, l, text, r)
	return Finding{}
}

// eventually makes checks until one has a finding: a cluster takes its time to see things.
func eventually(t *testing.T, url string, cfg Config, id string, l Level, text string) {
	t.Helper()
	nc := natstest.Connect(t, url)
	defer nc.Close()
	cfg.Timeout = DefaultTimeout
	natstest.Eventually(t, 2*time.Minute, func() error {
		r, err := Check(t.Context(), nc, cfg)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.ID == id && f.Level == l && strings.Contains(f.Text, text) }) {
			return nil
		}
		return fmt.Errorf("not seen:\n%s", r)
	}, text)
}

// allOK expects that nothing is wrong with some checks.
func (r *Report) allOK(t *testing.T, ids ...string) {
	t.Helper()
	for _, id := range ids {
		n := 0
		for _, f := range r.Findings {
			if f.ID == id {
				n++
				require.Equal(t, OK, f.Level, "%s: %s", id, f.Text)
			}
		}
		require.Positive(t, n, "no finding of %s in:\n%s", id, r)
	}
}

// String is for tests that fail.
func (r *Report) String() string {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s %s: %s\n", f.Level, f.ID, f.Text)
	}
	return b.String()
}

func ids() []string {
	all := make([]string, len(checks))
	for i, c := range checks {
		all[i] = c.id
	}
	return all
}
