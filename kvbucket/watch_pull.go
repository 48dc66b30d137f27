package kvbucket

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/jetcrew/jetcrew/pkg/job"
)

const (
	// watchBatch is how many messages are asked for at a time, values and all: it bounds what waits in memory.
	watchBatch = 64
	// watchExpires is how long the server holds a request, and watchBeat how often it says meanwhile that it does.
	watchExpires = 30 * time.Second
	watchBeat    = 5 * time.Second
	// watchSilence is after which time a consumer counts as gone that says nothing.
	watchSilence = 2*watchBeat + 2*time.Second
	// watchLook is how long a watch waits at most before it looks around.
	watchLook = time.Second
)

// pulled is what became of a request for messages.
type pulled struct {
	left  int // that it may still answer
	heard time.Time
	idle  bool // for a look, nothing came
}

// take waits for the next message, for as long as nothing else is to be done; nil means that none came. A consumer
// that has gone, or that lost something on the way, is replaced by one that begins where it ended.
func (w *watch) take(ctx context.Context) (*listed, error) {
	if w.consumer == "" {
		if err := w.follow(ctx); err != nil {
			return nil, err
		}
	}
	if w.pulled.left == 0 {
		if err := w.request(); err != nil {
			return nil, err
		}
	}
	wait := watchLook
	if len(w.ends) > 0 {
		wait = max(min(wait, w.ends[0].expires.Sub(w.b.clock.Now())), time.Millisecond)
	}
	once, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	m, err := w.sub.NextMsgWithContext(once)
	w.pulled.idle = err != nil
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		if time.Since(w.pulled.heard) > watchSilence && w.b.nc.IsConnected() {
			return nil, fmt.Errorf("%w: the consumer is silent", errSilent)
		}
		return nil, nil
	case err != nil:
		return nil, err
	}
	w.pulled.heard = time.Now()
	switch status := header(m.Header, "Status"); status {
	case "":
	case "100": // it is there
		return nil, nil
	case "404", "408": // the request is over
		w.pulled.left = 0
		return nil, nil
	default:
		return nil, fmt.Errorf("%w: %s %s", errSilent, status, header(m.Header, "Description"))
	}
	meta, err := m.Metadata()
	if err != nil {
		return nil, err
	}
	w.pulled.left--
	if w.received++; meta.Sequence.Consumer != w.received {
		return nil, fmt.Errorf("%w: a message was lost on its way", errSilent)
	}
	w.next = meta.Sequence.Stream + 1
	return &listed{m.Subject, readEntry(m.Header, m.Data, meta.Sequence.Stream, meta.Timestamp)}, nil
}

// follow makes a consumer that begins with the next message.
func (w *watch) follow(ctx context.Context) error {
	if err := w.b.await(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, maxTimeout)
	defer cancel()
	c, err := w.b.js.CreateConsumer(ctx, w.b.stream, jetstream.ConsumerConfig{
		FilterSubject: w.filter, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: w.next,
		AckPolicy: jetstream.AckNonePolicy, InactiveThreshold: idleConsumer, Replicas: 1, MemoryStorage: true,
	})
	if err != nil {
		return err
	}
	w.inbox = w.b.nc.NewInbox()
	if w.sub, err = w.b.nc.SubscribeSync(w.inbox); err != nil {
		return err
	}
	w.consumer, w.received, w.pulled = c.CachedInfo().Name, 0, pulled{heard: time.Now()}
	return nil
}

// request asks for messages, those that will come among them.
func (w *watch) request() error {
	body, err := job.Encode(struct {
		Batch   int   `json:"batch"`
		Expires int64 `json:"expires"`
		Beat    int64 `json:"idle_heartbeat"`
	}{watchBatch, int64(watchExpires), int64(watchBeat)})
	if err != nil {
		return err
	}
	w.pulled.left = watchBatch
	return w.b.nc.PublishRequest(apiPrefix+"CONSUMER.MSG.NEXT."+w.b.stream+"."+w.consumer, w.inbox, body)
}

// streamInfo asks how the bucket's stream stands.
func (b *Bucket) streamInfo(ctx context.Context) (*jetstream.StreamInfo, error) {
	stream, err := b.js.Stream(ctx, b.stream)
	if err != nil {
		return nil, err
	}
	return stream.CachedInfo(), nil
}
