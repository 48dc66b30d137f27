package kvbucket

import (
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

func TestAConfigIsCheckedAtTheDoor(t *testing.T) {
	t.Parallel()
	url := server(t)
	for _, c := range []struct {
		says   string
		change func(*Config)
	}{
		{"namespace", func(c *Config) { c.Namespace = "A.b" }},
		{"namespace", func(c *Config) { c.Namespace = "x>" }},
		{"replicas", func(c *Config) { c.Replicas = 6 }},
		{"replicas", func(c *Config) { c.Replicas = -1 }},
		{"manage", func(c *Config) { c.Manage = "perhaps" }},
		{"clock", func(c *Config) { c.Clock = nil }},
		{"marker TTL", func(c *Config) { c.MarkerTTL = time.Second - 1 }},
		{"marker TTL", func(c *Config) { c.MarkerTTL = MaxMarkerTTL + 1 }},
	} {
		cfg := config()
		c.change(&cfg)
		require.ErrorContains(t, tryOpen(t, url, cfg), "kvbucket: "+c.says)
	}
	cfg := config()
	require.NoError(t, cfg.normalize())
	require.Equal(t, Config{
		Namespace: "jetcrew", Replicas: 1, Manage: ManageCreate, Clock: wall{}, MarkerTTL: 30 * time.Second, Logger: cfg.Logger,
	}, cfg)
}

func TestAMissingBucketIsMadeOnce(t *testing.T) {
	t.Parallel()
	url := server(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { open(t, url, config()) })
	}
	all.Wait()
	b := open(t, url, config())
	require.Empty(t, b.Drift())
	s, err := b.js.Stream(t.Context(), "KV_JETCREW_KV")
	require.NoError(t, err)
	_, drift, broken := mend(s.CachedInfo().Config, b.streamConfig())
	require.Empty(t, drift)
	require.Empty(t, broken)
	set(t, b, "k", "v", 0)
	cfg := config()
	cfg.Manage = ManageVerify
	has(t, open(t, url, cfg), "k", "v")
	cfg.Namespace = "other"
	err = tryOpen(t, url, cfg)
	require.ErrorIs(t, err, ErrSettings)
	require.ErrorContains(t, err, "OTHER_KV: unfit bucket: it is missing")
	cfg.Manage = ManageCreate
	absent(t, open(t, url, cfg), "k")
}

// byHand are buckets as somebody may have made them.
var byHand = map[string]struct {
	change func(*jetstream.StreamConfig)
	field  string // that is mended
	benign bool   // without it as well the package keeps its promises
}{
	"history":          {func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 5 }, "max_msgs_per_subject", false},
	"bucket TTL":       {func(c *jetstream.StreamConfig) { c.MaxAge, c.Duplicates = time.Minute, time.Minute }, "max_age", false},
	"no message TTLs":  {func(c *jetstream.StreamConfig) { c.AllowMsgTTL = false }, "allow_msg_ttl", false},
	"limit markers":    {func(c *jetstream.StreamConfig) { c.SubjectDeleteMarkerTTL = time.Minute }, "subject_delete_marker_ttl", false},
	"no rollups":       {func(c *jetstream.StreamConfig) { c.AllowRollup = false }, "allow_rollup_hdrs", false},
	"drops the oldest": {func(c *jetstream.StreamConfig) { c.MaxBytes, c.Discard = 1<<20, jetstream.DiscardOld }, "discard", false},
	"new keys only":    {func(c *jetstream.StreamConfig) { c.DiscardNewPerSubject = true }, "discard_new_per_subject", false},
	"no answers":       {func(c *jetstream.StreamConfig) { c.NoAck = true }, "no_ack", false},
	"no direct gets":   {func(c *jetstream.StreamConfig) { c.AllowDirect = false }, "allow_direct", true},
	"short consumers": {
		func(c *jetstream.StreamConfig) { c.ConsumerLimits.InactiveThreshold = time.Second }, "consumer_limits.inactive_threshold", false,
	},
	"few consumers":     {func(c *jetstream.StreamConfig) { c.MaxConsumers = 2 }, "", true},
	"flushed later":     {func(c *jetstream.StreamConfig) { c.PersistMode = jetstream.AsyncPersistMode }, "", true},
	"a max value":       {func(c *jetstream.StreamConfig) { c.MaxMsgSize = 1024 }, "", true},
	"in memory":         {func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }, "", true},
	"a limit of bytes":  {func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 20 }, "", true},
	"a limit of keys":   {func(c *jetstream.StreamConfig) { c.MaxMsgs = 1000 }, "", true},
	"as jetcrew has it": {func(*jetstream.StreamConfig) {}, "none", true},
}

// makeByHand makes the bucket with something changed.
func makeByHand(t *testing.T, url string, change func(*jetstream.StreamConfig)) {
	t.Helper()
	js, err := jetstream.New(natstest.Connect(t, url))
	require.NoError(t, err)
	b := &Bucket{cfg: Config{Replicas: 1}, stream: "KV_JETCREW_KV", prefix: "$KV.JETCREW_KV."}
	cfg := b.streamConfig()
	change(&cfg)
	_, err = js.CreateStream(t.Context(), cfg)
	require.NoError(t, err)
}

func TestABucketMadeByHandIsMendedOrRefused(t *testing.T) {
	t.Parallel()
	for name, c := range byHand {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := server(t)
			makeByHand(t, url, c.change)
			cfg := config()
			cfg.Manage = ManageVerify
			if err := tryOpen(t, url, cfg); c.benign {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, ErrSettings)
				require.ErrorContains(t, err, c.field)
				require.ErrorContains(t, err, "may not change it")
			}
			b := open(t, url, config())
			for _, d := range b.Drift() {
				require.Equal(t, d.Field == c.field, d.Mended, d)
			}
			require.Equal(t, c.field == "none", len(b.Drift()) == 0)
			require.Empty(t, mended(open(t, url, config()).Drift()), "once is enough")

			set(t, b, "k", "1", time.Second)
			set(t, b, "k", "2", 0)
			has(t, b, "k", "2")
			require.Equal(t, []string{"k"}, keysOf(t, b, ""))
			ok, err := b.Swap(t.Context(), "k", new("2"), "3", time.Hour)
			require.NoError(t, err)
			require.True(t, ok)
			ok, err = b.DeleteIf(t.Context(), "k", "3")
			require.NoError(t, err)
			require.True(t, ok)
			absent(t, b, "k")
			sum, err := b.Increment(t.Context(), "k", 1)
			require.NoError(t, err)
			require.EqualValues(t, 1, sum)
			n, err := b.Wipe(t.Context(), "")
			require.NoError(t, err)
			require.Equal(t, 1, n)
		})
	}
}

func mended(ds []Drift) (out []Drift) {
	for _, d := range ds {
		if d.Mended {
			out = append(out, d)
		}
	}
	return out
}

func TestWithoutDirectGetsTheLeaderIsAsked(t *testing.T) {
	t.Parallel()
	url := server(t)
	makeByHand(t, url, func(c *jetstream.StreamConfig) { c.AllowDirect = false })
	cfg := config()
	cfg.Manage = ManageVerify
	b := open(t, url, cfg)
	require.Equal(t, []Drift{{Field: "allow_direct", Want: "true", Have: "false"}}, b.Drift())
	require.Equal(t, "allow_direct is false, want true", b.Drift()[0].String())
	set(t, b, "k", "v", 0)
	has(t, b, "k", "v")
}

func TestWhatCannotBeMendedIsRefused(t *testing.T) {
	t.Parallel()
	for says, change := range map[string]func(*jetstream.StreamConfig){
		"subjects":   func(c *jetstream.StreamConfig) { c.Subjects = []string{"$KV.JETCREW_KV.a.>"} },
		"retention":  func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy },
		"deny_purge": func(c *jetstream.StreamConfig) { c.DenyPurge, c.AllowRollup = true, false },
		"is a copy":  func(c *jetstream.StreamConfig) { c.Sources = []*jetstream.StreamSource{{Name: "KV_OTHER"}} },
		"its subject": func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: "$KV.JETCREW_KV.a", Destination: "$KV.JETCREW_KV.b"}
		},
		"counters": func(c *jetstream.StreamConfig) {
			c.AllowMsgCounter, c.Discard, c.AllowMsgTTL, c.MaxMsgsPerSubject = true, jetstream.DiscardOld, false, -1
		},
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			url := server(t)
			makeByHand(t, url, change)
			err := tryOpen(t, url, config())
			require.ErrorIs(t, err, ErrSettings)
			require.ErrorContains(t, err, says)
		})
	}
}

func TestWithoutJetStreamOpenSaysSo(t *testing.T) {
	t.Parallel()
	p := natstest.StartServer(t, natstest.ServerConfig{
		Extra: `accounts { PLAIN { users: [{user: plain, password: plain}] } }, no_auth_user: plain`,
	})
	require.ErrorIs(t, tryOpen(t, p.URL(), config()), ErrNoJetStream)
}
