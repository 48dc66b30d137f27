package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/streams"
)

func (a *app) newSetup() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Make what jetcrew needs in NATS, and exit",
		Long: `Makes what is missing: the stream of jobs, the buckets, and the consumers of the
queues that are named. What is there stays as it is, so that it can be run again, for
example with a further queue.

It is for deployments in which only an administrator's credentials may make streams
and consumers. All other processes then run with JETCREW_MANAGE=verify; elsewhere
they make these things by themselves, and nobody needs this command.`,
		Example: `  jetcrew setup
  JETCREW_USER=admin JETCREW_REPLICAS=3 jetcrew setup --queues default,mail`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.settings(cmd)
			if err != nil {
				return err
			}
			if cfg.Manage != string(streams.ManageCreate) {
				return usagef("JETCREW_MANAGE is %s: setup makes things, so it has to be create", cfg.Manage)
			}
			return a.setup(cfg)
		},
	}
	cmd.Flags().String("queues", "", "queues to make, such as default,mail (JETCREW_QUEUES; default default)")
	return cmd
}

func (a *app) setup(cfg *config.Config) error {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	ctx, stop := a.untilSignal(ctx)
	defer stop()
	log := a.quietLogger(cfg)
	c, err := a.connect(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer c.Close()
	// Preparing to take part in the election makes its bucket.
	if _, err := a.newHousekeeping(ctx, c, cfg, newProcessID("setup"), newMetrics(c, "setup", log), log); err != nil {
		return err
	}
	if _, err := c.OpenKV(ctx); err != nil { // which also logs what its settings differ in
		return err
	}
	names := make([]string, len(cfg.Queues))
	for i, q := range cfg.Queues {
		if err := setupQueue(ctx, c, q.Name); err != nil {
			return fmt.Errorf("queue %s: %w", q.Name, err)
		}
		names[i] = safe(q.Name)
	}
	_, err = fmt.Fprintf(a.stdout, "ready: stream, buckets, and the queues %s\n", strings.Join(names, ", "))
	return err
}

// setupQueue makes a queue's consumers, as a worker does that opens the queue and takes nothing from it.
func setupQueue(ctx context.Context, c *client.Client, queue string) error {
	k, err := c.Store().Consume(ctx, job.ConsumerConfig{Queue: queue, WorkerID: newProcessID("setup"), Slots: 1})
	if err != nil {
		return err
	}
	return k.Close(ctx)
}
