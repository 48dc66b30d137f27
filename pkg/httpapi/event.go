package httpapi

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/streams"
)

// Feed is what the streams of events are made of; *client.Client is one.
type Feed interface {
	Watch(ctx context.Context, req client.WatchRequest, fn func(client.Event) error) error
	Bounds(ctx context.Context) (first, last uint64, err error)
	Changes(ctx context.Context, req streams.ChangesRequest, fn func(client.Event) error) error
	ChangesAt(ctx context.Context, seqs []uint64) ([]client.Event, error)
}

// EventsConfig of Events. Feed is required.
type EventsConfig struct {
	Feed Feed
	// MaxStreams is how many streams may be open at a time. Defaults to 1000.
	MaxStreams int
	// MaxAge is how long a stream stays open: whoever reads it comes again, with a token that is still good. Defaults to
	// 15 min.
	MaxAge time.Duration
	// Heartbeat is how often a stream says something when there is nothing to say. Defaults to 15 s.
	Heartbeat time.Duration
	// Logger takes what goes wrong. Defaults to none.
	Logger zerolog.Logger

	writeTimeout time.Duration // of one write; defaults to streamWriteTimeout
	look         time.Duration // defaults to streamLook
	queue        int           // defaults to streamQueue
}

const (
	// streamWriteTimeout is how long a reader may take nothing at all before it is cut off.
	streamWriteTimeout = 10 * time.Second
	// streamLook is how often the store is asked for changes that were not told of.
	streamLook = time.Second
	// streamQueue is how many events wait for a reader that is slower than they come.
	streamQueue = 256
	// streamOpening bounds what a stream waits for before its first event.
	streamOpening = 10 * time.Second
)

var (
	errStreamsFull  = errors.New("as many streams are open as may be")
	errStreamsEnded = errors.New("the streams have ended")
)

// Events feeds any number of streams from one subscription and one reader of the store. The store is asked for nothing
// while no stream is open. It is safe for concurrent use, and has to be closed, when its server begins to stop: that ends
// the streams.
type Events struct {
	cfg EventsConfig

	ctx    context.Context // ends at Close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu   sync.Mutex
	subs map[*subscriber]struct{}
	hub  *hub // while there are some
}

// NewEvents asks the store nothing yet.
func NewEvents(cfg EventsConfig) *Events {
	setDefault(&cfg.MaxStreams, 1000)
	setDefault(&cfg.MaxAge, 15*time.Minute)
	setDefault(&cfg.Heartbeat, 15*time.Second)
	setDefault(&cfg.writeTimeout, streamWriteTimeout)
	setDefault(&cfg.look, streamLook)
	setDefault(&cfg.queue, streamQueue)
	e := &Events{cfg: cfg, subs: make(map[*subscriber]struct{})}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e
}

// Close ends all streams. Calling it again does nothing.
func (e *Events) Close() {
	e.mu.Lock() // so that none begins after it
	e.cancel()
	e.mu.Unlock()
	e.wg.Wait()
}

// eventFilter says which events a stream is of. Names that are empty do not narrow it.
type eventFilter struct {
	queue, space, id string
	may              func(space string) bool
}

// means reports whether an event is told. A queue of a long name is told of by its token.
func (f *eventFilter) means(e *client.Event) bool {
	return (f.space == "" || f.space == e.Space) && (f.id == "" || f.id == e.ID) && f.may(e.Space) &&
		(f.queue == "" || f.queue == e.Queue || streams.QueueToken(f.queue) == e.Queue)
}

// subscriber is one stream, as the hub knows it.
type subscriber struct {
	hub    *hub
	filter eventFilter
	after  uint64        // what was stored under this sequence or before it is not told
	frames chan []byte   // events as they are written; shared by all streams
	slow   chan struct{} // closed when events came faster than they were taken
}

// open begins a stream: what is stored under a sequence from the one that it answers on, and after the one that is given,
// will be told to it.
func (e *Events) open(ctx context.Context, f eventFilter, after uint64) (*subscriber, uint64, error) {
	s := &subscriber{filter: f, after: after, frames: make(chan []byte, e.cfg.queue), slow: make(chan struct{})}
	e.mu.Lock()
	switch {
	case e.ctx.Err() != nil:
		e.mu.Unlock()
		return nil, 0, errStreamsEnded
	case len(e.subs) >= e.cfg.MaxStreams:
		e.mu.Unlock()
		return nil, 0, errStreamsFull
	}
	e.subs[s] = struct{}{}
	if e.hub == nil || e.hub.ctx.Err() != nil {
		e.hub = e.startHub()
	}
	s.hub = e.hub
	e.mu.Unlock()
	from, err := s.hub.join(ctx, s)
	if err != nil {
		e.close(s)
		return nil, 0, err
	}
	return s, from, nil
}

// close ends a stream. The last one ends the hub.
func (e *Events) close(s *subscriber) {
	s.hub.leave(s)
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.subs, s)
	if len(e.subs) == 0 && e.hub != nil {
		e.hub.stop(errStreamsEnded)
		e.hub = nil
	}
}
