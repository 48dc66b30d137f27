package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/pkg/httpapi"
)

// defaultListen is where the API listens unless told otherwise, and where "jetcrew health" looks.
const defaultListen = "127.0.0.1:8080"

func (a *app) newServe() *cobra.Command {
	var listen, measured string
	var limits callLimits
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the HTTP API",
		Long: `Serves the fleet over HTTP until SIGINT or SIGTERM, and then waits up to 20 seconds for
the requests that run:

  /v1/jobs, /v1/jobs/bulk      put jobs in (JSON as in "jetcrew enqueue --file"), and list them
  /v1/jobs/{space}/{id}        read a job's record, delete it; /cancel, /requeue, /run-now
  /v1/jobs/cancel              and /requeue, /run-now, /delete: all jobs that a filter means
  /v1/counts, /v1/queues       count jobs, look at queues, pause, set and purge them
  /v1/calls, /v1/runs          put a job in and wait for its answer; cancel it
  /v1/events                   what happens to jobs, as server-sent events
  /v1/workers                  the workers that are alive
  /v1/schedules, /v1/scheduler schedules, and who fires them
  /v1/kv, /v1/lists            the key/value store
  /v1/tokens, /v1/refusals     who may call, and what was refused; /v1/errors/{id}
  /healthz, /readyz            whether the process lives, and whether it can serve
  /openapi.json                all of it, described

Callers need a bearer token. "jetcrew token create" makes one, with its scopes, spaces and
lifetime, and needs no restart. Others are kept as hashes, a line each, in the file that
JETCREW_API_TOKENS_FILE names, or separated by semicolons in JETCREW_API_TOKENS; "jetcrew
serve hash-token" makes such a line, and they are read at the start. A token with spaces has
to do with these only, and nothing with what belongs to all, such as queues. For as long as
no token was configured or ever made, the API is open to everyone on this machine, and
refuses to listen on anything but a loopback address; from the first one on nobody calls
without, also when the last is revoked.

JETCREW_API_RATE_TOKEN and JETCREW_API_RATE_SPACE, such as 100/1s, limit requests by token and
by space, and JETCREW_API_MAX_READY how many ready jobs a queue is filled up to (429). What was
refused is recorded: "jetcrew refusal list".

It speaks plain HTTP: put a proxy that speaks TLS in front of it.`,
		Example: `  jetcrew serve
  JETCREW_API_TOKENS_FILE=tokens jetcrew serve --listen :8080

  curl -H 'Content-Type: application/json' -d '{"type":"echo","id":"hello"}' localhost:8080/v1/jobs
  curl localhost:8080/v1/jobs/default/hello
  curl -X POST 'localhost:8080/v1/queues/mail/pause?for=1h'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkListen(listen); err != nil {
				return err
			}
			cfg, err := a.settings(cmd)
			if err != nil {
				return err
			}
			tokens, err := loadTokens(cfg)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("metrics-listen") {
				if err := checkAddress("metrics-listen", measured); err != nil {
					return err
				}
			}
			if err := limits.check(); err != nil {
				return err
			}
			return a.serve(cfg, listen, measured, tokens, limits)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", defaultListen, "host:port to listen on")
	cmd.Flags().StringVar(&measured, "metrics-listen", "", "host:port to answer /metrics on, without a token (default: nowhere)")
	limits.flags(cmd.Flags())
	cmd.AddCommand(a.newHashToken())
	return cmd
}

func (a *app) serve(cfg *config.Config, listen, measured string, tokens *httpapi.Tokens, limits callLimits) error {
	log := a.logger(cfg)
	ctx, stop := a.untilSignal(context.Background())
	defer stop()
	c, err := a.connect(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, done := whileConnected(ctx, c.Conn())
	defer done()
	access := newAccess(c, cfg, log)
	defer access.Close()
	l, err := listenAPI(ctx, listen, tokens, access, log)
	if err != nil {
		return err
	}
	defer l.Close()
	ready, err := newReadiness(c, cfg)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	answers, err := newAnswering(ctx, c, limits, log)
	if err != nil {
		return err
	}
	defer answers.close()
	m := newMetrics(c, "serve", log)
	h, err := httpapi.New(httpapi.Config{
		Jobs: c, Operator: c, Queues: c, Schedules: schedulesWhenAsked(c, cfg, log), KV: c.KV(),
		Ready: ready, Connected: c.Conn().IsConnected, Tokens: tokens, Access: access, Calls: answers.calls, Events: answers.events, MaxReady: cfg.APIMaxReady, Version: programVersion(), Logger: log,
		Observe: m.Served,
	})
	if err != nil {
		return err
	}
	v, err := openVitals("metrics-listen", measured, c, cfg, m, log)
	if err != nil {
		return err
	}
	var served error // read after beside is done
	var beside sync.WaitGroup
	beside.Go(func() {
		defer end()
		served = v.run(ctx)
	})
	err = runHTTP(ctx, l, m.API(h), log)
	end()
	beside.Wait()
	return errors.Join(err, served)
}

// runHTTP serves h on l until ctx ends. It fails if the server does, or if ctx ended for a reason of its own.
func runHTTP(ctx context.Context, l net.Listener, h http.Handler, log zerolog.Logger) error {
	log.Info().Str("address", l.Addr().String()).Msg("listening")
	err := (&httpapi.Server{Handler: h, Logger: log}).Run(ctx, l)
	log.Info().Msg("listening no more")
	return errors.Join(err, lostConnection(ctx))
}

// checkListen refuses what is no host:port.
func checkListen(listen string) error { return checkAddress("listen", listen) }

func checkAddress(flag, address string) error {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return usagef("--%s: %q is no host:port, such as %s", flag, address, defaultListen)
	}
	return nil
}

// loadTokens reads the API's tokens; nil if none are configured.
func loadTokens(cfg *config.Config) (*httpapi.Tokens, error) {
	var tokens *httpapi.Tokens
	var err error
	variable := ""
	switch {
	case cfg.APITokensFile != "":
		variable = "JETCREW_API_TOKENS_FILE"
		tokens, err = httpapi.ReadTokens(cfg.APITokensFile)
	case cfg.APITokens != "":
		variable = "JETCREW_API_TOKENS"
		tokens, err = httpapi.ParseTokens(cfg.APITokens)
	}
	if err != nil {
		return nil, usageError{fmt.Errorf("%s: %w", variable, err)}
	}
	return tokens, nil
}
