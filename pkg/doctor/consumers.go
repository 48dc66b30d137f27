package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/jetcrew/jetcrew/streams"
)

const (
	readyPrefix = "ready-"
	wakePrefix  = "wake-"
	countPrefix = "count-"

	// metaQueue names a queue whose name stands hashed in its consumer's.
	metaQueue = "jetcrew.queue"
	// unservedLook is how many of the oldest ready jobs are looked at for queues without a consumer.
	unservedLook = 200
)

// counted are the states that have a consumer which counts.
var counted = []string{"due", "running", "succeeded", "failed", "dead", "cancelled"}

// lookAtConsumers looks whether every queue has its two consumers, and whether they are as they should be.
func (e *exam) lookAtConsumers(ctx context.Context) error {
	if e.streams[e.names.jobs()] == nil {
		return errUnknown
	}
	all, missing, err := e.list(ctx)
	if err != nil {
		return err
	}
	e.consumers = all
	slices.Sort(missing)
	for _, name := range missing {
		e.fail(fmt.Sprintf("nobody answers for consumer %s", name), "see which nodes are down: a majority of the consumer's replicas has to be up", map[string]any{"consumer": name})
	}
	there := make(map[string]*jetstream.ConsumerInfo)
	for _, info := range all {
		there[info.Name] = info
	}
	gone := func(name string) bool { return there[name] == nil && !slices.Contains(missing, name) }
	for _, state := range counted {
		if gone(countPrefix + state) {
			e.warn(fmt.Sprintf("consumer %s is missing: nobody can count the jobs that are %s", countPrefix+state, state),
				adviceSetup, map[string]any{"consumer": countPrefix + state})
		}
	}
	queues := 0
	for _, info := range all {
		e.lookAtConsumer(info)
		if token, ok := strings.CutPrefix(info.Name, readyPrefix); ok {
			queues++
			if gone(wakePrefix + token) {
				e.missingConsumer(wakePrefix+token, queueOf(info), "its due jobs are moved late, by housekeeping alone")
			}
		}
		if token, ok := strings.CutPrefix(info.Name, wakePrefix); ok {
			if gone(readyPrefix + token) {
				e.missingConsumer(readyPrefix+token, token, "its jobs are handed out to nobody")
			}
		}
	}
	if err := e.lookForUnserved(ctx, gone); err != nil {
		return err
	}
	if !e.found() {
		e.ok(plural(queues, "queue")+": the consumers are there, and as they should be", map[string]any{"queues": queues})
	}
	return nil
}

func (e *exam) missingConsumer(name, queue, so string) {
	e.fail(fmt.Sprintf("queue %s: consumer %s is missing: %s", queue, name, so),
		"see that somebody leads (jetcrew schedule): housekeeping makes it within seconds; a user that may not make consumers needs jetcrew setup",
		map[string]any{"queue": queue, "consumer": name})
}

// queueOf is the queue of a ready consumer.
func queueOf(info *jetstream.ConsumerInfo) string {
	token := strings.TrimPrefix(info.Name, readyPrefix)
	if q := info.Config.Metadata[metaQueue]; q != "" && streams.QueueToken(q) == token {
		return q
	}
	return token
}

// lookAtConsumer compares one of the jobs' consumers with what jetcrew makes.
func (e *exam) lookAtConsumer(info *jetstream.ConsumerInfo) {
	for _, d := range streams.ConsumerDrift(e.cfg.Namespace, info.Config) {
		d.Name = "consumer " + d.Name
		e.differs(d, map[string]any{"consumer": info.Name})
	}
	facts := map[string]any{"consumer": info.Name}
	if strings.HasPrefix(info.Name, wakePrefix) && info.Paused {
		e.fail(fmt.Sprintf("consumer %s is paused: due jobs are moved late, by housekeeping alone", info.Name),
			"nats consumer resume "+e.names.jobs()+" "+info.Name+"; to pause a queue, use jetcrew queue pause", facts)
	}
	if info.Cluster != nil && info.Cluster.Leader == "" {
		e.fail(fmt.Sprintf("consumer %s has no leader: it hands out nothing", info.Name), "see which nodes are down", facts)
	}
}

// lookForUnserved looks for queues that have jobs and no consumer, among the oldest ready jobs and those that workers
// are there for.
func (e *exam) lookForUnserved(ctx context.Context, gone func(string) bool) error {
	without := make(map[string]int) // jobs seen, by the queue's token
	prefix := e.names.job("ready", "")
	for i, from := 0, uint64(1); i < unservedLook && !e.late(ctx); i++ {
		m, err := e.next(ctx, e.names.jobs(), prefix+">", from, false)
		if err != nil {
			return err
		}
		if m == nil {
			break
		}
		from = m.seq + 1
		token, _, _ := strings.Cut(strings.TrimPrefix(m.subject, prefix), ".")
		// One that was just put in by a plain producer is found by housekeeping.
		if gone(readyPrefix+token) && e.now().Sub(m.at) > e.cfg.ages().unserved {
			without[token]++
		}
	}
	for _, token := range slices.Sorted(maps.Keys(without)) {
		if gone(wakePrefix + token) { // else it was told of
			e.missingConsumer(readyPrefix+token, token, fmt.Sprintf("its jobs (%d of the oldest) are handed out to nobody", without[token]))
		}
	}
	return nil
}

// ages are for how long something has to stand before it counts as wrong.
type ages struct {
	unserved time.Duration // a job of a queue without a consumer
	stuck    time.Duration // a ready job that is not handed out though somebody asks
	held     time.Duration // a queue's limit that is used up, with nothing handed out
	old      time.Duration // a ready job
	overdue  time.Duration // a due job, or a schedule, past its instant
}

var defaultAges = ages{
	unserved: 30 * time.Second, stuck: time.Minute, held: 5 * time.Minute, old: 10 * time.Minute, overdue: time.Minute,
}

func (c *Config) ages() ages {
	if c.after == nil {
		return defaultAges
	}
	return *c.after
}
