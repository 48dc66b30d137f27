package main

import (
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/guard"
	"github.com/jetcrew/jetcrew/pkg/httpapi"
)

// callLimits say how calls are guarded.
type callLimits struct {
	replay          time.Duration
	calls, perSpace int
	streams         int
}

func (l *callLimits) flags(f *pflag.FlagSet) {
	durationFlag(f, &l.replay, "replay-window", 0, "how long the answers of calls with an Idempotency-Key are kept and given again (default: they are not)")
	f.IntVar(&l.calls, "max-calls", 0, "calls that go on in this process (0: no limit)")
	f.IntVar(&l.perSpace, "max-calls-per-space", 0, "calls of one space that go on in this process (0: no limit)")
	f.IntVar(&l.streams, "max-streams", 1000, "streams of events that are open in this process")
}

// check refuses what cannot be a limit.
func (l *callLimits) check() error {
	if l.replay < 0 || l.replay > 0 && l.replay < time.Millisecond {
		return usagef("--replay-window: must be at least 1ms, or 0 for none, not %s", l.replay)
	}
	for _, f := range []struct {
		name     string
		n, least int
	}{{"max-calls", l.calls, 0}, {"max-calls-per-space", l.perSpace, 0}, {"max-streams", l.streams, 1}} {
		if f.n < f.least {
			return usagef("--%s: must be %d or more, not %d", f.name, f.least, f.n)
		}
	}
	return nil
}

// answering is what of the API outlives a request.
type answering struct {
	calls  *httpapi.Calls // nil: there is no key/value store to keep their keys in
	events *httpapi.Events
}

// newAnswering makes the process's guards, and what they guard. It ends when ctx does, so that a server which stops has
// nobody to wait for; close waits for that.
func newAnswering(ctx context.Context, c *client.Client, l callLimits, log zerolog.Logger) (*answering, error) {
	a := &answering{events: httpapi.NewEvents(httpapi.EventsConfig{Feed: c, MaxStreams: l.streams, Logger: log})}
	store, err := c.OpenKV(ctx)
	if err != nil {
		log.Warn().Err(err).Msg("there are no calls: the key/value store, which keeps their keys, cannot be opened")
	} else {
		g, err := guard.New(guard.Config{Store: store, ReplayWindow: l.replay, Calls: l.calls, CallsPerSpace: l.perSpace, Logger: log})
		if err != nil {
			return nil, fmt.Errorf("serve: %w", err)
		}
		a.calls = httpapi.NewCalls(httpapi.CallsConfig{Guards: g, Jobs: c, Logger: log})
	}
	context.AfterFunc(ctx, a.close)
	return a, nil
}

func (a *answering) close() {
	a.events.Close()
	if a.calls != nil {
		a.calls.Close()
	}
}
