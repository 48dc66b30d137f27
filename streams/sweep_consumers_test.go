package streams

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// logBook keeps what is logged, for any number of writers.
type logBook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logBook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// lines counts the lines that hold a text.
func (l *logBook) lines(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// openLogged makes a store whose log can be read.
func (p *place) openLogged(t *testing.T, cfg Config) (*node, *logBook) {
	t.Helper()
	book := &logBook{}
	cfg.Logger = zerolog.New(book)
	return p.openAs(t, cfg), book
}

func TestSweepMakesAQueueThatAPlainProducerPublishedTo(t *testing.T) {
	t.Parallel()
	for name, queue := range map[string]string{"plain": "nobody's", "hashed": strings.Repeat("ä", 90)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := server(t).open(t).impatient()
			n.sweepNothing()
			key := keyOf(queue, "1")
			n.publish(n.readySubject(key), fmt.Sprintf(`{"type":"t","queue":%q}`, queue))
			require.Equal(t, SweepReport{Queues: 1}, n.sweepUntil())
			cl := claimOne(t, n.work(queue, "w"))
			require.Equal(t, key, cl.Job().Key())
			settle(t, cl, job.Succeed(nil))
			n.clean(queue, 1)
			n.sweepNothing()
		})
	}
}

// A queue whose consumers somebody deleted is made again as it was set, also where all that it has is waiting.
func TestSweepMakesADeletedQueueAgain(t *testing.T) {
	t.Parallel()
	p := server(t)
	producer := p.open(t)
	limit, longer := 3, 7*time.Second
	_, err := producer.Configure(t.Context(), "q", job.QueueSettings{Concurrency: &limit, Lease: &longer})
	require.NoError(t, err)
	s := spec("q", "1")
	s.Delay = time.Second
	key := producer.enqueue(s)
	n := p.open(t).impatient()
	n.sweepNothing()
	for _, name := range []string{n.names.readyConsumer("q"), n.names.wakeConsumer("q")} {
		require.NoError(t, n.js.DeleteConsumer(t.Context(), n.names.stream(), name))
	}
	require.Equal(t, SweepReport{Queues: 1}, n.sweepUntil())
	info, err := n.consumerInfo(t.Context(), n.names.readyConsumer("q"))
	require.NoError(t, err)
	require.Equal(t, limit, info.Config.MaxAckPending)
	require.Equal(t, longer, info.Config.AckWait)
	cl := claimOne(t, n.work("q", "w"))
	require.Equal(t, key, cl.Job().Key())
	settle(t, cl, job.Succeed(nil))
	n.clean("q", 1)
}

func TestSweepMakesAMissingWakeConsumer(t *testing.T) {
	t.Parallel()
	n := server(t).open(t).impatient()
	s := spec("q", "1")
	s.Delay = time.Hour
	n.enqueue(s)
	require.NoError(t, n.js.DeleteConsumer(t.Context(), n.names.stream(), n.names.wakeConsumer("q")))
	require.Equal(t, SweepReport{Queues: 1}, n.sweepUntil())
	_, err := n.consumerInfo(t.Context(), n.names.wakeConsumer("q"))
	require.NoError(t, err)
}

func TestSweepLeavesADeletedQueueAloneThatHasNothingToDo(t *testing.T) {
	t.Parallel()
	n := server(t).open(t).impatient()
	c := n.work("q", "w")
	n.enqueue(spec("q", "1"))
	n.sweepNothing()
	settle(t, claimOne(t, c), job.Succeed(nil))
	n.clean("q", 1)
	n.sweepNothing()
	require.NoError(t, c.Close(t.Context()))
	require.NoError(t, n.DeleteQueue(t.Context(), "q"))
	for end := time.Now().Add(while); time.Now().Before(end); {
		n.sweepNothing()
	}
	_, err := n.consumerInfo(t.Context(), n.names.readyConsumer("q"))
	require.ErrorIs(t, err, jetstream.ErrConsumerNotFound)
}

func TestSweepThatMayMakeNothingTellsOnceOfAQueueWithoutConsumers(t *testing.T) {
	t.Parallel()
	p := server(t)
	p.open(t)
	cfg := p.config()
	cfg.Manage = ManageVerify
	n, log := p.openLogged(t, cfg)
	n.impatient()
	n.publish(n.readySubject(keyOf("q", "1")), `{"type":"t"}`)
	const said = "a queue has jobs and no consumer"
	natstest.Eventually(t, soon, func() bool {
		n.sweepNothing()
		return log.lines(said) > 0
	})
	for end := time.Now().Add(while); time.Now().Before(end); {
		n.sweepNothing()
	}
	require.Equal(t, 1, log.lines(said))
}

// strand makes a queue whose consumer delivers each message once and never again, and has a worker vanish with a job.
func (n *node) strand(limit int) job.Key {
	n.t.Helper()
	cfg := n.consumerConfig(n.names.readyConsumer("q"), n.names.readyFilter("q"), lease)
	cfg.MaxDeliver = 1
	cfg.MaxAckPending = limit
	raw, err := n.js.CreateConsumer(n.t.Context(), n.names.stream(), cfg)
	require.NoError(n.t, err)
	_, err = n.js.CreateConsumer(n.t.Context(), n.names.stream(),
		n.consumerConfig(n.names.wakeConsumer("q"), n.names.wakeFilter("q"), wakeWait))
	require.NoError(n.t, err)
	// Published plainly, since to enqueue it would mend the consumer.
	key := keyOf("q", "1")
	n.publish(n.readySubject(key), `{"type":"t"}`)
	m, err := raw.Next()
	require.NoError(n.t, err)
	require.Equal(n.t, n.readySubject(key), m.Subject())
	return key
}

// idle pulls from a queue's consumer as a worker does that is free, and acks nothing.
func (n *node) idle() {
	n.t.Helper()
	inbox := n.nc.NewInbox()
	sub, err := n.nc.SubscribeSync(inbox)
	require.NoError(n.t, err)
	n.t.Cleanup(func() { _ = sub.Unsubscribe() }) // the connection may be closed
	require.NoError(n.t, n.nc.PublishRequest(apiPrefix+"CONSUMER.MSG.NEXT."+n.names.stream()+"."+n.names.readyConsumer("q"),
		inbox, []byte(`{"batch":1,"expires":60000000000}`)))
	require.NoError(n.t, n.nc.Flush())
}

// unackedNone waits until the consumer waits for nobody's ack any more.
func (n *node) unackedNone() {
	n.t.Helper()
	natstest.Eventually(n.t, soon, func() error {
		info, err := n.consumerInfo(n.t.Context(), n.names.readyConsumer("q"))
		if err == nil && info.NumAckPending > 0 {
			err = errors.New("it still waits for an ack")
		}
		return err
	})
}

func TestSweepWritesAnewWhatAStuckConsumerHasPassedBy(t *testing.T) {
	t.Parallel()
	p := server(t)
	n, log := p.openLogged(t, p.config())
	n.impatient()
	key := n.strand(-1)
	n.idle()
	n.unackedNone()
	stuck := n.doc(key, stateReady)
	require.Equal(t, SweepReport{Stuck: 1}, n.sweepUntil())
	require.False(t, n.Now().Before(stuck.time.Add(n.sweep.after.stuck)))
	anew := n.doc(key, stateReady)
	require.Greater(t, anew.seq, stuck.seq)
	require.True(t, anew.ClaimFirst, "whoever had it may have begun")
	n.sweepNothing()
	require.Equal(t, 1, log.lines("consumer is stuck"))
	// A worker mends the consumer. Whether that comes in time for what was delivered by then is left to the machine.
	c := n.work("q", "w")
	natstest.Eventually(t, 2*soon, func() error {
		_, err := n.Sweep(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		cl, err := c.Claim(ctx)
		if err == nil {
			_, err = cl.Settle(t.Context(), job.Succeed(nil))
		}
		return err
	})
	n.clean("q", 1)
}

// A worker vanished with a claim, and its ready message is never delivered again.
func TestSweepTakesOverAClaimWhoseMessageIsStuck(t *testing.T) {
	t.Parallel()
	n := server(t).open(t).impatient()
	key := n.strand(-1)
	ready := n.doc(key, stateReady)
	d := ready.next(newWriter())
	d.Claim, d.Claims = d.Writer, ready.seq
	d.Job.Attempts, d.Job.WorkerID, d.Job.LeaseUntil = 1, "gone", job.Millis(n.Now().Add(lease))
	_, err := n.put(t.Context(), write{tail: ready.tail, state: stateRunning, doc: &d, guard: ready.seq})
	require.NoError(t, err)
	n.idle()
	require.Equal(t, SweepReport{LostReady: 1}, n.sweepUntil())
	j := n.see(key, job.Pending)
	require.Equal(t, "gone", j.History[0].WorkerID)
	require.Len(t, n.docs(key), 1)
}

func TestSweepLeavesAloneWhatNobodyIsExpectedToDeliver(t *testing.T) {
	t.Parallel()
	for name, hold := range map[string]func(t *testing.T, n *node){
		"paused": func(t *testing.T, n *node) {
			n.strand(-1)
			n.idle()
			require.NoError(t, n.Pause(t.Context(), "q", time.Time{}))
		},
		"without workers": func(t *testing.T, n *node) {
			n.strand(-1)
		},
		"at its limit": func(t *testing.T, n *node) {
			c := n.work("q", "w")
			one := 1
			_, err := n.Configure(t.Context(), "q", job.QueueSettings{Concurrency: &one})
			require.NoError(t, err)
			for _, id := range []string{"1", "2"} {
				n.enqueue(spec("q", id))
			}
			cl := claimOne(t, c)
			t.Cleanup(cl.Abandon)
			n.idle()
		},
		"held for long": func(t *testing.T, n *node) {
			c := n.work("q", "w")
			n.enqueue(spec("q", "1"))
			cl := claimOne(t, c)
			t.Cleanup(cl.Abandon)
			n.idle()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := server(t).open(t).impatient()
			n.sweep.after.stuck = 200 * time.Millisecond
			hold(t, n)
			for end := time.Now().Add(3 * lease); time.Now().Before(end); {
				n.sweepNothing()
				time.Sleep(20 * time.Millisecond) // the pace of rounds
			}
		})
	}
}

// acked makes rounds that see a queue's consumers as taking everything up to a sequence for acked.
func (n *node) acked(upTo uint64, names ...string) (rep SweepReport) {
	n.t.Helper()
	still := make(map[uint64]time.Time)
	for _, name := range names {
		info, err := n.consumerInfo(n.t.Context(), name)
		require.NoError(n.t, err)
		info.AckFloor.Stream = upTo
		require.NoError(n.t, n.sweepAcked(n.t.Context(), info, still, &rep))
	}
	n.sweep.consumers.acked = still
	return rep
}

// A server that was killed takes for acked what it has forgotten to have removed.
func TestSweepDealsWithWhatCountsAsAcked(t *testing.T) {
	t.Parallel()
	p := server(t)
	n := p.open(t)
	n.sweep.after = defaultSweepAges
	waits := n.enqueue(spec("q", "waits"))
	gone := leftovers["cancelled while ready"].leave(t, p, n)
	woken := n.publish(n.names.wake(tail(waits)), "")
	names := []string{n.names.readyConsumer("q"), n.names.wakeConsumer("q")}
	require.Zero(t, n.acked(woken, names...))
	require.Zero(t, n.acked(woken, names...), "the acks may still be on their way to a replica")
	before := n.doc(waits, stateReady)
	n.clock.offset.Add(int64(defaultSweepAges.older))
	require.Equal(t, SweepReport{Undone: 3}, n.acked(woken, names...))
	anew := n.doc(waits, stateReady)
	require.Greater(t, anew.seq, before.seq)
	require.True(t, anew.ClaimFirst)
	require.Len(t, n.docs(gone), 1)
	require.Equal(t, stateCancelled, n.docs(gone)[0].state)
	_, err := n.leaderNext(t.Context(), n.names.ns+".wake.>", 1)
	require.ErrorIs(t, err, job.ErrNotFound)
	require.Zero(t, n.acked(woken, names...))
	settle(t, claimOne(t, n.work("q", "w")), job.Succeed(nil))
	n.clean("q", 2)
}
