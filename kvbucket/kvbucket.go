// Package kvbucket keeps the keys of package kv in one JetStream KV bucket, which stays readable with the stock tools:
// the key v/acme/board stands in bucket JETCREW_KV as v.acme.board.
//
// It promises that Swap, DeleteIf, Increment and Expire are decided by what the bucket's leader has and written at the
// revision that they saw; that a write whose answer was lost is looked for by a nonce, and neither made twice nor denied
// (where it cannot be found out, the error is kv.ErrUnknown); that a key past its lifetime answers nothing at once, by the
// store's clock; and that deletes, after a while, and lapsed keys leave nothing behind.
//
// Its limits: Get asks the nearest replica, so a process reads what it wrote itself to its last 8,192 keys, but what others
// wrote perhaps a moment later. A plain Set or Delete that had no answer may arrive after its own second try, and then
// replaces what came in between. A value that others wrote over a lost one, and that lapsed before that one was looked
// for, hides it. A leader that was cut off from its cluster, and does not know it yet, answers by what it had.
// Servers whose clocks differ by more than a few hundred milliseconds, or a Clock that is none of theirs, make lifetimes
// wrong, and may make a lost write be misjudged. A counter of a bucket that was deleted, made anew and brought to the same
// sequence, all within 0.1 s of an increment, may be overwritten by the next. A server that is killed may bring back old
// values of keys that were deleted or have lapsed; see commit for how far that is kept from happening. What was
// acknowledged is as durable as the server's settings make it.
package kvbucket

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

	"github.com/jetcrew/jetcrew/pkg/kv"
	"github.com/jetcrew/jetcrew/pkg/natsenv"
)

// Errors of Open, and of a bucket that was closed.
var (
	// ErrServerTooOld: the server lacks what the bucket is built on.
	ErrServerTooOld = errors.New("the NATS server is too old")
	// ErrNoJetStream: the server, or the account, has no JetStream.
	ErrNoJetStream = errors.New("JetStream is not enabled")
	// ErrSettings: the bucket is missing, or is not as it has to be, and was not to be mended.
	ErrSettings = errors.New("unfit bucket")
	// ErrClosed: the bucket was closed.
	ErrClosed = errors.New("closed")
)

// Bucket is a kv.Adapter on a JetStream KV bucket. It is safe for concurrent use.
type Bucket struct {
	cfg       Config
	name      string // of the bucket
	stream    string
	prefix    string // of every subject
	ackPrefix []byte // of nearly every answer to a publish
	nc        *nats.Conn
	js        jetstream.JetStream
	log       zerolog.Logger
	clock     Clock

	direct     bool // direct gets are allowed
	replicated bool // a replica that is behind may answer them
	maxMsg     int  // limit of the bucket's own for a message; 0: none
	drift      []Drift
	timeout    time.Duration // of one request

	memory    // of one era
	conflicts atomic.Uint64
	counters  counters

	ctx    context.Context // ends at Close
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

var _ kv.Adapter = (*Bucket)(nil)

// Open finds, checks or makes the bucket on the server that nc is connected to.
//
// Its errors wrap ErrServerTooOld, ErrNoJetStream or ErrSettings where that is the reason.
func Open(ctx context.Context, nc *nats.Conn, cfg Config) (*Bucket, error) {
	if err := cfg.normalize(); err != nil {
		return nil, err
	}
	if v := nc.ConnectedServerVersion(); !natsenv.NewEnough(v) {
		return nil, fmt.Errorf("kvbucket: %w: it is %s, jetcrew needs %s or later", ErrServerTooOld, v, natsenv.MinServer)
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(requestTimeout))
	if err != nil {
		return nil, fmt.Errorf("kvbucket: %w", err)
	}
	name := bucketName(cfg.Namespace)
	b := &Bucket{
		cfg: cfg, name: name, stream: "KV_" + name, prefix: "$KV." + name + ".",
		nc: nc, js: js, log: cfg.Logger.With().Str("bucket", name).Logger(), clock: cfg.Clock,
		timeout: requestTimeout, ackPrefix: []byte(`{"stream":"KV_` + name + `","seq":`),
	}
	if err := b.ensure(ctx); err != nil {
		return nil, fmt.Errorf("kvbucket: %w", err)
	}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b, nil
}

// Close ends the increments that are under way, and whatever is asked for later fails with ErrClosed. Other operations end
// with their contexts. It leaves the connection open.
func (b *Bucket) Close() {
	b.cancel()
	b.counters.close()
	b.wg.Wait()
}

// Conflicts counts the writes that the server refused since another came first. Each was decided anew, or was a swap that
// did not find what it expected: that is how races end.
func (b *Bucket) Conflicts() uint64 { return b.conflicts.Load() }

// Drift lists what was found to differ from what jetcrew would make, when the bucket was opened.
func (b *Bucket) Drift() []Drift { return append([]Drift(nil), b.drift...) }

// begin checks the arguments of an operation.
func (b *Bucket) begin(ctx context.Context, key string, ttl time.Duration) error {
	if err := kv.CheckKey(key); err != nil {
		return err
	}
	if err := kv.CheckTTL(ttl); err != nil {
		return err
	}
	if b.ctx.Err() != nil {
		return ErrClosed
	}
	return ctx.Err()
}

// failed says which operation failed, for an operator.
func failed(op, key string, err error) error {
	return fmt.Errorf("kvbucket: %s %.200q: %w", op, key, err)
}

// bounded gives a context a deadline if it has none: no call waits for ever by accident.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, defaultDeadline)
}
