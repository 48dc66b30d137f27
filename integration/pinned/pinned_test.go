package pinned

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

func TestMain(m *testing.M) {
	g, err := givenServer(os.Getenv)
	if err != nil {
		fmt.Fprintf(os.Stderr, "pinned: %v\n", err)
		os.Exit(2)
	}
	// Most behaviours take time rather than work: far more of them than there are processors can be tried at a time.
	natstest.Main(m, append(g.options(), natstest.Parallel(8))...)
}

// soon is how long a test waits for what must come.
const soon = 30 * time.Second

// place is where a behaviour is tried: a server or a cluster.
type place struct {
	replicas int
	conns    []*nats.Conn // to a different node each, where there are several
}

type behaviour struct {
	name string
	test func(t *testing.T, p *place)
}

func TestServerBehaviours(t *testing.T) {
	g, err := givenServer(os.Getenv)
	require.NoError(t, err)
	all := [][]behaviour{guards(), races(), batches(), alarms(), counts(), reads(), endings(), deliveries(), pulls()}
	run := func(t *testing.T, p *place) {
		p.requireVersion(t, g.version)
		for _, group := range all {
			for _, b := range group {
				t.Run(b.name, func(t *testing.T) {
					if p.replicas == 1 { // a cluster has enough to do as it is
						t.Parallel()
					}
					b.test(t, p)
				})
			}
		}
	}
	t.Run("one server", func(t *testing.T) {
		url := g.start(t)
		run(t, &place{replicas: 1, conns: []*nats.Conn{
			natstest.Connect(t, url), natstest.Connect(t, url), natstest.Connect(t, url),
		}})
	})
	t.Run("three servers", func(t *testing.T) {
		if testing.Short() {
			t.Skip("starts three processes")
		}
		c := natstest.StartCluster(t, 3)
		p := &place{replicas: 3}
		for _, n := range c.Nodes() {
			p.conns = append(p.conns, natstest.Connect(t, n.URL()))
		}
		run(t, p)
	})
}

// jobs is a stream with the design's configuration, in a namespace of its own.
type jobs struct {
	place  *place
	ns     string
	nc     *nats.Conn
	js     jetstream.JetStream
	stream jetstream.Stream
}

func (p *place) jobs(t *testing.T) *jobs {
	t.Helper()
	js, err := jetstream.New(p.conns[0])
	require.NoError(t, err)
	j := &jobs{place: p, ns: nats.NewInbox()[len("_INBOX."):], nc: p.conns[0], js: js}
	natstest.Eventually(t, soon, func() error {
		var err error
		j.stream, err = js.CreateStream(t.Context(), jetstream.StreamConfig{
			Name:               "JOBS_" + j.ns,
			Subjects:           []string{j.ns + ".job.>", j.ns + ".alarm.>", j.ns + ".wake.>"},
			Retention:          jetstream.WorkQueuePolicy,
			MaxMsgsPerSubject:  1,
			Discard:            jetstream.DiscardOld,
			Storage:            jetstream.FileStorage,
			Replicas:           p.replicas,
			AllowDirect:        true,
			AllowRollup:        true,
			AllowMsgTTL:        true,
			AllowMsgSchedules:  true,
			AllowAtomicPublish: true,
		})
		return err
	}, "create the stream")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), soon) // the test's own has ended
		defer cancel()
		err := js.DeleteStream(ctx, j.name())
		if !errors.Is(err, jetstream.ErrStreamNotFound) {
			require.NoError(t, err)
		}
	})
	j.awaitInterest(t)
	return j
}

// awaitInterest waits until a publish from every connection reaches the stream:
// the news of a new stream takes a moment to reach the other nodes, and a
// publish there is answered with "no responders" until then.
func (j *jobs) awaitInterest(t *testing.T) {
	t.Helper()
	probe := plain(j.wake("probe"))
	probe.Header.Set("Nats-Expected-Stream", "another") // never stored
	for _, nc := range j.place.conns {
		js, err := jetstream.New(nc)
		require.NoError(t, err)
		natstest.Eventually(t, soon, func() error {
			if _, err := js.PublishMsg(t.Context(), probe); codeOf(err) != codeWrongStream {
				return err
			}
			return nil
		}, "interest in the stream")
	}
}

func (j *jobs) name() string { return "JOBS_" + j.ns }

func (j *jobs) doc(state, id string) string { return j.ns + ".job." + state + ".q.s." + id }

// filter is the spelling of a job's filter that every writer uses.
func (j *jobs) filter(id string) string { return j.doc("*", id) }

func (j *jobs) alarm(id, writer string) string { return j.ns + ".alarm.q.s." + id + "." + writer }

func (j *jobs) wake(id string) string { return j.ns + ".wake.q.s." + id }
