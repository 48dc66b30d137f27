package main

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"github.com/jetcrew/jetcrew/streams"
)

// sweepEvery is how often whoever leads repairs what crashes left.
const sweepEvery = 5 * time.Second

func housekeep(ctx context.Context, id string, store *streams.Store, log zerolog.Logger) {
	sweep(ctx, store, log)
}

// sweep does rounds of housekeeping until ctx ends.
func sweep(ctx context.Context, store *streams.Store, log zerolog.Logger) {
	for wait(ctx, sweepEvery) == nil {
		if _, err := store.Sweep(ctx); err != nil && ctx.Err() == nil {
			log.Warn().Err(err).Msg("housekeeping")
		}
	}
}
