package scheduler

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
)

func TestPutKeepsThePromiseUnlessTheTimingChanges(t *testing.T) {
	t.Parallel()
	b := newBench(t, "2030-01-01 00:00:30")
	spec := Cron("@hourly", Spec{Name: "s", Type: "work"})
	first := b.put(spec)
	require.Equal(t, at(t, "01:00:00"), first.NextRunAt)
	// Half an hour after it was due, nobody has fired it: it is still promised.
	b.clock.set(at(t, "01:30:00"))
	for name, change := range map[string]func(*Spec){
		"nothing":   func(*Spec) {},
		"input":     func(s *Spec) { s.Input = jsontext.Value(`{"a":1}`) },
		"type":      func(s *Spec) { s.Type = "other" },
		"queue":     func(s *Spec) { s.Queue = "other" },
		"attempts":  func(s *Spec) { s.MaxAttempts = 7 },
		"timeout":   func(s *Spec) { s.Timeout = time.Minute },
		"policy":    func(s *Spec) { s.MissedPolicy, s.MissedLimit = MissedEach, 4 },
		"overlap":   func(s *Spec) { s.Overlap = OverlapSkip },
		"disabling": func(s *Spec) { s.Enabled = new(bool) },
	} {
		changed := spec
		change(&changed)
		got := b.put(changed)
		require.Equal(t, at(t, "01:00:00"), got.NextRunAt, name)
		require.Equal(t, first.CreatedAt, got.CreatedAt, name)
		changed.Enabled = got.Enabled
		require.NoError(t, changed.Normalize())
		require.Equal(t, changed, got.Spec, name)
	}
	for name, c := range map[string]struct {
		change func(*Spec)
		next   string
	}{
		"cron":        {func(s *Spec) { s.Cron = "*/20 * * * *" }, "01:40:00"},
		"zone":        {func(s *Spec) { s.Timezone = "Asia/Kolkata" }, "02:30:00"}, // half an hour off
		"environment": {func(s *Spec) { s.Environment = "staging" }, "02:00:00"},
	} {
		changed := spec
		changed.Name = name
		b.clock.set(at(t, "00:00:30"))
		b.put(changed)
		b.clock.set(at(t, "01:30:00"))
		c.change(&changed)
		require.Equal(t, at(t, c.next), b.put(changed).NextRunAt, name)
	}
	jittered := spec
	jittered.Jitter = time.Hour
	require.NotEqual(t, at(t, "01:00:00"), b.put(jittered).NextRunAt)
}

func TestPutKeepsTheCounts(t *testing.T) {
	t.Parallel()
	b := newBench(t, "2030-01-01 00:00:30")
	b.put(Cron("* * * * *", Spec{Name: "s", Type: "work"}))
	o := b.fire(b.jobs)
	b.clock.set(at(t, "00:05:00"))
	o.wait(t, 1)
	o.stop()
	had, err := b.store.Get(context.Background(), "default", "s")
	require.NoError(t, err)
	require.Equal(t, 4, had.Missed)
	got := b.put(Cron("@daily", Spec{Name: "s", Type: "other"}))
	require.Equal(t, instant(t, "2030-01-02 00:00:00"), got.NextRunAt)
	require.Equal(t, had.Missed, got.Missed)
	require.Equal(t, had.LastFireAt, got.LastFireAt)
	require.Equal(t, had.LastJob, got.LastJob)
	require.Equal(t, had.CreatedAt, got.CreatedAt)
}

func TestEnabledLeftOutKeepsWhatAnOperatorDid(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := newBench(t, "2030-01-01 00:00:30")
	spec := Cron("@hourly", Spec{Name: "s", Type: "work"})
	require.True(t, *b.put(spec).Enabled)
	got, changed, err := b.store.SetEnabled(ctx, "default", "s", false)
	require.NoError(t, err)
	require.True(t, changed)
	require.False(t, got.Active())
	_, changed, err = b.store.SetEnabled(ctx, "default", "s", false)
	require.NoError(t, err)
	require.False(t, changed)
	require.False(t, *b.put(spec).Enabled, "the program that declares it starts again")
	on := true
	spec.Enabled = &on
	require.True(t, *b.put(spec).Enabled, "the program says so")

	_, _, err = b.store.SetEnabled(ctx, "default", "none", true)
	require.ErrorIs(t, err, ErrNotFound)
	require.ErrorContains(t, err, "default/none")
	_, err = b.store.Get(ctx, "default", "none")
	require.ErrorIs(t, err, ErrNotFound)
	require.ErrorIs(t, b.store.Delete(ctx, "default", "none"), ErrNotFound)
	_, err = b.store.RunNow(ctx, b.jobs, "default", "none")
	require.ErrorIs(t, err, ErrNotFound)
}

func TestPutSaysWhatItDid(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := newBench(t, "2030-01-01 00:00:30")
	spec := Cron("@hourly", Spec{Name: "s", Type: "work", Input: jsontext.Value(`{"a": 1}`)})
	for _, want := range []Change{Created, Unchanged} {
		_, change, err := b.store.Put(ctx, "shop", spec)
		require.NoError(t, err)
		require.Equal(t, want, change)
	}
	before, err := b.store.kv.Get(ctx, key("default", "s"))
	require.NoError(t, err)
	spec.Type = "other"
	_, change, err := b.store.Put(ctx, "shop", spec)
	require.NoError(t, err)
	require.Equal(t, Updated, change)
	after, err := b.store.kv.Get(ctx, key("default", "s"))
	require.NoError(t, err)
	require.Equal(t, before.Revision()+1, after.Revision(), "what does not change is not written")

	for _, owner := range []string{"", "other"} {
		_, _, err = b.store.Put(ctx, owner, spec)
		require.ErrorIs(t, err, ErrOwned)
		require.ErrorContains(t, err, `"shop"`)
	}
	b.put(Cron("@hourly", Spec{Name: "people's", Type: "work"}))
	_, _, err = b.store.Put(ctx, "shop", Cron("@hourly", Spec{Name: "people's", Type: "work"}))
	require.ErrorIs(t, err, ErrOwned)
	_, _, err = b.store.Put(ctx, strings.Repeat("x", 192), spec)
	require.ErrorContains(t, err, "owner")
}

func TestTooLargeAScheduleIsRefused(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := newBench(t, "2030-01-01 00:00:30")
	input := func(n int) jsontext.Value { return jsontext.Value(`{"a":"` + strings.Repeat("x", n) + `"}`) }
	_, _, err := b.store.Put(ctx, "", Cron("@hourly", Spec{Name: "s", Type: "work", Input: input(1 << 20)}))
	require.ErrorIs(t, err, job.ErrTooLarge)
	require.ErrorContains(t, err, "default/s")
	require.ErrorContains(t, err, "at most")
	_, err = b.store.Get(ctx, "default", "s")
	require.ErrorIs(t, err, ErrNotFound)

	// The largest that is taken can be fired and moved on.
	b.put(Cron("* * * * *", Spec{Name: "s", Type: "work", Input: input(1<<20 - headroom - 1024)}))
	o := b.fire(b.jobs)
	b.clock.set(at(t, "00:01:00"))
	require.NoError(t, o.wait(t, 1)[0].Err)
	got, err := b.store.Get(ctx, "default", "s")
	require.NoError(t, err)
	require.Equal(t, at(t, "00:02:00"), got.NextRunAt)
}

func TestADeletedScheduleLeavesAMarker(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := newBench(t, "2030-01-01 00:00:30")
	_, _, err := b.store.Put(ctx, "", Cron("@hourly", Spec{Name: "by hand", Type: "work"}))
	require.NoError(t, err)
	_, err = b.store.Reconcile(ctx, "default", "shop", []Spec{Cron("@hourly", Spec{Name: "declared", Type: "work"})})
	require.NoError(t, err)
	require.NoError(t, b.store.Delete(ctx, "default", "by hand"))
	_, err = b.store.Reconcile(ctx, "default", "shop", nil)
	require.NoError(t, err)
	js, err := jetstream.New(natstest.Connect(t, b.url))
	require.NoError(t, err)
	s, err := js.Stream(ctx, "KV_JETCREW_SCHEDULES")
	require.NoError(t, err)
	info, err := s.Info(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 2, info.State.Msgs)
	for _, name := range []string{"by hand", "declared"} {
		m, err := s.GetLastMsgForSubject(ctx, "$KV.JETCREW_SCHEDULES."+key("default", name))
		require.NoError(t, err)
		require.Equal(t, "DEL", m.Header.Get("KV-Operation"))
		require.Empty(t, m.Header.Get(jetstream.MsgTTLHeader), name)
		require.Empty(t, m.Data)
	}
	// It can be put again at once, with new counts.
	got, change, err := b.store.Put(ctx, "other", Cron("@hourly", Spec{Name: "declared", Type: "work"}))
	require.NoError(t, err)
	require.Equal(t, Created, change)
	require.Equal(t, "other", got.Owner)
}

func TestBucketsThatWouldLoseSchedulesAreRefused(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	srv := natstest.Embedded(t)
	nc := natstest.Connect(t, srv.URL())
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	clock := &hands{now: time.Now()}
	open := func(ns string, verify bool) error {
		_, err := OpenStore(ctx, nc, StoreConfig{Namespace: ns, Clock: clock, Verify: verify})
		return err
	}
	_, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "AGED_SCHEDULES", TTL: time.Hour, LimitMarkerTTL: time.Hour})
	require.NoError(t, err)
	require.ErrorContains(t, open("aged", false), "set its stream's max age to 0")

	err = open("none", true)
	require.ErrorIs(t, err, jetstream.ErrBucketNotFound)
	require.ErrorContains(t, err, "NONE_SCHEDULES")
	require.NoError(t, open("none", false))
	require.NoError(t, open("none", true))

	require.ErrorContains(t, open("a b", false), "namespace")
	_, err = OpenStore(ctx, nc, StoreConfig{})
	require.ErrorContains(t, err, "clock")

	gone := natstest.Connect(t, srv.URL())
	gone.Close()
	_, err = OpenStore(ctx, gone, StoreConfig{Clock: clock})
	require.ErrorIs(t, err, nats.ErrConnectionClosed)
}

func TestRunNow(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := newBench(t, "2030-01-01 00:00:30")
	off := false
	name := strings.Repeat("n", MaxName)
	s := b.put(Cron("@hourly", Spec{Name: name, Type: "work", Queue: "q", Input: jsontext.Value(`{"a":1}`), Enabled: &off}))
	for range 2 {
		out, err := b.store.RunNow(ctx, b.jobs, "default", name)
		require.NoError(t, err)
		require.True(t, out.Created)
		require.True(t, strings.HasPrefix(out.Key.ID, name+"@run-"), out.Key)
		j, err := b.jobs.Get(ctx, out.Key)
		require.NoError(t, err)
		require.Equal(t, "q", j.Queue)
		require.JSONEq(t, `{"a":1}`, string(j.Input))
	}
	after, err := b.store.Get(ctx, "default", name)
	require.NoError(t, err)
	require.Equal(t, s, after, "it is no fire")
}
