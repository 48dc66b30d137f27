package cron_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/scheduler/cron"
)

// Whatever is written, it is refused with the field named, or it can be printed, read again, and fires in order.
func FuzzParse(f *testing.F) {
	for _, expr := range []string{
		"* * * * *", "0 0 29 2 *", "0 0 31 2 *", "*/7 1-5/2,22 1,15 JAN-mar MON-FRI", "0 0 * * 5-7", "@daily", "@every 1d12h",
		"@every 9999999999999d", "TZ=UTC * * * * *", "? ? ? ? ?", "0 0 L * 5#2", "* * * * 7/7", "0-59/59 */23 */30 */11 */6", "@", "\x00",
	} {
		f.Add(expr, "Europe/Paris", int64(1_774_746_000), int64(400))
	}
	f.Add("30 2 * * *", "Australia/Lord_Howe", int64(1_791_041_400), int64(86_400))
	f.Add("* 0 * * *", "America/Juneau", int64(-3_225_200_000), int64(200_000))
	f.Add("0 0 1 1 *", "Local", int64(0), int64(0))
	f.Fuzz(func(t *testing.T, expr, zone string, sec, span int64) {
		s, err := cron.Parse(expr, zone)
		if err != nil {
			var field *job.FieldError
			require.True(t, errors.As(err, &field))
			require.Contains(t, []string{"cron", "timezone"}, field.Field)
			require.NotEmpty(t, field.Reason)
			require.Less(t, len(field.Reason), 500)
			return
		}
		again, err := cron.Parse(s.String(), zone)
		require.NoError(t, err)
		require.Equal(t, s, again)

		after := time.Unix(sec, 0)
		promised := after
		last := after
		for range 5 {
			next, ok := s.Next(promised, last)
			if !ok {
				require.Zero(t, next)
				// A leap day on one weekday may be forty years away.
				require.Greater(t, last.Year(), 9900)
				break
			}
			require.True(t, next.After(last))
			last = next
		}
		until := after.Add(time.Duration(span%(400*86_400)) * time.Second)
		fires, total := s.Owed(promised, until, 50)
		require.Len(t, fires, min(50, total))
		for i := 1; i < len(fires); i++ {
			require.True(t, fires[i].After(fires[i-1]))
		}
		if total > 0 && total < 50 {
			if next, ok := s.Next(promised, fires[total-1]); ok {
				require.True(t, next.After(until))
			}
		}
	})
}
