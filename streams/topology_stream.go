package streams

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

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
	fixed, drift := mend(have, want)
	if why := refusal(drift, s.cfg.Manage); why != "" {
		return fmt.Errorf("streams: %w: stream %s", ErrTopology, why)
	}
	// An update that changes nothing is no no-op in a cluster (nats-server #5526), so it is made only for
	// a real difference.
	if s.cfg.Manage == ManageCreate && mendable(drift) {
		if _, err := s.js.UpdateStream(ctx, fixed); err != nil {
			return fmt.Errorf("streams: %w: mending stream %s: %w", ErrTopology, want.Name, err)
		}
		for i := range drift {
			drift[i].Mended = drift[i].Mends
		}
	}
	s.report(drift)
	return nil
}

// freeOfStream may be set as one likes: it changes nothing of what becomes of jobs. No message has an id that the
// duplicate window would go by.
var freeOfStream = []string{"description", "metadata", "placement", "compression", "republish", "first_seq", "duplicate_window"}

// streamRules are what is known of the jobs' stream. What loses jobs or breaks the protocol is mended; what an operator
// may have wanted (replicas, storage) is only reported; what cannot be mended, or leaves jobs where nobody looks for them,
// is refused.
var streamRules = map[string]rule{
	"subjects": {
		weight: Broken, why: "it belongs to something else, or was changed by hand",
		remedy: "see what else uses these names, or give jetcrew another namespace (JETCREW_NAMESPACE)",
	},
	"retention":         {weight: Broken, why: "it belongs to something else: jobs that were handed out would stay", remedy: remedyAnew},
	"subject_transform": {weight: Broken, why: "jobs that were acknowledged are stored where nobody looks for them", remedy: remedyMoved},
	"mirror":            {weight: Broken, why: "it is a copy of another stream", remedy: "take it out (nats stream edit), once nobody writes to the other stream"},
	"sources":           {weight: Broken, why: "what comes from other streams is stored without the guards by which jobs are run once", remedy: "take them out (nats stream edit)"},
	"sealed":            {weight: Broken, why: "nothing can be written", remedy: remedyAnew},
	"deny_purge":        {weight: Broken, why: "a job cannot replace what stands of it", remedy: remedyAnew},
	"deny_delete":       {weight: Broken, why: "what stands of a job from before cannot be deleted", remedy: remedyAnew},
	"allow_msg_counter": {weight: Broken, why: "only the server's counters can be written", remedy: remedyAnew},
	"persist_mode":      {weight: Broken, why: "what is acknowledged is not written yet, and lost if the server crashes", remedy: remedyAnew},
	"no_ack":            {weight: Broken, mends: true, why: "no write is answered"},

	"max_msgs":                  {weight: Grave, mends: true, why: "the oldest jobs are dropped at the limit"},
	"max_bytes":                 {weight: Grave, mends: true, why: "the oldest jobs are dropped at the limit"},
	"max_age":                   {weight: Grave, mends: true, why: "jobs that are as old are dropped"},
	"max_msgs_per_subject":      {weight: Grave, mends: true, why: "an older version of a job comes back when the newer one goes"},
	"discard":                   {weight: Grave, mends: true, why: "jobs cannot be due, or are refused at a limit"},
	"discard_new_per_subject":   {weight: Grave, mends: true, why: "no job can be written twice"},
	"allow_direct":              {weight: Grave, mends: true, why: "jobs cannot be read"},
	"allow_rollup_hdrs":         {weight: Grave, mends: true, why: "a job cannot replace what stands of it"},
	"allow_msg_ttl":             {weight: Grave, mends: true, why: "records cannot have a retention"},
	"allow_msg_schedules":       {weight: Grave, mends: true, why: "jobs cannot be due"},
	"allow_atomic":              {weight: Grave, mends: true, why: "jobs cannot be put in together"},
	"subject_delete_marker_ttl": {weight: Grave, mends: true, why: "records that lapse leave messages that are no jobs"},
	"consumer_limits":           {weight: Grave, mends: true, why: "queues' consumers are refused, or go when nobody works for a while, with the queues' settings"},
	"storage":                   {weight: Grave, why: "a restart of the server loses all jobs", remedy: remedyAnew},

	"max_msg_size":  {why: "larger jobs are refused"},
	"max_consumers": {why: "no queue can be made beyond the limit; each has two consumers"},
}

// StreamDrift is how the stream of a namespace's jobs differs from what jetcrew makes.
func StreamDrift(namespace string, replicas int, have jetstream.StreamConfig) []Drift {
	s := Store{names: names{namespace}, cfg: Config{Replicas: replicas}}
	_, drift := mend(have, s.streamConfig())
	return drift
}

// mend compares what a stream has with what jetcrew would make, and answers the configuration with all that
// is safe to change.
func mend(have, want jetstream.StreamConfig) (jetstream.StreamConfig, []Drift) {
	drift := differing(want.Name, want, have, streamRules, freeOfStream...)
	return mended(want, have, drift), drift
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
