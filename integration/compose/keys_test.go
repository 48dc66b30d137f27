package compose

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/kvbucket"
	"github.com/jetcrew/jetcrew/pkg/kv"
	"github.com/jetcrew/jetcrew/streams"
)

// manageKeys is what nobody but admin may do to the bucket of keys and values.
var manageKeys = []string{
	"$JS.API.STREAM.CREATE.KV_JETCREW_KV", "$JS.API.STREAM.UPDATE.KV_JETCREW_KV", "$JS.API.STREAM.DELETE.KV_JETCREW_KV",
	"$JS.API.STREAM.PURGE.KV_JETCREW_KV", "$JS.API.STREAM.MSG.DELETE.KV_JETCREW_KV",
	"$JS.API.STREAM.SNAPSHOT.KV_JETCREW_KV", "$JS.API.CONSUMER.DURABLE.CREATE.KV_JETCREW_KV.probe",
	"$JS.API.CONSUMER.CREATE.KV_JETCREW_KV.probe", "$JS.API.CONSUMER.CREATE.KV_JETCREW_KV.probe.$KV.JETCREW_WORKERS.>",
}

// testKeys has those who may use keys and values do all that there is to do with them, in the bucket that admin made.
func testKeys(t *testing.T, d *deployment) {
	t.Helper()
	open := func(user string, manage kvbucket.Manage) *kvbucket.Bucket {
		nc := d.connect(user)
		clock, err := streams.Open(t.Context(), nc, streams.Config{Manage: streams.ManageVerify, Replicas: 3})
		require.NoError(t, err, user)
		t.Cleanup(clock.Close)
		b, err := kvbucket.Open(t.Context(), nc, kvbucket.Config{Clock: clock, Manage: manage, Replicas: 3})
		require.NoError(t, err, user)
		t.Cleanup(b.Close)
		require.Empty(t, b.Drift(), user)
		return b
	}
	admin := open("admin", kvbucket.ManageCreate)
	require.NoError(t, admin.Set(t.Context(), "v/admin/k", "v", 0))
	for _, user := range []string{"worker", "api"} {
		useKeys(t, open(user, kvbucket.ManageVerify), "v/"+user+"/")
	}
	got, ok, err := admin.Get(t.Context(), "v/admin/k")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "v", got)

	store, err := jetStreamOf(d.connect("readonly")).KeyValue(t.Context(), "JETCREW_KV")
	require.NoError(t, err)
	e, err := store.Get(t.Context(), "v.admin.k")
	require.NoError(t, err, "who looks may read a key by the stock tools")
	require.Equal(t, "v", string(e.Value()))
	_, err = store.Get(t.Context(), "v.worker.k")
	require.ErrorIs(t, err, jetstream.ErrKeyNotFound)
}

// useKeys calls every operation of a bucket, and leaves nothing.
func useKeys(t *testing.T, a *kvbucket.Bucket, space string) {
	t.Helper()
	ctx := t.Context()
	yes := func(ok bool, err error) {
		t.Helper()
		require.NoError(t, err, space)
		require.True(t, ok, space)
	}
	require.NoError(t, a.Set(ctx, space+"k", "1", time.Hour))
	got, ok, err := a.Get(ctx, space+"k")
	yes(ok, err)
	require.Equal(t, "1", got)
	yes(a.Swap(ctx, space+"k", new("1"), "2", 0))
	yes(a.Expire(ctx, space+"k", time.Hour))
	sum, err := a.Increment(ctx, space+"k", 3)
	require.NoError(t, err)
	require.EqualValues(t, 5, sum)
	yes(a.DeleteIf(ctx, space+"k", "5"))
	for _, key := range []string{"a", "b", "c/"} {
		yes(a.Swap(ctx, space+key, nil, "v", time.Hour))
	}
	require.NoError(t, a.Delete(ctx, space+"b"))
	var keys []string
	for key, err := range a.Keys(ctx, space) {
		require.NoError(t, err)
		keys = append(keys, key)
	}
	require.ElementsMatch(t, []string{space + "a", space + "c/"}, keys)
	var seen []string
	for event, err := range a.Watch(ctx, space, kv.WatchOptions{}) {
		require.NoError(t, err)
		if event.Kind == kv.EventWatching {
			break
		}
		seen = append(seen, event.Key)
	}
	require.ElementsMatch(t, keys, seen)
	n, err := a.Wipe(ctx, space)
	require.NoError(t, err)
	require.Equal(t, 2, n)
}
