package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/streams"
)

func TestAges(t *testing.T) {
	now := time.Date(2030, 1, 31, 9, 0, 0, 0, time.UTC)
	for want, d := range map[string]time.Duration{
		"now": 0, "1s": 1999 * time.Millisecond, "3m12s": 3*time.Minute + 12*time.Second, "5h2m": 5*time.Hour + 2*time.Minute + 9*time.Second,
		"9d3h": 9*24*time.Hour + 3*time.Hour + 59*time.Minute,
	} {
		require.Equal(t, want, age(now, now.Add(-d)))
	}
	require.Equal(t, "now", age(now, now.Add(time.Minute)), "another's clock")
	require.Empty(t, age(now, time.Time{}))
}

func TestNoRetentionMeansTheSameInSettingsAndStore(t *testing.T) {
	require.Equal(t, streams.NoRetention, time.Duration(config.NoRetention))
	require.Equal(t, streams.MinRetention, config.MinRetention)
}

func TestDaysOnTheCommandLine(t *testing.T) {
	serve(t)
	call(t, "enqueue", "t", "--id", "x", "--delay", "1d12h", "--timeout", "2d").ok(t)
	record := get(t, "pending", "x")
	require.Equal(t, "48h0m0s", record["timeout"])
	created, err := time.Parse(time.RFC3339, record["createdAt"].(string))
	require.NoError(t, err)
	runAt, err := time.Parse(time.RFC3339, record["runAt"].(string))
	require.NoError(t, err)
	require.InDelta(t, 36, runAt.Sub(created).Hours(), 0.01)
}
