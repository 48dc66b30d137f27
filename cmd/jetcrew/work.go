package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/pkg/kv"
	"github.com/jetcrew/jetcrew/worker"
)

func (a *app) newWork() *cobra.Command {
	var names []string
	var noLead bool
	var listen string
	var flags handlerFlags
	cmd := &cobra.Command{
		Use:   "work",
		Short: "Run a worker against a NATS server",
		Long: `Takes jobs from its queues and runs them until it is told to stop. Beside that it takes
part in the election of the process that fires the schedules and does the housekeeping
for all, unless --no-lead leaves that to others, such as "jetcrew schedule".

A handler is a program (--exec), a URL (--http), or one of the example types
(--builtin); a program of your own registers its handlers with the Go package
worker.

The first SIGINT or SIGTERM stops the taking of jobs, waits for those that run and
exits with 0; the second exits at once with 1, and the jobs that ran are taken over
by other workers once their leases lapse. It also exits with 1 when the connection
is closed for good, and when too many handlers ignore their timeouts.

` + handlersHelp + "\n\n" + builtinHelp,
		Example: `  jetcrew work --exec 'thumbnail=./thumb.sh --size 200'
  HOOK_SECRET=whsec_... jetcrew work --http notify=https://example.com/hook --http-secret-env HOOK_SECRET
  jetcrew work --handlers handlers.yaml
  jetcrew work --builtin echo,sha256
  jetcrew work --builtin sleep --queues default=8,slow=2 --no-lead`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			types, err := checkBuiltins(names)
			if err != nil {
				return err
			}
			if len(types) == 0 && flags.none() {
				return usagef("a worker without handlers would take no job: name a program with --exec, a URL with --http, a file of them with --handlers, or example types with --builtin (%s), or build a worker of your own with the Go package worker", strings.Join(builtinTypes, ", "))
			}
			if cmd.Flags().Changed("listen") {
				if err := checkListen(listen); err != nil {
					return err
				}
			}
			cfg, err := a.settings(cmd)
			if err != nil {
				return err
			}
			return a.work(cfg, types, &flags, part{lead: !noLead, listen: listen, role: "work"})
		},
	}
	cmd.Flags().StringSliceVar(&names, "builtin", nil, "example types to handle: "+strings.Join(builtinTypes, ", "))
	flags.add(cmd)
	cmd.Flags().BoolVar(&noLead, "no-lead", false, "leave housekeeping and the firing of schedules to other processes")
	listenFlag(cmd.Flags(), &listen)
	addWorkerFlags(cmd)
	return cmd
}

// part is what a worker's process does besides.
type part struct {
	lead   bool   // it takes part in the election
	listen string // where it answers how it is; empty: nowhere
	role   string // by which its metrics name it
}

func (a *app) work(cfg *config.Config, types []string, flags *handlerFlags, does part) error {
	log := a.logger(cfg)
	more, err := flags.open(cfg, types, log)
	if err != nil {
		return err
	}
	defer more.close()
	more.apply(cfg, log)
	ctx, stop := a.untilSignal(context.Background())
	defer stop()
	c, err := a.connect(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer c.Close()
	return a.runHandlers(ctx, stop, c, cfg, types, more, does, log)
}

// runHandlers runs a worker with the example types, and more if there are any. ctx is for what comes before it
// runs; from then on, signals are the worker's.
func (a *app) runHandlers(ctx context.Context, begun func(), c *client.Client, cfg *config.Config, types []string, more *handlers, does part, log zerolog.Logger) error {
	b, err := openBuiltins(".")
	if err != nil {
		return fmt.Errorf("open the working directory: %w", err)
	}
	defer b.close()
	openKV(ctx, c, log)
	m := newMetrics(c, does.role, log)
	wc := workerConfig(cfg, c.KV(), log)
	wc.Observer, wc.Tracer = m, a.spans.tracer()
	w, err := worker.New(c.Store(), wc)
	if err != nil {
		return err
	}
	b.register(w, types)
	more.register(w)
	defer more.close() // before the connection is closed, which may take its time
	m.Worker(w)
	var h *housekeeping
	if does.lead {
		if h, err = a.newHousekeeping(ctx, c, cfg, w.ID(), m, log); err != nil {
			return err
		}
	}
	v, err := openVitals("listen", does.listen, c, cfg, m, log)
	if err != nil {
		return err
	}
	begun()
	return a.runWorker(w, h, v, log)
}

func workerConfig(cfg *config.Config, values *kv.Store, log zerolog.Logger) worker.Config {
	return worker.Config{
		Queues:       cfg.Queues.Map(),
		Lease:        cfg.Lease,
		Retry:        worker.RetryPolicy{Base: cfg.RetryBase, Max: cfg.RetryMax},
		Timeout:      cfg.Timeout,
		Grace:        cfg.Grace,
		MaxStuck:     cfg.MaxStuck,
		DrainTimeout: cfg.DrainTimeout,
		KV:           values,
		Version:      programVersion(),
		Logger:       log,
	}
}

// runWorker runs w, and housekeeping and vitals beside it if there are any, until a signal or until w cannot go on.
func (a *app) runWorker(w *worker.Worker, h *housekeeping, v *vitals, log zerolog.Logger) error {
	signals, stopSignals := a.signals()
	defer stopSignals()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var beside sync.WaitGroup
	if h != nil {
		beside.Go(func() { h.run(ctx) })
	}
	answering, silence := context.WithCancel(context.Background()) // until the last job has ended, however long that takes
	defer silence()
	var served error // read after beside is done
	beside.Go(func() {
		defer stop() // a process that cannot say how it is had better be started again
		served = v.run(answering)
	})
	ended := make(chan struct{})
	beside.Go(func() { obey(signals, ended, stop, w.Kill, log) })
	err := w.Run(ctx)
	stop()
	silence()
	close(ended)
	beside.Wait()
	if errors.Is(err, worker.ErrKilled) {
		return errors.New("stopped at once by a second signal: the jobs that ran will be taken over")
	}
	return errors.Join(err, served)
}

// obey stops at the first signal and kills at the second.
func obey(signals <-chan os.Signal, ended <-chan struct{}, stop, kill func(), log zerolog.Logger) {
	for _, act := range []struct {
		do  func()
		say string
	}{
		{stop, "stopping: waiting for the jobs that run; a second signal exits at once"},
		{kill, "exiting at once"},
	} {
		select {
		case <-signals:
			log.Warn().Msg(act.say)
			act.do()
		case <-ended:
			return
		}
	}
}
