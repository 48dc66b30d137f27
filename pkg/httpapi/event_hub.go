package httpapi

import (
	"context"
	"sync"
	"time"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/job"
)

const (
	// hubPatience is how long the hub waits for an event before it reads what it tells of: those of two writers come in
	// any order.
	hubPatience = 20 * time.Millisecond
	// hubAtOnce is how many sequences it reads at a time.
	hubAtOnce = 512
	// hubAhead is how many events wait for others; what is more is read again.
	hubAhead = 64 << 10
	// hubPause is how long it rests after the store could not be read.
	hubPause = 500 * time.Millisecond
)

// hub tells all streams of every change, each once, in the order of their sequences. Events tell it at once; what they
// leave out, or say out of order, it reads. What handlers say of their jobs, and ends that leave no record, have no
// sequence: they are told as they come.
type hub struct {
	e       *Events
	ctx     context.Context // ends with the hub
	stop    context.CancelCauseFunc
	watched chan struct{} // closed once what happens is told
	started chan struct{} // closed once next is known
	poke    chan struct{} // holds one: there are events that wait for others

	mu    sync.Mutex
	subs  map[*subscriber]struct{}
	next  uint64                   // what is stored before it has been told
	ahead map[uint64]*client.Event // heard too early
	last  uint64                   // the highest of them
}

// startHub has e.mu.
func (e *Events) startHub() *hub {
	h := &hub{
		e: e, watched: make(chan struct{}), started: make(chan struct{}), poke: make(chan struct{}, 1),
		subs: make(map[*subscriber]struct{}), ahead: make(map[uint64]*client.Event),
	}
	h.ctx, h.stop = context.WithCancelCause(e.ctx)
	e.wg.Go(h.watch)
	e.wg.Go(h.follow)
	return h
}

// join adds a stream, and answers from which sequence on it is told.
func (h *hub) join(ctx context.Context, s *subscriber) (uint64, error) {
	select {
	case <-h.started:
	case <-h.ctx.Done():
		return 0, context.Cause(h.ctx)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.subs[s] = struct{}{}
	return h.next, nil
}

func (h *hub) leave(s *subscriber) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.subs, s)
}

// watch listens. A watch that fails ends the hub, and with it the streams: whoever comes again begins another.
func (h *hub) watch() {
	begun := false
	err := h.e.cfg.Feed.Watch(h.ctx, client.WatchRequest{Filter: job.Filter{AllSpaces: true}}, func(e client.Event) error {
		switch {
		case e.Kind.OfJob():
			h.hear(&e)
		case e.Kind == client.EventWatching && !begun:
			begun = true
			close(h.watched)
		}
		return nil
	})
	if h.ctx.Err() == nil {
		h.e.cfg.Logger.Warn().Err(err).Msg("events cannot be told: their streams end")
	}
	h.stop(err)
}

// hear takes in an event.
func (h *hub) hear(e *client.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case e.Seq == 0:
		h.tell(e)
	case e.Seq < h.next, h.next == 0, len(h.ahead) >= hubAhead:
		// it was read, or will be
	default:
		h.ahead[e.Seq] = e
		h.last = max(h.last, e.Seq)
		h.advance()
		if len(h.ahead) > 0 {
			select {
			case h.poke <- struct{}{}:
			default:
			}
		}
	}
}

// advance tells of what is next, as far as it is known. It has the lock.
func (h *hub) advance() {
	for e := h.ahead[h.next]; e != nil; e = h.ahead[h.next] {
		delete(h.ahead, h.next)
		h.next++
		h.tell(e)
	}
}

// tell has the lock.
func (h *hub) tell(e *client.Event) {
	var frame []byte // written once for all
	for s := range h.subs {
		if e.Seq != 0 && e.Seq <= s.after || !s.filter.means(e) {
			continue
		}
		if frame == nil {
			frame = frameOf(e)
		}
		h.give(s, frame)
	}
}

// give has the lock. Who takes events more slowly than they come is cut off.
func (h *hub) give(s *subscriber, frame []byte) {
	select {
	case s.frames <- frame:
	default:
		close(s.slow)
		delete(h.subs, s)
	}
}

// follow reads what events do not tell of.
func (h *hub) follow() {
	select {
	case <-h.watched:
	case <-h.ctx.Done():
		return
	}
	look := time.NewTicker(h.e.cfg.look)
	defer look.Stop()
	for begun := false; ; {
		var err error
		switch {
		case !begun:
			var last uint64
			if _, last, err = h.e.cfg.Feed.Bounds(h.ctx); err == nil {
				h.begin(last + 1)
				begun = true
			}
		default:
			err = h.wait(look.C)
		}
		if h.ctx.Err() != nil {
			return
		}
		if err != nil {
			h.e.cfg.Logger.Debug().Err(err).Msg("changes cannot be read at the moment")
			if !h.rest(hubPause) {
				return
			}
		}
	}
}

func (h *hub) begin(next uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next = next
	close(h.started)
}

// wait waits for a reason to read, and reads.
func (h *hub) wait(look <-chan time.Time) error {
	select {
	case <-h.poke:
		if !h.rest(hubPatience) {
			return nil
		}
		h.mu.Lock()
		to := h.last + 1
		h.mu.Unlock()
		return h.read(to)
	case <-look:
		h.mu.Lock()
		next := h.next // before the store is asked, so that it must know of what was told
		h.mu.Unlock()
		_, last, err := h.e.cfg.Feed.Bounds(h.ctx)
		if err != nil {
			return err
		}
		if last+1 < next {
			h.lost(last)
			return nil
		}
		return h.read(last + 1)
	case <-h.ctx.Done():
		return nil
	}
}

// lost begins anew where the store is not what it was: its last sequence is lower than what was told. It says so to all.
// A server that has just been deposed may answer so, too, and then some changes are told twice.
func (h *hub) lost(last uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next, h.last = last+1, 0
	clear(h.ahead)
	frame := frameOf(&client.Event{Kind: client.EventMissed, Seq: last})
	for s := range h.subs {
		s.after = 0
		h.give(s, frame)
	}
}

// read tells of everything up to, not including, a sequence.
func (h *hub) read(to uint64) error {
	for {
		seqs := h.missing(to)
		if len(seqs) == 0 {
			return nil
		}
		found, err := h.e.cfg.Feed.ChangesAt(h.ctx, seqs)
		if err != nil {
			return err
		}
		h.fill(seqs, found)
	}
}

// missing are the sequences that have not been heard of, the first of them.
func (h *hub) missing(to uint64) (seqs []uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for seq := h.next; seq < to && len(seqs) < hubAtOnce; seq++ {
		if h.ahead[seq] == nil {
			seqs = append(seqs, seq)
		}
	}
	return seqs
}

// fill tells of what was asked for and found, and of what was heard between.
func (h *hub) fill(asked []uint64, found []client.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range found {
		if seq := found[i].Seq; seq >= h.next && h.ahead[seq] == nil {
			h.ahead[seq] = &found[i]
		}
	}
	for _, seq := range asked {
		h.advance()
		if h.next == seq { // it holds no change
			h.next++
		}
	}
	h.advance()
}

// rest reports whether the hub goes on after a while.
func (h *hub) rest(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-h.ctx.Done():
		return false
	}
}
