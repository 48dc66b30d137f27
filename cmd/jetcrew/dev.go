package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/pkg/embedded"
)

const (
	defaultPort = 4222

	// Nobody who tries things out waits for half a minute.
	devRetryBase = time.Second
	devRetryMax  = 30 * time.Second
)

func (a *app) newDev() *cobra.Command {
	var port int
	var dir, listen string
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a server, a worker and example handlers in one process",
		Long: `Runs a NATS server with JetStream on 127.0.0.1, a worker with the example handlers,
and what fires schedules and does the housekeeping, all in this process, until Ctrl-C.
Not for production.

Without --dir, the data is in a temporary directory and is lost on exit. What fails
is tried again after a second, doubled each time, unless JETCREW_RETRY_BASE or
JETCREW_RETRY_MAX is set.

` + builtinHelp,
		Example: `  jetcrew dev
  jetcrew dev --dir .jetcrew --port 4333`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range []string{"url", "context", "credentials"} {
				if cmd.Flags().Changed(name) {
					return usagef("--%s: dev runs a server of its own; \"jetcrew work\" is for another one", name)
				}
			}
			if port < 0 || port > 65535 {
				return usagef("--port: must be 0 to 65535, not %d", port)
			}
			if cmd.Flags().Changed("dir") && dir == "" {
				return usagef("--dir: must not be empty")
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
			return a.dev(cfg, port, dir, listen)
		},
	}
	cmd.Flags().IntVar(&port, "port", defaultPort, "port to listen on at 127.0.0.1 (0: any that is free)")
	cmd.Flags().StringVar(&dir, "dir", "", "directory to keep the data in (default a temporary one, lost on exit)")
	listenFlag(cmd.Flags(), &listen)
	addWorkerFlags(cmd)
	return cmd
}

func (a *app) dev(cfg *config.Config, port int, dir, listen string) error {
	log := a.logger(cfg)
	srv, err := embedded.Start(embedded.Config{Dir: dir, Port: port, Logger: log})
	if errors.Is(err, embedded.ErrInUse) {
		return fmt.Errorf("%w: stop that one, or choose another --port and --dir", err)
	}
	if err != nil {
		return err
	}
	defer srv.Shutdown()
	// The server is ours: who to be elsewhere does not matter here.
	own := *cfg
	own.URL, own.Context, own.InboxPrefix = []string{srv.URL()}, "", ""
	own.Credentials, own.NKey, own.User, own.Password, own.Token = "", "", "", "", ""
	own.TLSCA, own.TLSCert, own.TLSKey = "", "", ""
	if own.Source("JETCREW_RETRY_BASE") == config.FromDefault && own.Source("JETCREW_RETRY_MAX") == config.FromDefault {
		own.RetryBase, own.RetryMax = devRetryBase, devRetryMax
	}
	ctx, stop := a.untilSignal(context.Background())
	defer stop()
	c, err := a.connect(ctx, &own, log, srv.InProcess())
	if err != nil {
		return err
	}
	defer c.Close()
	begun := func() {
		stop()
		a.sayHow(&own, srv, dir == "")
	}
	return a.runHandlers(ctx, begun, c, &own, builtinTypes, nil, part{lead: true, listen: listen, role: "dev"}, log)
}

// sayHow prints lines that work when they are copied into another terminal.
func (a *app) sayHow(cfg *config.Config, srv *embedded.Server, temporary bool) {
	self := selfName()
	where := ""
	if !strings.HasSuffix(srv.URL(), ":"+strconv.Itoa(defaultPort)) || cfg.Source("JETCREW_URL") != config.FromDefault ||
		cfg.Source("JETCREW_CONTEXT") != config.FromDefault {
		where = " --url " + srv.URL()
	}
	if cfg.Source("JETCREW_NAMESPACE") == config.FromFlag {
		where += " --namespace " + cfg.Namespace
	}
	queue, into := queueToShow(cfg.Queues), ""
	if queue != "default" {
		into = " --queue " + queue
	}
	kept := srv.Dir()
	if temporary {
		kept += " (temporary: lost on exit; --dir keeps it)"
	}
	fmt.Fprintf(a.stdout, `jetcrew dev is running: Ctrl-C ends it.

  NATS server   %s
  data          %s
  job types     %s

With jetcrew, in another terminal:

  %[4]s enqueue echo%[5]s%[7]s --id hello --input '{"hello":"world"}'
  %[4]s job get hello%[5]s

With the nats CLI:

  nats --server %[1]s pub %[6]s.job.ready.%[8]s.default.from-nats '{"type":"echo","input":{"hello":"nats"}}'
  nats --server %[1]s sub '%[6]s.event.>'
  %[9]s

`, srv.URL(), kept, strings.Join(builtinTypes, ", "), self, where, cfg.Namespace, into, queue, srv.CLIHint())
}

// queueToShow is the first queue whose name needs no escaping in a subject or a shell.
func queueToShow(queues config.Queues) string {
	for _, q := range queues {
		if q.Concurrency > 0 && plainName.MatchString(q.Name) {
			return q.Name
		}
	}
	return "default"
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// selfName is how this program can be called again.
func selfName() string {
	exe, err := os.Executable()
	if err != nil || strings.Contains(exe, string(filepath.Separator)+"go-build") {
		return "go run ./cmd/jetcrew"
	}
	name := os.Args[0]
	if strings.ContainsAny(name, " '\"") {
		return "jetcrew"
	}
	return name
}
