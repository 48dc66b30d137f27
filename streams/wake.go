package streams

import (
	"context"
	"errors"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/jetcrew/jetcrew/pkg/job"
)

const (
	wakeBatch   = 1024 // how many wakes are asked for at a time
	wakeWriters = 1024 // how many due documents are moved at a time
)

func (c *consumer) wantWakes(outstanding int) int {
	if have := outstanding + len(c.woken); have <= wakeBatch/2 {
		return wakeBatch - have
	}
	return 0
}

func (c *consumer) deliverWake(m *nats.Msg) {
	select {
	case c.woken <- m:
	case <-c.ctx.Done():
	}
}

// wakeUp moves due documents whose time has come to where they are delivered from.
func (c *consumer) wakeUp() {
	for {
		var batch []*nats.Msg
		select {
		case <-c.ctx.Done():
			return
		case m := <-c.woken:
			batch = append(batch, m)
		case <-c.quiet:
			select {
			case m := <-c.woken:
				batch = append(batch, m)
			default:
				return
			}
		}
	more:
		for len(batch) < maxFilters {
			select {
			case m := <-c.woken:
				batch = append(batch, m)
			default:
				break more
			}
		}
		c.wakes.poke()
		c.wakeMany(batch)
	}
}

func (c *consumer) wakeMany(batch []*nats.Msg) {
	prefix := c.s.names.wake("")
	tails := make([]string, 0, len(batch))
	todo := batch[:0:0]
	var seqs []uint64
	for _, m := range batch {
		meta, err := m.Metadata()
		if err != nil {
			continue // no delivery of a consumer
		}
		t := strings.TrimPrefix(m.Subject, prefix)
		if _, err := parseTail(t); err != nil {
			_ = m.Ack() // not ours: nobody can have a document there; a lost ack brings it again
			continue
		}
		tails = append(tails, t)
		todo = append(todo, m)
		seqs = append(seqs, meta.Sequence.Stream)
	}
	docs, upTo, err := c.s.documents(c.ctx, tails)
	if err != nil {
		if c.ctx.Err() == nil {
			c.log.Debug().Err(err).Int("wakes", len(todo)).Msg("due jobs could not be read; they are delivered again")
		}
		return
	}
	for i, m := range todo {
		c.wakers <- struct{}{}
		c.wg.Go(func() {
			defer func() { <-c.wakers }()
			if c.s.wake(c.ctx, tails[i], docs[tails[i]], upTo >= seqs[i]) == nil {
				_ = m.Ack() // a lost ack brings a wake that finds nothing to do
			}
		})
	}
}

// wake does what a wake asks for. An error means that it is not done, and the wake is to come again. fresh says
// that the documents were read from a replica that has everything that was written before the wake.
func (s *Store) wake(ctx context.Context, tail string, recs []record, fresh bool) error {
	switch decideWake(recs, s.Now()) {
	case wakeMove:
		return s.moveDue(ctx, tail, recs, "")
	case wakeRearm:
		n := newest(recs)
		_, err := s.send(ctx, s.alarm(tail, n.Writer, n.Job.RunAt))
		return err
	case wakeNothing:
		if fresh {
			return nil
		}
		recs, err := s.fromLeader(ctx, tail)
		if err != nil {
			return err
		}
		return s.wake(ctx, tail, recs, true)
	}
	return nil
}

// moveDue writes a due document as ready, and deletes what is older. purge names an alarm to take along.
func (s *Store) moveDue(ctx context.Context, tail string, recs []record, purge string) error {
	move := func(recs []record) write {
		n := newest(recs)
		d := n.next(newWriter())
		d.ClaimFirst = n.ClaimFirst
		d.Job.UpdatedAt = job.Millis(s.Now())
		return write{tail: tail, state: stateReady, doc: &d, guard: last(recs), purge: purge}
	}
	w := move(recs)
	_, w, seen, err := s.settled(ctx, w, func(now []record) (write, bool) {
		if decideWake(now, s.Now()) != wakeMove {
			return w, false
		}
		if newest(now).Rev >= w.doc.Rev {
			w = move(now)
		}
		w.guard = last(now)
		return w, true
	})
	if errors.Is(err, job.ErrLeaseLost) {
		return nil // somebody else moved it, or ended it
	}
	if errors.Is(err, job.ErrTooLarge) {
		_, old, err := s.endTooLarge(ctx, tail, recs, err)
		if err != nil {
			return err
		}
		return s.remove(ctx, old...)
	}
	if err != nil {
		return err
	}
	if err := s.at(AfterWakeMove); err != nil {
		return err
	}
	if seen == nil {
		seen = recs
	}
	if err := s.remove(ctx, older(seen, w.doc.Rev, 0)...); err != nil {
		return err
	}
	return s.at(AfterWakeDelete)
}
