package kvbucket

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

func TestTheLargestValueGoesThroughEveryOperation(t *testing.T) {
	t.Parallel()
	largest(t, server(t), config())
}

func TestTheLargestValueGoesThroughACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three processes")
	}
	t.Parallel()
	cfg := config()
	cfg.Replicas = 3
	largest(t, natstest.StartCluster(t, 3).URLs(), cfg)
}

func largest(t *testing.T, url string, cfg Config) {
	t.Helper()
	b := open(t, url, cfg)
	ctx := t.Context()
	key := strings.Repeat(" ", kv.MaxKey) // of the longest subject
	value := strings.Repeat("x", 1<<20-headroom)
	set(t, b, key, value, 0)
	ok, err := b.Expire(ctx, key, 200*time.Hour)
	require.NoError(t, err)
	require.True(t, ok)
	ok, err = b.Swap(ctx, key, &value, value, time.Hour)
	require.NoError(t, err)
	require.True(t, ok)
	got, ok, err := b.Get(ctx, key)
	require.NoError(t, err)
	require.True(t, ok)
	require.True(t, got == value)
	ok, err = b.DeleteIf(ctx, key, value)
	require.NoError(t, err)
	require.True(t, ok)
	err = b.Set(ctx, key, value+"x", 0)
	require.ErrorIs(t, err, kv.ErrTooLarge)
	require.ErrorContains(t, err, "has 1048321 bytes, at most 1048320 are possible (the server takes 1048576 with headers)")
}

func TestTheBucketsOwnLimitCounts(t *testing.T) {
	t.Parallel()
	url := server(t)
	makeByHand(t, url, byHand["a max value"].change)
	b := open(t, url, config())
	fits := strings.Repeat("x", 1024-headroom)
	set(t, b, "k", fits, time.Hour)
	ok, err := b.Swap(t.Context(), "k", &fits, fits, time.Hour)
	require.NoError(t, err)
	require.True(t, ok)
	require.ErrorIs(t, b.Set(t.Context(), "k", fits+"x", 0), kv.ErrTooLarge)
}

func TestAKeyOfVeryManyTokens(t *testing.T) {
	t.Parallel()
	b := open(t, server(t), config())
	key := strings.Repeat("a/", kv.MaxKey/2-1) + "b"
	set(t, b, key, "v", 0)
	has(t, b, key, "v")
	odd := strings.Repeat(" /", kv.MaxKey/2-1) + " " // an escape in each
	set(t, b, odd, "v", 0)
	slashes := strings.Repeat("/", kv.MaxKey) // as many tokens as a key can have
	set(t, b, slashes, "v", 0)
	for _, k := range []string{key, odd, slashes} {
		has(t, b, k, "v")
		require.Equal(t, []string{k}, keysOf(t, b, k))
		require.Equal(t, []string{k}, keysOf(t, b, k[:len(k)-1]))
	}
	n, err := b.Wipe(t.Context(), odd[:len(odd)-3])
	require.NoError(t, err)
	require.Equal(t, 1, n)
	absent(t, b, odd)
	n, err = b.Wipe(t.Context(), slashes)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	absent(t, b, slashes)
	has(t, b, key, "v")
}
