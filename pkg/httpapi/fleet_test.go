package httpapi

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
	"github.com/jetcrew/jetcrew/scheduler"
	"github.com/jetcrew/jetcrew/streams"
)

// fleetOf is a real fleet's store, which an API can be served of.
type fleetOf struct {
	*client.Client
	schedules *scheduler.Store
	js        jetstream.JetStream
}

func newFleet(t testing.TB) *fleetOf {
	t.Helper()
	srv := natstest.Embedded(t)
	c, err := client.Connect(t.Context(), client.Config{URLs: []string{srv.URL()}})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	s, err := scheduler.OpenStore(t.Context(), c.Conn(), scheduler.StoreConfig{Clock: c})
	require.NoError(t, err)
	js, err := jetstream.New(c.Conn())
	require.NoError(t, err)
	return &fleetOf{c, s, js}
}

// all serves all there is.
func (f *fleetOf) all(cfg *Config) {
	cfg.Jobs, cfg.Operator, cfg.Queues, cfg.KV = f, f, f, f.KV()
	cfg.Schedules = func(context.Context) (Schedules, error) {
		return ScheduleStore{f.schedules, f.Producer(), func(context.Context) (scheduler.Leader, error) {
			return scheduler.Leader{}, scheduler.ErrNoLeader
		}}, nil
	}
}

// access is what the fleet's APIs remember.
func (f *fleetOf) access(t testing.TB, cfg AccessConfig) *Access {
	t.Helper()
	if cfg.Clock == nil {
		cfg.Clock = f
	}
	b, err := f.OpenKV(t.Context())
	require.NoError(t, err)
	return accessOf(t, b, cfg)
}

// accessOf is an Access over an adapter.
func accessOf(t testing.TB, adapter kv.Adapter, cfg AccessConfig) *Access {
	t.Helper()
	cfg.Open = func(context.Context) (kv.Adapter, error) { return adapter, nil }
	if cfg.Clock == nil {
		cfg.Clock = stopped{}
	}
	setDefault(&cfg.flushEvery, 10*time.Millisecond)
	a := NewAccess(cfg)
	t.Cleanup(a.Close)
	return a
}

// stopped is a clock that stands still.
type stopped struct{}

func (stopped) Now() time.Time { return time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC) }

// nonsense stands where a schedule should, under default/garbage.
func (f *fleetOf) nonsense(t testing.TB) {
	t.Helper()
	bucket, err := f.js.KeyValue(t.Context(), "JETCREW_SCHEDULES")
	require.NoError(t, err)
	_, err = bucket.Put(t.Context(), streams.Token("default")+"."+streams.Token("garbage"), []byte("{"))
	require.NoError(t, err)
}

// notText stands under the key raw of the space default, which nothing can show as JSON.
func (f *fleetOf) notText(t testing.TB) {
	t.Helper()
	b, err := f.OpenKV(t.Context())
	require.NoError(t, err)
	require.NoError(t, b.Set(t.Context(), "v/default/raw", "\xff", 0))
}

// broken fails at whatever it is asked, each part in its way.
func broken(cfg *Config) {
	cfg.Operator = struct {
		job.Clock
		job.Lister
		job.Steerer
	}{}
	cfg.Queues = struct{ anyQueues }{}
	cfg.KV = kv.New(struct{ kv.Adapter }{}, kv.Options{})
	cfg.Schedules = func(context.Context) (Schedules, error) { return nil, errOdd }
}

// anyQueues is Queues under a name that no method has.
type anyQueues interface{ Queues }

// unhurried never comes to the end of lowering a lease.
type unhurried struct {
	anyQueues
	lowered bool
}

func (u *unhurried) Queue(ctx context.Context, name string) (*job.QueueInfo, error) {
	q := &job.QueueInfo{Name: name, Lease: time.Minute}
	if u.lowered {
		q.Lease, q.LeaseInForce = time.Second, time.Minute
	}
	return q, nil
}

func (u *unhurried) Configure(ctx context.Context, _ string, _ job.QueueSettings) (*job.QueueInfo, error) {
	u.lowered = true
	<-ctx.Done()
	return nil, ctx.Err()
}
