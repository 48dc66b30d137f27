package streams

import (
	"context"
	"errors"
	"fmt"
	"sync"
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
	natstest.Eventually(t, soon, func() bool { return p.Stats().Failing })
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
	natstest.Eventually(t, soon, func() error {
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
	for round := range 2 {
		natstest.Eventually(t, soon, func() bool { return !p.Stats().Failing })
		require.NoError(t, n.js.DeleteStream(t.Context(), n.names.stream()))
		natstest.Eventually(t, soon, func() bool { return p.Stats().Failing })
		require.Equal(t, []int{20, 3}[round], p.Stats().Jobs, "until there is a stream")
		_, err := n.js.CreateStream(t.Context(), n.streamConfig())
		require.NoError(t, err)
		n.forgetQueue("q")
		for i := range 3 {
			n.publish(n.names.job(stateReady, fmt.Sprintf("q.default.%d-%d", round, i)), `{"type":"x"}`)
		}
		natstest.Eventually(t, soon, func() bool { return p.Stats().Rebuilds == round+1 })
		n.agrees(p)
		require.Equal(t, 3, p.Stats().Jobs)
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
	natstest.Eventually(t, soon, func() bool { return p.Stats().Rebuilds == 1 })
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
	case <-time.After(soon):
		require.Fail(t, "it goes on")
	}
	p.Close()
}

// What a replica does not have is not gone for that: it may be behind. This one has nothing at all.
func TestAProjectionBelievesNoReplicaThatHasNothing(t *testing.T) {
	t.Parallel()
	at := server(t)
	n := at.open(t)
	cfg := quick()
	cfg.hear = func(*nats.Msg) bool { return false }
	cfg.count = func(context.Context) (*job.Counts, error) { return nil, errors.New("not here") }
	p := n.project(cfg)
	behind, err := natstest.Connect(t, at.url()).Subscribe(apiPrefix+"DIRECT.GET."+n.names.stream(), func(m *nats.Msg) {
		_ = m.RespondMsg(&nats.Msg{Header: nats.Header{"Status": {"404"}}}) // whoever is first is believed
	})
	require.NoError(t, err)
	require.NoError(t, n.nc.Flush())
	var answered int64
	for i := range 150 {
		seq := n.publish(n.names.job(stateReady, fmt.Sprint("q.default.", i)), `{"type":"x"}`)
		if i%4 == 0 {
			require.NoError(t, n.remove(t.Context(), seq))
		}
	}
	natstest.Eventually(t, soon, func() bool {
		answered, _ = behind.Delivered()
		return answered > 0 && p.Stats().Behind == 0 && p.Stats().Seq == 150
	})
	require.NoError(t, behind.Unsubscribe())
	require.Positive(t, answered)
	n.agrees(p)
}
