package scheduler

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/natsenv"
	"github.com/jetcrew/jetcrew/streams"
)

// Errors that callers branch on.
var (
	// ErrNotFound: no such schedule.
	ErrNotFound = errors.New("schedule not found")
	// ErrOwned: a schedule of that name is declared by another owner.
	ErrOwned = errors.New("the schedule has another owner")
	// ErrBusy: others changed the schedule each time that this was to be done.
	ErrBusy = errors.New("too many changes of the schedule at once")
	// ErrUnreadable: what is stored under the schedule's key is no schedule.
	ErrUnreadable = errors.New("unreadable schedule")
)

const (
	// callTimeout bounds each call of a server.
	callTimeout = 5 * time.Second
	// opTimeout bounds an operation whose caller sets no deadline.
	opTimeout = 30 * time.Second
	// headroom is what the document of a job needs besides the schedule's input.
	headroom = 16 << 10
)

// StoreConfig of a Store. Clock is required.
type StoreConfig struct {
	// Namespace as in the jobs' stream. Defaults to "jetcrew".
	Namespace string
	// Replicas of the bucket where it is made. Defaults to 1.
	Replicas int
	// Verify has a missing bucket refused instead of made.
	Verify bool
	// Clock is the store's: by it schedules are due. A *streams.Store is one.
	Clock job.Clock
	// Logger takes what an operator should know. Defaults to none.
	Logger zerolog.Logger
}

// Store keeps schedules in a key/value bucket: a key and a JSON document for each, moved by revision alone. It is safe
// for concurrent use, and needs no closing.
type Store struct {
	nc    *nats.Conn
	kv    jetstream.KeyValue
	clock job.Clock
	log   zerolog.Logger
}

// OpenStore finds or makes the bucket of the schedules.
func OpenStore(ctx context.Context, nc *nats.Conn, cfg StoreConfig) (*Store, error) {
	if cfg.Namespace == "" {
		cfg.Namespace = defaultNamespace
	}
	switch {
	case !natsenv.ValidNamespace(cfg.Namespace):
		return nil, fmt.Errorf("scheduler: namespace %q: want %s", cfg.Namespace, natsenv.NamespaceRule)
	case cfg.Clock == nil:
		return nil, errors.New("scheduler: a store needs a clock: the jobs' store")
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	kv, err := openBucket(ctx, nc, cfg.Verify, jetstream.KeyValueConfig{
		Bucket: strings.ToUpper(cfg.Namespace) + "_SCHEDULES", Description: "jetcrew: what is enqueued when", History: 1,
		Replicas: max(1, cfg.Replicas),
	})
	if err != nil {
		return nil, err
	}
	status, err := kv.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("scheduler: bucket %s: %w", kv.Bucket(), err)
	}
	if status.TTL() != 0 {
		return nil, fmt.Errorf("scheduler: bucket %s drops what is older than %s: set its stream's max age to 0", kv.Bucket(), status.TTL())
	}
	return &Store{nc: nc, kv: kv, clock: cfg.Clock, log: cfg.Logger}, nil
}

// openBucket finds a bucket, or makes it where that is allowed.
func openBucket(ctx context.Context, nc *nats.Conn, verify bool, want jetstream.KeyValueConfig) (jetstream.KeyValue, error) {
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(callTimeout))
	if err != nil {
		return nil, fmt.Errorf("scheduler: %w", err)
	}
	kv, err := js.KeyValue(ctx, want.Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) && !verify {
		kv, err = js.CreateKeyValue(ctx, want)
		if errors.Is(err, jetstream.ErrBucketExists) { // somebody else was faster
			kv, err = js.KeyValue(ctx, want.Bucket)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("scheduler: bucket %s: %w", want.Bucket, err)
	}
	return kv, nil
}

// bounded gives an operation a deadline where its caller did not.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, opTimeout)
}

// key is where a schedule is kept: names are escaped, so that no dot or wildcard of theirs counts.
func key(space, name string) string { return streams.Token(space) + "." + streams.Token(name) }

// record is a schedule as it is stored.
type record struct {
	Schedule
	rev uint64
}

// decode reads what is stored under a key. What is written under another's key is nobody's.
func decode(k string, value []byte, rev uint64) (*record, error) {
	r := &record{rev: rev}
	if err := job.Decode(value, &r.Schedule); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrUnreadable, k, err)
	}
	if own := key(r.Space, r.Name); own != k {
		return nil, fmt.Errorf("%w: %s: what is stored there belongs to %s", ErrUnreadable, k, own)
	}
	if err := r.Normalize(); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrUnreadable, k, err)
	}
	return r, nil
}

// read answers a schedule's record, or ErrNotFound.
func (s *Store) read(ctx context.Context, space, name string) (*record, error) {
	k := key(space, name)
	e, err := s.kv.Get(ctx, k)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	r, err := decode(k, e.Value(), e.Revision())
	if err != nil {
		return &record{rev: e.Revision()}, err
	}
	return r, nil
}

// errRace: somebody else wrote first.
var errRace = errors.New("another revision stands")

// write stores a record at the revision that it was read with; 0: where there is none. What it answers is the record as
// it stands now.
func (s *Store) write(ctx context.Context, r *record) (*record, error) {
	out := *r
	out.UpdatedAt = job.Millis(s.clock.Now())
	body, err := job.Encode(out.Schedule)
	if err != nil {
		return nil, err
	}
	k := key(r.Space, r.Name)
	if r.rev == 0 {
		out.rev, err = s.kv.Create(ctx, k, body)
	} else {
		out.rev, err = s.kv.Update(ctx, k, body, r.rev)
	}
	return &out, raced(err)
}

// fits refuses what is too large to be put. What has been put already may always be written again, if the server takes it:
// it has to move on.
func (s *Store) fits(r *record) error {
	body, err := job.Encode(r.Schedule)
	if err != nil {
		return err
	}
	if limit := s.nc.MaxPayload() - headroom; int64(len(body)) > limit {
		return fmt.Errorf("%w: the schedule has %d bytes, at most %d are allowed", job.ErrTooLarge, len(body), limit)
	}
	return nil
}

// remove deletes a record, if it is still the one that was read.
//
// Its marker stays for good. A server that is killed may forget that a message was replaced once what replaced it has gone
// (nats-server issue 8505): the schedule would be back, and fire.
func (s *Store) remove(ctx context.Context, k string, rev uint64) error {
	return raced(s.kv.Delete(ctx, k, jetstream.LastRevision(rev)))
}

// raced makes errRace of the server's ways to say so.
func raced(err error) error {
	var api *jetstream.APIError
	if errors.Is(err, jetstream.ErrKeyExists) ||
		errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence) {
		return errRace
	}
	return err
}

// tries is how often an operation is begun anew when another was faster, or no answer came.
const tries = 30

// again repeats an operation that reads, decides and writes at the revision it read, until nobody else writes in
// between. A write whose answer was lost is found out by the next reading.
func again[T any](ctx context.Context, op func(context.Context) (T, error)) (T, error) {
	for try := 0; ; try++ {
		v, err := op(ctx)
		switch {
		case err == nil, ctx.Err() != nil, !errors.Is(err, errRace) && !transient(err):
			return v, err
		case try == tries && errors.Is(err, errRace):
			return v, ErrBusy
		case try == tries:
			return v, err
		}
		pause(ctx, time.Duration(1+rand.IntN(5+5*try))*time.Millisecond)
	}
}

// transient reports whether an error says nothing but that the server could not be asked just now.
func transient(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.Code == 503
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) || errors.Is(err, nats.ErrNoResponders) ||
		errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrDisconnected)
}
