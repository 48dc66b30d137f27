package streams

import (
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// What the server puts where a consumer was made without a word of it.
const (
	defaultAckWait       = 30 * time.Second
	defaultMaxWaiting    = 512
	defaultMaxAckPending = 1000
)

const (
	remedyConsumer = "delete it (nats consumer rm), and it is made anew; a queue's settings go with its ready consumer"
	whyRefused     = "workers' requests are refused"
	whyPassed      = "jobs are passed by"
	whyPush        = "it cannot be asked for anything"
)

// freeOfConsumer may be set as one likes. Whether a consumer is paused is looked at elsewhere.
var freeOfConsumer = []string{"name", "durable_name", "description", "metadata", "pause_until"}

// handingRules are what is known of the consumers that hand something out: ready jobs, or what wakes due ones.
var handingRules = map[string]rule{
	"filter_subject":  {weight: Broken, why: "jobs are handed out to nobody", remedy: remedyConsumer},
	"filter_subjects": {weight: Broken, why: "jobs are handed out to nobody", remedy: remedyConsumer},
	"ack_policy":      {weight: Broken, why: "jobs are lost", remedy: remedyConsumer},
	"deliver_subject": {weight: Broken, why: whyPush, remedy: remedyConsumer},

	"deliver_policy": {weight: Grave, why: whyPassed, remedy: remedyConsumer},
	"opt_start_seq":  {weight: Grave, why: whyPassed, remedy: remedyConsumer},
	"opt_start_time": {weight: Grave, why: whyPassed, remedy: remedyConsumer},
	"replay_policy":  {weight: Grave, why: "jobs are handed out as slowly as they were put in", remedy: remedyConsumer},

	"max_deliver":        {weight: Grave, mends: true, why: "a job that was delivered as often stays for ever and is not run"},
	"backoff":            {weight: Grave, mends: true, why: "it stands in for the lease"},
	"headers_only":       {weight: Grave, mends: true, why: "jobs arrive without their documents"},
	"inactive_threshold": {weight: Grave, mends: true, why: "it goes when nobody works for a while"},
	"max_batch":          {weight: Grave, mends: true, why: whyRefused},
	"max_expires":        {weight: Grave, mends: true, why: whyRefused},
	"max_bytes":          {weight: Grave, mends: true, why: whyRefused},
	"priority_policy":    {weight: Grave, mends: true, why: whyRefused},
	"priority_groups":    {weight: Grave, mends: true, why: whyRefused},
	"priority_timeout":   {weight: Grave, mends: true, why: whyRefused},
	"ack_wait":           {weight: Grave, mends: true, why: "what a crash leaves is handed out again too late, or too early"},
	"max_ack_pending":    {weight: Grave, mends: true, why: "what one process holds keeps the rest from being handed out"},

	"max_waiting":  {why: "a large fleet's requests are refused", remedy: remedyConsumer},
	"mem_storage":  {why: "what was handed out is forgotten when a server restarts", remedy: remedyConsumer},
	"num_replicas": {why: "it does not follow the stream's"},
	"sample_freq":  {why: "the server publishes a message for what is acknowledged"},
}

// countingRules are what is known of the consumers that count. Nobody asks them for messages.
var countingRules = map[string]rule{
	"filter_subject":     {weight: Broken, why: "it counts something else", remedy: remedyConsumer},
	"filter_subjects":    {weight: Broken, why: "it counts something else", remedy: remedyConsumer},
	"ack_policy":         {weight: Broken, why: "its counts are wrong", remedy: remedyConsumer},
	"deliver_subject":    {weight: Grave, why: "what it delivers it counts no more", remedy: remedyConsumer},
	"deliver_policy":     {weight: Grave, why: "its counts are too low", remedy: remedyConsumer},
	"opt_start_seq":      {weight: Grave, why: "its counts are too low", remedy: remedyConsumer},
	"opt_start_time":     {weight: Grave, why: "its counts are too low", remedy: remedyConsumer},
	"inactive_threshold": {weight: Grave, mends: true, why: "it goes, since nobody asks it for anything"},
	"max_waiting":        {remedy: remedyConsumer},
	"replay_policy":      {remedy: remedyConsumer},
	"mem_storage":        {remedy: remedyConsumer},
}

// ConsumerDrift is how one of the consumers of a namespace's jobs differs from what jetcrew makes. There is nothing to
// say of one that is not jetcrew's.
func ConsumerDrift(namespace string, have jetstream.ConsumerConfig) []Drift {
	s := Store{names: names{namespace}}
	name := have.Durable
	if name == "" {
		name = have.Name
	}
	if token, ok := strings.CutPrefix(name, readyPrefix); ok {
		return consumerDrift(s.consumerConfig(name, s.names.job(stateReady, token+".>"), DefaultLease), have)
	}
	if token, ok := strings.CutPrefix(name, wakePrefix); ok {
		return consumerDrift(s.consumerConfig(name, s.names.ns+".wake."+token+".>", wakeWait), have)
	}
	if st, ok := strings.CutPrefix(name, countPrefix); ok && slices.Contains(countedStates[:], state(st)) {
		return consumerDrift(jetstream.ConsumerConfig{
			Durable: name, FilterSubject: s.names.stateFilter(state(st)), DeliverPolicy: jetstream.DeliverAllPolicy,
			AckPolicy: jetstream.AckExplicitPolicy, MaxDeliver: -1,
		}, have)
	}
	return nil
}

// consumerDrift compares a consumer with what jetcrew would make. A queue's lease and its limit are its own.
func consumerDrift(want, have jetstream.ConsumerConfig) []Drift {
	if strings.HasPrefix(want.Durable, countPrefix) {
		want.AckWait, want.MaxWaiting, want.MaxAckPending = defaultAckWait, defaultMaxWaiting, defaultMaxAckPending
		return differing(want.Durable, want, have, countingRules, freeOfConsumer...)
	}
	if ready := strings.HasPrefix(want.Durable, readyPrefix); ready {
		want.MaxAckPending = have.MaxAckPending
		if have.AckWait >= MinLease {
			want.AckWait = have.AckWait
		}
	} else if have.AckWait >= MinLease && have.AckWait < want.AckWait { // wakes more often, which is harmless
		want.AckWait = have.AckWait
	}
	if have.MaxWaiting > want.MaxWaiting {
		want.MaxWaiting = have.MaxWaiting
	}
	return differing(want.Durable, want, have, handingRules, freeOfConsumer...)
}
