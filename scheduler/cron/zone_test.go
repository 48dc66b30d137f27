package cron

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Periods follow each other without a hole, and hold no change inside, also where a zone file's table goes over into
// its rule, in the middle of a year or not, and at the ends of years.
func TestPeriods(t *testing.T) {
	t.Parallel()
	from := time.Date(1960, time.January, 1, 0, 0, 0, 0, time.UTC).Unix()
	end := time.Date(2045, time.January, 1, 0, 0, 0, 0, time.UTC).Unix()
	for _, name := range []string{
		"UTC", "Europe/Paris", "Europe/Dublin", "Africa/Cairo", "Africa/Casablanca", "Australia/Lord_Howe", "Pacific/Apia",
		"America/Ciudad_Juarez", "America/Indiana/Winamac", "America/Metlakatla", "Antarctica/Troll", "Asia/Gaza",
	} {
		zone, err := time.LoadLocation(name)
		require.NoError(t, err)
		s := &Spec{zone: zone}
		offset := func(at int64) int64 {
			_, n := time.Unix(at, 0).In(zone).Zone()
			return int64(n)
		}
		for at := from; at < end; {
			p := s.periodAt(at)
			require.LessOrEqual(t, p.start, at)
			require.Greater(t, p.end, at)
			const step = 5 * 60 * 60
			last := min(p.end, end) - 1
			for inside := max(p.start, at-step*10_000); inside <= last; inside += step {
				if offset(inside) != p.offset {
					require.Failf(t, "a change inside", "%s: %d in %+v", name, inside, p)
				}
			}
			require.Equal(t, p.offset, offset(last), name)
			if p.start != math.MinInt64 {
				require.Equal(t, p.offset, offset(p.start), name)
			}
			at = last + 1
		}
	}
}
