package streams

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/job/queuetest"
)

// harness gives the suite what it asks of a place.
type harness struct {
	p *place
	n *node
}

func (h *harness) Queue() job.Queue              { return h.n.Store }
func (h *harness) Client(t *testing.T) job.Queue { return h.p.open(t).Store }
func (h *harness) TooLarge() int                 { return int(h.n.nc.MaxPayload()) }
func (h *harness) Link(t *testing.T) (q job.Queue, cut, mend func()) {
	t.Helper()
	var d natstest.FaultDialer
	n := h.p.open(t, d.Option())
	return n.Store, func() { d.BlackholeToServer(); d.BlackholeFromServer() }, d.Heal
}

func (h *harness) PutReady(t *testing.T, k job.Key, body []byte) {
	t.Helper()
	_, err := h.n.js.Publish(t.Context(), h.n.readySubject(k), body)
	require.NoError(t, err)
}

func (h *harness) Document(t *testing.T, k job.Key) []byte {
	t.Helper()
	return h.n.newestMessage(k).data
}

func (h *harness) SetAside(t *testing.T, k job.Key, body []byte) { h.PutReady(t, k, body) }

func (h *harness) Index(t *testing.T) job.Lister {
	t.Helper()
	p, err := h.n.NewProjection(t.Context(), ProjectionConfig{})
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

func (h *harness) Retention(t *testing.T, k job.Key) time.Duration {
	t.Helper()
	var ttl []string
	natstest.Eventually(t, soon, func() error {
		msgs, _, err := h.n.read.multiLast(t.Context(), []string{h.n.names.filter(tail(k))})
		if err != nil || len(msgs) == 0 { // a replica that is behind may have answered
			return fmt.Errorf("%d documents of %s: %w", len(msgs), k, err)
		}
		newest := slices.MaxFunc(msgs, func(a, b message) int { return cmp.Compare(a.seq, b.seq) })
		ttl = newest.header[jetstream.MsgTTLHeader]
		return nil
	})
	if len(ttl) == 0 {
		return 0
	}
	seconds, err := strconv.Atoi(ttl[0])
	require.NoError(t, err)
	return time.Duration(seconds) * time.Second
}

// slow is a harness on a cluster, whose servers share what processors there are with the tests: they elect leaders
// and answer late, and a lease of a second would lapse now and then.
type slow struct{ *harness }

func (slow) Lease() time.Duration { return 3 * time.Second }

func TestContract(t *testing.T) {
	t.Parallel()
	t.Run("one_server", func(t *testing.T) {
		t.Parallel()
		p := server(t)
		queuetest.Run(t, func(t *testing.T) queuetest.Harness { return &harness{p, p.open(t)} })
	})
	t.Run("three_servers", func(t *testing.T) {
		t.Parallel()
		if testing.Short() {
			t.Skip("starts three processes")
		}
		p := &place{ns: "jetcrew", replicas: 3}
		for _, n := range natstest.StartCluster(t, 3).Nodes() {
			p.urls = append(p.urls, n.URL())
		}
		p.open(t) // makes what the others find
		few := make(chan struct{}, 4)
		queuetest.Run(t, func(t *testing.T) queuetest.Harness {
			few <- struct{}{}
			t.Cleanup(func() { <-few })
			return slow{&harness{p, p.open(t)}}
		})
	})
}
