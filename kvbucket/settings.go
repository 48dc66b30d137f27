package kvbucket

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// Drift is a setting of the bucket's stream that is not what jetcrew would make.
type Drift struct {
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
	return fmt.Sprintf("%s is %s, want %s%s", d.Field, d.Have, d.Want, end)
}

// streamConfig is the bucket as jetcrew makes it: a KV bucket as the client libraries make it, with lifetimes of single
// messages.
//
// It has no limit markers on purpose: the server writes the marker of an expired key without any guard, some time after
// it looked, and with it purges what was written meanwhile (of 20,000 acknowledged writes at the instant of expiry, 13
// were gone).
func (b *Bucket) streamConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              b.stream,
		Description:       "jetcrew: keys and values",
		Subjects:          []string{b.prefix + ">"},
		MaxConsumers:      -1,
		MaxMsgs:           -1,
		MaxBytes:          -1,
		MaxMsgSize:        -1,
		MaxMsgsPerSubject: 1,
		Discard:           jetstream.DiscardNew,
		Storage:           jetstream.FileStorage,
		Replicas:          b.cfg.Replicas,
		DenyDelete:        true,
		AllowRollup:       true,
		AllowDirect:       true,
		AllowMsgTTL:       true,
	}
}

// ensure makes the bucket, or checks it, or mends what can be mended safely.
func (b *Bucket) ensure(ctx context.Context) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	_, err := ask(ctx, b.js.AccountInfo)
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return fmt.Errorf("%w on %s: %w", ErrNoJetStream, b.nc.ConnectedServerName(), err)
	case err != nil:
		return fmt.Errorf("asking for JetStream: %w", err)
	}
	want := b.streamConfig()
	have, err := ask(ctx, func(ctx context.Context) (jetstream.StreamConfig, error) { return b.findOrMake(ctx, want) })
	if err != nil {
		return fmt.Errorf("bucket %s: %w", b.name, err)
	}
	return b.check(ctx, have, want)
}

func (b *Bucket) findOrMake(ctx context.Context, want jetstream.StreamConfig) (jetstream.StreamConfig, error) {
	stream, err := b.js.Stream(ctx, b.stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if b.cfg.Manage == ManageVerify {
			return want, fmt.Errorf("%w: it is missing, and this process may not make it", ErrSettings)
		}
		stream, err = b.js.CreateStream(ctx, want)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // somebody else was faster
			stream, err = b.js.Stream(ctx, b.stream)
		}
	}
	if err != nil {
		return want, err
	}
	return stream.CachedInfo().Config, nil
}

// ask makes a request again and again where nobody answers, as it happens while a cluster elects its leaders.
func ask[T any](ctx context.Context, request func(context.Context) (T, error)) (T, error) {
	return insist(ctx, requestTimeout, func(ctx context.Context) (T, error) {
		answer, err := request(ctx)
		return answer, silent(err)
	})
}

// check compares the bucket that is there with what jetcrew would make.
func (b *Bucket) check(ctx context.Context, have, want jetstream.StreamConfig) error {
	if why := foreign(have, want); why != "" {
		return fmt.Errorf("%w: bucket %s %s: it belongs to something else, or was changed by hand", ErrSettings, b.name, why)
	}
	fixed, drift, broken := mend(have, want)
	mended := func(d Drift) bool { return d.Mended }
	switch {
	case b.cfg.Manage == ManageVerify && len(broken) > 0:
		return fmt.Errorf("%w: bucket %s: %s; this process may not change it", ErrSettings, b.name, strings.Join(broken, "; "))
	case b.cfg.Manage == ManageVerify:
		fixed = have
		for i := range drift {
			drift[i].Mended = false
		}
	case slices.ContainsFunc(drift, mended): // only for a real difference: an update is no no-op in a cluster (nats-server #5526)
		if _, err := ask(ctx, func(ctx context.Context) (jetstream.Stream, error) { return b.js.UpdateStream(ctx, fixed) }); err != nil {
			return fmt.Errorf("%w: mending bucket %s: %v: %w", ErrSettings, b.name, drift, err)
		}
	}
	for _, d := range drift {
		b.log.Warn().Str("field", d.Field).Str("want", d.Want).Str("have", d.Have).Bool("mended", d.Mended).Msg("settings drift")
	}
	b.drift = drift
	b.direct = fixed.AllowDirect
	b.replicated = fixed.Replicas > 1
	b.maxMsg = max(0, int(fixed.MaxMsgSize))
	return nil
}

// foreign says why a stream cannot be this bucket, and cannot be made to.
func foreign(have, want jetstream.StreamConfig) string {
	switch {
	case !slices.Equal(have.Subjects, want.Subjects):
		return fmt.Sprintf("has subjects %q, want %q", have.Subjects, want.Subjects)
	case have.Retention != jetstream.LimitsPolicy:
		return fmt.Sprintf("has %v retention, want %v", have.Retention, jetstream.LimitsPolicy)
	case have.Mirror != nil || len(have.Sources) > 0:
		return "is a copy of another bucket"
	case have.SubjectTransform != nil:
		return "transforms its subjects"
	case have.Sealed:
		return "is sealed: nothing can be written"
	case have.DenyPurge:
		return "denies purges (deny_purge), which cannot be changed later"
	case have.AllowMsgCounter:
		return "is one of the server's counters (allow_msg_counter), which cannot be changed later"
	}
	return ""
}

// mend compares what a bucket has with what jetcrew would make, and answers the configuration with all that may be changed.
// What breaks a promise is among broken, and is refused where it may not be changed. What an operator may have wanted
// (replicas, storage, a limit at which writes or listings fail) is only reported.
func mend(have, want jetstream.StreamConfig) (fixed jetstream.StreamConfig, drift []Drift, broken []string) {
	fixed = have
	note := func(field string, differs bool, want, have any, fix func()) bool {
		if differs {
			drift = append(drift, Drift{Field: field, Want: fmt.Sprint(want), Have: fmt.Sprint(have), Mended: fix != nil})
			if fix != nil {
				fix()
			}
		}
		return differs
	}
	must := func(field string, differs bool, want, have any, why string, fix func()) {
		if note(field, differs, want, have, fix) {
			broken = append(broken, fmt.Sprintf("%s is %v, want %v (%s)", field, have, want, why))
		}
	}
	limited := have.MaxMsgs > 0 || have.MaxBytes > 0
	idle := have.ConsumerLimits.InactiveThreshold
	must("max_msgs_per_subject", have.MaxMsgsPerSubject != 1, 1, have.MaxMsgsPerSubject,
		"an older value would come back when a newer one lapses", func() { fixed.MaxMsgsPerSubject = 1 })
	must("max_age", have.MaxAge > 0, 0, have.MaxAge, "keys without a lifetime would go", func() { fixed.MaxAge = 0 })
	must("allow_msg_ttl", !have.AllowMsgTTL, true, false, "keys could have no lifetime", func() { fixed.AllowMsgTTL = true })
	must("subject_delete_marker_ttl", have.SubjectDeleteMarkerTTL != 0, 0, have.SubjectDeleteMarkerTTL,
		"the marker of a lapsed key can purge what was written after it", func() { fixed.SubjectDeleteMarkerTTL = 0 })
	must("allow_rollup_hdrs", !have.AllowRollup, true, false, "keys could not be deleted", func() { fixed.AllowRollup = true })
	must("discard", limited && have.Discard != jetstream.DiscardNew, jetstream.DiscardNew, have.Discard,
		"the oldest keys would go at its limit", func() { fixed.Discard = jetstream.DiscardNew })
	must("discard_new_per_subject", have.DiscardNewPerSubject, false, true, "no key could be written twice",
		func() { fixed.DiscardNewPerSubject = false })
	must("no_ack", have.NoAck, false, true, "no write would be answered", func() { fixed.NoAck = false })
	must("consumer_limits.inactive_threshold", idle > 0 && idle < idleConsumer, "none", idle, "keys could not be listed",
		func() { fixed.ConsumerLimits.InactiveThreshold = 0 })
	note("allow_direct", !have.AllowDirect, true, false, func() { fixed.AllowDirect = true })
	note("max_msg_size", have.MaxMsgSize > 0, -1, have.MaxMsgSize, nil)
	note("max_consumers", have.MaxConsumers > 0, -1, have.MaxConsumers, nil)
	note("max_msgs", have.MaxMsgs > 0, -1, have.MaxMsgs, nil)
	note("max_bytes", have.MaxBytes > 0, -1, have.MaxBytes, nil)
	note("persist_mode", have.PersistMode != want.PersistMode, want.PersistMode, have.PersistMode, nil)
	note("storage", have.Storage != want.Storage, want.Storage, have.Storage, nil)
	note("num_replicas", have.Replicas != want.Replicas, want.Replicas, have.Replicas, nil)
	return fixed, drift, broken
}
