package scheduler

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// meanwhile fires what is due at a clock's time, and has something done when the jobs are there and their schedules are
// not moved on yet.
func (b *bench) meanwhile(clock string, do func()) *observer {
	b.t.Helper()
	done := false
	o := b.fire(&steered{Jobs: b.jobs, made: func([]job.Enqueued) {
		if !done {
			done = true
			do()
		}
	}})
	b.clock.set(at(b.t, clock))
	o.wait(b.t, 1)
	return o
}

func TestAPutBetweenAFireAndItsMove(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		put    Spec
		next   string // promised after all
		missed int
	}{
		"another input":    {Cron("*/5 * * * *", Spec{Input: jsontext.Value(`{"new":true}`)}), "00:15:00", 1},
		"another cron":     {Cron("7 3 * * *", Spec{}), "03:07:00", 1},
		"another interval": {Every(time.Hour, Spec{}), "01:10:30", 1},
		"disabled":         {Cron("*/5 * * * *", Spec{Enabled: new(bool)}), "00:15:00", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "2030-01-01 00:00:30")
			b.put(Cron("*/5 * * * *", Spec{Name: "s", Type: "work"}))
			o := b.meanwhile("00:10:30", func() {
				c.put.Name, c.put.Type = "s", "other"
				b.put(c.put)
			})
			o.stop()
			s := b.get("s")
			require.Equal(t, at(t, c.next), s.NextRunAt)
			require.Equal(t, c.missed, s.Missed)
			require.Equal(t, at(t, "00:05:00"), s.LastFireAt, "the fire is noted")
			require.Equal(t, fireID("s", at(t, "00:05:00")), s.LastJob.ID)
			require.Equal(t, "other", s.Type)
			require.Equal(t, c.put.Active(), s.Active())
			require.Equal(t, 1, b.job("s", "00:05:00").Missed)
			require.Equal(t, 1, len(o.seen()))
		})
	}
}

// A put promises the very instant that is being fired, and other ones after it.
func TestAPutThatPromisesTheSameInstant(t *testing.T) {
	t.Parallel()
	b := newBench(t, "2030-01-01 00:00:30")
	b.put(Cron("0 * * * *", Spec{Name: "s", Type: "work"}))
	o := b.meanwhile("01:00:00", func() {
		b.clock.set(at(t, "00:59:59")) // as who put it a moment earlier saw it
		require.Equal(t, at(t, "01:00:00"), b.put(Cron("*/5 * * * *", Spec{Name: "s", Type: "work"})).NextRunAt)
		b.clock.set(at(t, "01:00:00"))
	})
	require.Equal(t, at(t, "01:05:00"), b.next("s", "01:05:00").NextRunAt, "by the cron that stands now")
	b.clock.set(at(t, "01:05:00"))
	o.wait(t, 2)
	require.Zero(t, b.job("s", "01:05:00").Missed)
}

func TestDeletedBetweenAFireAndItsMove(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := newBench(t, "2030-01-01 00:00:30")
	b.put(Cron("* * * * *", Spec{Name: "s", Type: "work"}))
	b.put(Cron("* * * * *", Spec{Name: "stays", Type: "work"}))
	o := b.meanwhile("00:01:00", func() { require.NoError(t, b.store.Delete(ctx, "default", "s")) })
	o.wait(t, 2)
	_, err := b.store.Get(ctx, "default", "s")
	require.ErrorIs(t, err, ErrNotFound, "a fire does not bring it back")
	b.job("s", "00:01:00") // what was made stays
	b.clock.set(at(t, "00:02:00"))
	require.Equal(t, "stays", o.wait(t, 3)[2].Name)
	b.clock.set(at(t, "00:03:00"))
	o.wait(t, 4)
	_, err = b.jobs.Get(ctx, job.Key{Space: "default", ID: fireID("s", at(t, "00:02:00"))})
	require.ErrorIs(t, err, job.ErrNotFound)
}

func TestDisabledItDoesNotFireAndOwesWhenEnabledAgain(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, c := range map[string]struct {
		spec   Spec
		fires  []string
		missed int
	}{
		"one":  {Spec{}, []string{"00:01:00"}, 9},
		"skip": {Spec{MissedPolicy: MissedSkip}, []string{"00:10:00"}, 9},
		"each": {Spec{MissedPolicy: MissedEach, MissedLimit: 3}, []string{"00:08:00", "00:09:00", "00:10:00"}, 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "2030-01-01 00:00:30")
			c.spec.Name, c.spec.Type = "s", "work"
			b.put(Cron("* * * * *", c.spec))
			o := b.fire(b.jobs)
			_, _, err := b.store.SetEnabled(ctx, "default", "s", false)
			require.NoError(t, err)
			// Written after it: a leader who has fired this one has heard of the other.
			b.put(Every(10*time.Second, Spec{Name: "other", Type: "work"}))
			b.clock.set(at(t, "00:00:40"))
			b.next("other", "00:00:50")
			b.clock.set(at(t, "00:10:20"))
			b.next("other", "00:10:30")
			require.Equal(t, at(t, "00:01:00"), b.get("s").NextRunAt, "it keeps its promise")
			_, _, err = b.store.SetEnabled(ctx, "default", "s", true)
			require.NoError(t, err)
			s := b.next("s", "00:11:00")
			require.Equal(t, c.missed, s.Missed)
			o.stop()
			var at []string
			for _, f := range o.seen() {
				if f.Name == "s" && f.Created {
					at = append(at, f.At.Format(time.TimeOnly))
				}
			}
			require.Equal(t, c.fires, at)
		})
	}
}

// The store's clock jumps an hour ahead, and comes back.
func TestAClockThatJumps(t *testing.T) {
	t.Parallel()
	b := newBench(t, "2030-01-01 00:00:30")
	b.put(Cron("*/10 * * * *", Spec{Name: "s", Type: "work"}))
	o := b.fire(b.jobs)
	b.clock.set(at(t, "00:10:00"))
	b.next("s", "00:20:00")
	b.clock.set(at(t, "01:15:00"))
	require.Equal(t, 5, b.next("s", "01:20:00").Missed)
	b.clock.set(at(t, "00:15:00"))
	// What has been fired is not fired again. That something is put meanwhile changes nothing of that.
	b.put(Cron("*/10 * * * *", Spec{Name: "s", Type: "work", MaxAttempts: 5}))
	b.put(Cron("17 * * * *", Spec{Name: "sign", Type: "work"}))
	b.clock.set(at(t, "00:20:00"))
	b.next("sign", "01:17:00")
	b.clock.set(at(t, "01:19:59"))
	b.next("sign", "02:17:00")
	b.clock.set(at(t, "01:20:00"))
	require.Equal(t, 5, b.next("s", "01:30:00").Missed)
	o.stop()
	var fired []string
	for _, f := range o.seen() {
		if f.Name == "s" {
			require.True(t, f.Created)
			fired = append(fired, f.At.Format(time.TimeOnly))
		}
	}
	require.Equal(t, []string{"00:10:00", "00:20:00", "01:20:00"}, fired)
}

// A schedule's jitter changes: no fire comes twice or is lost, each is but moved.
func TestAJitterThatChangesMovesThePromise(t *testing.T) {
	t.Parallel()
	b := newBench(t, "2030-01-01 00:00:00")
	plain := Cron("3 0 * * *", Spec{Space: "default", Name: "s", Type: "work"})
	jittery := plain
	jittery.Jitter = 10 * time.Minute
	shift := jittery.shift()
	tomorrow := instant(t, "2030-01-02 00:03:00")
	b.put(plain)
	o := b.fire(b.jobs)
	b.clock.set(at(t, "00:03:00"))
	o.wait(t, 1)
	b.promises("s", tomorrow)
	require.Equal(t, tomorrow.Add(shift), b.put(jittery).NextRunAt, "it has fired today")
	require.Equal(t, tomorrow, b.put(plain).NextRunAt)

	b.put(jittery)
	b.clock.set(tomorrow.Add(shift / 2)) // it is promised for a moment later
	require.Equal(t, tomorrow, b.put(plain).NextRunAt, "and due at once without it")
	o.wait(t, 2)
	require.Equal(t, fireID("s", tomorrow), b.promises("s", instant(t, "2030-01-03 00:03:00")).LastJob.ID)
}

// The queue changes when a fire is due whose job somebody made in the old one, and could not move the schedule on.
func TestAQueueThatChangesDoublesNoFire(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := newBench(t, "2030-01-01 00:00:30")
	spec := Cron("* * * * *", Spec{Name: "s", Type: "work", Queue: "old"})
	s := b.put(spec)
	made, err := b.jobs.Enqueue(ctx, s.job(fireID("s", at(t, "00:01:00")), 0))
	require.NoError(t, err)
	require.True(t, made.Created)
	b.clock.set(at(t, "00:01:10"))
	spec.Queue = "new"
	b.put(spec)
	b.fire(b.jobs)
	s = b.next("s", "00:02:00")
	require.Equal(t, made.Key, *s.LastJob)
	require.Empty(t, s.PromisedQueue)
	_, err = b.jobs.Get(ctx, job.Key{Queue: "new", Space: "default", ID: made.Key.ID})
	require.ErrorIs(t, err, job.ErrNotFound)

	// Where nobody made it, it goes to the new one.
	b.clock.set(at(t, "00:02:00"))
	require.Equal(t, "new", b.next("s", "00:03:00").LastJob.Queue)
}

// Another way to write the same cron changes nothing.
func TestTheSameTimingWrittenOtherwise(t *testing.T) {
	t.Parallel()
	b := newBench(t, "2030-01-01 00:00:30")
	promised := b.put(Cron("@every 120s", Spec{Name: "s", Type: "work"})).NextRunAt
	b.clock.set(at(t, "00:01:30"))
	require.Equal(t, promised, b.put(Cron("@every  2m", Spec{Name: "s", Type: "work", Timezone: "UTC"})).NextRunAt)
}

// A queue that takes no jobs keeps the schedules of no other queue waiting.
func TestAQueueThatTakesNothingKeepsNoOtherWaiting(t *testing.T) {
	t.Parallel()
	b := newBench(t, "2030-01-01 00:00:30")
	for i := range 5 {
		b.put(Cron("* * * * *", Spec{Name: fmt.Sprint("bad", i), Type: "work", Queue: "bad"}))
		b.put(Cron("* * * * *", Spec{Name: fmt.Sprint("good", i), Type: "work", Queue: "good"}))
	}
	b.fire(&steered{Jobs: b.jobs, silent: func(s *job.Spec) bool { return s.Queue == "bad" }})
	for m := 1; m <= 3; m++ {
		b.clock.set(at(t, fmt.Sprintf("00:%02d:00", m)))
		for i := range 5 {
			b.next(fmt.Sprint("good", i), fmt.Sprintf("00:%02d:00", m+1))
		}
	}
	for i := range 5 {
		require.Equal(t, at(t, "00:01:00"), b.get(fmt.Sprint("bad", i)).NextRunAt)
	}
}

// A schedule that somebody wrote without a promise is given one.
func TestAScheduleWithoutAPromiseIsGivenOne(t *testing.T) {
	t.Parallel()
	b := newBench(t, "2030-01-01 00:00:30")
	_, err := b.store.kv.Put(context.Background(), key("default", "s"), []byte(`{"space":"default","name":"s","type":"work","cron":"* * * * *"}`))
	require.NoError(t, err)
	o := b.fire(b.jobs)
	b.next("s", "00:01:00")
	b.clock.set(at(t, "00:01:00"))
	b.next("s", "00:02:00")
	require.Len(t, o.wait(t, 1), 1)
}
