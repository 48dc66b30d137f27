package scheduler

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

// A server that is killed does not bring back schedules whose markers have expired.
func TestADeletedScheduleStaysDeletedWhenTheServerIsKilled(t *testing.T) {
	t.Parallel()
	srv := natstest.StartServer(t, natstest.ServerConfig{})
	b := benchAt(t, srv.URL(), "2030-01-01 00:00:00")
	b.store.marker = time.Second
	for i := range 5 {
		b.put(Cron("@daily", Spec{Name: fmt.Sprint("s", i), Type: "work"}))
	}
	for i := range 4 {
		require.NoError(t, b.store.Delete(context.Background(), "default", fmt.Sprint("s", i)))
	}
	left := func(want uint64) error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		s, err := b.store.js.Stream(ctx, "KV_JETCREW_SCHEDULES")
		if err != nil {
			return err
		}
		info, err := s.Info(ctx, jetstream.WithSubjectFilter(">"))
		if err != nil {
			return err
		}
		if info.State.Msgs != want {
			return fmt.Errorf("%d messages, want %d: %v", info.State.Msgs, want, info.State.Subjects)
		}
		return nil
	}
	natstest.Eventually(t, patience, func() error { return left(1) }) // the markers have gone
	srv.Kill()
	srv.Restart(t)
	natstest.Eventually(t, patience, func() error { return left(1) }) // what comes back of them expires again
	l, err := b.store.List(context.Background(), Filter{})
	require.NoError(t, err)
	require.Len(t, l.Schedules, 1)
	require.Equal(t, "s4", l.Schedules[0].Name)
}
