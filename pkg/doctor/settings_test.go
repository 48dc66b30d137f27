package doctor

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

func TestSettingsOfStreams(t *testing.T) {
	t.Parallel()
	url := empty(t)
	f := settle(t, url, 1)
	for _, c := range []struct {
		stream, id, field string
		level             Level
		change            func(*jetstream.StreamConfig)
	}{
		{"JETCREW_JOBS", "jobs-stream", "subject_transform", Error, func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: c.Subjects[0], Destination: "hidden.>"}
		}},
		{"JETCREW_JOBS", "jobs-stream", "no_ack", Error, func(c *jetstream.StreamConfig) { c.NoAck = true }},
		{"JETCREW_JOBS", "jobs-stream", "max_bytes", Error, func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 30 }},
		{"JETCREW_JOBS", "jobs-stream", "max_consumers", Warning, func(c *jetstream.StreamConfig) { c.MaxConsumers = 100 }},
		{"KV_JETCREW_SCHEDULES", "schedules-bucket", "max_msgs", Error, func(c *jetstream.StreamConfig) { c.MaxMsgs = 10 }},
		{"KV_JETCREW_SCHEDULES", "schedules-bucket", "max_bytes", Error, func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 20 }},
		{"KV_JETCREW_SCHEDULES", "schedules-bucket", "subject_transform", Error, func(c *jetstream.StreamConfig) {
			c.SubjectTransform = &jetstream.SubjectTransformConfig{Source: c.Subjects[0], Destination: "hidden.>"}
		}},
		{"KV_JETCREW_LEADER", "leader-bucket", "max_msgs", Error, func(c *jetstream.StreamConfig) { c.MaxMsgs = 10 }},
		{"KV_JETCREW_LEADER", "leader-bucket", "max_age", Warning, func(c *jetstream.StreamConfig) { c.MaxAge = 30 * time.Second }},
		{"KV_JETCREW_LEADER", "leader-bucket", "max_age", Error, func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour }},
		{"KV_JETCREW_WORKERS", "workers-bucket", "max_msgs", Error, func(c *jetstream.StreamConfig) { c.MaxMsgs = 10 }},
		{"KV_JETCREW_WORKERS", "workers-bucket", "max_bytes", Error, func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 20 }},
		{"KV_JETCREW_WORKERS", "workers-bucket", "max_msg_size", Warning, func(c *jetstream.StreamConfig) { c.MaxMsgSize = 1 << 10 }},
		{"KV_JETCREW_WORKERS", "workers-bucket", "no_ack", Error, func(c *jetstream.StreamConfig) { c.NoAck = true }},
	} {
		s, err := f.js.Stream(t.Context(), c.stream)
		require.NoError(t, err)
		was := s.CachedInfo().Config
		f.edit(t, c.stream, c.change)
		r := examine(t, url, Config{})
		found := r.has(t, c.id, c.level, c.stream+": "+c.field+" is ")
		require.Equal(t, c.field, found.Facts["field"])
		require.NotEmpty(t, found.Facts["have"])
		require.NotEmpty(t, found.Facts["want"])
		_, err = f.js.UpdateStream(t.Context(), was)
		require.NoError(t, err)
	}
	examine(t, url, Config{}).allOK(t, "jobs-stream", "workers-bucket", "schedules-bucket", "leader-bucket", "consumers")

	f.edit(t, "JETCREW_JOBS", func(c *jetstream.StreamConfig) { c.MaxConsumers = 8 })
	examine(t, url, Config{}).has(t, "jobs-stream", Error, "all of the 8 consumers that it may have")
	f.edit(t, "JETCREW_JOBS", func(c *jetstream.StreamConfig) {
		c.MaxConsumers, c.Description, c.Compression = -1, "theirs", jetstream.S2Compression
		c.RePublish = &jetstream.RePublish{Source: "jetcrew.job.>", Destination: "copy.>"}
	})
	examine(t, url, Config{}).allOK(t, "jobs-stream")
}

func TestSettingsOfConsumers(t *testing.T) {
	t.Parallel()
	url := empty(t)
	f := settle(t, url, 1)
	for _, c := range []struct {
		name, field string
		level       Level
		change      func(*jetstream.ConsumerConfig)
	}{
		{"ready-default", "priority_groups", Error, func(c *jetstream.ConsumerConfig) {
			c.PriorityPolicy, c.PriorityGroups = jetstream.PriorityPolicyOverflow, []string{"a"}
		}},
		{"ready-default", "inactive_threshold", Error, func(c *jetstream.ConsumerConfig) { c.InactiveThreshold = time.Hour }},
		{"ready-default", "filter_subject", Error, func(c *jetstream.ConsumerConfig) { c.FilterSubject = "jetcrew.job.ready.x.>" }},
		{"ready-default", "sample_freq", Warning, func(c *jetstream.ConsumerConfig) { c.SampleFrequency = "100%" }},
		{"wake-default", "ack_wait", Error, func(c *jetstream.ConsumerConfig) { c.AckWait = time.Hour }},
		{"wake-default", "max_ack_pending", Error, func(c *jetstream.ConsumerConfig) { c.MaxAckPending = 1 }},
		{"count-dead", "filter_subject", Error, func(c *jetstream.ConsumerConfig) { c.FilterSubject = "jetcrew.job.dead.x.>" }},
		{"count-dead", "inactive_threshold", Error, func(c *jetstream.ConsumerConfig) { c.InactiveThreshold = time.Hour }},
		{"count-dead", "headers_only", Warning, func(c *jetstream.ConsumerConfig) { c.HeadersOnly = true }},
		{"count-due", "max_ack_pending", Warning, func(c *jetstream.ConsumerConfig) { c.MaxAckPending = 7 }},
	} {
		info, err := f.js.Consumer(t.Context(), "JETCREW_JOBS", c.name)
		require.NoError(t, err)
		was := info.CachedInfo().Config
		f.editConsumer(t, c.name, c.change)
		r := examine(t, url, Config{})
		require.Equal(t, c.field, r.has(t, "consumers", c.level, "consumer "+c.name+": "+c.field+" is ").Facts["field"])
		if c.name == "count-dead" && c.field == "filter_subject" {
			r.has(t, "dead-jobs", Warning, "missing, or counts something else")
		}
		_, err = f.js.UpdateConsumer(t.Context(), "JETCREW_JOBS", was)
		require.NoError(t, err)
	}
	examine(t, url, Config{}).allOK(t, "consumers")

	for name, c := range map[string]struct {
		field  string
		change func(*jetstream.ConsumerConfig)
	}{
		"ready-default": {"replay_policy", func(c *jetstream.ConsumerConfig) { c.ReplayPolicy = jetstream.ReplayOriginalPolicy }},
		"wake-default":  {"deliver_subject", func(c *jetstream.ConsumerConfig) { c.DeliverSubject, c.MaxWaiting = "theirs", 0 }},
	} { // these cannot be edited
		info, err := f.js.Consumer(t.Context(), "JETCREW_JOBS", name)
		require.NoError(t, err)
		cfg := info.CachedInfo().Config
		c.change(&cfg)
		require.NoError(t, f.js.DeleteConsumer(t.Context(), "JETCREW_JOBS", name))
		if cfg.DeliverSubject != "" {
			_, err = f.js.CreatePushConsumer(t.Context(), "JETCREW_JOBS", cfg)
		} else {
			_, err = f.js.CreateConsumer(t.Context(), "JETCREW_JOBS", cfg)
		}
		require.NoError(t, err)
		examine(t, url, Config{}).has(t, "consumers", Error, "consumer "+name+": "+c.field+" is ")
	}
}

// A stream whose only node has stopped answers nothing, and the server that it is asked through answers all else.
func TestAStreamOfANodeThatHasStoppedIsAnError(t *testing.T) {
	t.Parallel()
	c := natstest.StartCluster(t, 3)
	settle(t, c.URLs(), 1)
	stopped := c.StreamLeader(t, "JETCREW_JOBS")
	stopped.Pause()
	t.Cleanup(stopped.Resume)
	other := c.Node(0)
	if other == stopped {
		other = c.Node(1)
	}
	eventually(t, other.URL(), Config{}, "jobs-stream", Error, "not checked: ")
}

func TestAJobsStreamThatDoesNotAnswerIsAnError(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		id    string
		level Level
	}{{"jobs-stream", Error}, {"jetstream", Error}, {"kv-bucket", Warning}} {
		e := &exam{report: &Report{}, denials: &denials{}, cfg: Config{Timeout: time.Millisecond}}
		e.make(t.Context(), check{id: c.id, look: silentLook})
		require.Equal(t, false, e.report.has(t, c.id, c.level, "not checked: no answer within 1ms").Facts["checked"])
		e = &exam{report: &Report{}, denials: &denials{}, cfg: Config{Timeout: patient}}
		e.make(t.Context(), check{id: c.id, look: offlineLook})
		e.report.has(t, c.id, c.level, "stream is offline")
	}
}

func silentLook(_ *exam, ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func offlineLook(*exam, context.Context) error { return errors.New("stream is offline") }

func TestNoConnectionIsAReport(t *testing.T) {
	t.Parallel()
	r, err := Unconnected(Config{}, errors.New("connect to nats://u:hunter2@h:4222: refused"))
	require.NoError(t, err)
	require.Len(t, r.Findings, 1)
	require.Equal(t, "jetcrew", r.Namespace)
	f := r.has(t, "connection", Error, "refused")
	require.Contains(t, f.Advice, "JETCREW_URL")
	require.NotContains(t, f.Text, "hunter2")
	_, err = Unconnected(Config{Replicas: 9}, errors.New("x"))
	require.ErrorIs(t, err, ErrConfig)
}
