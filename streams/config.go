package streams

import (
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/natsenv"
)

// Manage says whether a process may make and change streams, buckets and consumers.
type Manage string

const (
	// ManageCreate makes what is missing and mends what can be mended safely.
	ManageCreate Manage = "create"
	// ManageVerify only looks, and refuses to start where something is missing.
	ManageVerify Manage = "verify"
)

// Defaults of a Config.
const (
	DefaultNamespace = "jetcrew"
	DefaultLease     = 30 * time.Second
	MinLease         = time.Second
	// MaxSlots of one worker on one queue: what all of them run has to fit into one message of its presence.
	MaxSlots = 5000
	// MinRetention is the least time that an end is kept: one that expired before a crashed clean-up is
	// done would bring its job back to life.
	MinRetention = 10 * time.Minute

	defaultShort = 24 * time.Hour     // of what ended as it was meant to
	defaultLong  = 7 * 24 * time.Hour // of what somebody may have to look at
)

// NoRetention keeps no record of a job that has ended. For jobs that succeed it is the fast lane: the job is gone with
// one message. Such a job may run again if its worker dies between its end and the server's hearing of it, and its id is
// protected against a second enqueue only for the stream's window of duplicates.
const NoRetention = time.Duration(-1)

// Retention is how long the record of a job that has ended stays: at least MinRetention, or NoRetention.
type Retention struct {
	Succeeded time.Duration // defaults to 24 h
	Cancelled time.Duration // defaults to 24 h
	Dead      time.Duration // defaults to 7 days
	Failed    time.Duration // defaults to 7 days
}

func (r Retention) of(s state) time.Duration {
	switch s {
	case stateSucceeded:
		return r.Succeeded
	case stateCancelled:
		return r.Cancelled
	case stateDead:
		return r.Dead
	default:
		return r.Failed
	}
}

// Config of a Store. The zero value works.
type Config struct {
	// Namespace is the first token of every subject, and in capitals the beginning of the names of streams
	// and buckets. Defaults to "jetcrew".
	Namespace string
	// Replicas of the stream and the buckets where they are made. Defaults to 1.
	Replicas int
	// Manage says whether what is missing may be made. Defaults to ManageCreate.
	Manage Manage
	// Lease of queues that are new. A queue that is there keeps its own. Defaults to 30 s, 1 s at least.
	Lease time.Duration
	// Retention of records. Zero fields take their defaults.
	Retention Retention
	// Logger takes what an operator should know. Defaults to none.
	Logger zerolog.Logger
	// Failpoint, where set, is called at the points at which a process may die (see the Point constants).
	// An error stops the operation right there, as if it had died. For tests.
	Failpoint func(Point) error
}

func (c *Config) normalize() error {
	if c.Namespace == "" {
		c.Namespace = DefaultNamespace
	}
	if !natsenv.ValidNamespace(c.Namespace) {
		return fmt.Errorf("streams: namespace %q: want %s", c.Namespace, natsenv.NamespaceRule)
	}
	if c.Replicas == 0 {
		c.Replicas = 1
	}
	if c.Replicas < 1 || c.Replicas > 5 {
		return fmt.Errorf("streams: replicas: want 1 to 5, not %d", c.Replicas)
	}
	if c.Manage == "" {
		c.Manage = ManageCreate
	}
	if c.Manage != ManageCreate && c.Manage != ManageVerify {
		return fmt.Errorf("streams: manage: want %q or %q, not %q", ManageCreate, ManageVerify, c.Manage)
	}
	if c.Lease == 0 {
		c.Lease = DefaultLease
	}
	if c.Lease < MinLease {
		return fmt.Errorf("streams: lease: want at least %s, not %s", MinLease, c.Lease)
	}
	for _, r := range []struct {
		name string
		d    *time.Duration
		def  time.Duration
	}{
		{"succeeded", &c.Retention.Succeeded, defaultShort},
		{"cancelled", &c.Retention.Cancelled, defaultShort},
		{"dead", &c.Retention.Dead, defaultLong},
		{"failed", &c.Retention.Failed, defaultLong},
	} {
		switch {
		case *r.d == 0:
			*r.d = r.def
		case *r.d == NoRetention:
			*r.d = 0
		case *r.d < MinRetention:
			return fmt.Errorf("streams: retention of %s: want at least %s, or none at all, not %s", r.name, MinRetention, *r.d)
		}
	}
	return nil
}

// Point names a place at which a process may die.
type Point string

// The points, in the order in which an operation passes them.
const (
	AfterAlarm      Point = "after-alarm"       // a due document's alarm is stored, the document is not
	AfterEnqueue    Point = "after-enqueue"     // the job is stored, its producer has no answer
	AfterDelivery   Point = "after-delivery"    // a job was delivered, nothing is checked
	AfterClaimWrite Point = "after-claim-write" // the claim is written, its handler not started
	BeforeSettle    Point = "before-settle"     // the handler has returned, nothing is written
	AfterSettle     Point = "after-settle"      // the next document is written, older ones stand
	BeforeAck       Point = "before-ack"        // older documents are gone, the ready message is not acked
	AfterAck        Point = "after-ack"         // all is done, nobody was told
	AfterWakeMove   Point = "after-wake-move"   // the ready document is written, the due one stands
	AfterWakeDelete Point = "after-wake-delete" // the due one is gone, the wake is not acked
	AfterSetAside   Point = "after-set-aside"   // the dead document is written, the message not acked
	AfterOperation  Point = "after-operation"   // an operator's write stands, older documents too
	AfterSweepWrite Point = "after-sweep-write" // housekeeping wrote, older documents stand
)

func (s *Store) at(p Point) error {
	if s.cfg.Failpoint == nil {
		return nil
	}
	return s.cfg.Failpoint(p)
}

// normalize fills in a consumer's defaults.
func normalizeConsumer(c *job.ConsumerConfig) error {
	if c.Queue == "" {
		c.Queue = job.DefaultQueue
	}
	if err := job.ValidateName("queue", c.Queue, job.MaxName); err != nil {
		return err
	}
	if err := job.ValidateName("workerId", c.WorkerID, job.MaxName); err != nil {
		return err
	}
	if c.Slots < 1 || c.Slots > MaxSlots {
		return &job.FieldError{Field: "slots", Reason: fmt.Sprintf("must be 1 to %d", MaxSlots)}
	}
	if c.Lease != 0 && c.Lease < MinLease {
		return &job.FieldError{Field: "lease", Reason: fmt.Sprintf("must be at least %s", MinLease)}
	}
	return nil
}
