package scheduler

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

func TestNamesAreKeptApart(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := newBench(t, "2030-01-01 00:00:30")
	names := []string{
		"a", "A", "a ", " a", "a.b", "a.*", "*", ">", "a.>", ".", "..", "a@1", "a/b", "=2E", "é", "\t", "\n", "$KV",
		strings.Repeat("🛩", MaxName/4), strings.Repeat("x", MaxName), strings.Repeat(".", MaxName),
	}
	spaces := []string{"default", "*", ">", "a.b", strings.Repeat("🛩", 47), strings.Repeat(">", job.MaxName)}
	for _, space := range spaces {
		for _, n := range names {
			b.put(Cron("@daily", Spec{Space: space, Name: n, Type: n}))
		}
	}
	for _, space := range spaces {
		l, err := b.store.List(ctx, Filter{Space: space})
		require.NoError(t, err)
		require.Empty(t, l.Unreadable)
		require.Len(t, l.Schedules, len(names), space)
		for _, n := range names {
			s, err := b.store.Get(ctx, space, n)
			require.NoError(t, err)
			require.Equal(t, []string{space, n, n}, []string{s.Space, s.Name, s.Type})
		}
	}
	require.NoError(t, b.store.Delete(ctx, "*", "*"))
	require.NoError(t, b.store.Delete(ctx, ">", ">"))
	l, err := b.store.List(ctx, Filter{})
	require.NoError(t, err)
	require.Len(t, l.Schedules, len(spaces)*len(names)-2, "a wildcard in a name is but a letter")

	o := b.fire(b.jobs)
	b.clock.set(instant(t, "2030-01-02 00:00:00"))
	for _, f := range o.wait(t, len(l.Schedules)) {
		require.True(t, f.Created, f)
		j, err := b.jobs.Get(ctx, f.Job)
		require.NoError(t, err)
		require.Equal(t, fireID(f.Name, f.At), j.ID)
	}

	for _, n := range []string{"", strings.Repeat("x", MaxName+1), "\xff", "a\x00b"} {
		_, _, err := b.store.Put(ctx, "", Cron("@daily", Spec{Name: n, Type: "work"}))
		var fault *job.FieldError
		require.ErrorAs(t, err, &fault, "%q", n)
		require.Equal(t, "name", fault.Field)
	}
}

// What is no schedule does not keep the others from being listed, reconciled and fired, and is mended by a put.
func TestUnreadableEntries(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := newBench(t, "2030-01-01 00:00:30")
	raw := func(k, body string) {
		t.Helper()
		_, err := b.store.kv.Put(ctx, k, []byte(body))
		require.NoError(t, err)
	}
	good := `{"space":"default","name":"copied","type":"work","cron":"* * * * *","nextRunAt":"2030-01-01T00:01:00.000Z"}`
	raw(key("default", "garbage"), "\x00\xffno JSON")
	raw(key("default", "empty"), "")
	raw(key("default", "number"), "42")
	raw(key("default", "cron"), `{"space":"default","name":"cron","type":"work","cron":"99 * * * *","nextRunAt":"2030-01-01T00:01:00.000Z"}`)
	raw(key("default", "twice"), `{"space":"default","name":"twice","name":"twice","type":"work","cron":"@daily"}`)
	raw(key("default", "foreign"), good)
	raw("no.key.of-ours", good)
	b.put(Cron("* * * * *", Spec{Name: "sound", Type: "work"}))

	l, err := b.store.List(ctx, Filter{})
	require.NoError(t, err)
	require.Len(t, l.Schedules, 1)
	require.Len(t, l.Unreadable, 7)
	all := errors.Join(l.Unreadable...)
	require.ErrorIs(t, all, ErrUnreadable)
	for _, want := range []string{key("default", "garbage"), "no.key.of-ours", "belongs to " + key("default", "copied"), "99"} {
		require.ErrorContains(t, all, want)
	}
	_, err = b.store.Get(ctx, "default", "garbage")
	require.ErrorIs(t, err, ErrUnreadable)
	_, err = b.store.Get(ctx, "default", "copied")
	require.ErrorIs(t, err, ErrNotFound, "what stands under another's key is nobody's")
	_, _, err = b.store.SetEnabled(ctx, "default", "garbage", true)
	require.ErrorIs(t, err, ErrUnreadable)

	o := b.fire(b.jobs)
	b.clock.set(at(t, "00:01:00"))
	require.Equal(t, "sound", o.wait(t, 1)[0].Name)

	_, err = b.store.Reconcile(ctx, "default", "shop", declare("@daily", "garbage"))
	require.NoError(t, err)
	mended, err := b.store.Get(ctx, "default", "garbage")
	require.NoError(t, err)
	require.Equal(t, "shop", mended.Owner)
	require.True(t, mended.Active())
	for _, name := range []string{"empty", "number", "cron", "twice", "foreign"} {
		require.NoError(t, b.store.Delete(ctx, "default", name))
	}
	l, err = b.store.List(ctx, Filter{Space: "default"})
	require.NoError(t, err)
	require.Len(t, l.Schedules, 2)
	require.Empty(t, l.Unreadable)
	// One that is mended while the leader runs fires.
	b.put(Cron("*/2 * * * *", Spec{Name: "empty", Type: "work"}))
	b.clock.set(at(t, "00:02:00"))
	fires := o.wait(t, 3)
	require.ElementsMatch(t, []string{"sound", "empty"}, []string{fires[1].Name, fires[2].Name})
}

// What a newer version has written stays, whatever this one does with the schedule.
func TestUnknownMembersAreKept(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := newBench(t, "2030-01-01 00:00:30")
	_, err := b.store.kv.Put(ctx, key("default", "s"), []byte(
		`{"name":"s","space":"default","type":"work","cron":"* * * * *","nextRunAt":"2030-01-01T00:01:00.000Z","colour":{"deep":[1,2]}}`))
	require.NoError(t, err)
	kept := func(step string) {
		t.Helper()
		e, err := b.store.kv.Get(ctx, key("default", "s"))
		require.NoError(t, err)
		var doc map[string]any
		require.NoError(t, job.Decode(e.Value(), &doc))
		require.Equal(t, map[string]any{"deep": []any{1.0, 2.0}}, doc["colour"], step)
	}
	b.put(Cron("* * * * *", Spec{Name: "s", Type: "other"}))
	kept("put")
	_, _, err = b.store.SetEnabled(ctx, "default", "s", false)
	require.NoError(t, err)
	kept("disable")
	_, _, err = b.store.SetEnabled(ctx, "default", "s", true)
	require.NoError(t, err)
	o := b.fire(b.jobs)
	b.clock.set(at(t, "00:01:00"))
	o.wait(t, 1)
	kept("fire")
	got, err := b.store.Get(ctx, "default", "s")
	require.NoError(t, err)
	require.Equal(t, at(t, "00:02:00"), got.NextRunAt)
}
