package cron_test

import (
	"go/build"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/jetcrew/jetcrew/scheduler/cron"
)

// The zones are Go's own, the same on every machine. They are also the harder ones: their tables end early and a rule
// goes on, where many machines' files list every change.
func TestMain(m *testing.M) {
	if err := os.Setenv("ZONEINFO", filepath.Join(build.Default.GOROOT, "lib", "time", "zoneinfo.zip")); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

func parse(t require.TestingT, expr, zone string) *cron.Spec {
	s, err := cron.Parse(expr, zone)
	require.NoError(t, err)
	return s
}

func at(t require.TestingT, text string) time.Time {
	v, err := time.Parse(time.RFC3339Nano, text)
	require.NoError(t, err)
	return v
}

// requireFires checks that an expression's fires after an instant begin with those given, by Next and by Owed.
func requireFires(t require.TestingT, s *cron.Spec, after time.Time, want ...string) {
	var fires []time.Time
	var got []string
	for last := after; len(fires) < len(want); {
		next, ok := s.Next(after, last)
		if !ok {
			break
		}
		require.True(t, next.After(last), "%s comes after %s", next, last)
		require.Equal(t, time.UTC, next.Location())
		fires, last = append(fires, next), next
		got = append(got, next.Format(time.RFC3339Nano))
	}
	require.Equal(t, want, got)

	// As a promise, the instant is owed itself.
	until := fires[len(fires)-1]
	owed, total := s.Owed(after, until, len(fires)+2)
	require.Equal(t, append([]time.Time{after}, fires...), owed)
	require.Equal(t, len(fires)+1, total)
	_, total = s.Owed(after, until.Add(-1), 0)
	require.Equal(t, len(fires), total)
}
