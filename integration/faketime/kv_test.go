package faketime

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/kvbucket"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

// Keys live for as long as they were given, to the millisecond, and leave nothing behind.
func TestLifetimesOfKeys(t *testing.T) {
	long(t)
	bubble(t, func(w *world) {
		t, ctx := w.t, w.t.Context()
		b, err := kvbucket.Open(ctx, w.nc, kvbucket.Config{Clock: w.store})
		require.NoError(t, err)
		t.Cleanup(b.Close)
		space := kv.New(b, kv.Options{}).Space("acme")
		has := func(key string) bool {
			var v any
			ok, err := space.Get(ctx, key, &v)
			require.NoError(t, err)
			return ok
		}
		require.NoError(t, space.Set(ctx, "six", 1, 6*time.Hour))
		require.NoError(t, space.Set(ctx, "cleared", 1, time.Hour))
		require.NoError(t, space.Set(ctx, "cleared", 1, 0))
		require.NoError(t, space.Set(ctx, "expires", 1, 0))
		require.NoError(t, space.Set(ctx, "swapped", 1, 2*time.Hour))
		ok, err := space.Expire(ctx, "expires", 9*time.Hour)
		require.NoError(t, err)
		require.True(t, ok)

		w.until(time.Hour)
		ok, err = space.Swap(ctx, "swapped", 1, 2, 6*time.Hour) // until 7 h, whatever it had before
		require.NoError(t, err)
		require.True(t, ok)
		for _, c := range []struct {
			key string
			end time.Duration
		}{{"six", 6 * time.Hour}, {"swapped", 7 * time.Hour}, {"expires", 9 * time.Hour}} {
			w.until(c.end - time.Millisecond)
			require.True(t, has(c.key), c.key)
			w.until(c.end + time.Millisecond)
			require.False(t, has(c.key), c.key)
			ok, err := space.Expire(ctx, c.key, time.Hour)
			require.NoError(t, err)
			require.False(t, ok, "no lifetime for what is not there")
		}
		ok, err = space.Swap(ctx, "expires", nil, "anew", 0) // what has lapsed is absent
		require.NoError(t, err)
		require.True(t, ok)

		w.until(12 * time.Hour)
		require.True(t, has("cleared"), "a set without a lifetime clears an earlier one")
		require.True(t, has("expires"))
		js, err := jetstream.New(w.nc)
		require.NoError(t, err)
		stream, err := js.Stream(ctx, "KV_JETCREW_KV")
		require.NoError(t, err)
		require.EqualValues(t, 2, stream.CachedInfo().State.Msgs, "only what lives")
	})
}

// A counter's window closes six hours after it was opened, however often it is hit; the next hit opens a new one.
func TestACountersWindow(t *testing.T) {
	long(t)
	bubble(t, func(w *world) {
		t, ctx := w.t, w.t.Context()
		b, err := kvbucket.Open(ctx, w.nc, kvbucket.Config{Clock: w.store})
		require.NoError(t, err)
		t.Cleanup(b.Close)
		space := kv.New(b, kv.Options{}).Space("acme")
		hit := func() int64 {
			n, err := space.Increment(ctx, "hits", 1, 6*time.Hour)
			require.NoError(t, err)
			return n
		}
		for window := range 2 {
			opened := time.Duration(window) * (6*time.Hour + time.Minute)
			w.until(opened)
			for i := range 6 {
				w.until(opened + time.Duration(i)*time.Hour)
				require.EqualValues(t, i+1, hit())
			}
			w.until(opened + 6*time.Hour - time.Millisecond)
			require.EqualValues(t, 7, hit())
		}
	})
}
