package streams

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// say writes a worker's presence as it does itself.
func (n *node) say(p Presence) {
	n.t.Helper()
	body, err := job.Encode(p)
	require.NoError(n.t, err)
	n.publish("$KV."+n.names.workersBucket()+"."+presenceKey(p.Worker, p.Queue), string(body))
}

func TestWorkers(t *testing.T) {
	t.Parallel()
	p := server(t)
	var log logBuffer
	cfg := p.config()
	cfg.Logger = zerolog.New(&log)
	n := p.openAs(t, cfg)
	none, err := n.Workers(t.Context())
	require.NoError(t, err)
	require.Empty(t, none)

	const lease = 6 * time.Second
	n.configure("a", job.QueueSettings{Lease: new(lease)})
	n.configure("b", job.QueueSettings{Lease: new(lease)})
	c := n.work("b", "w1")
	n.work("a", "w1")
	gone := n.work("a", "w2")
	n.enqueue(spec("b", "j"))
	cl := claimOne(t, c)
	bucket := "$KV." + n.names.workersBucket() + "."
	n.publish(bucket+"garbage.a", "{")
	n.publish(bucket+"w9.a", `{"worker":"another","queue":"a"}`)
	now := job.Millis(n.Now())
	n.say(Presence{Worker: "stale", Queue: "a", Lease: time.Second, BeatAt: now.Add(-time.Minute)})
	n.say(Presence{Worker: "w0", Queue: "a", Slots: 2, StartedAt: now, BeatAt: now, Host: "h", PID: 5, Version: "v", Types: []string{"t"}}) // says no lease
	require.NoError(t, gone.Close(t.Context()))

	var workers []job.Worker
	natstest.Eventually(t, soon, func() (err error) {
		if workers, err = n.Workers(t.Context()); err == nil && (len(workers) != 2 || len(workers[1].Queues) != 2 || workers[1].Queues[1].Running != 1) {
			err = fmt.Errorf("%+v", workers)
		}
		return err
	})
	require.Equal(t, job.Worker{
		ID: "w0", Host: "h", PID: 5, Version: "v", StartedAt: now, BeatAt: now, Queues: []job.WorkerQueue{{Queue: "a", Slots: 2, Types: []string{"t"}}},
	}, workers[0])
	w := workers[1]
	require.Equal(t, "w1", w.ID)
	require.Equal(t, []string{"a", "b"}, []string{w.Queues[0].Queue, w.Queues[1].Queue})
	require.Equal(t, 4, w.Queues[1].Slots)
	require.Equal(t, lease, w.Queues[1].Lease)
	require.Equal(t, []job.WorkerJob{{Space: "default", ID: "j", Type: "t", Since: cl.Job().StartedAt}}, w.Queues[1].Jobs)
	for _, key := range []string{"garbage.a", "w9.a"} {
		require.Equal(t, 1, strings.Count(log.String(), key), log.String())
	}
	q, err := n.Queue(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, 2, q.Workers)
	require.Equal(t, 6, q.Slots)
	settle(t, cl, job.Succeed(nil))
}

func TestThousandsOfWorkers(t *testing.T) {
	t.Parallel()
	p := server(t)
	n := p.open(t)
	const workers = 2000
	now := job.Millis(n.Now())
	var last jetstream.PubAckFuture
	for i := range workers {
		w := Presence{Worker: fmt.Sprintf("w%04d", i), Queue: fmt.Sprint("q", i%3), Slots: 1, Lease: time.Hour, BeatAt: now}
		body, err := job.Encode(w)
		require.NoError(t, err)
		last, err = n.js.PublishAsync("$KV."+n.names.workersBucket()+"."+presenceKey(w.Worker, w.Queue), body)
		require.NoError(t, err)
	}
	select {
	case <-last.Ok():
	case err := <-last.Err():
		require.NoError(t, err)
	}
	got, err := n.Workers(t.Context())
	require.NoError(t, err)
	require.Len(t, got, workers)
	for i, w := range got {
		require.Equal(t, fmt.Sprintf("w%04d", i), w.ID)
	}
	s, err := n.js.Stream(t.Context(), "KV_"+n.names.workersBucket())
	require.NoError(t, err)
	require.Zero(t, s.CachedInfo().State.Consumers, "nothing was left behind")
}
