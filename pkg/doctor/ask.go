package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// inbox is what the subjects begin with that answers come to.
func (e *exam) inbox() string {
	if p := e.nodes.InboxPrefix; p != "" {
		return p
	}
	return strings.TrimSuffix(nats.InboxPrefix, ".")
}

// stream is what the server says of a stream, or nil if there is none.
func (e *exam) stream(ctx context.Context, name string) (*jetstream.StreamInfo, error) {
	s, err := e.js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		e.streams[name] = nil
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for stream %s: %w", name, err)
	}
	e.streams[name] = s.CachedInfo()
	return s.CachedInfo(), nil
}

// list asks for the consumers of the jobs' stream, and for the names of those that nobody answered for.
func (e *exam) list(ctx context.Context) (all []*jetstream.ConsumerInfo, missing []string, err error) {
	for offset := 0; ; {
		msg, err := e.nc.RequestWithContext(ctx, "$JS.API.CONSUMER.LIST."+e.names.jobs(), fmt.Appendf(nil, `{"offset":%d}`, offset))
		if err != nil {
			return nil, nil, fmt.Errorf("listing consumers: %w", err)
		}
		var page struct {
			Total     int                       `json:"total"`
			Consumers []*jetstream.ConsumerInfo `json:"consumers"`
			Missing   []string                  `json:"missing"`
			Error     *jetstream.APIError       `json:"error"`
		}
		if err := json.Unmarshal(msg.Data, &page); err != nil {
			return nil, nil, fmt.Errorf("listing consumers: %w", err)
		}
		if page.Error != nil {
			return nil, nil, fmt.Errorf("listing consumers: %w", page.Error)
		}
		all, missing = append(all, page.Consumers...), append(missing, page.Missing...)
		n := len(page.Consumers) + len(page.Missing)
		if offset += n; n == 0 || offset >= page.Total {
			return all, missing, nil
		}
	}
}

// message is one that stands in a stream.
type message struct {
	subject string
	header  nats.Header
	data    []byte
	seq     uint64
	at      time.Time
	left    uint64 // messages on the filter after this one, if they were to be counted
}

// next is the first message on a filter from a sequence on, or nil if there is none. The client library's ways to list
// would make a consumer. To have those after it counted costs the server half a microsecond for each.
func (e *exam) next(ctx context.Context, stream, filter string, from uint64, count bool) (*message, error) {
	req := struct {
		Seq   uint64 `json:"seq"`
		Next  string `json:"next_by_subj"`
		Batch int    `json:"batch,omitempty"`
	}{Seq: max(from, 1), Next: filter}
	if count {
		req.Batch = 1
	}
	body, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	m, err := e.nc.RequestWithContext(ctx, "$JS.API.DIRECT.GET."+stream, body)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", stream, err)
	}
	switch status := m.Header.Get("Status"); status {
	case "":
	case "404", "204":
		return nil, nil
	default:
		return nil, fmt.Errorf("reading %s: %s %s", stream, status, m.Header.Get("Description"))
	}
	out := &message{subject: m.Header.Get(jetstream.SubjectHeader), header: m.Header, data: m.Data}
	if out.seq, err = strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10, 64); err != nil {
		return nil, fmt.Errorf("reading %s: its sequence: %w", stream, err)
	}
	if out.at, err = time.Parse(time.RFC3339Nano, m.Header.Get(jetstream.TimeStampHeaer)); err != nil {
		return nil, fmt.Errorf("reading %s: its time: %w", stream, err)
	}
	if text := m.Header.Get("Nats-Num-Pending"); text != "" {
		if out.left, err = strconv.ParseUint(text, 10, 64); err != nil {
			return nil, fmt.Errorf("reading %s: what is left: %w", stream, err)
		}
	}
	return out, nil
}

// count is how many messages stand on a filter.
func (e *exam) count(ctx context.Context, stream, filter string) (int, error) {
	m, err := e.next(ctx, stream, filter, 1, true)
	if err != nil || m == nil {
		return 0, err
	}
	return int(m.left) + 1, nil
}

// late reports whether more than half of a check's time is over: what reads one thing after the other, each of them a
// round trip, stops then with what it has.
func (e *exam) late(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) < e.cfg.Timeout/2
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// now is the store's clock, where it is known.
func (e *exam) now() time.Time {
	if e.store != nil {
		return e.store.Now()
	}
	return e.cfg.Now()
}

// Now has the exam be the clock of what is opened.
func (e *exam) Now() time.Time { return e.now() }

// word is a name as an argument of a command line.
func word(s string) string {
	for _, r := range s {
		if r > 127 || !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/@", r) {
			return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
		}
	}
	return s
}

// span is a duration as people read it.
func span(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// size is a number of bytes as people read it.
func size(n uint64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	f, i := float64(n)/unit, 0
	for ; f >= unit && i < 4; i++ {
		f /= unit
	}
	return fmt.Sprintf("%.1f %ciB", f, "KMGTP"[i])
}
