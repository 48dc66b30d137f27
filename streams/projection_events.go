package streams

import (
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// eventBuffer is how many events may wait to be taken in. What is more than that is lost, and read instead.
const eventBuffer = 16 << 10

// eventsAtOnce is how many events are taken in under one lock.
const eventsAtOnce = 256

// listen subscribes to what is told of changes of state, and takes it in until the projection is closed.
func (p *Projection) listen() error {
	for _, st := range states {
		sub, err := p.s.nc.ChanSubscribe(p.s.names.event(st, ">"), p.events)
		if err != nil {
			p.deafen()
			return err
		}
		p.subs = append(p.subs, sub)
	}
	p.wg.Go(func() {
		defer p.deafen()
		all := make([]heard, 0, eventsAtOnce)
		for {
			all = all[:0]
			select {
			case m := <-p.events:
				all = p.understand(all, m)
			case <-p.ctx.Done():
				return
			}
			for more := true; more && len(all) < eventsAtOnce; {
				select {
				case m := <-p.events:
					all = p.understand(all, m)
				default:
					more = false
				}
			}
			p.takeIn(all)
		}
	})
	return nil
}

func (p *Projection) deafen() {
	for _, sub := range p.subs {
		_ = sub.Unsubscribe() // fails only on a closed connection
	}
}

// heard is an event.
type heard struct {
	entry
	without bool // the job ended without leaving a record
}

// understand adds an event to others. One that says nothing clear is ignored: its message is read.
func (p *Projection) understand(all []heard, m *nats.Msg) []heard {
	if p.cfg.hear != nil && !p.cfg.hear(m) {
		return all
	}
	rest, _ := strings.CutPrefix(m.Subject, p.s.names.ns+".event.")
	token, tail, _ := strings.Cut(rest, ".")
	st := state(token)
	id, ok := identOf(tail)
	if !ok {
		return all
	}
	var e event
	if job.Decode(m.Data, &e) != nil {
		return all
	}
	h := heard{without: st.terminal() && e.Seq == 0}
	if e.Seq == 0 && !h.without {
		return all
	}
	h.entry = entry{
		ident: id, state: st, typ: e.Type, seq: e.Seq, rev: e.Rev, attempts: e.Attempts, told: true,
		updated: millis(e.UpdatedAt), created: millis(e.CreatedAt), run: millis(e.RunAt), expires: millis(e.ExpiresAt),
	}
	if h.updated == 0 {
		h.updated = p.s.Now().UnixMilli()
	}
	return append(all, h)
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func (p *Projection) takeIn(all []heard) {
	now := p.s.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.next
	for i := range all {
		h := &all[i]
		if !x.jobs.knowsQueue(h.queue) {
			continue // only a document names it
		}
		if h.without {
			x.ended(h.ident, h.rev)
			continue
		}
		x.apply(&h.entry)
		x.covered.add(h.seq)
	}
	x.tidy(now)
}
