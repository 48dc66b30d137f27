package streams

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
)

func TestMain(m *testing.M) {
	// Most tests wait for a lease to lapse: far more of them than there are processors can do so at a time.
	natstest.Main(m, natstest.Parallel(12))
}

const (
	lease = MinLease
	soon  = 30 * time.Second       // what must come comes within
	while = 700 * time.Millisecond // what must not come does not within
)

// place is a server, or a cluster, with one namespace on it.
type place struct {
	urls     []string
	ns       string
	replicas int
	next     atomic.Int64
}

// server is a server of the test's own.
func server(t *testing.T) *place {
	t.Helper()
	return &place{urls: []string{natstest.Embedded(t).URL()}, ns: "jetcrew", replicas: 1}
}

func (p *place) url() string { return p.urls[int(p.next.Add(1))%len(p.urls)] }

func (p *place) config() Config {
	return Config{Namespace: p.ns, Replicas: p.replicas, Lease: lease}
}

// node is a process as far as the store can tell: a connection, a store on it, and perhaps a consumer.
type node struct {
	*Store
	t    *testing.T
	nc   *nats.Conn
	died chan struct{}
	die  sync.Once
}

// open makes a store on a connection of its own.
func (p *place) open(t *testing.T, opts ...nats.Option) *node {
	t.Helper()
	return p.openAs(t, p.config(), opts...)
}

func (p *place) openAs(t *testing.T, cfg Config, opts ...nats.Option) *node {
	t.Helper()
	n := &node{t: t, nc: natstest.Connect(t, p.url(), opts...), died: make(chan struct{})}
	n.openStore(cfg)
	return n
}

func (n *node) openStore(cfg Config) {
	n.t.Helper()
	var err error
	n.Store, err = Open(n.t.Context(), n.nc, cfg)
	require.NoError(n.t, err)
	n.t.Cleanup(n.Store.Close)
}

var errDied = errors.New("died")

// dying makes a store that dies when it passes a point: its connection is gone, and it does nothing more.
func (p *place) dying(t *testing.T, at Point, opts ...nats.Option) *node {
	t.Helper()
	n := &node{t: t, nc: natstest.Connect(t, p.url(), opts...), died: make(chan struct{})}
	cfg := p.config()
	cfg.Failpoint = func(passed Point) error {
		if passed == at {
			n.crash()
		}
		select {
		case <-n.died:
			return errDied
		default:
			return nil
		}
	}
	n.openStore(cfg)
	return n
}

// in is the node as a subtest uses it.
func (n *node) in(t *testing.T) *node {
	return &node{Store: n.Store, t: t, nc: n.nc, died: n.died}
}

// crash ends a node as if its process had died.
func (n *node) crash() {
	n.die.Do(func() {
		close(n.died)
		n.nc.Close()
	})
}

// awaitDeath waits until the node has passed the point at which it dies.
func (n *node) awaitDeath() {
	n.t.Helper()
	select {
	case <-n.died:
	case <-time.After(soon):
		require.Fail(n.t, "it never passed the point")
	}
}

// work makes a consumer that is closed when the test ends.
func (n *node) work(queue, worker string) *consumer {
	n.t.Helper()
	c, err := n.Consume(n.t.Context(), job.ConsumerConfig{Queue: queue, WorkerID: worker, Slots: 4, Lease: lease})
	require.NoError(n.t, err)
	n.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second) // the test's own has ended
		defer cancel()
		_ = c.Close(ctx) // it may have died
	})
	return c.(*consumer)
}

func spec(queue, id string) job.Spec { return job.Spec{Queue: queue, ID: id, Type: "t"} }

func keyOf(queue, id string) job.Key { return job.Key{Queue: queue, Space: "default", ID: id} }

func (n *node) enqueue(s job.Spec) job.Key {
	n.t.Helper()
	got, err := n.Enqueue(n.t.Context(), s)
	require.NoError(n.t, err)
	require.True(n.t, got.Created)
	return got.Key
}

func claimOne(t *testing.T, c *consumer) *claim {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	cl, err := c.Claim(ctx)
	require.NoError(t, err)
	return cl.(*claim)
}

func claimNone(t *testing.T, c *consumer, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	cl, err := c.Claim(ctx)
	if err == nil {
		require.Fail(t, "a job was handed out", "%+v", cl.Job())
	}
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func settle(t *testing.T, cl job.Claim, o job.Outcome) *job.Job {
	t.Helper()
	j, err := cl.Settle(t.Context(), o)
	require.NoError(t, err)
	return j
}

// see reads a job until it has the status.
func (n *node) see(key job.Key, s job.Status) *job.Job {
	n.t.Helper()
	var j *job.Job
	natstest.Eventually(n.t, soon, func() (err error) {
		if j, err = n.Get(n.t.Context(), key); err == nil && j.Status != s {
			err = fmt.Errorf("%s is %s, not %s", key, j.Status, s)
		}
		return err
	})
	return j
}

// docs are a job's documents.
func (n *node) docs(key job.Key) []record {
	n.t.Helper()
	recs, err := n.fromLeader(n.t.Context(), tail(key))
	require.NoError(n.t, err)
	return recs
}

// doc is a job's document of one state.
func (n *node) doc(key job.Key, s state) *record {
	n.t.Helper()
	for _, r := range n.docs(key) {
		if r.state == s {
			return &r
		}
	}
	require.Fail(n.t, "no such document", "%s of %s", s, key)
	return nil
}

// publish stores bytes as any client of the server can.
func (n *node) publish(subject, body string) uint64 {
	n.t.Helper()
	ack, err := n.js.Publish(n.t.Context(), subject, []byte(body))
	require.NoError(n.t, err)
	return ack.Sequence
}

func (n *node) readySubject(key job.Key) string { return n.names.job(stateReady, tail(key)) }

// remains lists what stands in the stream for a queue.
func (n *node) remains(queue string) (map[string]uint64, error) {
	info, err := n.js.Stream(n.t.Context(), n.names.stream())
	if err != nil {
		return nil, err
	}
	out := make(map[string]uint64)
	for _, filter := range []string{
		n.names.job("*", queueToken(queue)+".>"), n.names.ns + ".alarm." + queueToken(queue) + ".>", n.names.wakeFilter(queue),
	} {
		i, err := info.Info(n.t.Context(), jetstream.WithSubjectFilter(filter))
		if err != nil {
			return nil, err
		}
		for s, c := range i.State.Subjects {
			out[s] = c
		}
	}
	return out, nil
}

// clean waits until a queue has come to rest: one document for each job, an end, and nothing else.
func (n *node) clean(queue string, jobs int) {
	n.t.Helper()
	natstest.Eventually(n.t, 45*time.Second, func() error { return n.isClean(queue, jobs) })
}

func (n *node) isClean(queue string, jobs int) error {
	subjects, err := n.remains(queue)
	if err != nil {
		return err
	}
	seen := make(map[string]bool)
	for s := range subjects {
		sub, err := n.names.parse(s)
		if err != nil {
			return fmt.Errorf("left over: %s", s)
		}
		if !sub.state.terminal() {
			return fmt.Errorf("not an end: %s", s)
		}
		if seen[sub.tail] {
			return fmt.Errorf("two documents: %v", subjects)
		}
		seen[sub.tail] = true
	}
	if len(seen) != jobs {
		return fmt.Errorf("%d jobs, want %d: %v", len(seen), jobs, subjects)
	}
	for _, name := range []string{n.names.readyConsumer(queue), n.names.wakeConsumer(queue)} {
		c, err := n.js.Consumer(n.t.Context(), n.names.stream(), name)
		if err != nil {
			return err
		}
		i := c.CachedInfo()
		if i.NumAckPending != 0 || i.NumPending != 0 {
			return fmt.Errorf("consumer %s: %d to be acked, %d pending", name, i.NumAckPending, i.NumPending)
		}
	}
	return nil
}

// quickWakes makes a queue's wakes come again after a second, where one was lost.
func (n *node) quickWakes(queue string) {
	n.t.Helper()
	_, err := n.js.CreateConsumer(n.t.Context(), n.names.stream(),
		n.consumerConfig(n.names.wakeConsumer(queue), n.names.wakeFilter(queue), time.Second))
	require.NoError(n.t, err)
}

// queueName is a queue's name that tells which test it is of.
func queueName(t *testing.T) string {
	parts := strings.Split(t.Name(), "/")
	return strings.Join(parts[max(0, len(parts)-2):], "/")
}

// message reads a job's newest document as it stands.
func (n *node) newestMessage(key job.Key) message {
	n.t.Helper()
	msgs, _, err := n.read.multiLast(n.t.Context(), []string{n.names.filter(tail(key))})
	require.NoError(n.t, err)
	require.NotEmpty(n.t, msgs)
	recs := make([]record, len(msgs))
	for i, m := range msgs {
		recs[i] = n.names.record(m)
	}
	top := newest(recs)
	i := slices.IndexFunc(msgs, func(m message) bool { return m.seq == top.seq })
	return msgs[i]
}

// requestCancel has a job stopped whose claim can be read.
func (n *node) requestCancel(key job.Key) {
	n.t.Helper()
	n.see(key, job.Running)
	require.True(n.t, n.steer(job.OpCancel, key).CancelRequested)
}

func portOf(t *testing.T, url string) int {
	t.Helper()
	var port int
	_, err := fmt.Sscanf(url[strings.LastIndexByte(url, ':')+1:], "%d", &port)
	require.NoError(t, err)
	return port
}
