package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/jetcrew/jetcrew/kvbucket"
	"github.com/jetcrew/jetcrew/scheduler"
	"github.com/jetcrew/jetcrew/streams"
)

const (
	adviceSetup = "run jetcrew setup as a user that may make streams, or start a worker with JETCREW_MANAGE=create"
	adviceMend  = "run jetcrew setup as a user that may change streams: it mends what can be mended safely"
)

// longTTL is how long a fleet may be without a leader before that counts as wrong.
const longTTL = time.Minute

// lookAtJobs looks at the jobs' stream, and opens the store where it is fit to be opened.
func (e *exam) lookAtJobs(ctx context.Context) error {
	name := e.names.jobs()
	jobs, err := e.stream(ctx, name)
	if err != nil {
		return err
	}
	workers, err := e.stream(ctx, e.names.workers())
	if err != nil {
		return err
	}
	switch {
	case jobs == nil && workers != nil:
		e.fail(fmt.Sprintf("stream %s is gone, but %s shows that it was there: its jobs are lost", name, e.names.workers()),
			"restore the stream from a backup; to begin with an empty one, delete the workers' bucket as well, and run jetcrew setup", nil)
		return nil
	case jobs == nil:
		e.fail(fmt.Sprintf("stream %s is missing: there is nothing to put jobs into", name), adviceSetup, nil)
		return nil
	case workers == nil: // the store cannot be opened without it, and lookAtWorkers tells of it
		e.ok(fmt.Sprintf("stream %s is there, and was not compared with what it should be", name), nil)
		return nil
	}
	broken := false
	for _, d := range streams.StreamDrift(e.cfg.Namespace, e.cfg.Replicas, jobs.Config) {
		broken = broken || d.Weight == streams.Broken
		e.differs(d, map[string]any{"stream": name})
	}
	if limit := jobs.Config.MaxConsumers; limit > 0 && jobs.State.Consumers >= limit {
		e.fail(fmt.Sprintf("%s has all of the %d consumers that it may have (max_consumers): no queue can be made", name, limit),
			"set it to -1 (nats stream edit), or delete queues that nobody needs (jetcrew queue delete)", map[string]any{"stream": name, "field": "max_consumers"})
	}
	if broken { // the store refuses to be opened
		return nil
	}
	store, err := streams.Open(ctx, e.nc, streams.Config{
		Namespace: e.cfg.Namespace, Replicas: e.cfg.Replicas, Manage: streams.ManageVerify, Logger: e.cfg.Logger,
	})
	if errors.Is(err, streams.ErrTopology) {
		e.fail(err.Error(), "see what else uses these names, or give jetcrew another namespace (JETCREW_NAMESPACE)", nil)
		return nil
	}
	if errors.Is(err, streams.ErrServerTooOld) {
		return errUnknown
	}
	if err != nil {
		return err
	}
	e.store = store
	if !e.found() {
		s := jobs.State
		e.ok(fmt.Sprintf("stream %s is as it should be: %d messages, %s", name, s.Msgs, size(s.Bytes)),
			map[string]any{"messages": s.Msgs, "bytes": s.Bytes, "replicas": jobs.Config.Replicas})
	}
	return nil
}

// differs tells of a setting that is not as jetcrew would make it. How many replicas are enough is a check of its own.
func (e *exam) differs(d streams.Drift, facts map[string]any) {
	if d.Field == "num_replicas" && facts["stream"] != nil {
		return
	}
	facts["field"], facts["want"], facts["have"] = d.Field, d.Want, d.Have
	level := Error
	if d.Weight == streams.Odd {
		level = Warning
	}
	e.find(level, d.String(), d.Remedy, facts)
}

// grave are the settings with which keys are lost, or cannot be used. The others an operator may have wanted.
var grave = []string{
	"max_msgs", "max_bytes", "max_age", "max_msgs_per_subject", "discard", "allow_direct", "allow_rollup_hdrs", "allow_msg_ttl",
	"no_ack",
}

// drift tells of a setting of the keys' bucket.
func (e *exam) drift(stream, field, want, have string) {
	if field == "num_replicas" {
		return
	}
	facts := map[string]any{"stream": stream, "field": field, "want": want, "have": have}
	text := fmt.Sprintf("%s: %s is %s, want %s", stream, field, have, want)
	if slices.Contains(grave, field) {
		e.fail(text, adviceMend, facts)
		return
	}
	e.warn(text, "set it back, unless it was set on purpose; jetcrew does not change it by itself", facts)
}

// lookAtWorkers looks at the bucket in which workers say that they are alive.
func (e *exam) lookAtWorkers(ctx context.Context) error {
	name := e.names.workers()
	info, err := e.stream(ctx, name)
	if err != nil {
		return err
	}
	if info == nil {
		e.fail(name+" is missing: workers cannot say that they are alive", adviceSetup, nil)
		return nil
	}
	want := e.bucket(name)
	want.AllowMsgTTL, want.SubjectDeleteMarkerTTL = true, time.Minute
	e.compareBucket(want, info.Config)
	if !e.found() {
		e.ok(name+" is as it should be", nil)
	}
	return nil
}

// bucket is a bucket's stream as the client library makes it.
func (e *exam) bucket(name string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: name, Subjects: []string{"$KV." + strings.TrimPrefix(name, "KV_") + ".>"},
		MaxConsumers: -1, MaxMsgs: -1, MaxBytes: -1, MaxMsgSize: -1, MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew,
		Replicas: e.cfg.Replicas, DenyDelete: true, AllowRollup: true, AllowDirect: true,
	}
}

// compareBucket tells of all that differs.
func (e *exam) compareBucket(want, have jetstream.StreamConfig) {
	for _, d := range streams.BucketDrift(want, have) {
		e.differs(d, map[string]any{"stream": want.Name})
	}
}

// lookAtKV looks at the bucket of the handlers' keys.
func (e *exam) lookAtKV(ctx context.Context) error {
	name := e.names.kv()
	info, err := e.stream(ctx, name)
	if err != nil {
		return err
	}
	if info == nil {
		e.warn(name+" is missing: handlers have no key/value store", adviceSetup+"; without handlers that use it, nothing is amiss", nil)
		return nil
	}
	b, err := kvbucket.Open(ctx, e.nc, kvbucket.Config{
		Namespace: e.cfg.Namespace, Replicas: e.cfg.Replicas, Manage: kvbucket.ManageVerify, Clock: e, Logger: e.cfg.Logger,
	})
	if errors.Is(err, kvbucket.ErrSettings) {
		e.fail(err.Error(), adviceMend, nil)
		return nil
	}
	if errors.Is(err, kvbucket.ErrServerTooOld) {
		return errUnknown
	}
	if err != nil {
		return err
	}
	defer b.Close()
	for _, d := range b.Drift() {
		e.drift(name, d.Field, d.Want, d.Have)
	}
	if !e.found() {
		e.ok(name+" is as it should be", map[string]any{"keys": info.State.Msgs})
	}
	return nil
}

// lookAtSchedulesBucket looks at the bucket of the schedules; whether they fire is another check.
func (e *exam) lookAtSchedulesBucket(ctx context.Context) error {
	name := e.names.schedules()
	info, err := e.stream(ctx, name)
	if err != nil {
		return err
	}
	if info == nil {
		e.warn(name+" is missing: there are no schedules", adviceSetup+"; without schedules, nothing is amiss", nil)
		return nil
	}
	want := e.bucket(name)
	want.MaxAge = info.Config.MaxAge // its opening tells of it
	e.compareBucket(want, info.Config)
	_, err = scheduler.OpenStore(ctx, e.nc, scheduler.StoreConfig{
		Namespace: e.cfg.Namespace, Replicas: e.cfg.Replicas, Verify: true, Clock: e, Logger: e.cfg.Logger,
	})
	return e.bucketFound(ctx, name, err)
}

// lookAtLeaderBucket looks at the bucket that the election is held in; who leads is another check.
func (e *exam) lookAtLeaderBucket(ctx context.Context) error {
	name := e.names.leader()
	info, err := e.stream(ctx, name)
	if err != nil {
		return err
	}
	if info == nil {
		e.fail(name+" is missing: nobody can lead, so nothing repairs what crashes leave, and no schedule fires", adviceSetup, nil)
		return nil
	}
	want := e.bucket(name)
	want.MaxAge = info.Config.MaxAge
	if ttl := info.Config.MaxAge; ttl > scheduler.DefaultTTL {
		level := Warning
		if ttl > longTTL {
			level = Error
		}
		e.find(level, fmt.Sprintf("%s: max_age is %s, want %s: nobody leads for as long after a leader has crashed", name, ttl, scheduler.DefaultTTL),
			"set it back (nats stream edit)", map[string]any{"stream": name, "field": "max_age", "want": scheduler.DefaultTTL.String(), "have": ttl.String()})
	}
	e.compareBucket(want, info.Config)
	_, err = e.election(ctx)
	return e.bucketFound(ctx, name, err)
}

func (e *exam) election(ctx context.Context) (*scheduler.Election, error) {
	return scheduler.NewElection(ctx, e.nc, scheduler.Config{
		ID: "doctor", Namespace: e.cfg.Namespace, Verify: true, Logger: e.cfg.Logger,
	})
}

// bucketFound tells what the opening of a bucket came to. Its error is what is wrong with the bucket, unless it is the
// server's.
func (e *exam) bucketFound(ctx context.Context, name string, err error) error {
	switch {
	case err == nil && e.found():
	case err == nil:
		e.ok(name+" is as it should be", nil)
	case ctx.Err() != nil || errors.As(err, new(*jetstream.APIError)) || errors.Is(err, context.DeadlineExceeded):
		return err
	default:
		e.fail(err.Error(), "do as it says; a bucket that was deleted is made anew by jetcrew setup", nil)
	}
	return nil
}
