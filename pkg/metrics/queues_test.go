package metrics

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/streams"
	"github.com/jetcrew/jetcrew/worker"
)

// However many queues there are, those that somebody works for have series of their own, and nothing is left out.
func TestTheLabelOfQueuesIsBounded(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var queues []job.QueueInfo
	for i := range mostQueues + 100 {
		queues = append(queues, job.QueueInfo{Name: fmt.Sprintf("made-up-%03d", i), Ready: 2, OldestReady: now.Add(-time.Minute)})
	}
	queues = append(queues,
		job.QueueInfo{Name: "other", Workers: 1, Slots: 3, Running: 1},
		job.QueueInfo{Name: "waits", Paused: true, Ready: 1, OldestReady: now.Add(-time.Hour)},
		job.QueueInfo{Name: "works", Workers: 2, Slots: 8, Running: 5},
	)
	figures := figuresOf(queues, now)
	require.LessOrEqual(t, len(figures), mostQueues+1)
	byName := make(map[string]queueFigures)
	ready := 0
	for _, f := range figures {
		require.NotContains(t, byName, f.queue, "twice")
		byName[f.queue] = f
		ready += f.ready
	}
	require.Equal(t, 2*(mostQueues+100)+1, ready)
	require.Equal(t, queueFigures{queue: "works", running: 5, slots: 8, worker: 2}, byName["works"])
	require.Equal(t, queueFigures{queue: "waits", ready: 1, oldest: time.Hour, paused: true}, byName["waits"])
	require.Contains(t, byName, "made-up-000")
	require.NotContains(t, byName, "made-up-299")
	others := byName["other"]
	require.Equal(t, []any{1, 3, 1, time.Minute, false}, []any{others.running, others.slots, others.worker, others.oldest, others.paused})

	require.Len(t, figuresOf(queues[:mostQueues], now), mostQueues)
	require.Len(t, figuresOf(queues[len(queues)-3:], now), 3)
}

// An increase is from one scrape to the next: what is first seen with its first event has none.
func TestSeriesBeginAtZero(t *testing.T) {
	t.Parallel()
	nc := natstest.Connect(t, natstest.Embedded(t).URL())
	store, err := streams.Open(t.Context(), nc, streams.Config{})
	require.NoError(t, err)
	t.Cleanup(store.Close)
	w, err := worker.New(store, worker.Config{Queues: map[string]int{"a": 1, "b": 2, "c": 0}})
	require.NoError(t, err)
	m := New("v1", "work", zerolog.Nop())
	m.Store(store)
	m.Worker(w)
	handle(w) // after it is measured
	c, err := store.Consume(t.Context(), job.ConsumerConfig{Queue: "a", WorkerID: "w", Slots: 1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close(context.Background())) })
	text := scrape(t, m)
	for _, want := range []string{
		`attempts_total{queue="a",result="dead",type="does"}`,
		`attempts_total{queue="b",result="lost",type="does"}`,
		`attempts_total{queue="b",result="handed_back",type="unhandled"}`,
		`refusals_total{code="disabled",queue="a",type="does"}`,
		`schedule_fires_total{result="refused"}`,
		`jobs_lost_total{queue="a"}`,
		`jobs_ended_unrun_total{queue="a",reason="lost",status="dead"}`,
		`jobs_ended_unrun_total{queue="a",reason="too_large",status="dead"}`,
		`messages_set_aside_total{queue="a"}`,
		`repairs_total{kind="lostReady"}`,
	} {
		require.Contains(t, text, "jetcrew_"+want+" 0\n")
	}
	require.NotContains(t, text, `queue="c"`)
	for i := range mostBegun {
		worker.Handle(w, fmt.Sprintf("t%d", i), func(context.Context, *job.Job, map[string]any) (any, error) { return nil, nil })
	}
	require.NotContains(t, scrape(t, m), `type="t99"`, "there are too many")
}

// A job whose only worker vanished is told of by whoever comes upon it.
func TestAVanishedWorkerIsMeasuredByItsHeir(t *testing.T) {
	t.Parallel()
	srv := natstest.Embedded(t)
	open := func() (*nats.Conn, *streams.Store) {
		nc := natstest.Connect(t, srv.URL())
		store, err := streams.Open(t.Context(), nc, streams.Config{Lease: time.Second})
		require.NoError(t, err)
		t.Cleanup(store.Close)
		return nc, store
	}
	nc, gone := open()
	_, store := open()
	_, err := store.Enqueue(t.Context(), job.Spec{ID: "1", Type: "does", MaxAttempts: 1})
	require.NoError(t, err)
	first, err := gone.Consume(t.Context(), job.ConsumerConfig{WorkerID: "gone", Slots: 1, Lease: time.Second})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second) // the test's own has ended
		defer cancel()
		_ = first.Close(ctx) // its connection is gone
	})
	_, err = first.Claim(t.Context())
	require.NoError(t, err)
	natstest.Eventually(t, time.Minute, func() bool {
		j, err := store.Get(t.Context(), job.Key{ID: "1"})
		return err == nil && j.Status == job.Running
	})
	nc.Close()

	m := New("v1", "work", zerolog.Nop())
	w, err := worker.New(store, worker.Config{Lease: time.Second, Observer: m})
	require.NoError(t, err)
	handle(w)
	m.Store(store)
	m.Worker(w)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	natstest.Eventually(t, time.Minute, func() error {
		text := scrape(t, m)
		for _, want := range []string{
			`jobs_lost_total{queue="default"} 1`,
			`jobs_ended_unrun_total{queue="default",reason="lost",status="dead"} 1`,
			`jobs_ended_unrun_total{queue="default",reason="lost",status="cancelled"} 0`,
			`attempts_total{queue="default",result="dead",type="does"} 0`,
		} {
			if !strings.Contains(text, "jetcrew_"+want+"\n") {
				return errors.New("no " + want + " in:\n" + text)
			}
		}
		return nil
	})
	stop()
	require.NoError(t, <-done)
}
