package scheduler

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// errCrash is what a leader panics with that is to end there.
var errCrash = errors.New("the leader has crashed")

// story is a schedule, and leaders that come, look, are frozen, crash, and are followed by others.
type story struct {
	*rapid.T
	b      *bench
	book   *notebook
	sched  *Schedule
	timing timing
	frozen int // leaders that were frozen when they had decided and not enqueued
	depth  int
}

func expressions() *rapid.Generator[string] {
	field := func(low, high int) *rapid.Generator[string] {
		return rapid.OneOf(
			rapid.Just("*"),
			rapid.Custom(func(t *rapid.T) string { return fmt.Sprint(rapid.IntRange(low, high).Draw(t, "value")) }),
			rapid.Custom(func(t *rapid.T) string {
				from := rapid.IntRange(low, high).Draw(t, "from")
				return fmt.Sprintf("%d-%d", from, rapid.IntRange(from, high).Draw(t, "to"))
			}),
			rapid.Custom(func(t *rapid.T) string { return fmt.Sprintf("*/%d", rapid.IntRange(2, high).Draw(t, "step")) }),
		)
	}
	return rapid.OneOf(
		rapid.SampledFrom([]string{"* * * * *", "@hourly", "@daily", "@weekly", "@every 1s", "30 2 * * *"}),
		rapid.Custom(func(t *rapid.T) string { return fmt.Sprintf("@every %ds", rapid.IntRange(1, 5000).Draw(t, "seconds")) }),
		rapid.Custom(func(t *rapid.T) string {
			return field(0, 59).Draw(t, "minute") + " " + field(0, 23).Draw(t, "hour") + " * * " + field(0, 6).Draw(t, "weekday")
		}),
	)
}

// Whatever leaders do, each promised instant gets a job, is folded into one, or is counted as missed: exactly one of
// these.
func TestEachInstantIsAccountedForOnce(t *testing.T) {
	b := newBench(t, "2030-01-01 00:00:00")
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		b.clock.set(instant(t, "2030-03-01 00:00:00").Add(time.Duration(rapid.IntRange(0, 240*24*3600).Draw(rt, "start")) * time.Second))
		spec := Cron(expressions().Draw(rt, "cron"), Spec{Name: fmt.Sprint("s", n), Type: "work"})
		spec.Timezone = rapid.SampledFrom([]string{"", "Europe/Berlin", "America/Santiago", "Australia/Lord_Howe"}).Draw(rt, "zone")
		spec.Jitter = time.Duration(rapid.SampledFrom([]int{0, 0, 90, 3600}).Draw(rt, "jitter")) * time.Second
		spec.MissedPolicy = rapid.SampledFrom([]MissedPolicy{MissedOne, MissedSkip, MissedEach}).Draw(rt, "policy")
		if spec.MissedPolicy == MissedEach {
			spec.MissedLimit = rapid.IntRange(1, 6).Draw(rt, "limit")
		}
		s := &story{T: rt, b: b, book: newNotebook()}
		var err error
		s.sched, _, err = b.store.Put(context.Background(), "", spec)
		require.NoError(rt, err)
		s.timing, err = s.sched.timing()
		require.NoError(rt, err)
		for range rapid.IntRange(1, 4).Draw(rt, "looks") {
			s.pass()
			s.look(true)
		}
		s.pass()
		s.look(false)
		s.check()
	})
}

// pass lets time pass until some instants more are due.
func (s *story) pass() {
	now := s.b.clock.Now()
	to := now
	for range rapid.SampledFrom([]int{0, 1, 1, 2, 4, 12}).Draw(s.T, "more") {
		to = s.timing.after(s.sched.NextRunAt, to)
	}
	late := rapid.SampledFrom([]int{0, 0, 1, 59, 61}).Draw(s.T, "late")
	s.b.clock.set(to.Add(time.Duration(late) * time.Second))
}

// look is a leader's look at the schedule, with what may befall the leader meanwhile.
func (s *story) look(faults bool) {
	s.depth++
	defer func() { s.depth-- }()
	defer func() {
		r := recover()
		if err, _ := r.(error); r != nil && !errors.Is(err, errCrash) {
			panic(r)
		}
	}()
	befalls := func(what string, of ...string) string {
		if !faults || s.depth > 3 {
			return "nothing"
		}
		return rapid.SampledFrom(append([]string{"nothing"}, of...)).Draw(s.T, what)
	}
	another := func() { s.pass(); s.look(true) }
	f := NewFirer(s.b.store, &steered{
		Jobs: s.book,
		before: func() {
			if befalls("before the enqueueing", "frozen") == "frozen" {
				s.frozen++
				another()
			}
		},
		made: func([]job.Enqueued) {
			switch befalls("after the enqueueing", "frozen", "crash") {
			case "frozen":
				another()
			case "crash":
				panic(errCrash)
			}
		},
	}, FirerConfig{})
	known := newBoard()
	err := s.b.store.each(context.Background(), key(s.sched.Space, s.sched.Name), func(e jetstream.KeyValueEntry) { f.take(known, e) })
	require.NoError(s.T, err)
	if befalls("before the look", "frozen") == "frozen" {
		another()
	}
	for groups := f.due(known, s.b.clock.Now(), batch, suspects); len(groups) > 0; groups = f.due(known, s.b.clock.Now(), batch, suspects) {
		for _, group := range groups {
			f.fire(context.Background(), group)
			for _, fi := range group {
				f.after(known, fi)
			}
		}
	}
}

func (s *story) check() {
	now, err := s.b.store.Get(context.Background(), s.sched.Space, s.sched.Name)
	require.NoError(s.T, err)
	require.True(s.T, now.NextRunAt.IsZero() || now.NextRunAt.After(s.b.clock.Now()), "something is due still: %s", now.NextRunAt)
	jobs := s.book.all()
	missed, covered, fired := 0, 0, 0
	for at := s.sched.NextRunAt; !at.Equal(now.NextRunAt); at = s.timing.after(at, at) {
		require.True(s.T, at.Before(now.NextRunAt), "%s is promised, which is no instant of the schedule's", now.NextRunAt)
		j, made := jobs[fireID(s.sched.Name, at)]
		switch {
		case made && covered > 0:
			require.Fail(s.T, "an instant has a job, and is part of another one's", at.String())
		case made:
			fired++
			missed += j.Missed
			covered = j.Missed
		case covered > 0:
			covered--
		default:
			missed++
			require.NotEqual(s.T, MissedOne, s.sched.MissedPolicy, "nobody has made %s", at)
		}
	}
	require.Zero(s.T, covered, "a job stands for instants that are promised")
	require.Len(s.T, jobs, fired, "jobs of instants that were never promised")
	if s.sched.MissedPolicy == MissedOne || s.frozen == 0 {
		require.Equal(s.T, missed, now.Missed, "missed")
		return
	}
	// A leader that was frozen when it had decided to fire may do so after another has written the fire off.
	require.GreaterOrEqual(s.T, now.Missed, missed)
	require.LessOrEqual(s.T, now.Missed, missed+s.frozen)
}
