package httpapi

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/streams"
)

// stream is one that is open, and what is to be sent before what happens.
type stream struct {
	e      *Events
	sub    *subscriber
	from   uint64 // from here on, the hub tells
	resume resumption
	w      http.ResponseWriter
	rc     *http.ResponseController
}

// resumption is from where on a stream goes on.
type resumption struct {
	read   bool   // what is stored is read
	from   uint64 // from here on
	missed bool   // there was more that is not kept
}

// resume answers from where on a stream goes on whose reader has read up to a sequence. What is stored is numbered from first to last.
func resume(read, first, last uint64) resumption {
	switch {
	case read > last: // of another store
		return resumption{read: true, from: first, missed: true}
	case read > 0 && read+1 < first:
		return resumption{read: true, from: first, missed: true}
	}
	return resumption{read: true, from: max(read+1, first)}
}

var (
	errSlow   = errors.New("the reader is too slow")
	heartbeat = []byte(":\n\n")
	// goodbye has the reader come again in a moment, to another process if there is one.
	goodbye = []byte(": this stream ends, come again\nretry: 1000\n\n")
)

// frameOf is an event as it is written to a stream.
func frameOf(e *client.Event) []byte {
	data, err := job.Encode(e)
	if err != nil { // an event of a job has nothing that cannot be written
		data = []byte("{}")
	}
	var b bytes.Buffer
	b.Grow(len(data) + 64)
	if e.Seq > 0 {
		b.WriteString("id: ")
		b.WriteString(strconv.FormatUint(e.Seq, 10))
		b.WriteByte('\n')
	}
	b.WriteString("event: ")
	b.WriteString(string(e.Kind))
	b.WriteString("\ndata: ")
	b.Write(data)
	b.WriteString("\n\n")
	return b.Bytes()
}

// run writes the stream until its reader goes, is too slow, or the stream is over.
func (s *stream) run(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.e.cfg.MaxAge)
	defer cancel()
	defer context.AfterFunc(s.sub.hub.ctx, cancel)()
	err := s.begin(ctx)
	for err == nil && ctx.Err() == nil {
		err = s.step(ctx)
	}
	if err == nil || ctx.Err() != nil { // where it can still be written
		_ = s.write(goodbye)
	}
}

// begin sends what was stored before what the hub tells.
func (s *stream) begin(ctx context.Context) error {
	if err := s.write([]byte("retry: 1000\n\n")); err != nil {
		return err
	}
	if s.resume.missed {
		if err := s.write(frameOf(&client.Event{Kind: client.EventMissed})); err != nil {
			return err
		}
	}
	if s.resume.read {
		f := &s.sub.filter
		req := streams.ChangesRequest{Queue: f.queue, Space: f.space, ID: f.id, From: s.resume.from, To: s.from}
		err := s.e.cfg.Feed.Changes(ctx, req, func(e client.Event) error {
			if !f.means(&e) {
				return nil
			}
			return s.write(frameOf(&e))
		})
		if err != nil {
			return err
		}
	}
	return s.write(frameOf(&client.Event{Kind: client.EventWatching, Seq: max(s.from-1, s.sub.after)}))
}

// step sends what is there, or a heartbeat.
func (s *stream) step(ctx context.Context) error {
	t := time.NewTimer(s.e.cfg.Heartbeat)
	defer t.Stop()
	select {
	case frame := <-s.sub.frames:
		return s.write(frame)
	case <-s.sub.slow:
		return errSlow
	case <-t.C:
		return s.write(heartbeat)
	case <-ctx.Done():
		return nil
	}
}

// write writes a frame, and flushes unless more is to follow.
func (s *stream) write(frame []byte) error {
	if err := s.rc.SetWriteDeadline(time.Now().Add(s.e.cfg.writeTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := s.w.Write(frame); err != nil {
		return err
	}
	if len(s.sub.frames) > 0 {
		return nil
	}
	return s.rc.Flush()
}
