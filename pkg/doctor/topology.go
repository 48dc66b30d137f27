package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/jetcrew/jetcrew/kvbucket"
	"github.com/jetcrew/jetcrew/scheduler"
	"github.com/jetcrew/jetcrew/streams"
)

const (
	adviceSetup = "run jetcrew setup as a user that may make streams, or start a worker with JETCREW_MANAGE=create"
	adviceMend  = "run jetcrew setup as a user that may change streams: it mends what can be mended safely"
)

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
	for _, d := range store.Drift() {
		e.drift(d.Name, d.Field, d.Want, d.Have)
	}
	if !e.found() {
		s := jobs.State
		e.ok(fmt.Sprintf("stream %s is as it should be: %d messages, %s", name, s.Msgs, size(s.Bytes)),
			map[string]any{"messages": s.Msgs, "bytes": s.Bytes, "replicas": jobs.Config.Replicas})
	}
	return nil
}

// grave are the settings with which jobs or keys are lost, or the protocol breaks. The others an operator may have wanted.
var grave = []string{
	"max_msgs", "max_bytes", "max_age", "max_msgs_per_subject", "discard", "allow_direct", "allow_rollup_hdrs", "allow_msg_ttl",
	"allow_msg_schedules", "allow_atomic", "no_ack",
}

// drift tells of a setting that is not as jetcrew would make it. How many replicas are enough is a check of its own.
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
	c := info.Config
	for _, s := range []struct {
		field   string
		differs bool
		want    string
		have    any
	}{
		{"max_msgs_per_subject", c.MaxMsgsPerSubject != 1, "1", c.MaxMsgsPerSubject},
		{"max_age", c.MaxAge > 0, "none", c.MaxAge},
		{"allow_msg_ttl", !c.AllowMsgTTL, "true", false},
		{"allow_direct", !c.AllowDirect, "true", false},
	} {
		if s.differs {
			facts := map[string]any{"stream": name, "field": s.field, "want": s.want, "have": fmt.Sprint(s.have)}
			e.fail(fmt.Sprintf("%s: %s is %v, want %s", name, s.field, s.have, s.want),
				"set it back (nats stream edit), or delete the bucket: workers that may make it do so at their next heartbeat", facts)
		}
	}
	if !e.found() {
		e.ok(name+" is as it should be", nil)
	}
	return nil
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
	case err == nil:
		e.ok(name+" is as it should be", nil)
	case ctx.Err() != nil || errors.As(err, new(*jetstream.APIError)) || errors.Is(err, context.DeadlineExceeded):
		return err
	default:
		e.fail(err.Error(), "do as it says; a bucket that was deleted is made anew by jetcrew setup", nil)
	}
	return nil
}
