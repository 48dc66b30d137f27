package client

import (
	"context"

	"github.com/jetcrew/jetcrew/streams"
)

// Bounds answers the first and the last sequence of the jobs' stream; see Event.Seq. Errors to branch on:
// *PermissionError.
func (c *Client) Bounds(ctx context.Context) (first, last uint64, err error) {
	ctx, done := c.events.guard(ctx, c.names.looking)
	defer done()
	first, last, err = c.store.Bounds(ctx)
	return first, last, c.events.explain(ctx, err)
}

// Changes tells fn, as events, of what is left of the changes that a request means, in the order of their sequences: what
// Watch may not have told. See streams.Store.Changes; also *PermissionError.
func (c *Client) Changes(ctx context.Context, req streams.ChangesRequest, fn func(Event) error) error {
	ctx, done := c.events.guard(ctx, c.names.reading)
	defer done()
	return c.events.explain(ctx, c.store.Changes(ctx, req, func(ch streams.Change) error { return fn(eventOf(ch)) }))
}

// ChangesAt is Changes for some sequences.
func (c *Client) ChangesAt(ctx context.Context, seqs []uint64) ([]Event, error) {
	ctx, done := c.events.guard(ctx, c.names.reading)
	defer done()
	changes, err := c.store.ChangesAt(ctx, seqs)
	out := make([]Event, len(changes))
	for i, ch := range changes {
		out[i] = eventOf(ch)
	}
	return out, c.events.explain(ctx, err)
}

// eventOf tells of a change as its event did.
func eventOf(ch streams.Change) Event {
	j := ch.Job
	e := Event{
		Kind: EventKind(ch.State), Seq: ch.Seq, At: j.UpdatedAt, Queue: j.Queue, Space: j.Space, ID: j.ID,
		Status: j.Status, Type: j.Type, Attempts: j.Attempts, WorkerID: j.WorkerID, Error: j.Error,
	}
	switch e.Kind {
	case EventDeleted:
		return Event{Kind: e.Kind, Seq: e.Seq, Queue: e.Queue, Space: e.Space, ID: e.ID}
	case "ready", "due":
		e.RunAt = j.RunAt
	case "running":
		e.CancelRequested = j.CancelRequested
	}
	return e
}
