package streams

import (
	"testing"
	"time"

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
func (h *harness) RequestCancel(t *testing.T, k job.Key) {
	t.Helper()
	h.n.requestCancel(k)
}

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
