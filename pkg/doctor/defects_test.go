package doctor

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// start runs a server in this process as its options say.
func start(t *testing.T, opts server.Options) *server.Server {
	t.Helper()
	opts.Host, opts.Port, opts.StoreDir, opts.NoSigs, opts.NoLog = "127.0.0.1", server.RANDOM_PORT, t.TempDir(), true, true
	s, err := server.NewServer(&opts)
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(patient))
	return s
}

func TestServerSettings(t *testing.T) {
	t.Parallel()
	s := start(t, server.Options{JetStream: true, MaxPayload: 32 << 10})
	r := examine(t, s.ClientURL(), Config{}, nats.CustomInboxPrefix("_INBOX_doc"))
	r.has(t, "payload", Warning, "32.0 KiB")
	require.Equal(t, "_INBOX_doc", r.has(t, "inbox", OK, "_INBOX_doc.>").Facts["prefix"])
	r.allOK(t, "server-version", "jetstream", "account-limits")

	without := start(t, server.Options{})
	r = examine(t, without.ClientURL(), Config{})
	r.has(t, "jetstream", Error, "JetStream is not enabled")
	r.has(t, "account-limits", Warning, "not checked")
	r.allOK(t, "payload")
}

func TestVersionsAndNodesThatAreAway(t *testing.T) {
	t.Parallel()
	url := empty(t)
	nc := natstest.Connect(t, url+",nats://u:hunter2@127.0.0.1:1", nats.DontRandomize())
	r, err := Check(t.Context(), nc, Config{Timeout: patient})
	require.NoError(t, err)
	r.has(t, "server-version", Warning, "node 127.0.0.1:1 cannot be connected to")
	require.NotContains(t, r.String(), "hunter2")

	e := &exam{nc: nc, report: &Report{}, id: "server-version"}
	e.versions([]node{{name: "a", version: "2.13.9"}, {name: "b", version: "2.15.2"}})
	e.report.has(t, "server-version", Error, "node a runs nats-server 2.13.9")
	e.report.has(t, "server-version", Warning, "different versions: 2.13.9, 2.15.2")
}

func TestAccountLimits(t *testing.T) {
	t.Parallel()
	p := natstest.StartServer(t, natstest.ServerConfig{Extra: `accounts {
		A { jetstream { max_mem: 1MB, max_file: 100MB, max_streams: 6, max_consumers: 9 }, users: [ { user: a, password: a } ] }
	}`})
	url := strings.Replace(p.URL(), "://", "://a:a@", 1)
	f := settle(t, url, 1) // five streams, eight consumers
	r := examine(t, url, Config{})
	r.has(t, "account-limits", Warning, "5 of 6 streams (83 %)")
	r.has(t, "account-limits", Warning, "8 of 9 consumers (88 %)")
	_, err := f.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "X", Subjects: []string{"x"}, Storage: jetstream.MemoryStorage})
	require.NoError(t, err)
	r = examine(t, url, Config{})
	r.has(t, "account-limits", Error, "6 of 6 streams (100 %)")
	for range 100 {
		_, err = f.js.Publish(t.Context(), "x", make([]byte, 9000))
		require.NoError(t, err)
	}
	r = examine(t, url, Config{})
	require.Equal(t, "memory", r.has(t, "account-limits", Warning, "memory").Facts["limit"])
}

func TestStreamDefects(t *testing.T) {
	t.Parallel()
	url := empty(t)
	f := settle(t, url, 1)
	f.edit(t, "JETCREW_JOBS", func(c *jetstream.StreamConfig) { c.MaxMsgs, c.MaxMsgSize = 1000, 4096 })
	f.edit(t, "KV_JETCREW_WORKERS", func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour })
	f.edit(t, "KV_JETCREW_KV", func(c *jetstream.StreamConfig) { c.MaxMsgs = 100 })
	f.edit(t, "KV_JETCREW_SCHEDULES", func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour })
	f.edit(t, "KV_JETCREW_LEADER", func(c *jetstream.StreamConfig) { c.MaxAge, c.Duplicates = 0, 0 })
	r := examine(t, url, Config{Replicas: 3})
	r.has(t, "jobs-stream", Error, "max_msgs is 1000")
	r.has(t, "jobs-stream", Warning, "max_msg_size is 4096")
	r.has(t, "workers-bucket", Error, "max_age is 1h0m0s")
	r.has(t, "kv-bucket", Error, "max_msgs is 100")
	r.has(t, "schedules-bucket", Error, "drops what is older than 1h0m0s")
	r.has(t, "leader-bucket", Error, "keeps its entries for 0s")
	r.has(t, "replicas", Warning, "JETCREW_JOBS has 1 replica, JETCREW_REPLICAS says 3")

	f.edit(t, "KV_JETCREW_KV", func(c *jetstream.StreamConfig) { c.MaxMsgs, c.MaxAge = -1, time.Hour })
	r = examine(t, url, Config{})
	r.has(t, "kv-bucket", Error, "keys without a lifetime would go")
}

func TestAStreamThatWasDeletedIsNoNewOne(t *testing.T) {
	t.Parallel()
	url := empty(t)
	f := settle(t, url, 1)
	require.NoError(t, f.js.DeleteStream(t.Context(), "JETCREW_JOBS"))
	r := examine(t, url, Config{})
	r.has(t, "jobs-stream", Error, "its jobs are lost")

	_, err := f.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "JETCREW_JOBS", Subjects: []string{"theirs"}})
	require.NoError(t, err)
	r = examine(t, url, Config{})
	r.has(t, "jobs-stream", Error, "belongs to something else")
}

func TestReplicas(t *testing.T) {
	t.Parallel()
	c := natstest.StartCluster(t, 3)
	f := settle(t, c.URLs(), 3)
	_, err := f.js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "KV_OTHER_WORKERS", Subjects: []string{"$KV.OTHER_WORKERS.>"}, Replicas: 1,
	})
	require.NoError(t, err)
	_, err = f.js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "KV_OTHER_LEADER", Subjects: []string{"$KV.OTHER_LEADER.>"}, Replicas: 2, MaxMsgsPerSubject: 1, MaxAge: 10 * time.Second,
	})
	require.NoError(t, err)
	for _, s := range []string{"JETCREW_JOBS", "KV_JETCREW_WORKERS", "KV_JETCREW_KV", "KV_JETCREW_SCHEDULES", "KV_JETCREW_LEADER"} {
		c.WaitStreamCurrent(t, s)
	}
	f.enqueue(t, job.Spec{Type: "t", ID: "1"})
	seq := func() uint64 {
		s, err := f.js.Stream(t.Context(), "JETCREW_JOBS")
		require.NoError(t, err)
		return s.CachedInfo().State.LastSeq
	}
	before := seq()
	eventually(t, c.URLs(), Config{Replicas: 3}, "replicas", OK, "all replicas are there and current")
	r := examine(t, c.URLs(), Config{Replicas: 3})
	r.allOK(t, "server-version", "permissions")
	require.Len(t, r.has(t, "server-version", OK, "3 nodes").Facts["nodes"], 3)
	require.Equal(t, before, seq(), "what tries permissions is not stored in a cluster either")
	var monitors []string
	for _, n := range c.Nodes() {
		monitors = append(monitors, n.MonitorURL())
	}
	r = examine(t, c.URLs(), Config{Replicas: 3, Monitors: monitors})
	r.allOK(t, "monitor", "copies")
	r.has(t, "copies", OK, "hold the same on all nodes")
	examine(t, c.URLs(), Config{Replicas: 3, Monitors: monitors[:1]}).has(t, "copies", Warning, "monitoring was not named")

	r = examine(t, c.URLs(), Config{Namespace: "other"})
	r.has(t, "replicas", Warning, "KV_OTHER_WORKERS has one replica in a cluster")
	r.has(t, "replicas", Warning, "KV_OTHER_LEADER has two replicas")

	leader := c.StreamLeader(t, "JETCREW_JOBS")
	away := c.Node(0)
	if away == leader {
		away = c.Node(1)
	}
	away.Kill()
	eventually(t, leader.URL(), Config{Replicas: 3}, "replicas", Error, "JETCREW_JOBS: of its 3 replicas, offline: "+away.Name())
}

func TestReplicasThatAreBehindOrLeaderless(t *testing.T) {
	t.Parallel()
	info := func(leader string, peers ...*jetstream.PeerInfo) *jetstream.StreamInfo {
		return &jetstream.StreamInfo{
			Config:  jetstream.StreamConfig{Replicas: 3},
			Cluster: &jetstream.ClusterInfo{Leader: leader, Replicas: peers},
		}
	}
	fine := &jetstream.PeerInfo{Name: "n2", Current: true}
	require.Empty(t, replicas("S", true, 3, info("n1", fine, &jetstream.PeerInfo{Name: "n3", Current: true, Lag: 1})))
	for text, i := range map[string]*jetstream.StreamInfo{
		"no leader":      info("", fine, fine),
		"n3 (0 behind)":  info("n1", fine, &jetstream.PeerInfo{Name: "n3"}),
		"n3 (1001 behi":  info("n1", fine, &jetstream.PeerInfo{Name: "n3", Current: true, Lag: farBehind + 1}),
		"offline: n3":    info("n1", fine, &jetstream.PeerInfo{Name: "n3", Active: time.Minute}),
		"offline: n2, n": info("n1", &jetstream.PeerInfo{Name: "n2", Offline: true}, &jetstream.PeerInfo{Name: "n3", Offline: true}),
	} {
		fs := replicas("S", true, 3, i)
		require.Len(t, fs, 1, text)
		require.Contains(t, fs[0].Text, text)
	}
}

func TestDurabilityAndDisk(t *testing.T) {
	t.Parallel()
	p := natstest.StartServer(t, natstest.ServerConfig{JetStream: "sync_interval: 7s, max_file_store: 900TB"})
	settle(t, p.URL(), 1)
	r := examine(t, p.URL(), Config{Monitors: []string{p.MonitorURL()}})
	r.has(t, "durability", Warning, "within the last 7s (sync_interval of n1) is lost when the server's machine loses its power")
	r.has(t, "disk", Error, "when it is full, writes are not answered")

	r = examine(t, p.URL(), Config{})
	require.Equal(t, false, r.has(t, "durability", Warning, "it is two minutes").Facts["checked"])
	r.has(t, "disk", Warning, "not checked")

	r = examine(t, p.URL(), Config{Monitors: []string{"http://127.0.0.1:1", p.MonitorURL() + "/healthz?"}})
	r.has(t, "monitor", Warning, "not checked")

	e := &exam{report: &Report{}, id: "disk", monitors: []monitor{{Name: "far"}}, cfg: Config{Monitors: []string{"x"}}}
	require.NoError(t, json.Unmarshal([]byte(`{"jetstream":{"config":{"max_storage":100},"stats":{"storage":96}}}`), &e.monitors[0]))
	require.NoError(t, e.lookAtDisk(t.Context()))
	e.report.has(t, "disk", Error, "96 B of the 100 B")
	e.report.has(t, "disk", Warning, "is not this machine's")
}

func TestClocksThatDisagree(t *testing.T) {
	t.Parallel()
	url := empty(t)
	settle(t, url, 1)
	for _, c := range []struct {
		by    time.Duration
		level Level
		text  string
	}{
		{10 * time.Second, Warning, "ahead of the store's"},
		{-10 * time.Second, Warning, "behind the store's"},
		{time.Hour, Error, "ahead of the store's"},
		{-time.Hour, Error, "behind the store's"},
	} {
		r := examine(t, url, Config{Now: func() time.Time { return time.Now().Add(c.by) }})
		f := r.has(t, "clock", c.level, c.text)
		require.InDelta(t, c.by.Milliseconds(), f.Facts["offsetMs"], 5000)
		require.Contains(t, f.Advice, "schedules go by the store's clock")
	}
}
