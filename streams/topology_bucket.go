package streams

import "github.com/nats-io/nats.go/jetstream"

// bucketRules are what is known of the stream of a bucket.
var bucketRules = map[string]rule{
	"subjects":          {weight: Broken, why: "it belongs to something else, or was changed by hand", remedy: remedyBucket},
	"retention":         {weight: Broken, why: "entries go when somebody reads them", remedy: remedyBucket},
	"subject_transform": {weight: Broken, why: "entries are stored where nobody looks for them", remedy: "take it out (nats stream edit)"},
	"mirror":            {weight: Broken, why: "it is a copy of another bucket", remedy: "take it out (nats stream edit)"},
	"sources":           {weight: Broken, why: "other buckets write into it", remedy: "take them out (nats stream edit)"},
	"sealed":            {weight: Broken, why: "nothing can be written", remedy: remedyBucket},
	"deny_purge":        {weight: Broken, why: "entries cannot be deleted for good", remedy: remedyBucket},
	"allow_msg_counter": {weight: Broken, why: "only the server's counters can be written", remedy: remedyBucket},
	"no_ack":            {weight: Broken, why: "no write is answered", remedy: "set it back (nats stream edit)"},

	"max_age":                 {weight: Grave, why: "entries that are as old are dropped", remedy: remedySetBack},
	"max_msgs":                {weight: Grave, why: "what comes is refused at the limit", remedy: remedySetBack},
	"max_bytes":               {weight: Grave, why: "what comes is refused at the limit", remedy: remedySetBack},
	"max_msgs_per_subject":    {weight: Grave, why: "an older value comes back when the newer one goes", remedy: remedySetBack},
	"discard":                 {weight: Grave, why: "the oldest entries are dropped at a limit", remedy: remedySetBack},
	"discard_new_per_subject": {weight: Grave, why: "no entry can be written twice", remedy: remedySetBack},
	"allow_direct":            {weight: Grave, why: "entries cannot be read", remedy: remedySetBack},
	"allow_rollup_hdrs":       {weight: Grave, why: "entries cannot be deleted for good", remedy: remedySetBack},
	"allow_msg_ttl":           {weight: Grave, why: "entries cannot have a lifetime", remedy: remedySetBack},

	"max_msg_size":  {why: "larger entries are refused"},
	"max_consumers": {why: "entries cannot be listed at the limit"},
	"storage":       {why: "a restart of the server loses what is in it", remedy: remedyBucket},
}

const (
	remedyBucket  = "it cannot be set back: delete the bucket, which loses what is in it, and it is made anew (jetcrew setup)"
	remedySetBack = "set it back (nats stream edit)"
)

// BucketDrift is how the stream of a bucket differs from what jetcrew makes.
func BucketDrift(want, have jetstream.StreamConfig) []Drift {
	return differing(want.Name, want, have, bucketRules, freeOfStream...)
}
