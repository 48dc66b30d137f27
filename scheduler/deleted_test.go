package scheduler

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

// A server that is killed does not bring back schedules that were deleted.
func TestADeletedScheduleStaysDeletedWhenTheServerIsKilled(t *testing.T) {
	t.Parallel()
	srv := natstest.StartServer(t, natstest.ServerConfig{})
	b := benchAt(t, srv.URL(), "2030-01-01 00:00:00")
	for i := range 5 {
		b.put(Cron("@daily", Spec{Name: fmt.Sprint("s", i), Type: "work"}))
	}
	for i := range 4 {
		require.NoError(t, b.store.Delete(context.Background(), "default", fmt.Sprint("s", i)))
	}
	srv.Kill()
	srv.Restart(t)
	var l Listing
	natstest.Eventually(t, patience, func() (err error) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		l, err = b.store.List(ctx, Filter{})
		return err
	})
	require.Len(t, l.Schedules, 1)
	require.Equal(t, "s4", l.Schedules[0].Name)
}
