package main

import (
	"context"
	"errors"
	"sync"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/pkg/httpapi"
	"github.com/jetcrew/jetcrew/scheduler"
	"github.com/jetcrew/jetcrew/streams"
)

// schedulesWhenAsked opens the schedules when they are first asked for, and again for as long as that fails: an API whose
// credentials are for jobs alone serves these.
func schedulesWhenAsked(c *client.Client, cfg *config.Config, log zerolog.Logger) func(context.Context) (httpapi.Schedules, error) {
	var mu sync.Mutex // guards opened; who waits for it has no use for a bucket of his own
	var opened *scheduler.Store
	return func(ctx context.Context) (httpapi.Schedules, error) {
		mu.Lock()
		defer mu.Unlock()
		if opened == nil {
			s, err := openSchedules(ctx, c, cfg, log)
			if err != nil {
				return nil, err
			}
			opened = s
		}
		return httpapi.ScheduleStore{Store: opened, Jobs: c.Producer(), LeaderOf: leaderOf(c, cfg, log)}, nil
	}
}

// leaderOf looks who leads, and makes nothing.
func leaderOf(c *client.Client, cfg *config.Config, log zerolog.Logger) func(context.Context) (scheduler.Leader, error) {
	look := *cfg
	look.Manage = string(streams.ManageVerify)
	return func(ctx context.Context) (scheduler.Leader, error) {
		e, err := newElection(ctx, c, &look, newProcessID("status"), log)
		if errors.Is(err, jetstream.ErrBucketNotFound) { // nobody has ever led
			return scheduler.Leader{}, scheduler.ErrNoLeader
		}
		if err != nil {
			return scheduler.Leader{}, err
		}
		return e.Leader(ctx)
	}
}
