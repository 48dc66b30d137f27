// Package streams keeps jobs in one JetStream stream, and is the job queue on it: enqueue, claim, renew,
// settle, read, and the housekeeping that crashes make necessary.
//
// A job is one JSON document that moves between subjects (<namespace>.job.<state>.<queue>.<space>.<id>).
// Every move is a write that names the last sequence its writer saw among the job's documents, so whoever
// loses a race learns it from the server, reads again, and decides again; there is no lock and no second
// store. Deliveries, alarms, events and presence are hints, and may be late, doubled or lost.
//
// It promises that a job that was acknowledged is run to an end that is recorded once, whatever process or
// server dies. It leaves to others what a job does, how often it is tried again, and who may ask for it.
package streams

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/natsenv"
)

// Errors of Open.
var (
	// ErrServerTooOld: the server lacks what jetcrew is built on.
	ErrServerTooOld = errors.New("the NATS server is too old")
	// ErrNoJetStream: the server, or the account, has no JetStream.
	ErrNoJetStream = errors.New("JetStream is not enabled")
	// ErrTopology: a stream, bucket or consumer is missing, or is not what jetcrew needs.
	ErrTopology = errors.New("topology")
)

// requestTimeout bounds one request to the server. An operation makes as many as its context allows.
const requestTimeout = 5 * time.Second

// Store holds jobs in JetStream. It is safe for concurrent use.
type Store struct {
	names names
	cfg   Config
	nc    *nats.Conn
	js    jetstream.JetStream
	log   zerolog.Logger
	clock *clock
	read  *reader
	kv    jetstream.KeyValue // presence of workers

	ctx    context.Context // ends at Close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	queues  queueBook     // what is known of queues
	workers *workerReader // reads presence

	mu    sync.Mutex
	drift []Drift
	sweep sweeper

	conflicts atomic.Uint64
	losses    lossBook
}

var _ job.Queue = (*Store)(nil)

// Open finds or makes the stream and the bucket of workers on the server that nc is connected to.
//
// Its errors wrap ErrServerTooOld, ErrNoJetStream or ErrTopology where that is the reason.
func Open(ctx context.Context, nc *nats.Conn, cfg Config) (*Store, error) {
	if err := cfg.normalize(); err != nil {
		return nil, err
	}
	if v := nc.ConnectedServerVersion(); !natsenv.NewEnough(v) {
		return nil, fmt.Errorf("streams: %w: it is %s, jetcrew needs %s or later", ErrServerTooOld, v, natsenv.MinServer)
	}
	js, err := jetstream.New(nc,
		jetstream.WithDefaultTimeout(requestTimeout),
		jetstream.WithPublishAsyncMaxPending(maxInFlight),
		jetstream.WithPublishAsyncTimeout(requestTimeout))
	if err != nil {
		return nil, fmt.Errorf("streams: %w", err)
	}
	s := &Store{
		names: names{cfg.Namespace}, cfg: cfg, nc: nc, js: js, log: cfg.Logger,
		queues: queueBook{poked: make(chan struct{}, 1)},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := s.open(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	if _, err := s.js.AccountInfo(ctx); err != nil {
		if errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) ||
			errors.Is(err, nats.ErrNoResponders) {
			return fmt.Errorf("streams: %w on %s: %w", ErrNoJetStream, s.nc.ConnectedServerName(), err)
		}
		return fmt.Errorf("streams: asking for JetStream: %w", err)
	}
	if err := s.ensureStream(ctx); err != nil {
		return err
	}
	if err := s.ensureWorkers(ctx); err != nil {
		return err
	}
	var err error
	if s.read, err = newReader(s.nc, s.names.stream()); err != nil {
		return fmt.Errorf("streams: %w", err)
	}
	if s.workers, err = newWorkerReader(s.nc, s.names.workersBucket()); err != nil {
		return fmt.Errorf("streams: %w", err)
	}
	if s.clock, err = startClock(ctx, s); err != nil {
		return err
	}
	if err := s.watchQueues(); err != nil {
		return fmt.Errorf("streams: %w", err)
	}
	return nil
}

// Close ends the store's own work. It leaves the connection open, and consumers to their owners; one subscription
// for the answers to writes stays until the connection is closed.
func (s *Store) Close() {
	s.cancel()
	s.wg.Wait()
	if s.read != nil {
		s.read.close()
	}
	if s.workers != nil {
		s.workers.close()
	}
	// The client library's publisher goes with the connection. To clean it up before (CleanupPublisher) leaves its
	// goroutine behind for ever if that has not begun to run yet, as it happens to short-lived stores.
}

// Conflicts counts the writes that the server refused since another came first: of a claim that somebody else has, of an
// enqueue of a job that exists. The work is lost or settled elsewhere; nothing is wrong.
func (s *Store) Conflicts() uint64 { return s.conflicts.Load() }

// Now is the store's clock: the server's, as far as round trips tell.
func (s *Store) Now() time.Time { return s.clock.now() }

// bounded gives a caller's context a deadline if it has none: no call waits for ever by accident.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, 30*time.Second)
}

// lingering is a context for what has been begun. It bears it that the caller goes, for a while, but ends at once where
// the caller's context says by its cause why nothing can come of it.
func lingering(ctx context.Context, patience, grace time.Duration) (context.Context, context.CancelFunc) {
	out, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	stop := context.AfterFunc(ctx, func() {
		if context.Cause(ctx) != ctx.Err() {
			cancel()
			return
		}
		time.AfterFunc(grace, cancel)
	})
	return out, func() { stop(); cancel() }
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
