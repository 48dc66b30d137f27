package kvbucket

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/jetcrew/jetcrew/pkg/kv"
)

const (
	// recountEvery is after which time a watch lists the keys again, since what goes without a message (a purge by hand, a
	// delete whose marker has gone by the end of an outage) tells nobody; and after a reconnect.
	recountEvery = time.Minute
	// recountShare bounds what that costs: a watch lists for at most one part of so many of its time.
	recountShare = 20
	// loudAfter is after how many failures in a row a watch says so.
	loudAfter = 5
)

var _ kv.Watcher = (*Bucket)(nil)

// Watch implements kv.Watcher. It has a consumer on the server, which begins anew wherever it ended, and remembers the
// keys that are there, though not their values. It is broken off by a bucket that is gone or may not be read, by a
// connection that is closed for good, and by Close; an outage it outlasts.
//
// What was written and deleted by others in an outage that is longer than MarkerTTL is not told.
func (b *Bucket) Watch(ctx context.Context, prefix string, opts kv.WatchOptions) iter.Seq2[kv.Event, error] {
	return func(yield func(kv.Event, error) bool) {
		if err := b.newWatch(prefix, yield).run(ctx, opts); !errors.Is(err, errLeft) {
			yield(kv.Event{}, fmt.Errorf("kvbucket: watch %.200q: %w", prefix, err))
		}
	}
}

// errLeft: whoever watched looks no more.
var errLeft = errors.New("left")

// watch is one Watch.
type watch struct {
	lister
	prefix string
	yield  func(kv.Event, error) bool
	pulled pulled

	known map[string]*present
	ends  lifetimes // of those that have one

	listing bool              // until all that was there has been told
	fence   uint64            // the last message that counts as having been there
	blurred uint64            // up to here, a key may have been deleted that is not known to have been there
	told    map[string]uint64 // the markers of those that were told of

	reconnects uint64
	created    time.Time // the stream
	every      time.Duration
	recountAt  time.Time
	recounts   uint64 // how many there were
}

func (b *Bucket) newWatch(prefix string, yield func(kv.Event, error) bool) *watch {
	return &watch{
		lister: lister{b: b, filter: b.prefix + filter(prefix), next: 1},
		prefix: prefix, yield: yield, known: make(map[string]*present), every: recountEvery,
	}
}

// run watches until it cannot, or may not, go on.
func (w *watch) run(ctx context.Context, opts kv.WatchOptions) error {
	if err := kv.CheckPrefix(w.prefix); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.b.ctx.Err() != nil {
		return ErrClosed
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(w.b.ctx, func() { cancel(ErrClosed) })()
	defer func() { w.close(ctx) }()
	if err := w.begin(ctx, opts); err != nil {
		return w.ended(ctx, err)
	}
	var since time.Time // the first of the failures in a row
	for failed := 0; ; {
		err := w.step(ctx)
		switch {
		case err == nil:
			failed = 0
			continue
		case errors.Is(err, errLeft), ctx.Err() != nil, w.b.nc.IsClosed(), !passing(err):
			return w.ended(ctx, err)
		case failed == 0:
			since = time.Now()
		case w.listing && time.Since(since) > defaultDeadline: // it has never worked
			return err
		}
		if failed == loudAfter {
			w.b.log.Warn().Err(err).Msg("a watch tells nothing at the moment")
		}
		w.close(ctx)
		if err := pause(ctx, failed); err != nil {
			return w.ended(ctx, err)
		}
		failed++
	}
}

// ended is why a watch ends.
func (w *watch) ended(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, errLeft):
		return err
	case errors.Is(context.Cause(ctx), ErrClosed):
		return ErrClosed
	case ctx.Err() != nil:
		return ctx.Err()
	case w.b.nc.IsClosed():
		return nats.ErrConnectionClosed
	}
	return err
}

// passing reports whether what failed may work when it is tried again.
func passing(err error) bool {
	for _, e := range []error{
		errSilent, context.DeadlineExceeded, nats.ErrTimeout, nats.ErrConnectionReconnecting, nats.ErrDisconnected,
		nats.ErrReconnectBufExceeded, nats.ErrSlowConsumer,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return errors.Is(silent(err), errSilent)
}

// begin finds out what is there already.
func (w *watch) begin(ctx context.Context, opts kv.WatchOptions) error {
	w.reconnects = w.b.nc.Stats().Reconnects
	if _, err := w.replaced(ctx); err != nil {
		return err
	}
	w.recountAt = time.Now().Add(w.every)
	var err error
	if w.fence, err = w.newest(ctx); err != nil {
		return err
	}
	if !opts.ChangesOnly {
		w.listing = true
		return nil
	}
	err = w.b.walk(ctx, w.prefix, func(key string, e *entry) bool {
		if e.seq <= w.fence { // others come as changes
			w.keep(key, e)
		}
		return true
	})
	if err != nil {
		return err
	}
	if w.blurred, err = w.newest(ctx); err != nil {
		return err
	}
	w.next = w.fence + 1
	return w.tell(kv.Event{Kind: kv.EventWatching, At: w.b.clock.Now()})
}

// step does what comes next: it tells of what has lapsed, lists the keys if it is time to, and takes one message.
func (w *watch) step(ctx context.Context) error {
	if n := w.b.nc.Stats().Reconnects; n != w.reconnects {
		w.reconnects, w.recountAt = n, time.Now()
		w.close(ctx) // it may have gone with its server
	}
	if err := w.lapse(); err != nil {
		return err
	}
	if w.listing {
		if err := w.listed(ctx); err != nil {
			return err
		}
	} else if !time.Now().Before(w.recountAt) && w.b.nc.IsConnected() {
		if err := w.recount(ctx); err != nil {
			return err
		}
	}
	m, err := w.take(ctx)
	if err != nil || m == nil {
		return err
	}
	return w.apply(m.subject, m.e)
}

// listed tells when all that was there has been told.
func (w *watch) listed(ctx context.Context) error {
	if w.pulled.idle && w.next <= w.fence { // what was the last one may be gone
		last, err := w.newest(ctx)
		if err != nil {
			return err
		}
		w.fence = min(w.fence, last)
	}
	if w.next <= w.fence {
		return nil
	}
	w.listing = false
	return w.tell(kv.Event{Kind: kv.EventWatching, At: w.b.clock.Now()})
}

func (w *watch) tell(e kv.Event) error {
	if !w.yield(e, nil) {
		return errLeft
	}
	return nil
}
