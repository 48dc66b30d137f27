package kv_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/kv"
)

func TestMemoryIsBoundedInKeys(t *testing.T) {
	m := newClocked(kv.MemoryOptions{MaxKeys: 2})
	ctx := t.Context()
	require.NoError(t, m.Set(ctx, "a", "1", 0))
	require.NoError(t, m.Set(ctx, "b", "1", time.Second))

	err := m.Set(ctx, "c", "1", 0)
	require.ErrorIs(t, err, kv.ErrFull)
	require.EqualError(t, err, "store is full: it has 2 keys, at most 2 are allowed")
	_, err = m.Increment(ctx, "c", 1)
	require.ErrorIs(t, err, kv.ErrFull)
	_, err = m.Swap(ctx, "c", nil, "1", 0)
	require.ErrorIs(t, err, kv.ErrFull)
	_, ok, err := m.Get(ctx, "c")
	require.NoError(t, err)
	require.False(t, ok)
	require.NoError(t, m.Set(ctx, "a", "2", 0), "what is there can be written")

	m.Advance(time.Second)
	require.NoError(t, m.Set(ctx, "c", "1", 0), "what has lapsed takes no room")
	require.ErrorIs(t, m.Set(ctx, "d", "1", 0), kv.ErrFull)
	require.NoError(t, m.Delete(ctx, "a"))
	require.NoError(t, m.Set(ctx, "d", "1", 0))
}

func TestMemoryIsBoundedInBytes(t *testing.T) {
	m := newClocked(kv.MemoryOptions{MaxBytes: 100})
	ctx := t.Context()
	require.NoError(t, m.Set(ctx, "a", strings.Repeat("x", 49), 0))
	require.NoError(t, m.Set(ctx, "b", strings.Repeat("x", 49), time.Second))
	err := m.Set(ctx, "c", "", 0)
	require.EqualError(t, err, "store is full: it has 100 bytes, 1 more would pass the limit of 100")
	require.ErrorIs(t, m.Set(ctx, "a", strings.Repeat("x", 50), 0), kv.ErrFull)
	require.NoError(t, m.Set(ctx, "a", strings.Repeat("x", 48), 0))
	require.NoError(t, m.Set(ctx, "c", "", 0))

	m.Advance(time.Second)
	require.NoError(t, m.Set(ctx, "a", strings.Repeat("x", 98), 0))
	entries, _, bytes := m.Stored()
	require.Equal(t, 2, entries)
	require.Equal(t, 100, bytes)
	_, err = m.Wipe(ctx, "")
	require.NoError(t, err)
	_, _, bytes = m.Stored()
	require.Zero(t, bytes)
}

func TestMemoryCountsWhatItHoldsExactly(t *testing.T) {
	m := newClocked(kv.MemoryOptions{})
	ctx := t.Context()
	for i := range 400 {
		key := fmt.Sprint("k", i%40)
		switch i % 6 {
		case 0, 1:
			require.NoError(t, m.Set(ctx, key, strings.Repeat("9", i%19), time.Duration(i%3)*time.Second))
		case 2:
			_, _ = m.Increment(ctx, key, int64(i)) // some are no integers
		case 3:
			_, err := m.Swap(ctx, key, nil, "5", time.Second)
			require.NoError(t, err)
		case 4:
			_, err := m.Expire(ctx, key, time.Duration(i%2)*time.Second)
			require.NoError(t, err)
		case 5:
			_, err := m.DeleteIf(ctx, key, "5")
			require.NoError(t, err)
			m.Advance(100 * time.Millisecond)
		}
		if i%50 == 49 {
			require.NoError(t, m.Delete(ctx, key))
		}
	}
	m.Advance(time.Minute)
	require.NoError(t, m.Set(ctx, "last", "v", 0))
	for range 40 { // all that lapsed is swept by a few writes
		require.NoError(t, m.Set(ctx, "last", "v", 0))
	}
	entries, mortal, bytes := m.Stored()
	want, wantBytes := 0, 0
	for key, err := range m.Keys(ctx, "") {
		require.NoError(t, err)
		value, ok, err := m.Get(ctx, key)
		require.NoError(t, err)
		require.True(t, ok)
		want++
		wantBytes += len(key) + len(value)
	}
	require.Equal(t, want, entries)
	require.Equal(t, wantBytes, bytes)
	require.Zero(t, mortal)
	require.Greater(t, want, 1)
}

func TestMemoryIsSweptByTheWritesThatFollow(t *testing.T) {
	m := newClocked(kv.MemoryOptions{})
	ctx := t.Context()
	for i := range 1000 {
		require.NoError(t, m.Set(ctx, fmt.Sprint("k", i), "v", time.Second))
	}
	m.Advance(time.Second)
	entries, _, _ := m.Stored()
	require.Equal(t, 1000, entries, "nobody sweeps but a write")
	for range 100 {
		_, err := m.Increment(ctx, "counter", 1)
		require.NoError(t, err)
	}
	entries, mortal, _ := m.Stored()
	require.Equal(t, 1, entries)
	require.Zero(t, mortal)
}
