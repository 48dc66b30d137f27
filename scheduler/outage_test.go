package scheduler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
)

func TestAFireThatCannotBeMadeIsTriedUntilItIs(t *testing.T) {
	t.Parallel()
	b := newBench(t, "2030-01-01 00:00:30")
	b.put(Cron("* * * * *", Spec{Name: "bad", Type: "work"}))
	b.put(Cron("* * * * *", Spec{Name: "good", Type: "work"}))
	var tries atomic.Int32
	var healed atomic.Bool
	o := b.fire(&steered{Jobs: b.jobs, refuse: func(s *job.Spec) error {
		if strings.HasPrefix(s.ID, "bad@") && !healed.Load() {
			tries.Add(1)
			return fmt.Errorf("%w: nobody answers", job.ErrUnknown)
		}
		return nil
	}})
	for m := 1; m <= 3; m++ { // the others are not kept waiting
		b.clock.set(at(t, fmt.Sprintf("00:%02d:00", m)))
		b.next("good", fmt.Sprintf("00:%02d:00", m+1))
	}
	natstest.Eventually(t, patience, func() bool { return tries.Load() >= 3 })
	for _, f := range o.seen() {
		require.Equal(t, "good", f.Name, "what is not made is not told as if it were")
	}
	require.Equal(t, at(t, "00:01:00"), b.get("bad").NextRunAt)
	natstest.Eventually(t, patience, func() bool { return strings.Contains(b.get("bad").Error, "not enqueued yet: outcome unknown") })
	healed.Store(true)
	b.clock.set(at(t, "00:03:30"))
	s := b.next("bad", "00:04:00")
	require.Equal(t, 2, s.Missed)
	require.Equal(t, 2, b.job("bad", "00:01:00").Missed)
	o.wait(t, 4)
	require.Empty(t, s.Error)
	require.Equal(t, 1, o.logged("are tried again until they are"), "logged once, not at each try")
	natstest.Eventually(t, patience, func() bool { return o.logged("fires are made again") == 1 })
}

// A job was made and its answer lost: the fire is tried again, and recognised.
func TestAnAnswerThatWasLostDoublesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, "2030-01-01 00:00:30")
	b.put(Cron("* * * * *", Spec{Name: "s", Type: "work"}))
	lost := false
	o := b.fire(&steered{Jobs: b.jobs, made: func(out []job.Enqueued) {
		if !lost {
			lost = true
			out[0].Created, out[0].Err = false, job.ErrUnknown
		}
	}})
	b.clock.set(at(t, "00:01:00"))
	natstest.Eventually(t, patience, func() bool { return o.logged("are tried again") == 1 })
	b.clock.set(at(t, "00:04:30"))
	s := b.next("s", "00:05:00")
	require.Equal(t, 2, s.Missed, "the minutes 3 and 4: the job of minute 1 was made in time, that of minute 2 stands for them")
	require.Zero(t, b.job("s", "00:01:00").Missed)
	require.Equal(t, 2, b.job("s", "00:02:00").Missed)
}

func TestARefusedJobIsSaidAndTheNextFires(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := newBench(t, "2030-01-01 00:00:30")
	// Larger than what a put takes today: the server's limit was lowered since.
	large := Cron("* * * * *", Spec{
		Name: "large", Type: "work", Space: "default", Input: jsontext.Value(`{"a":"` + strings.Repeat("x", 1<<20-5<<10) + `"}`),
	})
	body, err := job.Encode(Schedule{Spec: large, NextRunAt: at(t, "00:01:00")})
	require.NoError(t, err)
	_, err = b.store.kv.Put(ctx, key("default", "large"), body)
	require.NoError(t, err)
	b.put(Cron("* * * * *", Spec{Name: "small", Type: "work"}))
	o := b.fire(b.jobs)
	b.clock.set(at(t, "00:01:00"))
	s := b.next("large", "00:02:00")
	require.Contains(t, s.Error, "its document has")
	require.Equal(t, at(t, "00:01:00"), s.LastFireAt)
	require.Nil(t, s.LastJob)
	for _, f := range o.wait(t, 2) {
		if f.Name == "large" {
			require.ErrorIs(t, f.Err, job.ErrTooLarge)
		} else {
			require.NoError(t, f.Err)
		}
	}
	require.Equal(t, 1, o.logged("a fire's job was refused"))
	large.Input = nil
	require.Equal(t, at(t, "00:02:00"), b.put(large).NextRunAt)
	b.clock.set(at(t, "00:02:00"))
	s = b.next("large", "00:03:00")
	require.Empty(t, s.Error)
	require.Equal(t, fireID("large", at(t, "00:02:00")), s.LastJob.ID)
}

// The server goes away in the middle, and comes back with everything. What is put right after that is heard of.
func TestFiresGoOnAfterAServersRestart(t *testing.T) {
	t.Parallel()
	srv := natstest.StartServer(t, natstest.ServerConfig{})
	b := benchAt(t, srv.URL(), "2030-01-01 00:00:30")
	for i := range 20 {
		b.put(Cron("* * * * *", Spec{Name: fmt.Sprint("s", i), Type: "work"}))
	}
	o := b.fireFrom(b.open(), b.jobs)
	b.clock.set(at(t, "00:01:00"))
	o.wait(t, 20)
	srv.Kill()
	b.clock.set(at(t, "00:03:00"))
	srv.Restart(t)
	began := time.Now()
	b.put(Cron("* * * * *", Spec{Name: "new", Type: "work"}))
	b.clock.set(at(t, "00:04:00"))
	b.next("new", "00:05:00")
	t.Logf("a schedule put after the restart has fired %s later", time.Since(began).Round(time.Millisecond))
	for i := range 20 {
		name := fmt.Sprint("s", i)
		s := b.next(name, "00:05:00")
		jobs, covered := 0, 0
		for m := 1; m <= 4; m++ {
			j, err := b.jobs.Get(context.Background(), job.Key{Space: "default", ID: fireID(name, at(t, fmt.Sprintf("00:%02d:00", m)))})
			if errors.Is(err, job.ErrNotFound) {
				continue
			}
			require.NoError(t, err)
			jobs++
			covered += 1 + j.Missed
		}
		require.Equal(t, 4, covered, "%s: %d jobs", name, jobs)
		require.Equal(t, 4-jobs, s.Missed, name)
	}
}

// The bucket is deleted and made anew, where revisions begin again: what is put then counts, though it is older by them.
func TestABucketThatWasMadeAnewIsRead(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := newBench(t, "2030-01-01 00:00:30")
	b.put(Cron("* * * * *", Spec{Name: "gone", Type: "work"}))
	for i := range 20 { // so that revisions are high
		b.put(Cron("* * * * *", Spec{Name: "s", Type: fmt.Sprint("type-", i)}))
	}
	o := b.fireFrom(b.open(), b.jobs, func(f *Firer) { f.relist = 100 * time.Millisecond })
	b.clock.set(at(t, "00:01:00"))
	o.wait(t, 2)
	js, err := jetstream.New(natstest.Connect(t, b.url))
	require.NoError(t, err)
	require.NoError(t, js.DeleteKeyValue(ctx, "JETCREW_SCHEDULES"))
	natstest.Eventually(t, patience, func() bool { return o.logged("schedules cannot be read") == 1 })
	b.clock.set(at(t, "00:02:00"))
	b.store = b.open()
	b.put(Cron("*/10 * * * *", Spec{Name: "s", Type: "after"}))
	natstest.Eventually(t, patience, func() bool { return o.logged("schedules are read again") == 1 })
	b.clock.set(at(t, "00:10:00"))
	b.next("s", "00:20:00")
	require.Equal(t, "after", b.job("s", "00:10:00").Type)
	b.clock.set(at(t, "00:20:00"))
	b.next("s", "00:30:00")
	_, err = b.store.Get(ctx, "default", "gone")
	require.ErrorIs(t, err, ErrNotFound)
	for _, f := range o.seen() {
		require.False(t, f.Name == "gone" && f.At.After(at(t, "00:02:00")), "what was deleted with the bucket fires still")
	}
}

// What the leader has heard is read again from time to time, and that changes nothing.
func TestReadingAnewChangesNothing(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := newBench(t, "2030-01-01 00:00:30")
	b.put(Cron("* * * * *", Spec{Name: "s", Type: "work"}))
	b.put(Cron("* * * * *", Spec{Name: "off", Type: "work", Enabled: new(bool)}))
	b.put(Cron("* * * * *", Spec{Name: "bad", Type: "work"}))
	_, err := b.store.kv.Put(ctx, key("default", "garbage"), []byte("{"))
	require.NoError(t, err)
	o := b.fireFrom(b.store, &steered{Jobs: b.jobs, refuse: func(s *job.Spec) error {
		if strings.HasPrefix(s.ID, "bad@") {
			return job.ErrUnknown
		}
		return nil
	}}, func(f *Firer) { f.relist = 20 * time.Millisecond })
	for m := 1; m <= 5; m++ {
		b.clock.set(at(t, fmt.Sprintf("00:%02d:00", m)))
		b.next("s", fmt.Sprintf("00:%02d:00", m+1))
		signs := o.signs.Load()
		natstest.Eventually(t, patience, func() bool { return o.signs.Load() > signs+10 })
	}
	o.stop()
	require.Len(t, o.seen(), 5)
	require.Equal(t, 1, o.logged("a schedule cannot be read"), "said once")
	require.Equal(t, 1, o.logged("is not made yet"), "said once")
	require.Equal(t, at(t, "00:01:00"), b.get("off").NextRunAt)
}

// A leader whose lead ends stops soon, whatever it waits for.
func TestAFirerStopsWhenTheLeadEnds(t *testing.T) {
	t.Parallel()
	srv := natstest.StartServer(t, natstest.ServerConfig{})
	b := benchAt(t, srv.URL(), "2030-01-01 00:00:30")
	b.put(Cron("* * * * *", Spec{Name: "s", Type: "work"}))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	g := newGate()
	f := NewFirer(b.store, &steered{Jobs: b.jobs, before: g.pass}, FirerConfig{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Run(ctx, func() {})
	}()
	b.clock.set(at(t, "00:01:00"))
	g.wait(t)
	srv.Pause() // nothing is answered from now on
	began := time.Now()
	cancel()
	close(g.open)
	select {
	case <-done:
		t.Logf("stopped after %s", time.Since(began).Round(time.Millisecond))
	case <-time.After(patience):
		t.Fatal("it goes on")
	}
	srv.Resume()
}
