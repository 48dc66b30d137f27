package streams

import (
	"context"
	"errors"
	"fmt"
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

var everything = job.ListRequest{Filter: job.Filter{AllSpaces: true}, Bare: true}

// While the store cannot be read the projection answers as of when it could, says so once, and says once that it is over.
func TestAProjectionOutlivesTheServer(t *testing.T) {
	t.Parallel()
	srv := natstest.StartServer(t, natstest.ServerConfig{})
	at := &place{urls: []string{srv.URL()}, ns: "jetcrew", replicas: 1}
	n, log := at.openLogged(t, at.config())
	for i := range 10 {
		n.enqueue(spec("q", fmt.Sprint(i)))
	}
	p := n.project(quick())
	n.agrees(p)
	require.False(t, p.Stats().Failing)
	srv.Stop()
	natstest.Eventually(t, atLast, func() bool { return p.Stats().Failing })
	before, err := p.List(t.Context(), everything)
	require.NoError(t, err)
	require.Equal(t, 10, before.Total)
	require.Error(t, p.Stats().LastError)
	full := everything
	full.Bare = false
	page, err := p.List(t.Context(), full) // without what only the store has
	require.NoError(t, err)
	require.Len(t, page.Jobs, 10)
	require.Equal(t, before.At, page.At, "it says for when it is true")
	require.Equal(t, before.Seq, page.Seq)

	srv.Restart(t)
	natstest.Eventually(t, atLast, func() error {
		_, err := n.Enqueue(t.Context(), spec("q", "late"))
		return err
	})
	n.agrees(p)
	page, err = p.List(t.Context(), everything)
	require.NoError(t, err)
	require.Equal(t, 11, page.Total)
	require.True(t, page.At.After(before.At))
	require.Zero(t, p.Stats().Rebuilds)
	require.Equal(t, 1, log.lines("the store cannot be read"))
	require.Equal(t, 1, log.lines("the store can be read again"))
}

func TestAProjectionIsBuiltAnewForAnotherStream(t *testing.T) {
	t.Parallel()
	at := server(t)
	n, log := at.openLogged(t, at.config())
	for i := range 20 {
		n.enqueue(spec("q", fmt.Sprint(i)))
	}
	p := n.project(quick())
	n.agrees(p)
	jobs := 20
	for round := range 2 {
		natstest.Eventually(t, atLast, func() bool { return !p.Stats().Failing })
		require.NoError(t, n.js.DeleteStream(t.Context(), n.names.stream()))
		natstest.Eventually(t, atLast, func() bool { return p.Stats().Failing })
		require.Equal(t, jobs, p.Stats().Jobs, "until there is a stream")
		_, err := n.js.CreateStream(t.Context(), n.streamConfig())
		require.NoError(t, err)
		n.queues.forget("q")
		for i := range 3 {
			n.publish(n.names.job(stateReady, fmt.Sprintf("q.default.%d-%d", round, i)), `{"type":"x"}`)
		}
		natstest.Eventually(t, atLast, func() bool { return p.Stats().Rebuilds == round+1 })
		n.agrees(p)
		jobs = len(n.truth()) // a stream that is made again at once may come with messages of the old one (2.15.2)
		require.Equal(t, jobs, p.Stats().Jobs)
		require.Equal(t, round+1, log.lines("was built anew"))
	}
}

// A server that lost what it had acknowledged ends before what is known of it.
func TestAProjectionNoticesThatMessagesWereLost(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	n.enqueue(spec("q", "1"))
	p := n.project(quick())
	n.agrees(p)
	// As if somebody had told of a write that is not there any more.
	require.NoError(t, n.nc.Publish(n.names.event(stateReady, "q.default.lost"), []byte(`{"seq":7,"rev":1,"type":"x"}`)))
	natstest.Eventually(t, atLast, func() bool { return p.Stats().Rebuilds == 1 })
	n.agrees(p)
	require.Equal(t, 1, p.Stats().Jobs)
}

// Three servers, one of which is away for a while: its answers afterwards are those of a replica that is behind.
func TestAProjectionIsNotMisledByAReplicaThatIsBehind(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts three processes")
	}
	cluster := natstest.StartCluster(t, 3)
	at := &place{ns: "jetcrew", replicas: 3}
	for _, s := range cluster.Nodes() {
		at.urls = append(at.urls, s.URL())
	}
	n := at.open(t, nats.DontRandomize())
	cfg := quick()
	cfg.hear = func(m *nats.Msg) bool { return len(m.Data)%2 == 0 } // it has to read about half of it
	p := n.project(cfg)
	leader := cluster.StreamLeader(t, n.names.stream())
	connected := n.nc.ConnectedServerName()
	var follower *natstest.Process
	for _, s := range cluster.Nodes() {
		if s != leader && s.Name() != connected {
			follower = s
		}
	}
	id := 0
	some := func(many int) {
		for range many {
			id++
			got, err := n.Enqueue(t.Context(), job.Spec{Queue: "q", ID: fmt.Sprint(id), Type: "x"})
			require.NoError(t, err)
			if id%3 == 0 {
				_, err := n.Cancel(t.Context(), got.Key)
				require.NoError(t, err)
			}
		}
	}
	some(50)
	for range 2 {
		follower.Stop()
		some(200)
		follower.Restart(t)
		some(50)
	}
	cluster.WaitStreamCurrent(t, n.names.stream())
	n.agrees(p)
	require.Equal(t, id, p.Stats().Jobs)
	require.Zero(t, p.Stats().Rebuilds)
	late := n.project(cfg)
	n.agrees(late)
}

// Lists, changes, a purge and closing at the same time.
func TestAProjectionIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	p := n.project(quick())
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			for i := range 100 {
				if _, err := n.Enqueue(t.Context(), spec(fmt.Sprint("q", w), fmt.Sprint(i))); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for i := range 60 {
				req := randomRequest(nil)
				req.Bare = i%2 == 0
				if _, err := p.List(t.Context(), req); err != nil {
					t.Error(err)
				}
				p.Totals()
				p.Stats()
			}
		})
	}
	wg.Wait()
	n.agrees(p)
	stream, err := n.js.Stream(t.Context(), n.names.stream())
	require.NoError(t, err)
	require.NoError(t, stream.Purge(t.Context(), jetstream.WithPurgeKeep(10)))
	n.agrees(p)
	require.Equal(t, 10, p.Stats().Jobs)
	for range 3 {
		wg.Go(p.Close)
		wg.Go(func() { _, _ = p.List(t.Context(), everything) })
	}
	wg.Wait()
}

// A store that is closed ends its projections' work.
func TestAProjectionEndsWithItsStore(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	p, err := n.NewProjection(t.Context(), quick())
	require.NoError(t, err)
	n.Store.Close()
	ended := make(chan struct{})
	go func() { p.wg.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(atLast):
		require.Fail(t, "it goes on")
	}
	p.Close()
}

// lagging is a replica that is behind for as long as the test wants: it has nothing from a sequence on.
type lagging struct{ from atomic.Uint64 }

// lag has a node's direct gets answered by such a replica.
func (n *node) lag() *lagging {
	n.t.Helper()
	l := &lagging{}
	real := apiPrefix + "DIRECT.GET." + n.read.stream
	n.read.stream = "LAGGING"
	nc := natstest.Connect(n.t, n.nc.ConnectedUrl())
	_, err := nc.Subscribe(apiPrefix+"DIRECT.GET."+n.read.stream, func(m *nats.Msg) {
		var req directRequest
		if err := job.Decode(m.Data, &req); err != nil {
			n.t.Error(err)
		}
		if from := l.from.Load(); from > 0 && (req.Seq >= from || len(req.MultiLast) > 0) {
			_ = m.RespondMsg(&nats.Msg{Header: nats.Header{"Status": {"404"}}})
			return
		}
		if err := nc.PublishRequest(real, m.Reply, m.Data); err != nil {
			n.t.Error(err)
		}
	})
	require.NoError(n.t, err)
	require.NoError(n.t, nc.Flush())
	return l
}

// What a replica does not have is not gone for that: it may be behind.
func TestAProjectionBelievesNoReplicaThatIsBehind(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ there, many int }{"one by one": {5000, 8}, "in batches": {0, 200}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := server(t).open(t)
			for i := range c.there {
				require.NoError(t, n.nc.Publish(n.names.job(stateReady, fmt.Sprint("there.default.", i)), []byte(`{"type":"x"}`)))
			}
			require.NoError(t, n.nc.Flush())
			natstest.Eventually(t, atLast, func() bool {
				st, err := n.streamState(t.Context())
				return err == nil && st.last == uint64(c.there)
			})
			replica := n.lag()
			p := n.project(blind())
			replica.from.Store(uint64(c.there) + 1)
			many := c.there + c.many
			for i := c.there; i < many; i++ {
				seq := n.publish(n.names.job(stateReady, fmt.Sprint("q.default.", i)), `{"type":"x"}`)
				if i%4 == 0 {
					require.NoError(t, n.remove(t.Context(), seq))
				}
			}
			natstest.Eventually(t, atLast, func() error {
				if st := p.Stats(); st.Seq < uint64(many) {
					return fmt.Errorf("%+v", st)
				}
				return nil
			})
			require.Equal(t, many-(c.many+3)/4, p.Stats().Jobs)
			// It also settles what contradicts itself without that replica.
			require.NoError(t, n.remove(t.Context(), uint64(many)))
			n.publish(n.names.job(stateReady, fmt.Sprint("q.default.", many-2)), `{"type":"y"}`)
			natstest.Eventually(t, atLast, func() bool { return p.Stats().Seq == uint64(many)+1 })
			replica.from.Store(0)
			require.NoError(t, n.remove(t.Context(), n.publish(n.names.wake("q.default.1"), "")))
			natstest.Eventually(t, atLast, func() bool { return p.Stats().Seq == uint64(many)+2 })
		})
	}
}

// blind is a projection that hears of nothing and counts nothing: what it knows it has read.
func blind() ProjectionConfig {
	cfg := quick()
	cfg.hear = func(*nats.Msg) bool { return false }
	cfg.count = func(context.Context) (*job.Counts, error) { return nil, errors.New("not here") }
	return cfg
}

func TestAProjectionSeesFromTheFirstSequenceWhatIsGone(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	for i := range 20 {
		n.enqueue(spec("q", fmt.Sprint(i)))
	}
	p := n.project(blind())
	stream, err := n.js.Stream(t.Context(), n.names.stream())
	require.NoError(t, err)
	require.NoError(t, stream.Purge(t.Context(), jetstream.WithPurgeSequence(16)))
	n.agrees(p)
	require.Equal(t, 5, p.Stats().Jobs)
	require.NoError(t, stream.Purge(t.Context()))
	n.agrees(p)
	require.Zero(t, p.Stats().Jobs)
	require.Zero(t, p.Stats().Rebuilds)
}

// An end that turns out to be a job's newest document only afterwards goes at its instant like any other.
func TestAProjectionLearnsLateWhenAnEndGoes(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	due := n.publish(n.names.job(stateDue, "q.default.1"), `{"rev":5,"type":"x","runAt":"2030-01-01T00:00:00.000Z"}`)
	m := nats.NewMsg(n.names.job(stateSucceeded, "q.default.1"))
	m.Data = []byte(`{"rev":3,"type":"x"}`)
	m.Header.Set(jetstream.MsgTTLHeader, "3600")
	_, err := n.js.PublishMsg(t.Context(), m)
	require.NoError(t, err)
	n.publish(n.names.job(stateReady, "q.default.2"), `{"type":"x"}`)
	p := n.project(blind())
	n.agrees(p)
	require.Equal(t, 1, p.Totals().Due)
	require.NoError(t, n.remove(t.Context(), due))
	natstest.Eventually(t, atLast, func() bool { return p.Totals().Succeeded == 1 })
	n.agrees(p)
	p.mu.Lock()
	p.shown.expire(n.Now().Add(50 * time.Minute))
	require.Equal(t, 1, p.shown.jobs.totals().Succeeded)
	p.shown.expire(n.Now().Add(70 * time.Minute))
	require.Zero(t, p.shown.jobs.totals().Succeeded)
	p.mu.Unlock()
}
