package streams

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// setAsideSpace holds what was published to a subject that is no job's.
const setAsideSpace = "set-aside"

// setAside moves a message that is no job out of the queue's way: its bytes stand from then on as a dead
// record, where an operator sees them, with the reason in a header. Where its subject is no job's, or the job
// has documents of its own, which must not be overwritten, the record is named after the message.
func (c *consumer) setAside(cl *claim, recs []record) {
	s := c.s
	key := cl.rec.job().Key()
	t, guard := cl.rec.tail, cl.seq
	if n := newest(recs); n != nil && n.state == stateDead && n.Job.Type == "" && n.seq > cl.seq &&
		bytes.HasPrefix(cl.rec.raw, n.Job.Raw) && (len(n.Job.Raw) > 0 || len(cl.rec.raw) == 0) {
		c.finish(cl, nil) // it was set aside before, and its ack was lost
		return
	}
	if cl.unreadable() || len(recs) > 1 || len(recs) == 1 && recs[0].seq != cl.seq {
		key.Queue, key.ID = c.cfg.Queue, "message-"+strconv.FormatUint(cl.seq, 10)
		if cl.unreadable() {
			key.Space = setAsideSpace
		}
		t, guard = tail(key), 0
	}
	m := s.setAsideMessage(t, guard, cl.rec.bad.Error(), cl.rec.raw)
	_, err := s.send(c.ctx, m)
	if err != nil && !errors.Is(err, errGuard) {
		if c.ctx.Err() == nil {
			c.log.Warn().Err(err).Stringer("job", key).Msg("a message that is no job could not be set aside yet")
		}
		cl.drop() // it is delivered again
		return
	}
	if err != nil && guard != 0 {
		c.queueCheck(cl) // something was written meanwhile
		return
	}
	if err == nil {
		s.losses.count(c.cfg.Queue, Losses{SetAside: 1})
	}
	// A guard of 0 that does not hold means that it was set aside before.
	if s.at(AfterSetAside) != nil {
		return
	}
	c.log.Error().Stringer("job", key).Str("reason", cl.rec.bad.Error()).Int("bytes", len(cl.rec.raw)).
		Msg("a message that is no job was set aside as dead")
	c.finish(cl, nil)
}

func (s *Store) setAsideMessage(tail string, guard uint64, why string, raw []byte) *nats.Msg {
	why = headerText("set aside: " + why)
	h := nats.Header{
		headerSetAside:         []string{why},
		headerRev:              []string{"1"},
		headerWriter:           []string{newWriter()},
		jetstream.MsgTTLHeader: []string{seconds(cmp.Or(s.cfg.Retention.Dead, defaultLong))},
	}
	s.guard(h, tail, guard)
	m := &nats.Msg{Subject: s.names.job(stateDead, tail), Header: h, Data: raw}
	// The headers may make it larger than the server takes.
	if over := m.Size() - int(s.nc.MaxPayload()); over > 0 && over+64 < len(raw) {
		m.Data = raw[:len(raw)-over-64]
		h[headerSetAside] = []string{headerText(fmt.Sprintf("set aside (the first %d of %d bytes): %s", len(m.Data), len(raw), why))}
	}
	return m
}

// headerText makes text fit for a header: one line, UTF-8, of bounded length.
func headerText(s string) string {
	out := make([]rune, 0, len(s))
	for _, r := range s {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			r = ' '
		}
		out = append(out, r)
	}
	return job.CutError(string(out))
}
