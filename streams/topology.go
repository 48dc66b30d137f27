package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// Drift is a setting of a stream or consumer that is not what jetcrew would make.
type Drift struct {
	Name   string // of the stream or consumer
	Field  string
	Want   string
	Have   string
	Mended bool
}

func (d Drift) String() string {
	end := ""
	if d.Mended {
		end = " (mended)"
	}
	return fmt.Sprintf("%s: %s is %s, want %s%s", d.Name, d.Field, d.Have, d.Want, end)
}

// Drift lists what was found to differ since the store was opened.
func (s *Store) Drift() []Drift {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.drift)
}

func (s *Store) report(ds []Drift) {
	for _, d := range ds {
		s.log.Warn().Str("name", d.Name).Str("field", d.Field).Str("want", d.Want).Str("have", d.Have).
			Bool("mended", d.Mended).Msg("settings drift")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range ds {
		if !slices.Contains(s.drift, d) {
			s.drift = append(s.drift, d)
		}
	}
}

// streamConfig is the stream as jetcrew makes it. It has no limit of messages, bytes or age on purpose: the
// oldest jobs would be dropped. The bound is the account's or the server's.
func (s *Store) streamConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:               s.names.stream(),
		Description:        "jetcrew: one document per job",
		Subjects:           s.names.streamSubjects(),
		Retention:          jetstream.WorkQueuePolicy,
		MaxConsumers:       -1,
		MaxMsgs:            -1,
		MaxBytes:           -1,
		MaxMsgSize:         -1,
		MaxMsgsPerSubject:  1,
		Discard:            jetstream.DiscardOld,
		Storage:            jetstream.FileStorage,
		Replicas:           s.cfg.Replicas,
		AllowDirect:        true,
		AllowRollup:        true,
		AllowMsgTTL:        true,
		AllowMsgSchedules:  true,
		AllowAtomicPublish: true,
	}
}

// ensureStream makes the stream, or checks it, or mends what can be mended safely.
func (s *Store) ensureStream(ctx context.Context) error {
	want := s.streamConfig()
	stream, err := s.js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if err := s.createStream(ctx, want); err != nil {
			return err
		}
		return s.ensureCounts(ctx)
	}
	if err != nil {
		return fmt.Errorf("streams: looking for stream %s: %w", want.Name, err)
	}
	if err := s.checkStream(ctx, stream.CachedInfo().Config, want); err != nil {
		return err
	}
	if s.cfg.Manage == ManageVerify {
		return nil
	}
	return s.ensureCounts(ctx)
}

// checkStream compares the stream that is there with what jetcrew would make.
func (s *Store) checkStream(ctx context.Context, have, want jetstream.StreamConfig) error {
	if !slices.Equal(slices.Sorted(slices.Values(have.Subjects)), slices.Sorted(slices.Values(want.Subjects))) {
		return fmt.Errorf("streams: %w: stream %s has subjects %s, want %s: it belongs to something else, or was changed by hand",
			ErrTopology, want.Name, strings.Join(have.Subjects, " "), strings.Join(want.Subjects, " "))
	}
	if have.Retention != want.Retention {
		return fmt.Errorf("streams: %w: stream %s has %v retention, want %v, which cannot be changed later",
			ErrTopology, want.Name, have.Retention, want.Retention)
	}
	fixed, drift := mend(have, want)
	if len(drift) == 0 {
		return nil
	}
	// An update that changes nothing is no no-op in a cluster (nats-server #5526), so it is made only for
	// a real difference.
	if s.cfg.Manage == ManageCreate && slices.ContainsFunc(drift, func(d Drift) bool { return d.Mended }) {
		if _, err := s.js.UpdateStream(ctx, fixed); err != nil {
			return fmt.Errorf("streams: %w: mending stream %s: %w", ErrTopology, want.Name, err)
		}
	} else {
		for i := range drift {
			drift[i].Mended = false
		}
	}
	s.report(drift)
	return nil
}

// mend compares what a stream has with what jetcrew would make, and answers the configuration with all that
// is safe to change. What loses jobs or breaks the protocol is changed; what an operator may have wanted
// (replicas, storage) is only reported.
func mend(have, want jetstream.StreamConfig) (jetstream.StreamConfig, []Drift) {
	var ds []Drift
	fixed := have
	set := func(field string, differs bool, want, have any, fix func()) {
		if !differs {
			return
		}
		d := Drift{Name: fixed.Name, Field: field, Want: fmt.Sprint(want), Have: fmt.Sprint(have), Mended: fix != nil}
		if fix != nil {
			fix()
		}
		ds = append(ds, d)
	}
	set("max_msgs", have.MaxMsgs > 0, -1, have.MaxMsgs, func() { fixed.MaxMsgs = -1 })
	set("max_bytes", have.MaxBytes > 0, -1, have.MaxBytes, func() { fixed.MaxBytes = -1 })
	set("max_age", have.MaxAge > 0, 0, have.MaxAge, func() { fixed.MaxAge = 0 })
	set("max_msgs_per_subject", have.MaxMsgsPerSubject != 1, 1, have.MaxMsgsPerSubject, func() { fixed.MaxMsgsPerSubject = 1 })
	set("discard", have.Discard != want.Discard, want.Discard, have.Discard, func() { fixed.Discard = want.Discard })
	set("allow_direct", !have.AllowDirect, true, false, func() { fixed.AllowDirect = true })
	set("allow_rollup_hdrs", !have.AllowRollup, true, false, func() { fixed.AllowRollup, fixed.DenyPurge = true, false })
	set("allow_msg_ttl", !have.AllowMsgTTL, true, false, func() { fixed.AllowMsgTTL = true })
	set("allow_msg_schedules", !have.AllowMsgSchedules, true, false, func() { fixed.AllowMsgSchedules = true })
	set("allow_atomic", !have.AllowAtomicPublish, true, false, func() { fixed.AllowAtomicPublish = true })
	set("max_msg_size", have.MaxMsgSize > 0, -1, have.MaxMsgSize, nil)
	set("storage", have.Storage != want.Storage, want.Storage, have.Storage, nil)
	set("num_replicas", have.Replicas != want.Replicas, want.Replicas, have.Replicas, nil)
	return fixed, ds
}

// createStream makes the stream where there never was one. Where the workers' bucket exists without it,
// somebody deleted it: an empty one would hide the loss.
func (s *Store) createStream(ctx context.Context, cfg jetstream.StreamConfig) error {
	if s.cfg.Manage == ManageVerify {
		return fmt.Errorf("streams: %w: stream %s is missing, and this process may not make it", ErrTopology, cfg.Name)
	}
	bucket := s.names.workersBucket()
	if _, err := s.js.KeyValue(ctx, bucket); err == nil {
		return fmt.Errorf("streams: %w: stream %s is gone, but bucket %s shows that it was there: restore it, "+
			"or delete the bucket to begin with an empty one", ErrTopology, cfg.Name, bucket)
	} else if !errors.Is(err, jetstream.ErrBucketNotFound) {
		return fmt.Errorf("streams: looking for bucket %s: %w", bucket, err)
	}
	if _, err := s.js.CreateStream(ctx, cfg); err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return fmt.Errorf("streams: %w: making stream %s: %w", ErrTopology, cfg.Name, err)
	}
	return nil
}

// ensureWorkers finds or makes the bucket in which workers say what they run.
func (s *Store) ensureWorkers(ctx context.Context) error {
	name := s.names.workersBucket()
	kv, err := s.js.KeyValue(ctx, name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		if s.cfg.Manage == ManageVerify {
			return fmt.Errorf("streams: %w: bucket %s is missing, and this process may not make it", ErrTopology, name)
		}
		kv, err = s.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: name, Description: "jetcrew: workers, and the claims that each one runs",
			History: 1, Replicas: s.cfg.Replicas, LimitMarkerTTL: time.Minute,
		})
		if errors.Is(err, jetstream.ErrBucketExists) { // somebody else was faster
			kv, err = s.js.KeyValue(ctx, name)
		}
	}
	if err != nil {
		return fmt.Errorf("streams: bucket %s: %w", name, err)
	}
	if s.kv == nil { // a bucket that was made again is reached by the same name
		s.kv = kv
	}
	return nil
}

// consumerConfig is a queue's consumer as jetcrew makes it. MaxDeliver has no limit, since a message past it
// would stay in the stream and never be delivered again (nats-server #5564): attempts are the document's.
func (s *Store) consumerConfig(name, filter string, lease time.Duration) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       name,
		Name:          name,
		FilterSubject: filter,
		DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       lease,
		MaxDeliver:    -1,
		MaxAckPending: -1,
		MaxWaiting:    8192, // cannot be raised later
	}
}

// wakeWait is how long a wake may be held before it is delivered to somebody else. Handling one takes
// milliseconds, and to do it twice is harmless; the jobs of a worker that vanished wait for it.
const wakeWait = 5 * time.Second

// ensureQueue makes a queue's consumers where they are missing, unless it is known that they are there.
func (s *Store) ensureQueue(ctx context.Context, queue string) error {
	if s.queues.uses(queue) {
		return nil
	}
	_, err := s.openQueue(ctx, queue, 0)
	return err
}

// openQueue finds, checks or makes a queue's consumers. A lease of 0 takes what is there, or the store's. One that was
// there is made again as it was last seen.
func (s *Store) openQueue(ctx context.Context, queue string, lease time.Duration) (queueInfo, error) {
	last := s.queues.last(queue)
	last.ackWait = cmp.Or(last.ackWait, lease, s.cfg.Lease)
	have, err := s.ensureConsumer(ctx, s.readyConfig(queue, last))
	if err != nil {
		return queueInfo{}, err
	}
	if _, err := s.ensureConsumer(ctx, s.consumerConfig(s.names.wakeConsumer(queue), s.names.wakeFilter(queue), wakeWait)); err != nil {
		return queueInfo{}, err
	}
	info := readInfo(have)
	if lease != 0 && info.lease() != lease { // it was set on purpose, and holds
		s.log.Debug().Str("queue", queue).Stringer("lease", info.lease()).Stringer("asked", lease).Msg("the queue keeps its lease")
	}
	s.queues.learn(queue, info, true)
	return info, nil
}

// readyConfig is a queue's ready consumer.
func (s *Store) readyConfig(queue string, info queueInfo) jetstream.ConsumerConfig {
	cfg := s.consumerConfig(s.names.readyConsumer(queue), s.names.readyFilter(queue), info.ackWait)
	if info.limit > 0 {
		cfg.MaxAckPending = info.limit
	}
	cfg.Metadata = info.metadata(queue)
	return cfg
}

// ensureConsumer finds, checks or makes one consumer. A request that nobody answers, as it happens while a cluster
// elects its leaders, is made again for as long as ctx allows.
func (s *Store) ensureConsumer(ctx context.Context, want jetstream.ConsumerConfig) (jetstream.ConsumerConfig, error) {
	for try := 0; ; try++ {
		once, cancel := context.WithTimeout(ctx, requestTimeout)
		have, err := s.ensureConsumerOnce(once, want)
		cancel()
		silent := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrNoResponders)
		if !silent || pause(ctx, try) != nil {
			return have, err
		}
	}
}

func (s *Store) ensureConsumerOnce(ctx context.Context, want jetstream.ConsumerConfig) (jetstream.ConsumerConfig, error) {
	c, err := s.js.Consumer(ctx, s.names.stream(), want.Durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		if s.cfg.Manage == ManageVerify {
			return want, fmt.Errorf("streams: %w: consumer %s is missing, and this process may not make it", ErrTopology, want.Durable)
		}
		c, err = s.js.CreateConsumer(ctx, s.names.stream(), want)
		if errors.Is(err, jetstream.ErrConsumerExists) { // somebody else was faster, with another lease
			c, err = s.js.Consumer(ctx, s.names.stream(), want.Durable)
		}
	}
	if err != nil {
		return want, fmt.Errorf("streams: consumer %s: %w", want.Durable, err)
	}
	have := c.CachedInfo().Config
	if have.FilterSubject != want.FilterSubject || have.AckPolicy != want.AckPolicy {
		return want, fmt.Errorf("streams: %w: consumer %s has filter %q and ack policy %s, want %q and %s: delete it, and it is made anew",
			ErrTopology, want.Durable, have.FilterSubject, have.AckPolicy, want.FilterSubject, want.AckPolicy)
	}
	return s.mendConsumer(ctx, have, want)
}

// mendConsumer changes what would lose jobs, and adds the name of a queue where it cannot be told otherwise.
func (s *Store) mendConsumer(ctx context.Context, have, want jetstream.ConsumerConfig) (jetstream.ConsumerConfig, error) {
	fixed := have
	var drift []Drift
	if have.MaxDeliver != want.MaxDeliver {
		fixed.MaxDeliver = want.MaxDeliver
		drift = []Drift{{
			Name: want.Durable, Field: "max_deliver", Want: "-1", Have: strconv.Itoa(have.MaxDeliver), Mended: s.cfg.Manage == ManageCreate,
		}}
	}
	queue := want.Metadata[metaQueue]
	nameless := have.Metadata[metaQueue] != queue && strings.HasPrefix(queueToken(queue), hashMark)
	if nameless {
		fixed.Metadata = maps.Clone(have.Metadata)
		if fixed.Metadata == nil {
			fixed.Metadata = make(map[string]string)
		}
		fixed.Metadata[metaQueue] = queue
	}
	if s.cfg.Manage == ManageCreate && (nameless || drift != nil) {
		if _, err := s.js.UpdateConsumer(ctx, s.names.stream(), fixed); err != nil {
			return want, fmt.Errorf("streams: %w: mending consumer %s: %w", ErrTopology, want.Durable, err)
		}
		have = fixed
	}
	s.report(drift)
	return have, nil
}

// serverTime reads the server's clock from the answer to a stream info.
func (s *Store) serverTime(ctx context.Context) (time.Time, error) {
	msg, err := s.nc.RequestWithContext(ctx, apiPrefix+"STREAM.INFO."+s.names.stream(), nil)
	if err != nil {
		return time.Time{}, err
	}
	var info struct {
		TS    time.Time           `json:"ts"`
		Error *jetstream.APIError `json:"error"`
	}
	if err := job.Decode(msg.Data, &info); err != nil {
		return time.Time{}, err
	}
	if info.Error != nil {
		return time.Time{}, info.Error
	}
	return info.TS, nil
}
