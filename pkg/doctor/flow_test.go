package doctor

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
)

func TestConsumerDefects(t *testing.T) {
	t.Parallel()
	url := empty(t)
	f := settle(t, url, 1)
	ctx := t.Context()
	for _, q := range []string{"a", "b", "c", "d"} {
		require.NoError(t, f.consumer(t, q).Close(ctx))
	}
	f.enqueue(t, job.Spec{Type: "t", ID: "1", Queue: "d"})
	_, err := f.js.Publish(ctx, "jetcrew.job.ready.plain.default.x", []byte(`{"type":"t"}`))
	require.NoError(t, err)
	f.editConsumer(t, "ready-default", func(c *jetstream.ConsumerConfig) { c.MaxDeliver = 5 })
	f.editConsumer(t, "wake-default", func(c *jetstream.ConsumerConfig) { c.AckWait = 10 * time.Millisecond })
	_, err = f.js.PauseConsumer(ctx, "JETCREW_JOBS", "wake-a", time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.NoError(t, f.js.DeleteConsumer(ctx, "JETCREW_JOBS", "wake-b"))
	require.NoError(t, f.js.DeleteConsumer(ctx, "JETCREW_JOBS", "ready-c"))
	require.NoError(t, f.js.DeleteConsumer(ctx, "JETCREW_JOBS", "count-due"))
	r := examine(t, url, Config{after: atOnce})
	r.has(t, "consumers", Error, "consumer ready-default: max_deliver is 5, want -1")
	r.has(t, "consumers", Error, "consumer wake-default: ack_wait is 10ms")
	r.has(t, "consumers", Error, "consumer wake-a is paused")
	r.has(t, "consumers", Error, "queue b: consumer wake-b is missing")
	r.has(t, "consumers", Error, "queue c: consumer ready-c is missing")
	r.has(t, "consumers", Warning, "consumer count-due is missing")
	r.has(t, "consumers", Error, "queue plain: consumer ready-plain is missing: its jobs (1 of the oldest)")
	r.has(t, "dead-jobs", Warning, "a consumer that counts is missing")
}

func TestQueuesThatNobodyWorksOff(t *testing.T) {
	t.Parallel()
	url := empty(t)
	f := settle(t, url, 1)
	ctx := t.Context()
	f.enqueue(t, job.Spec{Type: "t", ID: "1", Queue: "my queue"}, job.Spec{Type: "t", ID: "2", Queue: "still"}, job.Spec{Type: "t", ID: "3", Queue: "busy"})
	require.NoError(t, f.Pause(ctx, "still", time.Time{}))
	limit := 1
	_, err := f.Configure(ctx, "busy", job.QueueSettings{Concurrency: &limit})
	require.NoError(t, err)
	w := f.consumer(t, "busy")
	t.Cleanup(func() { _ = w.Close(context.Background()) })
	held, err := w.Claim(ctx)
	require.NoError(t, err)
	require.Equal(t, "3", held.Job().ID)
	f.enqueue(t, job.Spec{Type: "t", ID: "4", Queue: "busy"})
	r := examine(t, url, Config{after: atOnce})
	found := r.has(t, "queues", Warning, "queue my queue has no workers, and 1 job ready")
	require.Contains(t, found.Advice, "--queues 'my queue'")
	require.Equal(t, 1, found.Facts["ready"])
	r.has(t, "queues", Warning, "queue still is paused until somebody resumes it")
	require.Contains(t, r.has(t, "queues", Warning, "queue busy has 1 job ready").Advice, "its limit of 1 jobs")
	r.has(t, "stuck", Warning, "queue busy: all 1 jobs that may run at a time are held")
}

// A puller that asks and is not served is what a stuck consumer looks like; here the pause that keeps it from being
// served is taken out of what is seen.
func TestStuckQueues(t *testing.T) {
	t.Parallel()
	url := empty(t)
	f := settle(t, url, 1)
	f.enqueue(t, job.Spec{Type: "t", ID: "1"})
	nc := natstest.Connect(t, url)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	e := &exam{nc: nc, js: js, names: names{"jetcrew"}, store: f.Store(), report: &Report{}, id: "stuck", cfg: Config{after: atOnce}}
	c, err := js.Consumer(t.Context(), "JETCREW_JOBS", "ready-default")
	require.NoError(t, err)
	info := *c.CachedInfo()
	q := job.QueueInfo{Name: "default", Ready: 1, Workers: 1, Slots: 4}
	require.NoError(t, e.lookAtFlow(t.Context(), q, &info))
	e.report.has(t, "stuck", Error, "its workers have free slots and none asks for jobs")

	e.report = &Report{}
	info.NumWaiting = 1
	require.NoError(t, e.lookAtFlow(t.Context(), q, &info))
	e.report.has(t, "stuck", Error, "queue default is stuck")

	e.report = &Report{}
	e.cfg.after = nil // what is new is not stuck yet
	require.NoError(t, e.lookAtFlow(t.Context(), q, &info))
	require.Empty(t, e.report.Findings)
}

func TestARedeliveryStorm(t *testing.T) {
	t.Parallel()
	url := empty(t)
	f := settle(t, url, 1)
	for i := range stormLeast {
		f.enqueue(t, job.Spec{Type: "t", ID: fmt.Sprint(i)})
	}
	c, err := f.js.Consumer(t.Context(), "JETCREW_JOBS", "ready-default")
	require.NoError(t, err)
	natstest.Eventually(t, patient, func() error {
		batch, err := c.FetchNoWait(2 * stormLeast)
		if err != nil {
			return err
		}
		for range batch.Messages() { // nobody acknowledges them
		}
		info, err := c.Info(t.Context())
		if err == nil && info.NumRedelivered < stormLeast {
			err = fmt.Errorf("%d were handed out again", info.NumRedelivered)
		}
		return err
	}, "all were handed out twice")
	examine(t, url, Config{}).has(t, "stuck", Warning, "of 20 jobs that are held, 20 were handed out before")
}

func TestJobsThatNeedSomebody(t *testing.T) {
	t.Parallel()
	url := empty(t)
	f := settle(t, url, 1)
	ctx := t.Context()
	w := f.consumer(t, "default")
	t.Cleanup(func() { _ = w.Close(context.Background()) })
	f.enqueue(t, job.Spec{Type: "t", ID: "dead-1"})
	held, err := w.Claim(ctx)
	require.NoError(t, err)
	_, err = held.Settle(ctx, job.Outcome{Status: job.Dead, Error: "no such account"})
	require.NoError(t, err)
	_, err = f.js.Publish(ctx, "jetcrew.job.ready.default.default.odd", []byte(`no JSON`))
	require.NoError(t, err)
	claims, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); _, _ = w.Claim(claims) }() // sets it aside, and waits for a job
	natstest.Eventually(t, patient, func() error {
		n, err := f.Count(ctx)
		if err == nil && n.Dead < 2 {
			err = fmt.Errorf("%d are dead", n.Dead)
		}
		return err
	}, "it was set aside")
	cancel()
	<-done
	// A due document without an alarm, and nobody who leads.
	due := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	_, err = f.js.Publish(ctx, "jetcrew.job.due.default.default.late", fmt.Appendf(nil, `{"type":"t","id":"late","space":"default","runAt":%q}`, due))
	require.NoError(t, err)
	gone := f.consumer(t, "gone")
	f.enqueue(t, job.Spec{Type: "t", ID: "dead-2", Queue: "gone"})
	held, err = gone.Claim(ctx)
	require.NoError(t, err)
	_, err = held.Settle(ctx, job.Outcome{Status: job.Dead})
	require.NoError(t, err)
	require.NoError(t, gone.Close(ctx))
	require.NoError(t, f.DeleteQueue(ctx, "gone"))
	r := examine(t, url, Config{})
	r.has(t, "dead-jobs", Warning, "1 job dead, of queues that are no more")
	require.Contains(t, r.has(t, "dead-jobs", Warning, "queue default: 2 jobs dead").Advice, "jetcrew job list --all-spaces --status dead --queue default")
	require.Contains(t, r.has(t, "set-aside", Warning, "1 message set aside").Advice, "jetcrew job get odd --space default")
	require.Contains(t, r.has(t, "overdue", Error, "1 due job overdue, by up to 1h").Advice, "jetcrew job get late --space default")
	r.has(t, "leader", Error, "nobody leads")
}

func TestSchedulesThatDoNotFire(t *testing.T) {
	t.Parallel()
	url := empty(t)
	f := settle(t, url, 1)
	ctx := t.Context()
	kv, err := f.js.KeyValue(ctx, "JETCREW_SCHEDULES")
	require.NoError(t, err)
	put := func(name, more string) {
		t.Helper()
		_, err := kv.Put(ctx, "acme."+name, fmt.Appendf(nil, `{"space":"acme","name":%q,"type":"t","cron":"@hourly"%s}`, name, more))
		require.NoError(t, err)
	}
	past := `,"nextRunAt":"2020-01-01T00:00:00Z"`
	put("late", past)
	put("off", past+`,"enabled":false`)
	put("fails", `,"nextRunAt":"2100-01-01T00:00:00Z","error":"too large"`)
	put("gone", past)
	require.NoError(t, kv.Delete(ctx, "acme.gone"))
	_, err = kv.Put(ctx, "acme.odd", []byte("no JSON"))
	require.NoError(t, err)
	_, err = kv.Put(ctx, "acme.other", []byte(`{"space":"acme","name":"late","type":"t","cron":"@hourly"}`))
	require.NoError(t, err)
	r := examine(t, url, Config{})
	r.has(t, "schedules", Error, "schedule acme/late is overdue")
	r.has(t, "schedules", Warning, "schedule acme/fails could not enqueue its last job: too large")
	r.has(t, "schedules", Error, "acme.odd among the schedules is none")
	r.has(t, "schedules", Error, "acme.other among the schedules is none, and never fires: what is stored there belongs to acme.late")
	for _, name := range []string{"off", "gone"} {
		require.NotContains(t, r.String(), "acme/"+name)
	}
	for i := range mostOfAKind + 2 {
		put(fmt.Sprintf("late-%d", i), past)
	}
	examine(t, url, Config{}).has(t, "schedules", Warning, "3 more schedules: overdue")

	for _, name := range []string{"late", "fails", "odd", "other"} {
		require.NoError(t, kv.Purge(ctx, "acme."+name))
	}
	for i := range mostOfAKind + 2 {
		require.NoError(t, kv.Purge(ctx, fmt.Sprintf("acme.late-%d", i)))
	}
	examine(t, url, Config{}).allOK(t, "schedules")
}

// Half of the time is over before it begins.
func TestInAHurryItSaysHowMuchItLookedAt(t *testing.T) {
	t.Parallel()
	url := empty(t)
	f := settle(t, url, 1)
	_, err := f.js.Publish(t.Context(), "$KV.JETCREW_SCHEDULES.acme.n", []byte(`{"space":"acme","name":"n","type":"t","cron":"@hourly"}`))
	require.NoError(t, err)
	e := &exam{
		nc: f.Conn(), store: f.Store(), names: names{"jetcrew"}, report: &Report{}, cfg: Config{Timeout: time.Hour},
		streams: map[string]*jetstream.StreamInfo{"KV_JETCREW_SCHEDULES": {}},
	}
	within, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	e.id = "schedules"
	require.NoError(t, e.lookAtSchedules(within))
	e.report.has(t, "schedules", Warning, "only 0 schedules looked at")
	e.id = "overdue"
	require.NoError(t, e.lookForOverdue(within))
	e.report.has(t, "overdue", Warning, "only 0 due jobs looked at")
}
