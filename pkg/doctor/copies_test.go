package doctor

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

var made = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

// told is a node whose monitoring tells of a copy of the jobs' stream what says answers at the n-th look, beside one of
// another account.
func told(t *testing.T, name string, says func(n int) holding) monitor {
	t.Helper()
	looks := new(atomic.Int64)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/jsz" {
			http.NotFound(w, r)
			return
		}
		h := says(int(looks.Add(1)))
		fmt.Fprintf(w, `{"account_details":[
			{"name":"OTHER","stream_detail":[{"name":"JETCREW_JOBS","created":"2001-01-01T00:00:00Z","state":{"messages":7,"last_seq":7}}]},
			{"name":"A","stream_detail":[{"name":"JETCREW_JOBS","created":%q,"state":{"messages":%d,"first_seq":%d,"last_seq":%d,"num_deleted":%d}}]}]}`,
			made.Format(time.RFC3339Nano), h.Messages, h.First, h.Last, h.Deleted)
	}))
	t.Cleanup(srv.Close)
	m := monitor{root: srv.URL, Name: name}
	m.JetStream.Config = &jetStreamConfig{StoreDir: "/data/" + name}
	return m
}

func still(h holding) func(int) holding { return func(int) holding { return h } }

// compared is what is said of the copies on some nodes, of which the first leads.
func compared(t *testing.T, monitors ...monitor) *Report {
	t.Helper()
	info := &jetstream.StreamInfo{
		Config: jetstream.StreamConfig{Name: "JETCREW_JOBS", Replicas: 3}, Created: made,
		Cluster: &jetstream.ClusterInfo{Leader: "n1", Replicas: []*jetstream.PeerInfo{{Name: "n2"}, {Name: "n3"}}},
	}
	e := &exam{
		names: names{"jetcrew"}, report: &Report{}, id: "copies", monitors: monitors, cfg: Config{Timeout: 10 * time.Second},
		streams: map[string]*jetstream.StreamInfo{"JETCREW_JOBS": info},
	}
	ctx, cancel := context.WithTimeout(t.Context(), e.cfg.Timeout)
	defer cancel()
	require.NoError(t, e.lookAtCopies(ctx))
	return e.report
}

func TestCopiesThatDiffer(t *testing.T) {
	t.Parallel()
	whole := holding{Messages: 90, First: 1, Last: 100, Deleted: 10}
	holed := holding{Messages: 60, First: 1, Last: 100, Deleted: 40}
	headless := holding{Messages: 70, First: 31, Last: 100}

	compared(t, told(t, "n1", still(whole)), told(t, "n2", still(whole)), told(t, "n3", still(whole))).allOK(t, "copies")

	r := compared(t, told(t, "n1", still(whole)), told(t, "n2", still(whole)), told(t, "n3", still(holed)))
	require.Len(t, r.Findings, 1, r)
	f := r.has(t, "copies", Error, "JETCREW_JOBS: the copy on node n3 has 60 messages from 1 on, that on n1 has 90 from 1 on, and both end at 100")
	require.Contains(t, f.Text, "Where it leads, the stream or a consumer")
	require.Contains(t, f.Advice, "do not let it lead")
	require.Contains(t, f.Advice, "nats stream cluster peer-remove JETCREW_JOBS n3")
	require.Contains(t, f.Advice, "delete /data/n3/A/streams/JETCREW_JOBS")
	require.Equal(t, "n3", f.Facts["node"])

	r = compared(t, told(t, "n1", still(headless)), told(t, "n2", still(whole)), told(t, "n3", still(whole)))
	f = r.has(t, "copies", Error, "the copy on node n1 has 70 messages from 31 on")
	require.Contains(t, f.Text, "It leads: ")
	require.Contains(t, f.Advice, "at once: nats stream cluster step-down JETCREW_JOBS --preferred n2")

	r = compared(t, told(t, "n2", still(holed)), told(t, "n3", still(whole)))
	require.Equal(t, "n2", r.has(t, "copies", Error, "it is damaged").Facts["node"], "of two, the one with less")
	require.Equal(t, []string{"n1"}, r.has(t, "copies", Warning, "monitoring was not named: n1").Facts["nodes"])
}

// Under load copies are at different sequences, and one has done already what the other does a moment later.
func TestCopiesThatAreWritten(t *testing.T) {
	t.Parallel()
	moving := func(behind uint64) func(int) holding {
		return func(n int) holding {
			return holding{Messages: 50, First: 1, Last: 1000 + uint64(n)*10 - behind, Deleted: 950 + n*10 - int(behind)}
		}
	}
	r := compared(t, told(t, "n1", moving(0)), told(t, "n2", moving(3)), told(t, "n3", moving(0)))
	require.Zero(t, r.Count(Error), r)
	r.has(t, "copies", Warning, "the copies on n1 and n2, on n2 and n3 were never seen at the same sequence")

	// What is deleted is deleted on n2 later, and each time another number is left to do.
	late := func(n int) holding {
		return holding{Messages: 50 + uint64(n%2+1), First: 1, Last: 1000 + uint64(n)*10, Deleted: 950 + n*10 - n%2 - 1}
	}
	r = compared(t, told(t, "n1", moving(0)), told(t, "n2", late), told(t, "n3", moving(0)))
	require.Zero(t, r.Count(Error), r)

	// A difference that goes away was none.
	caughtUp := func(n int) holding {
		h := moving(0)(n)
		if n < copyLooks {
			h.Messages, h.Deleted = h.Messages+5, h.Deleted-5
		}
		return h
	}
	compared(t, told(t, "n1", moving(0)), told(t, "n2", caughtUp), told(t, "n3", moving(0))).allOK(t, "copies")

	// One that stays, while all is written, is one.
	damaged := func(n int) holding {
		h := moving(0)(n)
		h.Messages, h.Deleted = h.Messages-20, h.Deleted+20
		return h
	}
	r = compared(t, told(t, "n1", moving(0)), told(t, "n2", moving(0)), told(t, "n3", damaged))
	require.Equal(t, "n3", r.has(t, "copies", Error, "it is damaged").Facts["node"])
}

func TestCopiesThatCannotBeSeen(t *testing.T) {
	t.Parallel()
	r := compared(t)
	require.Equal(t, false, r.has(t, "copies", Warning, "not checked: a copy that is damaged is seen only").Facts["checked"])
	srv := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(srv.Close)
	r = compared(t, told(t, "n1", still(holding{})), monitor{root: srv.URL, Name: "n2"})
	r.has(t, "copies", Warning, "not checked: monitoring: ")
}

// The store is full. What makes room for it is what the advice says, and works then.
func TestAFullStore(t *testing.T) {
	t.Parallel()
	p := natstest.StartServer(t, natstest.ServerConfig{JetStream: "max_file_store: 8MB"})
	f := settle(t, p.URL(), 1)
	look := func() *Report { return examine(t, p.URL(), Config{Monitors: []string{p.MonitorURL()}}) }
	look().allOK(t, "disk")
	doc := make([]byte, 100<<10)
	n := 0
	publish := func() error {
		n++
		_, err := f.js.Publish(t.Context(), fmt.Sprintf("jetcrew.job.succeeded.default.default.%d", n), doc)
		return err
	}
	warned := false
	for publish() == nil {
		require.Less(t, n, 200, "the store is never full")
		if n == 68 { // of some 80
			look().has(t, "disk", Warning, "(max_file_store, 8")
			warned = true
		}
	}
	require.True(t, warned)
	found := look().has(t, "disk", Error, "workers keep their outcomes until there is room")
	require.Contains(t, found.Advice, "nats stream purge JETCREW_JOBS --subject 'jetcrew.job.succeeded.>'")
	s, err := f.js.Stream(t.Context(), "JETCREW_JOBS")
	require.NoError(t, err)
	require.NoError(t, s.Purge(t.Context(), jetstream.WithPurgeSubject("jetcrew.job.succeeded.>")))
	require.NoError(t, publish())
	look().allOK(t, "disk")
}
