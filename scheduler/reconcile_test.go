package scheduler

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// names of the schedules that a filter finds.
func (b *bench) names(f Filter) []string {
	b.t.Helper()
	l, err := b.store.List(context.Background(), f)
	require.NoError(b.t, err)
	require.Empty(b.t, l.Unreadable)
	out := []string{}
	for _, s := range l.Schedules {
		out = append(out, s.Space+"/"+s.Name)
	}
	slices.Sort(out)
	return out
}

func declare(cron string, names ...string) []Spec {
	var out []Spec
	for _, n := range names {
		out = append(out, Cron(cron, Spec{Name: n, Type: "work"}))
	}
	return out
}

func TestReconcileMakesTheDeclaredTheWhole(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := newBench(t, "2030-01-01 00:00:30")
	b.put(Cron("@daily", Spec{Name: "people's", Type: "work"}))
	for _, space := range []string{"default", "default.", "other"} {
		_, err := b.store.Reconcile(ctx, space, "neighbour", declare("@daily", "theirs"))
		require.NoError(t, err)
	}
	_, err := b.store.Reconcile(ctx, "other", "shop", declare("@daily", "a", "z"))
	require.NoError(t, err)

	r, err := b.store.Reconcile(ctx, "default", "shop", declare("@daily", "a", "b", "c"))
	require.NoError(t, err)
	require.Equal(t, Report{Created: []string{"a", "b", "c"}}, r)
	second := append(declare("@daily", "a"), declare("@hourly", "b", "d")...)
	b.clock.set(at(t, "12:34:00"))
	r, err = b.store.Reconcile(ctx, "default", "shop", second)
	require.NoError(t, err)
	require.Equal(t, Report{Created: []string{"d"}, Updated: []string{"b"}, Unchanged: []string{"a"}, Deleted: []string{"c"}}, r)
	a, err := b.store.Get(ctx, "default", "a")
	require.NoError(t, err)
	require.Equal(t, instant(t, "2030-01-02 00:00:00"), a.NextRunAt)
	changed, err := b.store.Get(ctx, "default", "b")
	require.NoError(t, err)
	require.Equal(t, at(t, "13:00:00"), changed.NextRunAt)

	// One that another declares stops it, and nothing of the other's is changed.
	_, err = b.store.Reconcile(ctx, "default", "shop", declare("@yearly", "theirs"))
	require.ErrorIs(t, err, ErrOwned)
	require.ErrorContains(t, err, "default/theirs")
	theirs, err := b.store.Get(ctx, "default", "theirs")
	require.NoError(t, err)
	require.Equal(t, "@daily", theirs.Cron)

	r, err = b.store.Reconcile(ctx, "default", "shop", nil)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"a", "b", "d"}, r.Deleted)
	require.Equal(t, []string{
		"default./theirs", "default/people's", "default/theirs", "other/a", "other/theirs", "other/z",
	}, b.names(Filter{}))

	// What people put by hand is nobody's to reconcile.
	_, err = b.store.Reconcile(ctx, "default", "", nil)
	require.ErrorContains(t, err, "owner")
}

func TestReconcileChecksAllBeforeItWrites(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := newBench(t, "2030-01-01 00:00:30")
	_, err := b.store.Reconcile(ctx, "default", "shop", declare("@daily", "kept"))
	require.NoError(t, err)
	specs := declare("@daily", "good", "twice", "twice")
	specs = append(specs, Cron("61 * * * *", Spec{Name: "bad", Type: "work"}), Cron("@daily", Spec{Space: "other", Name: "foreign", Type: "work"}))
	_, err = b.store.Reconcile(ctx, "default", "shop", specs)
	for _, want := range []string{`schedule 3, "twice"`, "name: is given twice", `schedule 4, "bad"`, "cron", `schedule 5, "foreign"`, "space"} {
		require.ErrorContains(t, err, want)
	}
	var fault *job.FieldError
	require.ErrorAs(t, err, &fault)
	require.Equal(t, []string{"default/kept"}, b.names(Filter{}))
	_, err = b.store.Reconcile(ctx, "", "shop", nil)
	require.ErrorContains(t, err, "space")
	require.Equal(t, "", specs[0].Space, "the caller's specs are left as they are")
}

// Ten processes of one owner start at once, with what an earlier version has left.
func TestReplicasReconcileAtOnce(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := newBench(t, "2030-01-01 00:00:30")
	old := declare("@daily", "a", "b", "gone-1", "gone-2", "gone-3")
	_, err := b.store.Reconcile(ctx, "default", "shop", old)
	require.NoError(t, err)
	_, err = b.store.Reconcile(ctx, "default", "neighbour", declare("@daily", "theirs"))
	require.NoError(t, err)
	specs := append(declare("@daily", "a"), declare("@hourly", "b")...)
	for i := range 10 {
		specs = append(specs, declare("@hourly", fmt.Sprint("new-", i))...)
	}
	reports := make([]Report, 10)
	errs := make([]error, 10)
	var all sync.WaitGroup
	for i := range reports {
		s := b.open()
		all.Go(func() { reports[i], errs[i] = s.Reconcile(ctx, "default", "shop", specs) })
	}
	all.Wait()
	made := make(map[string]int)
	for i, r := range reports {
		require.NoError(t, errs[i])
		for _, n := range r.Created {
			made["created "+n]++
		}
		for _, n := range r.Updated {
			made["updated "+n]++
		}
		for _, n := range r.Deleted {
			made["deleted "+n]++
		}
	}
	want := map[string]int{"updated b": 1, "deleted gone-1": 1, "deleted gone-2": 1, "deleted gone-3": 1}
	declared := []string{"default/a", "default/b"}
	for i := range 10 {
		want[fmt.Sprint("created new-", i)] = 1
		declared = append(declared, fmt.Sprint("default/new-", i))
	}
	require.Equal(t, want, made, "each change is made once, and said by who made it")
	owner := "shop"
	require.Equal(t, declared, b.names(Filter{Owner: &owner}))
	require.Len(t, b.names(Filter{}), len(declared)+1)
}

// Two owners, each of many processes, in one space and with names that differ in case and blanks alone.
func TestOwnersReconcileAtOnce(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := newBench(t, "2030-01-01 00:00:30")
	sets := map[string][]string{"shop": {"Board", "board", "board "}, "bank": {"BOARD", "bo.ard", "*"}}
	var all sync.WaitGroup
	for owner, names := range sets {
		for range 4 {
			s := b.open()
			all.Go(func() {
				for _, n := range []int{3, 1, 3} {
					_, err := s.Reconcile(ctx, "default", owner, declare("@daily", names[:n]...))
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	for owner, names := range sets {
		_, err := b.store.Reconcile(ctx, "default", owner, declare("@daily", names...))
		require.NoError(t, err)
	}
	require.Len(t, b.names(Filter{}), 6)
	for owner, names := range sets {
		require.Len(t, b.names(Filter{Owner: &owner}), len(names))
		for _, n := range names {
			s, err := b.store.Get(ctx, "default", n)
			require.NoError(t, err)
			require.Equal(t, owner, s.Owner)
		}
	}
}
