package streams

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// byField is what was found of a setting.
func byField(drift []Drift, field string) *Drift {
	for _, d := range drift {
		if d.Field == field {
			return &d
		}
	}
	return nil
}

// What is acknowledged there would be lost, or be where nobody looks for it.
func TestAStreamThatLosesWhatIsAcknowledgedIsRefused(t *testing.T) {
	t.Parallel()
	p := server(t)
	js := p.jetStream(t)
	for field, change := range map[string]func(*jetstream.StreamConfig){
		"subject_transform": func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: c.Subjects[0], Destination: "hidden.>"}
		},
		"sources": func(c *jetstream.StreamConfig) {
			c.Sources, c.AllowMsgSchedules = []*jetstream.StreamSource{{Name: "ELSE"}}, false
		},
		"sealed":      func(c *jetstream.StreamConfig) { c.Sealed = true },
		"deny_purge":  func(c *jetstream.StreamConfig) { c.DenyPurge, c.AllowRollup, c.AllowMsgSchedules = true, false, false },
		"deny_delete": func(c *jetstream.StreamConfig) { c.DenyDelete = true },
		"persist_mode": func(c *jetstream.StreamConfig) {
			c.PersistMode, c.AllowAtomicPublish = jetstream.AsyncPersistMode, false
		},
	} {
		s := Store{names: names{"jetcrew"}, cfg: Config{Replicas: 1}}
		cfg := s.streamConfig()
		if field == "sealed" { // it cannot be made so
			_, err := js.CreateStream(t.Context(), cfg)
			require.NoError(t, err)
			change(&cfg)
			_, err = js.UpdateStream(t.Context(), cfg)
			require.NoError(t, err)
		} else {
			change(&cfg)
			_, err := js.CreateStream(t.Context(), cfg)
			require.NoError(t, err, field)
		}
		for _, manage := range []Manage{ManageCreate, ManageVerify} {
			err := p.tryOpen(t, func(c *Config) { c.Manage = manage })
			require.ErrorIs(t, err, ErrTopology, field)
			require.ErrorContains(t, err, "stream JETCREW_JOBS: "+field+" is ")
		}
		stream, err := js.Stream(t.Context(), "JETCREW_JOBS")
		require.NoError(t, err)
		d := byField(StreamDrift("jetcrew", 1, stream.CachedInfo().Config), field)
		require.NotNil(t, d, field)
		require.Equal(t, Broken, d.Weight)
		require.NotEmpty(t, d.Why)
		require.NotEmpty(t, d.Remedy)
		require.NoError(t, js.DeleteStream(t.Context(), "JETCREW_JOBS"))
	}
}

func TestAStreamThatDoesNotAnswerWritesIsMended(t *testing.T) {
	t.Parallel()
	p := server(t)
	js := p.jetStream(t)
	n := p.open(t)
	cfg := n.streamConfig()
	cfg.NoAck, cfg.SubjectDeleteMarkerTTL, cfg.MaxConsumers = true, time.Minute, 100
	cfg.ConsumerLimits = jetstream.StreamConsumerLimits{InactiveThreshold: time.Hour}
	cfg.Description, cfg.Metadata, cfg.Compression = "theirs", map[string]string{"a": "b"}, jetstream.S2Compression
	cfg.RePublish = &jetstream.RePublish{Source: "jetcrew.job.>", Destination: "copy.>"}
	_, err := js.UpdateStream(t.Context(), cfg)
	require.NoError(t, err)
	err = p.tryOpen(t, verify)
	require.ErrorIs(t, err, ErrTopology)
	require.ErrorContains(t, err, "no_ack is true, want false")
	again := p.open(t)
	mended := map[string]bool{}
	for _, d := range again.Drift() {
		mended[d.Field] = d.Mended
	}
	require.Equal(t, map[string]bool{
		"no_ack": true, "subject_delete_marker_ttl": true, "consumer_limits": true, "max_consumers": false,
	}, mended)
	again.enqueue(spec("q", "1"))
	stream, err := js.Stream(t.Context(), "JETCREW_JOBS")
	require.NoError(t, err)
	require.Equal(t, "theirs", stream.CachedInfo().Config.Description, "what is free stays")
	require.NotNil(t, stream.CachedInfo().Config.RePublish)
}

func TestConsumersThatDriftAreMendedOrRefused(t *testing.T) {
	t.Parallel()
	p := server(t)
	n := p.open(t)
	for field, c := range map[string]struct {
		consumer string // made this way
		change   func(*jetstream.ConsumerConfig)
		refused  bool
		mended   bool
	}{
		"deliver_subject": {consumer: "ready-q", refused: true, change: func(c *jetstream.ConsumerConfig) {
			c.DeliverSubject, c.MaxWaiting = "theirs", 0
		}},
		"filter_subject": {consumer: "wake-q", refused: true, change: func(c *jetstream.ConsumerConfig) { c.FilterSubject = "jetcrew.wake.other.>" }},
		"priority_groups": {consumer: "ready-q", mended: true, change: func(c *jetstream.ConsumerConfig) {
			c.PriorityPolicy, c.PriorityGroups = jetstream.PriorityPolicyOverflow, []string{"a"}
		}},
		"backoff":            {consumer: "ready-q", mended: true, change: func(c *jetstream.ConsumerConfig) { c.BackOff = []time.Duration{100 * time.Millisecond} }},
		"headers_only":       {consumer: "ready-q", mended: true, change: func(c *jetstream.ConsumerConfig) { c.HeadersOnly = true }},
		"inactive_threshold": {consumer: "ready-q", mended: true, change: func(c *jetstream.ConsumerConfig) { c.InactiveThreshold = time.Hour }},
		"max_batch":          {consumer: "ready-q", mended: true, change: func(c *jetstream.ConsumerConfig) { c.MaxRequestBatch = 1 }},
		"max_expires":        {consumer: "ready-q", mended: true, change: func(c *jetstream.ConsumerConfig) { c.MaxRequestExpires = time.Second }},
		"max_bytes":          {consumer: "ready-q", mended: true, change: func(c *jetstream.ConsumerConfig) { c.MaxRequestMaxBytes = 1 }},
		"ack_wait":           {consumer: "wake-q", mended: true, change: func(c *jetstream.ConsumerConfig) { c.AckWait = time.Hour }},
		"max_ack_pending":    {consumer: "wake-q", mended: true, change: func(c *jetstream.ConsumerConfig) { c.MaxAckPending = 1 }},
		"replay_policy":      {consumer: "ready-q", change: func(c *jetstream.ConsumerConfig) { c.ReplayPolicy = jetstream.ReplayOriginalPolicy }},
		"sample_freq":        {consumer: "ready-q", change: func(c *jetstream.ConsumerConfig) { c.SampleFrequency = "100%" }},
		"mem_storage":        {consumer: "ready-q", change: func(c *jetstream.ConsumerConfig) { c.MemoryStorage = true }},
	} {
		cfg := n.consumerConfig("ready-q", "jetcrew.job.ready.q.>", lease)
		if c.consumer == "wake-q" {
			cfg = n.consumerConfig("wake-q", "jetcrew.wake.q.>", wakeWait)
		}
		c.change(&cfg)
		if cfg.DeliverSubject != "" {
			stream, err := n.js.Stream(t.Context(), "JETCREW_JOBS")
			require.NoError(t, err)
			_, err = stream.CreatePushConsumer(t.Context(), cfg)
			require.NoError(t, err, field)
		} else {
			_, err := n.js.CreateConsumer(t.Context(), "JETCREW_JOBS", cfg)
			require.NoError(t, err, field)
		}
		s := p.open(t)
		_, err := s.openQueue(t.Context(), "q", lease)
		if c.refused {
			require.ErrorIs(t, err, ErrTopology, field)
			require.ErrorContains(t, err, "delete it", field)
		} else {
			require.NoError(t, err, field)
			d := byField(s.Drift(), field)
			require.NotNil(t, d, field)
			require.Equal(t, c.mended, d.Mended, field)
			info, err := n.js.Consumer(t.Context(), "JETCREW_JOBS", c.consumer)
			require.NoError(t, err)
			left := byField(ConsumerDrift("jetcrew", info.CachedInfo().Config), field)
			require.Equal(t, c.mended, left == nil, "%s: %v", field, left)
		}
		for _, name := range []string{"ready-q", "wake-q"} {
			if err := n.js.DeleteConsumer(t.Context(), "JETCREW_JOBS", name); err != nil {
				require.ErrorIs(t, err, jetstream.ErrConsumerNotFound)
			}
		}
	}
}

func TestWhatWasMadeDoesNotDrift(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	_, err := n.openQueue(t.Context(), "q", lease)
	require.NoError(t, err)
	infos, err := n.consumers(t.Context())
	require.NoError(t, err)
	require.Len(t, infos, 2+len(countedStates))
	for _, info := range infos {
		require.Empty(t, ConsumerDrift("jetcrew", info.Config), info.Name)
	}
	cfg := infos[0].Config
	cfg.Durable, cfg.FilterSubject = "theirs", "jetcrew.>"
	require.Empty(t, ConsumerDrift("jetcrew", cfg), "one that is not jetcrew's")
}
