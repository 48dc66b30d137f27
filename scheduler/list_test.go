package scheduler

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestListIsByPromiseAndDueIsWhatIsOwed(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := newBench(t, "2030-01-01 00:00:30")
	off := false
	for name, s := range map[string]Spec{
		"c": Cron("0 3 * * *", Spec{}), "b": Cron("0 2 * * *", Spec{}), "a": Cron("0 3 * * *", Spec{}),
		"off": Cron("0 1 * * *", Spec{Enabled: &off}), "late": Cron("0 9 * * *", Spec{}),
	} {
		s.Name, s.Type = name, "work"
		b.put(s)
		s.Space = "also"
		b.put(s)
	}
	// One that promises nothing stands last, and is never due.
	_, err := b.store.kv.Put(ctx, key("also", "never"), []byte(`{"space":"also","name":"never","type":"work","cron":"@yearly"}`))
	require.NoError(t, err)
	names := func(l Listing, err error) []string {
		t.Helper()
		require.NoError(t, err)
		var out []string
		for _, s := range l.Schedules {
			out = append(out, s.Space+"/"+s.Name)
		}
		return out
	}
	require.Equal(t, []string{
		"also/off", "default/off", "also/b", "default/b", "also/a", "also/c", "default/a", "default/c", "also/late", "default/late", "also/never",
	}, names(b.store.List(ctx, Filter{})))
	require.Equal(t, []string{"default/off", "default/b", "default/a"}, names(b.store.List(ctx, Filter{Space: "default", Limit: 3})))
	require.Empty(t, names(b.store.List(ctx, Filter{Space: "none"})))

	require.Empty(t, names(b.store.Due(ctx, 0)))
	b.clock.set(at(t, "03:00:00").Add(-time.Millisecond))
	require.Equal(t, []string{"also/b", "default/b"}, names(b.store.Due(ctx, 0)))
	b.clock.set(at(t, "03:00:00"))
	require.Equal(t, []string{"also/b", "default/b", "also/a", "also/c", "default/a", "default/c"}, names(b.store.Due(ctx, 0)))
	require.Equal(t, []string{"also/b", "default/b", "also/a"}, names(b.store.Due(ctx, 3)), "the oldest first, by the store's clock")
	_, _, err = b.store.SetEnabled(ctx, "default", "off", true)
	require.NoError(t, err)
	require.Equal(t, []string{"default/off"}, names(b.store.Due(ctx, 1)), "enabled again, it owes what came due meanwhile")
}
