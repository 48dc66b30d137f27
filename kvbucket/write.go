package kvbucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

// Error codes of the server's API.
const (
	codeWrongLast     jetstream.ErrorCode = 10071 // a guard did not hold
	codeGuardInUse    jetstream.ErrorCode = 10164 // another write of the key is under way (cluster)
	codeGuardNotReady jetstream.ErrorCode = 10163
	codeNotAvailable  jetstream.ErrorCode = 10008 // JetStream is temporarily unavailable
	codeTooLarge      jetstream.ErrorCode = 10054 // message size exceeds maximum allowed
	codeNoMessage     jetstream.ErrorCode = 10037
)

var (
	// errGuard: the guard did not hold; somebody else wrote.
	errGuard = errors.New("another write came first")
	// errBusy: definitely not stored, and nobody is to blame; try again.
	errBusy = errors.New("the store did not take it")
)

// headroom is how much of the server's limit is left to headers, the same for every operation: a value that was taken
// once can be given a lifetime later.
const headroom = 256

// maxServerTTL is up to where lifetimes are told to the server, whose arithmetic would overflow later.
const maxServerTTL = 100 * 365 * 24 * time.Hour

// write is one write of a key.
type write struct {
	subject string
	nonce   string
	value   []byte
	marker  bool          // it deletes the key
	plain   bool          // it is to replace whatever is there; only a second try is guarded
	ttl     time.Duration // its lifetime, from when it is sent on; 0 for none, or for one that is going on
	expires time.Time     // the exact end of its lifetime; zero: never
	guarded bool
	guard   uint64 // the revision that it replaces
	first   *write // that it repeats; see commit

	replaced *entry // what it was decided by to replace; nil where that is not known
	stored   uint64 // its sequence, where it is known to be stored

	doubt bool      // it was sent, and had no answer
	sent  time.Time // when it was sent first that may have been stored, by this process's clock
	began time.Time // the same by the store's
	floor uint64    // a sequence that came before it
}

// start is for each time that a write is sent, as long as it is certain that it was never stored.
func (w *write) start(now time.Time, floor uint64) {
	w.sent, w.began, w.floor = time.Now(), now, floor
	if w.ttl > 0 {
		w.expires = job.CeilMillis(now.Add(w.ttl))
	}
}

func newWrite(subject string) *write { return &write{subject: subject, nonce: nuid.Next()} }

// over is a write that replaces just the revision that was read.
func over(subject string, e *entry) *write {
	w := newWrite(subject)
	w.guarded, w.guard, w.replaced = true, e.seq, e
	return w
}

// fits checks a value against the limits before it is sent.
func (b *Bucket) fits(value string) error {
	server := int(b.nc.MaxPayload())
	if b.maxMsg > 0 {
		server = min(server, b.maxMsg)
	}
	if limit := max(0, server-headroom); len(value) > limit {
		return fmt.Errorf("%w: has %d bytes, at most %d are possible (the server takes %d with headers)", kv.ErrTooLarge, len(value), limit, server)
	}
	return nil
}

func (b *Bucket) message(w *write) *nats.Msg {
	h := make(nats.Header, 4)
	h[headerNonce] = []string{w.nonce}
	if w.guarded {
		h[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(w.guard, 10)}
	}
	if w.first != nil {
		h[headerAgain] = []string{firstGuard(w.first)}
	}
	switch {
	case w.marker:
		h[headerOperation] = []string{operationPurge}
		h[headerRollup] = []string{"sub"}
		h[jetstream.MsgTTLHeader] = []string{seconds(b.markerTTL(w, b.clock.Now()))}
	case !w.expires.IsZero():
		h[headerExpires] = []string{strconv.FormatInt(w.expires.UnixMilli(), 10)}
		// What was rounded up to a millisecond is no reason for another second.
		if left := w.expires.Sub(b.clock.Now()) - time.Millisecond; left <= maxServerTTL {
			h[jetstream.MsgTTLHeader] = []string{seconds(left)}
		}
	}
	return &nats.Msg{Subject: w.subject, Header: h, Data: w.value}
}

// firstGuard is how a second write says what the first one was guarded by.
func firstGuard(first *write) string {
	if !first.guarded {
		return againPlain
	}
	return strconv.FormatUint(first.guard, 10)
}

// seconds writes a duration as the server takes TTLs: whole seconds, rounded up, one at least.
func seconds(d time.Duration) string {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return strconv.FormatInt(max(s, 1), 10)
}

// publish sends a write once and waits for its answer. Its errors are errGuard, errBusy, a wrapped kv.ErrUnknown where it
// may or may not have been stored, and refusals for good.
func (b *Bucket) publish(ctx context.Context, w *write, timeout time.Duration) (uint64, error) {
	if err := b.connected(ctx); err != nil {
		return 0, err
	}
	era, floor := b.era(), b.last.Load()
	if !w.doubt {
		w.start(b.clock.Now(), floor)
	}
	once, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	m, err := b.nc.RequestMsgWithContext(once, b.message(w))
	switch {
	case err == nil:
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionDraining):
		return 0, fmt.Errorf("%w: %w", errBusy, err) // nobody was there to store it, or it was not sent
	case errors.Is(err, nats.ErrMaxPayload):
		return 0, fmt.Errorf("%w: %w", kv.ErrTooLarge, err)
	case errors.Is(err, nats.ErrBadSubject):
		return 0, err
	default:
		return 0, fmt.Errorf("%w: %w", kv.ErrUnknown, err)
	}
	seq, err := b.acknowledged(m.Data)
	switch {
	case err == nil && seq <= floor:
		b.anew(era, seq)
	case err == nil:
		b.learn(era, w.subject, seq)
	case errors.Is(err, errGuard) && w.first == nil:
		b.conflicts.Add(1)
	}
	return seq, err
}

// acknowledged reads the answer to a publish. See publish for its errors.
func (b *Bucket) acknowledged(data []byte) (uint64, error) {
	// The answer as it nearly always is: {"stream":"KV_JETCREW_KV","seq":17}
	if rest, ok := bytes.CutPrefix(data, b.ackPrefix); ok {
		if seq, err := strconv.ParseUint(string(bytes.TrimSuffix(rest, []byte("}"))), 10, 64); err == nil {
			return seq, nil
		}
	}
	var ack struct {
		Seq   uint64              `json:"seq"`
		Error *jetstream.APIError `json:"error"`
	}
	if err := job.Decode(data, &ack); err != nil {
		return 0, fmt.Errorf("%w: an answer that is none: %w", kv.ErrUnknown, err)
	}
	if ack.Error == nil {
		return ack.Seq, nil
	}
	switch ack.Error.ErrorCode {
	case codeWrongLast:
		return 0, errGuard
	case codeGuardInUse, codeGuardNotReady, codeNotAvailable:
		return 0, fmt.Errorf("%w: %w", errBusy, ack.Error)
	case codeTooLarge:
		return 0, fmt.Errorf("%w: %w", kv.ErrTooLarge, ack.Error)
	}
	if ack.Error.Code == http.StatusServiceUnavailable {
		return 0, fmt.Errorf("the store is full, or not allowed to take more: %w", ack.Error)
	}
	return 0, fmt.Errorf("the server refused it: %w", ack.Error)
}

// connected waits until there is a connection: what is sent without one is kept by the client library and sent whenever
// it is back, however late.
func (b *Bucket) connected(ctx context.Context) error {
	if b.nc.IsConnected() { // before what costs as much as a timer
		return ctx.Err()
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	return b.await(ctx)
}

// await is connected for as long as ctx allows.
func (b *Bucket) await(ctx context.Context) error {
	for try := 0; !b.nc.IsConnected(); try++ {
		if b.nc.IsClosed() {
			return nats.ErrConnectionClosed
		}
		if err := pause(ctx, try); err != nil {
			return fmt.Errorf("%w (there is no connection)", err)
		}
	}
	return ctx.Err()
}
