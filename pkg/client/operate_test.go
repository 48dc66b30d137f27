package client_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/job"
)

func TestAnOperatorSeesAndSteers(t *testing.T) {
	c := connect(t, client.Config{})
	ctx := within(t)
	for _, id := range []string{"1", "2", "3"} {
		_, err := c.Enqueue(ctx, "t", nil, client.WithID(id), client.WithQueue("mail"))
		require.NoError(t, err)
	}
	_, err := c.Enqueue(ctx, "t", nil, client.WithID("late"), client.WithSpace("acme"), client.WithQueue("mail"), client.WithDelay(time.Hour))
	require.NoError(t, err)

	p, err := c.List(ctx, job.ListRequest{Filter: job.Filter{Spaces: []string{"default"}}, Limit: 2})
	require.NoError(t, err)
	require.Len(t, p.Jobs, 2)
	require.NotEmpty(t, p.Next)
	n, err := c.Count(ctx)
	require.NoError(t, err)
	require.Equal(t, 3, n.Ready)
	require.Equal(t, 1, n.Due)

	ch, err := c.Cancel(ctx, job.Key{ID: "1"})
	require.NoError(t, err)
	require.True(t, ch.Done)
	ch, err = c.Requeue(ctx, job.Key{ID: "1"})
	require.NoError(t, err)
	require.True(t, ch.Done)
	ch, err = c.RunNow(ctx, job.Key{ID: "late", Space: "acme"})
	require.NoError(t, err)
	require.True(t, ch.Done)
	ch, err = c.Delete(ctx, job.Key{ID: "2"})
	require.NoError(t, err)
	require.True(t, ch.Done)
	_, err = c.Delete(ctx, job.Key{ID: "2"})
	require.ErrorIs(t, err, job.ErrNotFound)

	r, err := c.Bulk(ctx, job.BulkRequest{Operation: job.OpCancel, Filter: job.Filter{Spaces: []string{"acme"}}})
	require.NoError(t, err)
	require.Equal(t, 1, r.Done)
	r, err = c.Purge(ctx, client.PurgeRequest{Queue: "mail", DryRun: true})
	require.NoError(t, err)
	require.Equal(t, 2, r.Done)
	r, err = c.Purge(ctx, client.PurgeRequest{Queue: "mail"})
	require.NoError(t, err)
	require.Equal(t, 2, r.Done)
	_, err = c.Purge(ctx, client.PurgeRequest{Queue: "nobody"})
	require.ErrorIs(t, err, job.ErrNoQueue)
}

func TestAnOperatorSetsQueues(t *testing.T) {
	c := connect(t, client.Config{})
	ctx := within(t)
	limit := 7
	q, err := c.Configure(ctx, "mail", job.QueueSettings{Concurrency: &limit})
	require.NoError(t, err)
	require.Equal(t, 7, q.Concurrency)
	require.NoError(t, c.Pause(ctx, "mail", time.Time{}))
	q, err = c.Queue(ctx, "mail")
	require.NoError(t, err)
	require.True(t, q.Paused)
	require.NoError(t, c.Resume(ctx, "mail"))
	all, err := c.Queues(ctx)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.False(t, all[0].Paused)
	workers, err := c.Workers(ctx)
	require.NoError(t, err)
	require.Empty(t, workers)
	require.NoError(t, c.DeleteQueue(ctx, "mail"))
	_, err = c.Queue(ctx, "mail")
	require.ErrorIs(t, err, job.ErrNoQueue)
}

func TestADeniedOperatorIsToldAtOnce(t *testing.T) {
	type call struct {
		name string
		do   func(context.Context, *client.Client) error
	}
	err := func(_ any, err error) error { return err }
	one := job.Filter{Spaces: []string{"default"}}
	steers := []call{
		{"cancel", func(ctx context.Context, c *client.Client) error { return err(c.Cancel(ctx, job.Key{ID: "there"})) }},
		{"bulk", func(ctx context.Context, c *client.Client) error {
			return err(c.Bulk(ctx, job.BulkRequest{Operation: job.OpCancel, Filter: one}))
		}},
	}
	looks := []call{
		{"count", func(ctx context.Context, c *client.Client) error { return err(c.Count(ctx)) }},
		{"queues", func(ctx context.Context, c *client.Client) error { return err(c.Queues(ctx)) }},
	}
	manages := []call{
		{"queue", func(ctx context.Context, c *client.Client) error { return err(c.Queue(ctx, "default")) }},
		{"configure", func(ctx context.Context, c *client.Client) error {
			return err(c.Configure(ctx, "default", job.QueueSettings{Retention: map[job.Status]time.Duration{job.Dead: time.Hour}}))
		}},
	}
	for _, c := range []struct {
		denied string
		calls  []call
	}{
		{"jetcrew.job.cancelled.default.default.there", steers},
		{"$JS.API.CONSUMER.LIST.JETCREW_JOBS", looks},
		{"$JS.API.DIRECT.GET.KV_JETCREW_WORKERS", append(looks[1:], call{
			"workers", func(ctx context.Context, c *client.Client) error { return err(c.Workers(ctx)) },
		})},
		{"$JS.API.CONSUMER.INFO.JETCREW_JOBS.ready-default", manages},
		{"$JS.API.CONSUMER.PAUSE.JETCREW_JOBS.ready-default", []call{
			{"pause", func(ctx context.Context, c *client.Client) error { return c.Pause(ctx, "default", time.Time{}) }},
		}},
		{"$JS.API.DIRECT.GET.JETCREW_JOBS", []call{
			{"list", func(ctx context.Context, c *client.Client) error {
				return err(c.List(ctx, job.ListRequest{Filter: one}))
			}},
		}},
	} {
		t.Run(c.denied, func(t *testing.T) {
			cl := connect(t, restricted(t, c.denied))
			for _, call := range c.calls {
				t.Run(call.name, func(t *testing.T) {
					from := time.Now()
					atOnce(t, from, call.do(within(t), cl), c.denied)
				})
			}
		})
	}
}

// What an operation leaves to be cleaned up is others' to finish: that this client may not is no failure, nor a reason
// to wait.
func TestADeniedCleanUpIsNotWaitedFor(t *testing.T) {
	c := connect(t, restricted(t, "$JS.API.STREAM.MSG.DELETE.JETCREW_JOBS"))
	from := time.Now()
	ch, err := c.Cancel(within(t), job.Key{ID: "there"})
	require.NoError(t, err)
	require.True(t, ch.Done)
	require.Less(t, time.Since(from), 4*time.Second)
	j, err := c.Get(within(t), job.Key{ID: "there"})
	require.NoError(t, err)
	require.Equal(t, job.Cancelled, j.Status)
}

func TestADeniedWatchFailsAtOnce(t *testing.T) {
	cfg := denySubscriptions(t, "jetcrew.event.>")
	c := connect(t, cfg)
	from := time.Now()
	err := c.Watch(within(t), client.WatchRequest{Filter: job.Filter{AllSpaces: true}}, func(client.Event) error { return nil })
	atOnce(t, from, err, "jetcrew.event.*.*.*.*")
}

func TestEventsOfNamesOfAllKindsAreTold(t *testing.T) {
	c := connect(t, client.Config{})
	hashed := strings.Repeat("é", 95)
	for name, key := range map[string]job.Key{
		"plain":  {Queue: "mail", Space: "acme", ID: "1"},
		"odd":    {Queue: "a.b *", Space: "x>=%41", ID: "é/\x1b"},
		"hashed": {Queue: hashed, Space: "default", ID: "2"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := within(t)
			kinds := make(chan client.EventKind, 1000)
			watch, stop := context.WithCancel(ctx)
			defer stop()
			done := make(chan error, 1)
			req := client.WatchRequest{Filter: job.Filter{Spaces: []string{key.Space, key.Space}, Queue: key.Queue, Type: "t"}, ID: key.ID}
			go func() {
				done <- c.Watch(watch, req, func(e client.Event) error {
					if e.Kind.OfJob() && e.Key() != key {
						t.Errorf("%+v", e)
					}
					kinds <- e.Kind
					return nil
				})
			}()
			require.Equal(t, client.EventWatching, <-kinds)
			_, err := c.Enqueue(ctx, "t", nil, client.WithID(key.ID), client.WithQueue(key.Queue), client.WithSpace(key.Space))
			require.NoError(t, err)
			_, err = c.Enqueue(ctx, "t", nil, client.WithID(key.ID), client.WithQueue("other"), client.WithSpace(key.Space))
			require.NoError(t, err)
			_, err = c.Cancel(ctx, key)
			require.NoError(t, err)
			require.EqualValues(t, "ready", <-kinds)
			require.EqualValues(t, "cancelled", <-kinds)
			stop()
			require.ErrorIs(t, <-done, context.Canceled)
			require.Empty(t, kinds)
		})
	}
}

func TestAWatchEnds(t *testing.T) {
	c := connect(t, client.Config{})
	all := client.WatchRequest{Filter: job.Filter{AllSpaces: true}}
	require.ErrorIs(t, c.Watch(within(t), all, func(client.Event) error { return job.ErrClosed }), job.ErrClosed)
	bad := client.WatchRequest{Filter: job.Filter{AllSpaces: true, Statuses: []job.Status{"nope"}}}
	require.ErrorAs(t, c.Watch(within(t), bad, nil), new(*job.FieldError))
	done := make(chan error, 1)
	begun := make(chan struct{})
	go func() {
		done <- c.Watch(within(t), all, func(client.Event) error { close(begun); return nil })
	}()
	<-begun
	c.Close()
	require.ErrorIs(t, <-done, nats.ErrConnectionClosed)
}

func TestAWatchSaysThatItMissedEvents(t *testing.T) {
	c := connect(t, client.Config{})
	ctx := within(t)
	slow, told := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	begun := make(chan struct{})
	go func() {
		done <- c.Watch(ctx, client.WatchRequest{Filter: job.Filter{AllSpaces: true}}, func(e client.Event) error {
			switch e.Kind {
			case client.EventWatching:
				close(begun)
				<-slow
			case client.EventMissed:
				close(told)
				return job.ErrClosed
			}
			return nil
		})
	}()
	<-begun
	for range 40_000 {
		require.NoError(t, c.Conn().Publish("jetcrew.event.ready.q.s.i", []byte(`{}`)))
	}
	require.NoError(t, c.Conn().Flush())
	close(slow)
	<-told
	require.ErrorIs(t, <-done, job.ErrClosed)
}
