package compose

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

// testSchedules has the operator put a schedule that the scheduler fires, and others look at it.
func testSchedules(t *testing.T, d *deployment) {
	t.Helper()
	put := d.as("operator", "schedule", "put", "tick", "--type", "echo", "--cron", "@every 1s", "--overlap", "replace")
	require.Equal(t, 0, put.ends(), put.out.String())
	natstest.Eventually(t, patience, func() error {
		get := d.as("readonly", "schedule", "get", "tick")
		if code := get.ends(); code != 0 {
			return fmt.Errorf("exit code %d: %s", code, get.out.String())
		}
		if text := get.out.String(); !strings.Contains(text, "tick@") { // the id of its last job
			return fmt.Errorf("it has not fired: %s", text)
		}
		return nil
	})
	for _, c := range [][]string{
		{"readonly", "schedule", "list"},
		{"operator", "scheduler", "status"},
		{"operator", "schedule", "disable", "tick"},
		{"operator", "schedule", "run", "tick"},
		{"operator", "schedule", "delete", "tick"},
	} {
		p := d.as(c[0], c[1:]...)
		require.Equal(t, 0, p.ends(), "%v: %s", c, p.out.String())
	}
	denied := d.as("readonly", "schedule", "put", "mine", "--type", "echo", "--cron", "@daily")
	require.NotEqual(t, 0, denied.ends(), denied.out.String())
}
