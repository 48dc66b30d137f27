package kvbucket

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/jetcrew/jetcrew/pkg/natsenv"
)

// Manage says whether a process may make and change the bucket.
type Manage string

const (
	// ManageCreate makes the bucket where it is missing, and mends what can be mended safely.
	ManageCreate Manage = "create"
	// ManageVerify only looks, and refuses a bucket that does not keep what the package promises.
	ManageVerify Manage = "verify"
)

// Defaults of a Config.
const (
	DefaultNamespace = "jetcrew"
	DefaultMarkerTTL = 30 * time.Second
	MinMarkerTTL     = time.Second
	MaxMarkerTTL     = 24 * time.Hour
)

// Clock tells the store's time. A streams.Store is one.
type Clock interface {
	Now() time.Time
}

// Config of a Bucket. Only Clock has to be given.
type Config struct {
	// Namespace in capitals begins the bucket's name: "jetcrew" has JETCREW_KV. Defaults to "jetcrew".
	Namespace string
	// Replicas of the bucket where it is made. Defaults to 1.
	Replicas int
	// Manage says whether what is missing may be made. Defaults to ManageCreate.
	Manage Manage
	// Clock is the store's: lifetimes are judged by it. Required.
	Clock Clock
	// MarkerTTL is how long a deleted key leaves a marker, in whole seconds. It should be longer than a write can be on
	// its way: the marker is what keeps one that comes late from bringing the key back. Defaults to 30 s; 1 s to a day.
	MarkerTTL time.Duration
	// Logger takes what an operator should know. Defaults to none.
	Logger zerolog.Logger
}

func (c *Config) normalize() error {
	if c.Namespace == "" {
		c.Namespace = DefaultNamespace
	}
	if !natsenv.ValidNamespace(c.Namespace) {
		return fmt.Errorf("kvbucket: namespace %q: want %s", c.Namespace, natsenv.NamespaceRule)
	}
	if c.Replicas == 0 {
		c.Replicas = 1
	}
	if c.Replicas < 1 || c.Replicas > 5 {
		return fmt.Errorf("kvbucket: replicas: want 1 to 5, not %d", c.Replicas)
	}
	if c.Manage == "" {
		c.Manage = ManageCreate
	}
	if c.Manage != ManageCreate && c.Manage != ManageVerify {
		return fmt.Errorf("kvbucket: manage: want %q or %q, not %q", ManageCreate, ManageVerify, c.Manage)
	}
	if c.Clock == nil {
		return errors.New("kvbucket: clock: the store's is required")
	}
	if c.MarkerTTL == 0 {
		c.MarkerTTL = DefaultMarkerTTL
	}
	if c.MarkerTTL < MinMarkerTTL || c.MarkerTTL > MaxMarkerTTL {
		return fmt.Errorf("kvbucket: marker TTL: want %s to %s, not %s", MinMarkerTTL, MaxMarkerTTL, c.MarkerTTL)
	}
	return nil
}

func bucketName(namespace string) string { return strings.ToUpper(namespace) + "_KV" }

const (
	// requestTimeout bounds the first try of a request to the server. An operation makes as many as its context allows, and
	// waits longer each time, so that a server that is only slow is not asked ever more. To wait long for the answer to a
	// write is better than to look for it early: what others write meanwhile can make it unknown.
	requestTimeout = 2 * time.Second
	// maxTimeout bounds any try.
	maxTimeout = 6 * time.Second
	// defaultDeadline is that of an operation whose context has none.
	defaultDeadline = 30 * time.Second
)
