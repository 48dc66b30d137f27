package scheduler

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

func TestWhoServesASchedule(t *testing.T) {
	t.Parallel()
	many := make([]string, typesTold)
	for i := range many {
		many[i] = strings.Repeat("t", i+1)
	}
	spec := Spec{Queue: "q", Type: "x"}
	for _, c := range []struct {
		want   string
		queues []job.WorkerQueue
	}{
		{"no worker that is alive takes jobs from the queue q", nil},
		{"no worker that is alive takes jobs from the queue q", []job.WorkerQueue{{Queue: "other", Types: []string{"x"}}}},
		{"no worker that is alive on the queue q handles the type x", []job.WorkerQueue{{Queue: "q", Types: []string{"y"}}}},
		{"", []job.WorkerQueue{{Queue: "q", Types: []string{"y"}}, {Queue: "q", Types: []string{"x"}}}},
		{"", []job.WorkerQueue{{Queue: "q"}}}, // it does not tell
		{"", []job.WorkerQueue{{Queue: "q", Types: many}}},
	} {
		require.Equal(t, c.want, unserved([]job.Worker{{Queues: c.queues}}, &spec))
	}
}

func TestAScheduleThatDoesNotFireEveryYearIsPointedOut(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 3, 1, 0, 0, 0, 0, time.UTC)
	for cron, rare := range map[string]bool{
		"0 0 29 2 *": true, "@yearly": false, "@every 366d": false, "0 0 31 12 *": false, "* * * * *": false, "0 0 1 3 *": false,
	} {
		got := rarely(&Spec{Space: "s", Name: "n", Type: "t", Cron: cron, Timezone: "America/New_York"}, now)
		require.Equal(t, rare, got != "", "%s: %s", cron, got)
	}
}
