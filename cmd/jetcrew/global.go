package main

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/streams"
)

// settingFlags are the flags that stand for a variable, and beat it.
var settingFlags = map[string]string{
	"api":         "JETCREW_API_URL",
	"token":       "JETCREW_API_TOKEN",
	"token-file":  "JETCREW_API_TOKEN_FILE",
	"url":         "JETCREW_URL",
	"credentials": "JETCREW_CREDENTIALS",
	"context":     "JETCREW_CONTEXT",
	"namespace":   "JETCREW_NAMESPACE",
	"log-level":   "JETCREW_LOG_LEVEL",
	"queues":      "JETCREW_QUEUES",
	"concurrency": "JETCREW_CONCURRENCY",
}

// requestTimeout bounds what a one-shot command waits for.
const requestTimeout = 30 * time.Second

func addGlobalFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.String("url", "", "NATS servers, separated by commas (JETCREW_URL; default "+config.DefaultURL+")")
	f.String("credentials", "", "NATS credentials file (JETCREW_CREDENTIALS)")
	f.String("context", "", "NATS context, instead of a URL (JETCREW_CONTEXT)")
	f.String("namespace", "", "prefix of all subjects and streams (JETCREW_NAMESPACE; default jetcrew)")
	addAPIFlags(f)
	f.String("log-level", "", "trace, debug, info, warn or error (JETCREW_LOG_LEVEL; default info)")
}

func addWorkerFlags(cmd *cobra.Command) {
	cmd.Flags().String("queues", "", "queues to take jobs from, such as default=4,mail=10 (JETCREW_QUEUES; default default)")
	cmd.Flags().String("concurrency", "", "jobs at a time in a queue that has no number of its own (JETCREW_CONCURRENCY; default 4)")
}

// settings reads what is in effect for a command that needs NATS itself, and warns about what is not.
func (a *app) settings(cmd *cobra.Command) (*config.Config, error) {
	cfg, err := a.anySettings(cmd)
	if err != nil {
		return nil, err
	}
	return cfg, needsNATS(cmd, cfg)
}

// anySettings reads what is in effect for cmd, and warns about what is not.
func (a *app) anySettings(cmd *cobra.Command) (*config.Config, error) {
	cfg, err := a.load(cmd)
	if err != nil {
		return nil, err
	}
	log := a.logger(cfg)
	for _, w := range cfg.Warnings {
		log.Warn().Msg(w)
	}
	return cfg, nil
}

// load reads what is in effect for cmd.
func (a *app) load(cmd *cobra.Command) (*config.Config, error) {
	flags := make(map[string]config.Flag)
	for name, variable := range settingFlags {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
			flags[variable] = config.Flag{Name: "--" + name, Value: f.Value.String()}
		}
	}
	cfg, err := config.Load(a.environ, flags)
	if err != nil {
		return nil, usageError{err}
	}
	return cfg, nil
}

// logger writes to stderr, as the settings say.
func (a *app) logger(cfg *config.Config) zerolog.Logger {
	var w io.Writer = a.stderr
	if cfg.LogFormat == "console" || cfg.LogFormat == "auto" && isTerminal(a.stderr) {
		w = zerolog.ConsoleWriter{Out: a.stderr, TimeFormat: time.TimeOnly, NoColor: !isTerminal(a.stderr)}
	}
	level, err := zerolog.ParseLevel(cfg.LogLevel)
	if err != nil { // config knows the same names
		level = zerolog.InfoLevel
	}
	return zerolog.New(w).Level(level).With().Timestamp().Logger()
}

// quietLogger is for commands whose output is for a person or a pipe: only what is wrong, unless more was
// asked for.
func (a *app) quietLogger(cfg *config.Config) zerolog.Logger {
	log := a.logger(cfg)
	if cfg.Source("JETCREW_LOG_LEVEL") == config.FromDefault {
		return log.Level(zerolog.WarnLevel)
	}
	return log
}

// connect connects as the settings say.
func (a *app) connect(ctx context.Context, cfg *config.Config, log zerolog.Logger, opts ...nats.Option) (*client.Client, error) {
	if err := a.spans.start(ctx, cfg, log); err != nil {
		return nil, err
	}
	return client.Connect(ctx, client.Config{
		URLs: cfg.URL, Context: cfg.Context,
		Credentials: cfg.Credentials, NKey: cfg.NKey, User: cfg.User, Password: cfg.Password, Token: cfg.Token,
		TLSCA: cfg.TLSCA, TLSCert: cfg.TLSCert, TLSKey: cfg.TLSKey,
		InboxPrefix: cfg.InboxPrefix,
		Middleware:  a.spans.producer(),
		Logger:      log,
		Options:     opts,
		Streams: streams.Config{
			Namespace: cfg.Namespace,
			Replicas:  cfg.Replicas,
			Manage:    streams.Manage(cfg.Manage),
			Lease:     cfg.Lease,
			Retention: streams.Retention{
				Succeeded: time.Duration(cfg.RetentionSucceeded), Cancelled: time.Duration(cfg.RetentionCancelled),
				Dead: time.Duration(cfg.RetentionDead), Failed: time.Duration(cfg.RetentionFailed),
			},
		},
	})
}

// withClient runs fn of a one-shot command with a connection and a bounded context. A signal ends it.
func (a *app) withClient(cmd *cobra.Command, timeout time.Duration, fn func(context.Context, *client.Client) error) error {
	return a.withClientLogging(cmd, timeout, a.quietLogger, fn)
}

// withClientLogging is withClient with a logger of the caller's.
func (a *app) withClientLogging(cmd *cobra.Command, timeout time.Duration, logger func(*config.Config) zerolog.Logger, fn func(context.Context, *client.Client) error) error {
	cfg, err := a.settings(cmd)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	ctx, stop := a.untilSignal(ctx)
	defer stop()
	c, err := a.connect(ctx, cfg, logger(cfg))
	if err != nil {
		return err
	}
	defer c.Close()
	return fn(ctx, c)
}

// untilSignal ends the context at the first signal. stop waits for the goroutine that listens; calling it
// again does nothing.
func (a *app) untilSignal(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals, stopSignals := a.signals()
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-signals:
			a.interrupted.Store(true)
			cancel()
		case <-ctx.Done():
		}
	}()
	var once sync.Once
	return ctx, func() {
		once.Do(func() {
			cancel()
			<-done
			stopSignals()
		})
	}
}

func isTerminal(w any) bool {
	f, ok := w.(interface{ Fd() uintptr })
	return ok && isatty.IsTerminal(f.Fd())
}
