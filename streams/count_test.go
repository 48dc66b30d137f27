package streams

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// everywhere runs tests on one server each, and together on three.
func everywhere(t *testing.T, tests map[string]func(t *testing.T, p *place)) {
	t.Parallel()
	for name, test := range tests {
		t.Run("one_server/"+name, func(t *testing.T) {
			t.Parallel()
			test(t, server(t))
		})
	}
	t.Run("three_servers", func(t *testing.T) {
		t.Parallel()
		if testing.Short() {
			t.Skip("starts three processes")
		}
		var urls []string
		for _, n := range natstest.StartCluster(t, 3).Nodes() {
			urls = append(urls, n.URL())
		}
		i := 0
		for name, test := range tests {
			i++
			p := &place{ns: fmt.Sprintf("jetcrew%d", i), urls: urls, replicas: 3}
			t.Run(name, func(t *testing.T) { test(t, p) })
		}
	})
}

// awaitCounts waits until the counts are so: in a cluster each consumer has a leader of its own, which may be behind.
func (n *node) awaitCounts(want job.Counts) {
	n.t.Helper()
	natstest.Eventually(n.t, soon, func() error {
		got, err := n.Count(n.t.Context())
		if err == nil && fmt.Sprint(*got) != fmt.Sprint(want) {
			err = fmt.Errorf("%+v, not %+v", *got, want)
		}
		return err
	})
}

func TestCounts(t *testing.T) {
	everywhere(t, map[string]func(t *testing.T, p *place){
		"are exact through all that becomes of jobs": countsAreExact,
	})
}

func countsAreExact(t *testing.T, p *place) {
	n := p.open(t)
	none := map[string]job.QueueCounts{}
	n.awaitCounts(job.Counts{Queues: none})

	put := func(st state, id string, ttl time.Duration) uint64 {
		key := keyOf("ends", id)
		recs := n.docs(key)
		d := document{V: version, Rev: uint64(len(recs) + 1), Writer: newWriter(), Job: fields(*new(job.Spec{Queue: "ends", ID: id, Type: "t"}).Job())}
		if top := newest(recs); top != nil {
			d.Rev = top.Rev + 1
		}
		seq, err := n.put(t.Context(), write{tail: tail(key), state: st, doc: &d, guard: last(recs), ttl: ttl})
		require.NoError(t, err)
		return seq
	}
	var seqs []uint64
	for i := range 10 {
		seqs = append(seqs, put(stateDead, fmt.Sprint("dead", i), 0))
		put(stateFailed, fmt.Sprint("failed", i), time.Duration(i%2)*2*time.Second) // half of them expire
		put(stateCancelled, fmt.Sprint("cancelled", i), 0)
		put(stateDeleted, fmt.Sprint("deleted", i), 0) // counted by nobody
	}
	for i := range 3 { // overwritten
		seqs[i] = put(stateDead, fmt.Sprint("dead", i), 0)
	}
	for _, i := range []int{9, 0, 4} { // deleted, in any order
		require.NoError(t, n.remove(t.Context(), seqs[i]))
	}
	put(stateCancelled, "dead3", 0) // moved
	require.NoError(t, n.remove(t.Context(), seqs[3]))
	n.awaitCounts(job.Counts{Failed: 5, Dead: 6, Cancelled: 11, Queues: none})

	// What workers hold is running, and nothing is ready any more.
	n.configure("q", job.QueueSettings{Lease: new(patient)})
	c := n.work("q", "w")
	for i := range 6 {
		n.enqueue(spec("q", fmt.Sprint(i)))
	}
	late := spec("q", "late")
	late.Delay = time.Hour
	n.enqueue(late)
	n.enqueue(spec("other", "1"))
	a, b := claimOne(t, c), claimOne(t, c)
	ends := job.Counts{Failed: 5, Dead: 6, Cancelled: 11}
	ends.Due, ends.Ready, ends.Running = 1, 5, 2
	ends.Queues = map[string]job.QueueCounts{"q": {Ready: 4, Running: 2}, "other": {Ready: 1}}
	n.awaitCounts(ends)
	settle(t, a, job.Succeed(nil))
	settle(t, b, job.Fail(time.Hour, "again"))
	ends.Due, ends.Running, ends.Succeeded = 2, 0, 1
	ends.Queues["q"] = job.QueueCounts{Ready: 4}
	n.awaitCounts(ends)
	n.awaitCounts(ends)
	got, err := p.open(t).Count(t.Context())
	require.NoError(t, err)
	require.Equal(t, ends.Total(), got.Total())
	require.Equal(t, 2, got.Of(job.Due))
}

func TestCountsCoverManyQueues(t *testing.T) {
	t.Parallel()
	p := server(t)
	n := p.open(t)
	const queues = 140 // more consumers than the server lists at a time
	for i := range queues {
		n.enqueue(spec(fmt.Sprintf("q%03d", i), "1"))
	}
	natstest.Eventually(t, soon, func() error { // each consumer hears of its message a moment after it was acknowledged
		got, err := n.Count(t.Context())
		if err == nil && (got.Ready != queues || len(got.Queues) != queues) {
			err = fmt.Errorf("counted %d in %d queues", got.Ready, len(got.Queues))
		}
		return err
	})
	all, err := n.Queues(t.Context())
	require.NoError(t, err)
	require.Len(t, all, queues)
	require.True(t, slices.IsSortedFunc(all, func(a, b job.QueueInfo) int { return compareNames(a.Name, b.Name) }))
	for _, q := range all {
		require.Equal(t, 1, q.Ready)
		require.False(t, q.OldestReady.IsZero())
	}
}

func compareNames(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func TestACountConsumerThatIsMissing(t *testing.T) {
	t.Parallel()
	p := server(t)
	n := p.open(t)
	cfg := p.config()
	cfg.Manage = ManageVerify
	looks := p.openAs(t, cfg)
	require.NoError(t, n.js.DeleteConsumer(t.Context(), n.names.stream(), "count-dead"))
	_, err := looks.Count(t.Context())
	require.ErrorIs(t, err, ErrTopology)
	require.ErrorContains(t, err, "count-dead")
	_, err = n.Count(t.Context())
	require.NoError(t, err, "whoever may make it does")
	_, err = looks.Count(t.Context())
	require.NoError(t, err)

	info, err := n.js.Consumer(t.Context(), n.names.stream(), "count-dead")
	require.NoError(t, err)
	require.Contains(t, info.CachedInfo().Config.Description, "dead")
	require.Equal(t, jetstream.AckExplicitPolicy, info.CachedInfo().Config.AckPolicy)
}
