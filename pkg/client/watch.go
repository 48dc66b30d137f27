package client

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// EventKind says what an Event tells of.
type EventKind string

// Beside these, an event's kind is the state that a job has come to: ready, due, running, succeeded, failed, dead,
// cancelled or deleted.
const (
	EventProgress EventKind = "progress" // a handler said how far it is
	EventLog      EventKind = "log"      // a handler wrote to its job's log

	// What happens to the watch itself. After each of these, what is known of a job may be out of date: read it.
	EventWatching EventKind = "watching" // from here on, what happens is told
	EventLost     EventKind = "lost"     // the connection is lost, and what happens meanwhile is not told
	EventBack     EventKind = "back"     // it is back
	EventMissed   EventKind = "missed"   // events came faster than they were taken
)

// EventDeleted is the kind of the event that a record was deleted.
const EventDeleted EventKind = "deleted"

var jobEvents = []EventKind{
	"ready", "due", "running", "succeeded", "failed", "dead", "cancelled", EventDeleted, EventProgress, EventLog,
}

// Ended reports whether the job has come to its end, or its record is gone.
func (k EventKind) Ended() bool { return job.Status(k).Terminal() || k == EventDeleted }

// OfJob reports whether the event is of a job, not of the watch.
func (k EventKind) OfJob() bool { return slices.Contains(jobEvents, k) }

// Event is something that happened. Events are hints: they may be lost, doubled, or come late, and the record is the
// truth.
type Event struct {
	Kind  EventKind `json:"event"`
	Seq   uint64    `json:"-"`              // under which the change was stored; 0: it left nothing in the store
	At    time.Time `json:"at,omitzero"`    // by the store's clock; none where a job was put in, or its record deleted
	Queue string    `json:"queue,omitzero"` // of a name that stands hashed only the token, unless the request names it
	Space string    `json:"space,omitzero"`
	ID    string    `json:"id,omitzero"`

	// Of a change.
	Status    job.Status `json:"status,omitzero"`
	Type      string     `json:"type,omitzero"`
	Attempts  int        `json:"attempts,omitzero"`
	WorkerID  string     `json:"workerId,omitzero"`
	Error     string     `json:"error,omitzero"`
	RunAt     time.Time  `json:"runAt,omitzero"`     // of a job that waits
	ExpiresAt time.Time  `json:"expiresAt,omitzero"` // when the record of an end goes
	// CancelRequested: it runs, and is being stopped.
	CancelRequested bool `json:"cancelRequested,omitzero"`

	Progress *job.Mark     `json:"progress,omitzero"` // of EventProgress
	Log      []job.LogLine `json:"log,omitzero"`      // of EventLog
}

// Key is the job that it happened to.
func (e *Event) Key() job.Key { return job.Key{Queue: e.Queue, Space: e.Space, ID: e.ID} }

// WatchRequest says what to watch.
type WatchRequest struct {
	// Filter says of which jobs. From and To do not matter. What handlers say of their jobs names no type: it is
	// told where Type is empty.
	Filter job.Filter
	// ID narrows it to the jobs of this id. Defaults to all.
	ID string
}

// watchBuffer is how many events are held for whoever takes them slowly.
const watchBuffer = 16 * 1024

// Watch tells fn of what happens to jobs, live, until ctx ends (then its error is the context's), fn answers an error
// (then it is that one), the server denies it (*PermissionError), or the connection is closed for good. It begins with
// an EventWatching. fn is called by one goroutine.
func (c *Client) Watch(ctx context.Context, req WatchRequest, fn func(Event) error) error {
	if err := req.Filter.Validate(); err != nil {
		return err
	}
	subjects := c.names.watched(req)
	ctx, done := c.events.guard(ctx, func(p *PermissionError) bool {
		return p.Operation == "Subscription" && slices.Contains(subjects, p.Subject)
	})
	defer done()
	w := watch{nc: c.nc, names: c.names, req: req, fn: fn, msgs: make(chan *nats.Msg, watchBuffer)}
	return c.events.explain(ctx, w.run(ctx, subjects))
}

// watched are the subjects on which events are told that a request means.
func (s subjects) watched(req WatchRequest) []string {
	queue, id := "*", "*"
	if req.Filter.Queue != "" {
		queue = req.Filter.Queue
	}
	if req.ID != "" {
		id = req.ID
	}
	if req.Filter.AllSpaces {
		return []string{s.event("*", queue, "*", id)}
	}
	var out []string
	for _, space := range req.Filter.Spaces {
		if subject := s.event("*", queue, space, id); !slices.Contains(out, subject) {
			out = append(out, subject)
		}
	}
	return out
}

// watch is one call of Watch.
type watch struct {
	nc      *nats.Conn
	names   subjects
	req     WatchRequest
	fn      func(Event) error
	msgs    chan *nats.Msg
	subs    []*nats.Subscription
	dropped int
}

func (w *watch) run(ctx context.Context, subjects []string) error {
	status := w.nc.StatusChanged(nats.RECONNECTING, nats.CONNECTED, nats.CLOSED)
	defer w.nc.RemoveStatusListener(status)
	for _, subject := range subjects {
		sub, err := w.nc.ChanSubscribe(subject, w.msgs)
		if err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		defer func() { _ = sub.Unsubscribe() }() // fails only on a closed connection
		w.subs = append(w.subs, sub)
	}
	if err := w.begin(ctx); err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for {
		var err error
		select {
		case m := <-w.msgs:
			err = w.take(m)
		case <-look.C:
			err = w.missed()
		case st := <-status:
			err = w.changed(st)
		case <-ctx.Done():
			return ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

// begin waits until the server knows of the subscriptions.
func (w *watch) begin(ctx context.Context) error {
	flush, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if err := w.nc.FlushWithContext(flush); err != nil {
		return err
	}
	return w.fn(Event{Kind: EventWatching})
}

func (w *watch) changed(st nats.Status) error {
	switch st {
	case nats.RECONNECTING:
		return w.fn(Event{Kind: EventLost})
	case nats.CONNECTED:
		return w.fn(Event{Kind: EventBack})
	case nats.CLOSED:
		return fmt.Errorf("watch: %w", nats.ErrConnectionClosed)
	}
	return nil
}

// missed tells when events were dropped.
func (w *watch) missed() error {
	dropped := 0
	for _, sub := range w.subs {
		n, err := sub.Dropped()
		if err != nil {
			return nil //nolint:nilerr // the connection is closed, of which the status tells
		}
		dropped += n
	}
	if dropped == w.dropped {
		return nil
	}
	w.dropped = dropped
	return w.fn(Event{Kind: EventMissed})
}

// take tells of a message, if it is an event that was asked for.
func (w *watch) take(m *nats.Msg) error {
	e, ok := w.names.parseEvent(m)
	if !ok || !w.fits(&e) {
		return nil
	}
	if q := w.req.Filter.Queue; q != "" {
		e.Queue = q // which its token may not tell
	}
	return w.fn(e)
}

func (w *watch) fits(e *Event) bool {
	f := &w.req.Filter
	if f.Type != "" && f.Type != e.Type {
		return false
	}
	if e.Kind == EventProgress || e.Kind == EventLog {
		return f.FitsStatus(job.Running, "")
	}
	half := job.Status(e.Kind)
	status := half
	if half == job.Ready || half == job.Due {
		status = job.Pending
	}
	return f.FitsStatus(status, half)
}

// parseEvent reads an event. Anybody who may publish can send anything: what cannot be read is left out.
func (s subjects) parseEvent(m *nats.Msg) (Event, bool) {
	t := strings.Split(m.Subject, ".")
	if len(t) != 6 {
		return Event{}, false
	}
	e := Event{Kind: EventKind(t[2])}
	var err error
	switch {
	case !e.Kind.OfJob():
		return e, false
	case e.Kind == EventProgress:
		if err = job.Decode(m.Data, &e.Progress); e.Progress != nil {
			e.At = e.Progress.At
		}
	case e.Kind == EventLog:
		if err = job.Decode(m.Data, &e.Log); len(e.Log) > 0 {
			e.At = e.Log[0].At
		}
	default:
		body := struct {
			*Event
			Seq       uint64    `json:"seq"`
			UpdatedAt time.Time `json:"updatedAt"`
		}{Event: &e}
		err = job.Decode(m.Data, &body)
		e.Seq, e.At = body.Seq, body.UpdatedAt
	}
	e.Kind, e.Queue, e.Space, e.ID = EventKind(t[2]), unescape(t[3]), unescape(t[4]), unescape(t[5])
	return e, err == nil
}
