package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/config"
)

func TestDurationsMayHaveDays(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "7d": 7 * 24 * time.Hour, "1d12h": 36 * time.Hour, "0d": 0, "0": 0, "01d1ms": 24*time.Hour + time.Millisecond,
		"1d0.5h": 24*time.Hour + 30*time.Minute, "-1h": -time.Hour, "106751d": 106751 * 24 * time.Hour, "1h30m": 90 * time.Minute,
	} {
		d, err := config.ParseDuration(text)
		require.NoError(t, err, text)
		require.Equal(t, want, d, text)
	}
	for _, text := range []string{
		"", "d", "7", "soon", "1.5d", "-1d", "+1d", "1d-1h", "1d+1h", "1d2d", "1h1d", "1 d", "1d 2h", "1d1", "1D", "١d", "1d12", "\x00",
	} {
		_, err := config.ParseDuration(text)
		require.ErrorContains(t, err, "is no duration such as 90s, 12h, 7d or 1d12h", "%q", text)
	}
	for _, text := range []string{"106752d", "106751d24h", "99999999999999999999999d"} {
		_, err := config.ParseDuration(text)
		require.ErrorContains(t, err, "longer than any duration", "%q", text)
	}
}

func TestDurationsAreWrittenShort(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0s": 0, "7d": 168 * time.Hour, "1d12h": 36 * time.Hour, "1h30m": 90 * time.Minute, "20h": 20 * time.Hour, "10m": 10 * time.Minute,
		"1m30s": 90 * time.Second, "1d30s": 24*time.Hour + 30*time.Second, "1d1m": 24*time.Hour + time.Minute, "1.5s": 1500 * time.Millisecond,
	} {
		require.Equal(t, want, config.FormatDuration(d))
	}
}

func FuzzParseDuration(f *testing.F) {
	f.Add("1d12h")
	f.Add("106751d23h47m16.854775807s")
	f.Fuzz(func(t *testing.T, s string) {
		d, err := config.ParseDuration(s)
		if err != nil {
			return
		}
		again, err := config.ParseDuration(config.FormatDuration(d))
		require.NoError(t, err, "%q", s)
		require.Equal(t, d, again, "%q", s)
	})
}

func TestNoRetentionIsSaidInThreeWays(t *testing.T) {
	for _, text := range []string{"none", "0", "0s"} {
		c := load(t, "JETCREW_RETENTION_SUCCEEDED="+text, "JETCREW_RETENTION_FAILED=90d")
		require.Equal(t, config.NoRetention, c.RetentionSucceeded, text)
		require.EqualValues(t, 90*24*time.Hour, c.RetentionFailed)
		shown := make(map[string]string)
		for _, s := range c.Settings() {
			shown[s.Variable] = s.Value
		}
		require.Equal(t, "none", shown["JETCREW_RETENTION_SUCCEEDED"])
		require.Equal(t, "90d", shown["JETCREW_RETENTION_FAILED"])
		require.Equal(t, "7d", shown["JETCREW_RETENTION_DEAD"])
	}
	require.EqualValues(t, 10*time.Minute, load(t, "JETCREW_RETENTION_CANCELLED=10m").RetentionCancelled)
}
