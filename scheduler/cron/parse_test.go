package cron_test

import (
	"strings"
	"testing"
	"time"

	robfig "github.com/robfig/cron/v3"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/scheduler/cron"
)

const (
	fieldsText      = "minute, hour, day of month, month, day of week"
	rest            = ", *, ranges (a-b with a <= b), steps within a range (*/n, a-b/n) and lists (a,b)"
	minuteText      = " is not allowed: 0 to 59" + rest
	hourText        = " is not allowed: 0 to 23" + rest
	domText         = " is not allowed: 1 to 31" + rest
	monthText       = " is not allowed: 1 to 12 or JAN to DEC" + rest
	dowText         = " is not allowed: 0 to 7 or SUN to SAT (0 and 7 are Sunday)" + rest
	hintText        = "; ?, L, W and # are not known here"
	descriptorsText = " is not allowed: @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually, @every, or the five fields " + fieldsText
	everyText       = " is not allowed: whole seconds from 1s to 366d, such as 90s, 12h, 7d or 1d12h"
	zoneText        = ": an IANA name such as Europe/Paris is needed, or none for UTC"
)

func TestContractRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ expr, want string }{
		{"", "must not be empty"},
		{" \t\n", "must not be empty"},
		{"* * * *", "needs five fields (" + fieldsText + "), has 4"},
		{"0 * * * * *", "needs five fields (" + fieldsText + "), has 6"},
		{"0 0 1 1 * 2027", "needs five fields (" + fieldsText + "), has 6"},
		{"daily", "needs five fields (" + fieldsText + "), has 1"},
		{strings.Repeat("*", 1025), "has 1025 bytes, at most 1024 are allowed"},
		{"TZ=Europe/Paris 0 0 * * *", `"TZ=Europe/Paris" is not allowed: the zone is given as timezone`},
		{"CRON_TZ=UTC", `"CRON_TZ=UTC" is not allowed: the zone is given as timezone`},

		{"60 * * * *", `minute "60"` + minuteText},
		{"-1 * * * *", `minute "-1"` + minuteText},
		{"1- * * * *", `minute "1-"` + minuteText},
		{"1-2-3 * * * *", `minute "1-2-3"` + minuteText},
		{"+5 * * * *", `minute "+5"` + minuteText},
		{"007 * * * *", `minute "007"` + minuteText},
		{"1.5 * * * *", `minute "1.5"` + minuteText},
		{"٣ * * * *", `minute "٣"` + minuteText},
		{"*/0 * * * *", `minute "*/0"` + minuteText},
		{"*/60 * * * *", `minute "*/60"` + minuteText},
		{"*/90 * * * *", `minute "*/90"` + minuteText},
		{"*/ * * * *", `minute "*/"` + minuteText},
		{"*/5/5 * * * *", `minute "*/5/5"` + minuteText},
		{"10-20/11 * * * *", `minute "10-20/11"` + minuteText},
		{"20-10 * * * *", `minute "20-10"` + minuteText},
		{"*-5 * * * *", `minute "*-5"` + minuteText},
		{"** * * * *", `minute "**"` + minuteText},
		{"0,,30 * * * *", `minute ""` + minuteText},
		{"0,15,99 * * * *", `minute "99"` + minuteText},
		{"H * * * *", `minute "H"` + minuteText},
		{"? * * * *", `minute "?"` + minuteText + hintText},
		{"0 24 * * *", `hour "24"` + hourText},
		{"0 22-2 * * *", `hour "22-2"` + hourText},
		{"0 9am * * *", `hour "9am"` + hourText},
		{"0 0 0 * *", `day of month "0"` + domText},
		{"0 0 32 * *", `day of month "32"` + domText},
		{"0 0 MON * *", `day of month "MON"` + domText},
		{"0 0 ? * *", `day of month "?"` + domText + hintText},
		{"0 0 L * *", `day of month "L"` + domText + hintText},
		{"0 0 L-3 * *", `day of month "L-3"` + domText + hintText},
		{"0 0 15W * *", `day of month "15W"` + domText + hintText},
		{"0 0 1 0 *", `month "0"` + monthText},
		{"0 0 1 13 *", `month "13"` + monthText},
		{"0 0 1 JANUARY *", `month "JANUARY"` + monthText},
		{"0 0 1 MON *", `month "MON"` + monthText},
		{"0 0 1 DEC-JAN *", `month "DEC-JAN"` + monthText},
		{"0 0 * * 8", `day of week "8"` + dowText},
		{"0 0 * * MONDAY", `day of week "MONDAY"` + dowText},
		{"0 0 * * FRI-MON", `day of week "FRI-MON"` + dowText},
		{"0 0 * * ſUN", `day of week "ſUN"` + dowText},
		{"0 0 * * 5L", `day of week "5L"` + dowText + hintText},
		{"0 0 * * FRI#2", `day of week "FRI#2"` + dowText + hintText},
		{"0 0 * * " + strings.Repeat("x", 100), `day of week "` + strings.Repeat("x", 40) + `..."` + dowText},

		{"@reboot", `"@reboot"` + descriptorsText},
		{"@", `"@"` + descriptorsText},
		{"@daily 5", `"5" is not allowed after @daily, which stands alone`},
		{"@every", `@every ""` + everyText},
		{"@every soon", `@every "soon"` + everyText},
		{"@every 90", `@every "90"` + everyText},
		{"@every 0s", `@every "0s"` + everyText},
		{"@every -5m", `@every "-5m"` + everyText},
		{"@every 500ms", `@every "500ms"` + everyText},
		{"@every 1.5s", `@every "1.5s"` + everyText},
		{"@every 367d", `@every "367d"` + everyText},
		{"@every 366d1s", `@every "366d1s"` + everyText},
		{"@every 999999999999d", `@every "999999999999d"` + everyText},
		{"@every 1h 30m", `@every "1h 30m"` + everyText},

		{"0 0 31 2 *", "would never fire: no day of month 31 in month 2"},
		{"0 0 30 2 *", "would never fire: no day of month 30 in month 2"},
		{"0 0 31 4,6,9,NOV *", "would never fire: no day of month 31 in month 4,6,9,NOV"},
		{"0 0 30-31 FEB */2", "would never fire: no day of month 30-31 in month FEB"},
	} {
		s, err := cron.Parse(c.expr, "Europe/Paris")
		require.Nil(t, s, c.expr)
		var field *job.FieldError
		require.ErrorAs(t, err, &field, c.expr)
		require.Equal(t, job.FieldError{Field: "cron", Reason: c.want}, *field)
	}
}

func TestContractZonesRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ zone, want string }{
		{"Local", `"Local" is another zone on each machine` + zoneText},
		{"localtime", `"localtime" is another zone on each machine` + zoneText},
		{"Mars/Olympus", `"Mars/Olympus" is not known` + zoneText},
		{"../../etc/passwd", `"../../etc/passwd" is not known` + zoneText},
		{"/etc/localtime", `"/etc/localtime" is not known` + zoneText},
		{"Europe", `"Europe" is not known` + zoneText},
		{" UTC", `" UTC" is not known` + zoneText},
		{"+02:00", `"+02:00" is not known` + zoneText},
		{"a\x00b", `"a\x00b" is not known` + zoneText},
		{strings.Repeat("z", 5000), `"` + strings.Repeat("z", 40) + `..." is not known` + zoneText},
	} {
		_, err := cron.Parse("0 0 * * *", c.zone)
		var field *job.FieldError
		require.ErrorAs(t, err, &field, c.zone)
		require.Equal(t, job.FieldError{Field: "timezone", Reason: c.want}, *field)
	}
}

// Two ways to write the same schedule.
func TestSameMeaning(t *testing.T) {
	t.Parallel()
	from := at(t, "2026-02-03T04:05:06Z")
	for _, c := range [][2]string{
		{"@hourly", "0 * * * *"},
		{"@daily", "0 0 * * *"},
		{"@midnight", "00 00 * * *"},
		{"@Weekly", "0 0 * * SUN"},
		{"@monthly", "0 0 1 * *"},
		{"@yearly", "0 0 1 1 *"},
		{"@ANNUALLY", "0 0 1 jan *"},
		{"  */15\t* * *  * ", "0,15,30,45 * * * *"},
		{"5/20 * * * *", "5,25,45 * * * *"},
		{"10-30/10 1-3 * * *", "10,20,30 1,2,3 * * *"},
		{"0 0 * * 7", "0 0 * * 0"},
		{"0 0 * * FRI-SUN", "0 0 * * 5,6,0"},
		{"0 0 * * 5-7", "0 0 * * Fri,sAT,sun"},
		{"0 0 * * 1-7/2", "0 0 * * 1,3,5,7"},
		{"0 0 * * 1/2", "0 0 * * 1,3,5"},
		{"0 0 * * SUN-TUE", "0 0 * * 0,1,2"},
		{"0 0 * JAN-MAR/2 *", "0 0 * 1,3 *"},
		{"0 0 1-31 * MON", "0 0 * * *"}, // either, and the first is every day
		{"@every 90s", "@every 1m30s"},
		{"@EVERY 36h", "@every 1d12h"},
	} {
		a, b := parse(t, c[0], "Europe/Paris"), parse(t, c[1], "Europe/Paris")
		fires, total := a.Owed(from, from.AddDate(3, 0, 0), 200)
		same, sameTotal := b.Owed(from, from.AddDate(3, 0, 0), 200)
		require.Equal(t, fires, same, c)
		require.Equal(t, total, sameTotal, c)
		require.Greater(t, total, 3, c)
	}
}

func TestString(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string]string{
		" 0   9 * * MON-fri ": "0 9 * * MON-fri",
		"@Daily":              "@daily",
		"@midnight":           "@midnight",
		"@every 5400s":        "@every 1h30m",
		"@every 48h":          "@every 2d",
	} {
		s := parse(t, expr, "")
		require.Equal(t, want, s.String())
		require.Equal(t, s, parse(t, want, "UTC"))
	}
}

// In UTC, where no clock changes, an expression means what it means to robfig/cron, which most Go programs use;
// but for two day fields of which one begins with *, where classic cron is followed.
func TestSameAsRobfig(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := expression{
			draw(0, 59).Draw(t, "minute"), draw(0, 23).Draw(t, "hour"), draw(1, 31).Draw(t, "dom"),
			draw(1, 12).Draw(t, "month"), draw(0, 6).Draw(t, "dow"),
		}
		if strings.HasPrefix(e.dom.text, "*/") || strings.HasPrefix(e.dow.text, "*/") {
			e.dow = values{text: "*"}
		}
		other, err := robfig.ParseStandard("TZ=UTC " + e.String())
		require.NoError(t, err)
		last := time.Unix(rapid.Int64Range(0, 4_000_000_000).Draw(t, "from"), 0).UTC()
		s, err := cron.Parse(e.String(), "")
		if err != nil {
			require.ErrorContains(t, err, "would never fire")
			require.True(t, other.Next(last).IsZero())
			return
		}
		for range 20 {
			want := other.Next(last)
			if want.IsZero() { // it looks ahead for five years
				return
			}
			next, ok := s.Next(last, last)
			require.True(t, ok)
			require.Equal(t, want, next, "%s after %s", s, last)
			last = next
		}
	})
}
