package cron_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/scheduler/cron"
)

func BenchmarkNext(b *testing.B) {
	for _, c := range []struct{ name, expr, zone string }{
		{"every minute in UTC", "* * * * *", "UTC"},
		{"every minute", "* * * * *", "Europe/Paris"},
		{"daily in UTC", "30 2 * * *", "UTC"},
		{"daily", "30 2 * * *", "Europe/Paris"},
		{"weekdays", "0 9 * * MON-FRI", "America/New_York"},
		{"yearly", "@yearly", "Australia/Lord_Howe"},
		{"leap days", "0 0 29 2 *", "America/New_York"},
		{"leap days on a Sunday", "0 0 29 2 */6", "America/New_York"},
		{"@every", "@every 90s", "UTC"},
	} {
		b.Run(c.name, func(b *testing.B) {
			s, err := cron.Parse(c.expr, c.zone)
			require.NoError(b, err)
			start := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
			at := start
			for b.Loop() {
				next, ok := s.Next(start, at)
				if !ok || next.Year() > 2060 {
					next = start
				}
				at = next
			}
		})
	}
}

func BenchmarkOwed(b *testing.B) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct{ name, expr string }{{"minutes", "* * * * *"}, {"days", "30 2 * * *"}} {
		b.Run("ten years of "+c.name, func(b *testing.B) {
			s, err := cron.Parse(c.expr, "Europe/Paris")
			require.NoError(b, err)
			for b.Loop() {
				s.Owed(start, start.AddDate(10, 0, 0), 10)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		if _, err := cron.Parse("*/5 9-17 * * MON-FRI", "Europe/Paris"); err != nil {
			b.Fatal(err)
		}
	}
}
