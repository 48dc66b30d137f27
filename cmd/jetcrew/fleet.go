package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/apiclient"
	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// fleet is what commands ask for jobs and queues. They do not know whether it answers over NATS or over HTTP.
type fleet interface {
	job.Operator
	enqueuer
	waiter
	Purge(ctx context.Context, req client.PurgeRequest) (job.BulkResult, error)
}

// enqueuer takes jobs.
type enqueuer interface {
	EnqueueSpec(ctx context.Context, spec job.Spec) (job.Enqueued, error)
	EnqueueMany(ctx context.Context, specs []job.Spec) ([]job.Enqueued, error)
	EnqueueAll(ctx context.Context, specs []job.Spec) ([]job.Enqueued, error)
}

// waiter reads single jobs, and waits for their end.
type waiter interface {
	Get(ctx context.Context, key job.Key) (*job.Job, error)
	Wait(ctx context.Context, key job.Key) (*job.Job, error)
}

var (
	_ fleet = (*client.Client)(nil)
	_ fleet = apiFleet{}
)

// apiFleet is the fleet over HTTP.
type apiFleet struct{ *apiclient.Client }

// EnqueueAll is what the API does not have.
func (apiFleet) EnqueueAll(context.Context, []job.Spec) ([]job.Enqueued, error) {
	return nil, usagef("--all: the HTTP API puts each job in by itself: leave it out, or ask NATS")
}

// Purge deletes the jobs of a queue that wait.
func (f apiFleet) Purge(ctx context.Context, req client.PurgeRequest) (job.BulkResult, error) {
	return f.Client.Purge(ctx, req.Queue, req.Bulk())
}

// withFleet runs fn of a one-shot command with the fleet, over NATS or over HTTP as the settings say, and a bounded context.
// A signal ends it.
func (a *app) withFleet(cmd *cobra.Command, timeout time.Duration, fn func(context.Context, fleet) error) error {
	return a.withEither(cmd, timeout,
		func(ctx context.Context, c *client.Client) error { return fn(ctx, c) },
		func(ctx context.Context, c *apiclient.Client) error { return fn(ctx, apiFleet{c}) })
}

// withEither runs the one of two functions that asks whom the settings name.
func (a *app) withEither(cmd *cobra.Command, timeout time.Duration, overNATS func(context.Context, *client.Client) error, overHTTP func(context.Context, *apiclient.Client) error) error {
	cfg, err := a.load(cmd)
	if err != nil {
		return err
	}
	if over, err := asksAPI(cmd, cfg); err != nil {
		return err
	} else if !over {
		return a.withClient(cmd, timeout, overNATS)
	}
	if cfg, err = a.anySettings(cmd); err != nil {
		return err
	}
	c, err := a.newAPIClient(cfg)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	ctx, stop := a.untilSignal(ctx)
	defer stop()
	return overHTTP(ctx, c)
}
