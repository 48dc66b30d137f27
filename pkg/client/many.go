package client

import (
	"context"
	"errors"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// deniedQuiet is how long a bulk call waits for the answers of its other jobs after the last one that was found to
// be denied.
const deniedQuiet = time.Second

// enqueueMany is EnqueueMany without its middleware. A denial is that job's own; when all are denied, or no more
// has been heard of for a while, nothing is waited for any longer.
func (c *Client) enqueueMany(ctx context.Context, specs []job.Spec) ([]job.Enqueued, error) {
	specs, keys := named(specs)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	m := newMany(c.names, keys, cancel)
	w := &watcher{m.tell}
	c.events.watch(w)
	out, err := c.store.EnqueueMany(ctx, specs)
	c.events.unwatch(w) // m is ours from here on
	if m.quiet != nil {
		m.quiet.Stop()
	}
	first := c.events.explain(ctx, err)
	for i := len(out) - 1; i >= 0; i-- {
		p := m.denied[out[i].Key]
		switch {
		case out[i].Err == nil:
			out[i].Err = c.names.late(p)
		case p != nil && errors.Is(out[i].Err, job.ErrUnknown):
			out[i].Err = &deniedError{p, true}
		default:
			out[i].Err = c.events.explain(ctx, out[i].Err)
		}
		if out[i].Err != nil {
			first = out[i].Err
		}
	}
	return out, first
}

// many is a bulk call under way. Its methods are called with the events locked.
type many struct {
	names  subjects
	keys   []job.Key
	byName map[[2]string][]job.Key // by space and id: one for each queue
	denied map[job.Key]*PermissionError
	cancel context.CancelCauseFunc
	quiet  *time.Timer
}

func newMany(names subjects, keys []job.Key, cancel context.CancelCauseFunc) *many {
	m := &many{
		names: names, keys: keys, cancel: cancel,
		byName: make(map[[2]string][]job.Key, len(keys)), denied: make(map[job.Key]*PermissionError),
	}
	for _, k := range keys {
		name := [2]string{k.Space, k.ID}
		m.byName[name] = append(m.byName[name], k)
	}
	return m
}

func (m *many) tell(p *PermissionError) {
	c := m.names.writing(p)
	among := m.keys
	if c.id != "" {
		among = m.byName[[2]string{c.space, c.id}]
	}
	before := len(m.denied)
	for _, k := range among {
		if c.has(k) {
			m.denied[k] = p
		}
	}
	if len(m.denied) == before {
		return // of others, or a further try
	}
	if len(m.denied) == len(m.keys) {
		m.cancel(p)
		return
	}
	if m.quiet == nil {
		m.quiet = time.AfterFunc(deniedQuiet, func() { m.cancel(p) })
	} else {
		m.quiet.Reset(deniedQuiet)
	}
}
