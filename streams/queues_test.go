package streams

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/embedded"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// awaitQueue waits until a queue is seen to be as it should.
func (n *node) expectQueue(name string, is func(q *job.QueueInfo) bool) *job.QueueInfo {
	n.t.Helper()
	var q *job.QueueInfo
	natstest.Eventually(n.t, soon, func() (err error) {
		if q, err = n.Queue(n.t.Context(), name); err == nil && !is(q) {
			err = fmt.Errorf("it is %+v", *q)
		}
		return err
	})
	return q
}

// logBuffer is a log that can be read meanwhile.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

var emoji = strings.Repeat("🚀", 47)

func TestAQueueTellsItsName(t *testing.T) {
	t.Parallel()
	p := server(t)
	n := p.open(t)
	names := []string{"default", "a.b c*>", emoji}
	for _, name := range names {
		n.enqueue(spec(name, "1"))
		c := n.work(name, "w")
		q := n.expectQueue(name, func(q *job.QueueInfo) bool { return q.Ready == 1 && q.Workers == 1 })
		require.Equal(t, name, q.Name)
		require.NoError(t, n.Pause(t.Context(), name, time.Time{}))
		require.NoError(t, n.Resume(t.Context(), name))
		settle(t, claimOne(t, c), job.Succeed(nil))
	}
	all, err := n.Queues(t.Context())
	require.NoError(t, err)
	got := make([]string, 0, len(all))
	for _, q := range all {
		got = append(got, q.Name)
		require.Equal(t, lease, q.Lease)
	}
	require.ElementsMatch(t, names, got)

	// Consumers of an older program do not tell.
	for _, name := range []string{"old", emoji + "x"} {
		cfg := n.consumerConfig(n.names.readyConsumer(name), n.names.readyFilter(name), lease)
		_, err := n.js.CreateConsumer(t.Context(), n.names.stream(), cfg)
		require.NoError(t, err)
	}
	counts, err := n.Count(t.Context())
	require.NoError(t, err)
	require.Contains(t, counts.Queues, "old")
	require.Contains(t, counts.Queues, queueToken(emoji+"x"))
	p.open(t).enqueue(spec(emoji+"x", "1"))     // names it
	natstest.Eventually(t, soon, func() error { // a consumer hears of a new message a moment after it was acknowledged
		counts, err := n.Count(t.Context())
		if err == nil && counts.Queues[emoji+"x"].Ready != 1 {
			err = fmt.Errorf("counted %+v", counts.Queues)
		}
		return err
	})

	var field *job.FieldError
	long := strings.Repeat("🚀", 191)
	for what, do := range map[string]func() error{
		"queue":     func() error { _, err := n.Queue(t.Context(), long); return err },
		"pause":     func() error { return n.Pause(t.Context(), long, time.Time{}) },
		"resume":    func() error { return n.Resume(t.Context(), long) },
		"configure": func() error { _, err := n.Configure(t.Context(), long, job.QueueSettings{}); return err },
		"delete":    func() error { return n.DeleteQueue(t.Context(), long) },
	} {
		err := do()
		require.ErrorAs(t, err, &field, what)
		require.ErrorContains(t, err, "764 bytes", what)
	}
}

func TestAQueueThatIsNotThere(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	_, err := n.Queue(t.Context(), "none")
	require.ErrorIs(t, err, job.ErrNoQueue)
	require.ErrorIs(t, n.Pause(t.Context(), "none", time.Time{}), job.ErrNoQueue)
	require.ErrorIs(t, n.Resume(t.Context(), "none"), job.ErrNoQueue)
	require.ErrorIs(t, n.DeleteQueue(t.Context(), "none"), job.ErrNoQueue)
	all, err := n.Queues(t.Context())
	require.NoError(t, err)
	require.Empty(t, all, "nobody made it")
}

func TestTheOldestReadyJobIsTheNextOne(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	n.configure("q", job.QueueSettings{Lease: new(patient)})
	c := n.work("q", "w")
	n.enqueue(spec("q", "held"))
	held := claimOne(t, c)
	require.True(t, n.expectQueue("q", func(q *job.QueueInfo) bool { return q.Running == 1 }).OldestReady.IsZero(), "nothing waits")
	n.enqueue(spec("q", "next"))
	n.enqueue(spec("q", "later"))
	want := job.Millis(n.doc(keyOf("q", "next"), stateReady).time)
	require.Equal(t, want, n.expectQueue("q", func(q *job.QueueInfo) bool { return q.Ready == 2 }).OldestReady)
	settle(t, held, job.Succeed(nil))
}

func TestPause(t *testing.T) {
	everywhere(t, map[string]func(t *testing.T, p *place){
		"nothing is handed out until it is resumed": pauseHoldsAll,
		"a pause ends by itself":                    pauseEnds,
	})
}

func pauseHoldsAll(t *testing.T, p *place) {
	n := p.open(t)
	n.configure("q", job.QueueSettings{Lease: new(patient)})
	c := n.work("q", "before")
	n.enqueue(spec("q", "held"))
	held := claimOne(t, c)
	require.NoError(t, n.Pause(t.Context(), "q", time.Time{}))
	operator := p.open(t)
	q := operator.expectQueue("q", func(q *job.QueueInfo) bool { return q.Paused })
	require.True(t, q.PausedUntil.IsZero(), "until it is resumed")

	claimed := make(chan string, 10)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	claim := func(c *consumer) {
		wg.Go(func() {
			for {
				cl, err := c.Claim(ctx)
				if err != nil {
					return
				}
				claimed <- cl.Job().ID
				if _, err := cl.Settle(ctx, job.Succeed(nil)); err != nil {
					return
				}
			}
		})
	}
	claim(c)
	claim(p.open(t).work("q", "during"))
	n.enqueue(spec("q", "1"))
	late := spec("q", "due")
	late.Delay = 200 * time.Millisecond
	n.enqueue(late)
	q = operator.expectQueue("q", func(q *job.QueueInfo) bool { return q.Ready == 2 })
	require.False(t, q.OldestReady.IsZero())
	require.NoError(t, n.nc.ForceReconnect())
	require.NoError(t, n.Pause(t.Context(), "q", time.Time{}), "again")
	require.Equal(t, job.Succeeded, settle(t, held, job.Succeed(nil)).Status, "what is held goes on")
	select {
	case id := <-claimed:
		require.Fail(t, "handed out", id)
	case <-time.After(while):
	}

	require.NoError(t, operator.Resume(t.Context(), "q"))
	require.ElementsMatch(t, []string{"1", "due"}, []string{<-claimed, <-claimed})
	require.NoError(t, operator.Resume(t.Context(), "q"), "it is not paused, and stays so")
	require.False(t, operator.expectQueue("q", func(q *job.QueueInfo) bool { return q.Running == 0 }).Paused)
}

func pauseEnds(t *testing.T, p *place) {
	n := p.open(t)
	c := n.work("q", "w")
	until := n.Now().Add(1500 * time.Millisecond).Truncate(time.Millisecond)
	require.NoError(t, n.Pause(t.Context(), "q", until))
	require.Equal(t, until, n.expectQueue("q", func(q *job.QueueInfo) bool { return q.Paused }).PausedUntil)
	n.enqueue(spec("q", "1"))
	cl := claimOne(t, c)
	require.False(t, n.Now().Before(until.Add(-100*time.Millisecond)), "not before its end")
	settle(t, cl, job.Succeed(nil))

	var field *job.FieldError
	require.ErrorAs(t, n.Pause(t.Context(), "q", n.Now().Add(-time.Second)), &field)
	require.Equal(t, "until", field.Field)
}

func TestAPauseSurvivesARestartOfTheServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start := func(port int) *embedded.Server {
		s, err := embedded.Start(embedded.Config{Dir: dir, Port: port})
		require.NoError(t, err)
		t.Cleanup(s.Shutdown)
		return s
	}
	first := start(0)
	p := &place{urls: []string{first.URL()}, ns: "jetcrew", replicas: 1}
	n := p.open(t)
	c := n.work("q", "w")
	require.NoError(t, n.Pause(t.Context(), "q", time.Time{}))
	port := portOf(t, first.URL())
	first.Shutdown()
	start(port)
	n.enqueue(spec("q", "1"))
	require.True(t, n.expectQueue("q", func(q *job.QueueInfo) bool { return q.Ready == 1 }).Paused)
	claimNone(t, c, while)
	require.NoError(t, n.Resume(t.Context(), "q"))
	settle(t, claimOne(t, c), job.Succeed(nil))
	n.clean("q", 1)
}

// The watchdog rebuilds what is silent for two and a half idle heartbeats; a paused consumer is not.
func TestAPausedQueueIsAskedQuietly(t *testing.T) {
	t.Parallel()
	p := server(t)
	var log logBuffer
	cfg := p.config()
	cfg.Logger = zerolog.New(&log)
	n := p.openAs(t, cfg)
	c := n.work("q", "w")
	require.NoError(t, n.Pause(t.Context(), "q", time.Time{}))
	var asked atomic.Int64
	spy := natstest.Connect(t, p.url())
	_, err := spy.Subscribe(apiPrefix+"CONSUMER.MSG.NEXT."+n.names.stream()+".ready-q", func(*nats.Msg) { asked.Add(1) })
	require.NoError(t, err)
	require.NoError(t, spy.Flush())
	n.enqueue(spec("q", "1"))
	claimNone(t, c, 3*pullHeartbeat+time.Second)
	require.LessOrEqual(t, asked.Load(), int64(2))
	require.NotContains(t, log.String(), "cannot be asked")
	require.NoError(t, n.Resume(t.Context(), "q"))
	settle(t, claimOne(t, c), job.Succeed(nil))
}

func TestDeleteQueue(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	n.configure("q", job.QueueSettings{Lease: new(patient)})
	inUse := func(says string) {
		t.Helper()
		err := n.DeleteQueue(t.Context(), "q")
		require.ErrorIs(t, err, job.ErrQueueInUse)
		require.ErrorContains(t, err, says)
	}
	n.enqueue(spec("q", "1"))
	inUse("ready jobs")
	c := n.work("q", "w")
	cl := claimOne(t, c)
	n.see(keyOf("q", "1"), job.Running)
	inUse("running jobs")
	inUse("a worker, w")
	settle(t, cl, job.Fail(time.Hour, "later"))
	require.NoError(t, c.Close(t.Context()))
	inUse("due jobs")
	due := n.doc(keyOf("q", "1"), stateDue)
	d := due.next(newWriter())
	_, err := n.put(t.Context(), write{tail: due.tail, state: stateDead, doc: &d, guard: due.seq})
	require.NoError(t, err)
	require.NoError(t, n.remove(t.Context(), due.seq))
	require.NoError(t, n.DeleteQueue(t.Context(), "q"))
	for _, name := range []string{"ready-q", "wake-q"} {
		_, err := n.js.Consumer(t.Context(), n.names.stream(), name)
		require.ErrorIs(t, err, jetstream.ErrConsumerNotFound)
	}
	n.see(keyOf("q", "1"), job.Dead)
}

func TestADeletedQueueIsMadeAgainByTheNextJob(t *testing.T) {
	t.Parallel()
	p := server(t)
	n, producer := p.open(t), p.open(t)
	c := n.work("q", "w")
	producer.enqueue(spec("q", "1"))
	settle(t, claimOne(t, c), job.Succeed(nil))
	require.NoError(t, c.Close(t.Context()))
	natstest.Eventually(t, soon, func() error { return n.DeleteQueue(t.Context(), "q") })
	_, err := n.Queue(t.Context(), "q")
	require.ErrorIs(t, err, job.ErrNoQueue)
	n.see(keyOf("q", "1"), job.Succeeded)
	natstest.Eventually(t, soon, func() bool { return !producer.queues.uses("q") })
	producer.enqueue(spec("q", "2"))
	settle(t, claimOne(t, n.work("q", "w2")), job.Succeed(nil))
}
