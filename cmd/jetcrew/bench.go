package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/bench"
	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/embedded"
)

// benchTimeout bounds a whole benchmark.
const benchTimeout = time.Hour

func (a *app) newBench() *cobra.Command {
	cfg := bench.Config{}
	var own, asJSON bool
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure a server: jetcrew beside raw JetStream",
		Long: `Measures jetcrew beside raw JetStream doing the same writes on the same server, by turns,
and prints medians, spreads and ratios: enqueueing, draining a backlog with 10 and with 100
slots, the pickup of a job by an idle worker, many jobs due at one instant, and how exactly
scheduled jobs start. The ratios say something on a machine that others use too; absolute
figures drift.

It works in streams of its own, named BENCH-..., and deletes them afterwards. The server
feels the load.`,
		Example: `  jetcrew bench --embedded
  jetcrew bench --url nats://nats.example:4222 --replicas 3 --jobs 20000 --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for name, n := range map[string]int{"jobs": cfg.Jobs, "rounds": cfg.Rounds, "replicas": cfg.Replicas} {
				if n == 0 { // not the default that it would stand for
					return usagef("--%s: must not be 0", name)
				}
			}
			if err := cfg.Validate(); err != nil {
				return usageError{err}
			}
			for _, name := range []string{"url", "context", "credentials"} {
				if own && cmd.Flags().Changed(name) {
					return usagef("--%s: --embedded measures a server of its own", name)
				}
			}
			if own {
				return a.benchEmbedded(cfg, asJSON)
			}
			return a.withClient(cmd, benchTimeout, func(ctx context.Context, c *client.Client) error {
				return a.bench(ctx, c.Conn(), cfg, asJSON)
			})
		},
	}
	f := cmd.Flags()
	f.IntVar(&cfg.Jobs, "jobs", 10_000, "jobs per measurement")
	f.IntVar(&cfg.Rounds, "rounds", 3, "how often each is measured")
	f.StringSliceVar(&cfg.Cases, "case", nil, "only these cases (default all)")
	f.IntVar(&cfg.Replicas, "replicas", 1, "replicas of the streams")
	f.BoolVar(&own, "embedded", false, "on a server of its own, in this process, a new one for each measurement")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// benchEmbedded measures on servers in this process.
func (a *app) benchEmbedded(cfg bench.Config, asJSON bool) error {
	cfg.Fresh = func() (*nats.Conn, func(), error) {
		srv, err := embedded.Start(embedded.Config{})
		if err != nil {
			return nil, nil, err
		}
		nc, err := nats.Connect(srv.URL())
		if err != nil {
			srv.Shutdown()
			return nil, nil, err
		}
		return nc, func() { nc.Close(); srv.Shutdown() }, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), benchTimeout)
	defer cancel()
	ctx, stop := a.untilSignal(ctx)
	defer stop()
	return a.bench(ctx, nil, cfg, asJSON)
}

func (a *app) bench(ctx context.Context, nc *nats.Conn, cfg bench.Config, asJSON bool) error {
	var bar *progress
	cfg.Progress = func(done, total int, what string) {
		if bar == nil {
			bar = a.newProgress(total, "measuring")
		}
		bar.set(done)
	}
	rep, err := bench.Run(ctx, nc, cfg)
	if bar != nil {
		bar.stop()
	}
	if len(rep.Figures) > 0 {
		if asJSON {
			e := json.NewEncoder(a.stdout)
			e.SetIndent("", "  ")
			if jerr := e.Encode(rep); jerr != nil {
				return jerr
			}
		} else {
			rep.Print(a.stdout)
		}
	}
	return err
}
