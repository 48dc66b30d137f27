package main

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/jetcrew/jetcrew/pkg/client"
)

// kvPatience is how long a worker waits for the key/value store before it begins without.
const kvPatience = 10 * time.Second

// openKV opens the key/value store of handlers, and makes its bucket where it is missing, so that what is wrong with it
// shows at the start. A worker whose handlers do not ask for it runs well without: each call of a handler's tries again.
func openKV(ctx context.Context, c *client.Client, log zerolog.Logger) {
	once, cancel := context.WithTimeout(ctx, kvPatience)
	defer cancel()
	if _, err := c.OpenKV(once); err != nil && ctx.Err() == nil {
		log.Warn().Err(err).Msg("handlers have no key/value store until this is mended; jobs that do not need it run")
	}
}
