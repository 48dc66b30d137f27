package scheduler

import (
	"context"
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
			b.put(Cron("* * * * *", Spec{Name: "other", Type: "work"}))
			o := b.fire(b.jobs)
			_, _, err := b.store.SetEnabled(ctx, "default", "s", false)
			require.NoError(t, err)
			b.clock.set(at(t, "00:10:20"))
			b.next("other", "00:11:00")
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
