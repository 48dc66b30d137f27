package cron_test

import (
	"fmt"
	"time"

	"github.com/jetcrew/jetcrew/scheduler/cron"
)

// The night in which summer begins: half past two does not come, and the job runs at three.
func ExampleSpec_Next() {
	s, err := cron.Parse("30 2 * * *", "Europe/Paris")
	if err != nil {
		fmt.Println(err)
		return
	}
	paris, err := time.LoadLocation("Europe/Paris")
	if err != nil {
		fmt.Println(err)
		return
	}
	at := time.Date(2026, 3, 27, 12, 0, 0, 0, paris)
	for range 3 {
		at, _ = s.Next(at, at)
		fmt.Println(at.In(paris))
	}
	// Output:
	// 2026-03-28 02:30:00 +0100 CET
	// 2026-03-29 03:00:00 +0200 CEST
	// 2026-03-30 02:30:00 +0200 CEST
}

// An interval counts from the promised instant, so a late run does not shift those after it.
func ExampleSpec_Next_every() {
	s, err := cron.Parse("@every 90s", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	promised := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	late := promised.Add(7 * time.Second)
	fmt.Println(s.Next(promised, late))
	// Output: 2026-01-01 12:01:30 +0000 UTC true
}

// What a schedule owes after an outage of a week.
func ExampleSpec_Owed() {
	s, err := cron.Parse("*/5 * * * *", "America/New_York")
	if err != nil {
		fmt.Println(err)
		return
	}
	promised := time.Date(2026, 6, 1, 0, 5, 0, 0, time.UTC)
	fires, total := s.Owed(promised, promised.AddDate(0, 0, 7), 2)
	fmt.Println(fires, "of", total)
	// Output: [2026-06-01 00:05:00 +0000 UTC 2026-06-01 00:10:00 +0000 UTC] of 2017
}

func ExampleParse() {
	for _, expr := range []string{"0 9 * * MON-FRI", "0 25 * * *", "0 0 30 2 *"} {
		_, err := cron.Parse(expr, "Europe/Paris")
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// cron: hour "25" is not allowed: 0 to 23, *, ranges (a-b with a <= b), steps within a range (*/n, a-b/n) and lists (a,b)
	// cron: would never fire: no day of month 30 in month 2
}
