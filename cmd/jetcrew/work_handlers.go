package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/worker"
	"github.com/jetcrew/jetcrew/worker/command"
	"github.com/jetcrew/jetcrew/worker/httpcall"
)

const handlersHelp = `Handlers that need no Go:
  --exec TYPE=COMMAND  runs a program per job, without a shell: the input on its
                       standard input, the job in JETCREW_JOB_*, the result from its
                       standard output. It exits with 0 for success, 65 to give up,
                       75 to be run later, 77 to refuse; anything else is tried again
  --http TYPE=URL      sends each job to a URL, signed as Standard Webhooks has it. It
                       answers 2xx for success, 429 or 503 to be asked later, 410 to
                       give up; anything else is tried again
  --handlers FILE      a YAML file of such handlers with all their settings`

// handlerFlags are the flags that name handlers which are no Go.
type handlerFlags struct {
	exec, http   []string
	secretEnv    string
	unsigned     bool
	allowPrivate bool
	file         string
}

func (f *handlerFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.exec, "exec", nil, "run a program for the jobs of a type, as `TYPE=COMMAND`; may be repeated")
	cmd.Flags().StringArrayVar(&f.http, "http", nil, "send the jobs of a type to a URL, as `TYPE=URL`; may be repeated")
	cmd.Flags().StringVar(&f.secretEnv, "http-secret-env", "", "variable with the secret (whsec_...) that --http signs with")
	cmd.Flags().BoolVar(&f.unsigned, "http-unsigned", false, "let --http send without a signature")
	cmd.Flags().BoolVar(&f.allowPrivate, "http-allow-private", false, "let --http connect to addresses that are not public")
	cmd.Flags().StringVar(&f.file, "handlers", "", "YAML file of handlers")
}

func (f *handlerFlags) none() bool { return len(f.exec) == 0 && len(f.http) == 0 && f.file == "" }

// handlerSpec is one handler as it was asked for.
type handlerSpec struct {
	typ     string
	from    string // where it was asked for, for errors
	exec    *command.Config
	http    *httpcall.Config
	timeout time.Duration
	retry   worker.RetryPolicy
}

// specs are the handlers that the flags and the file name, and the queues of the file.
func (f *handlerFlags) specs() ([]handlerSpec, config.Queues, error) {
	var specs []handlerSpec
	var errs []error
	add := func(spec handlerSpec, err error) {
		if err != nil {
			errs = append(errs, err)
			return
		}
		specs = append(specs, spec)
	}
	for _, text := range f.exec {
		add(execFlag(text))
	}
	for _, text := range f.http {
		add(f.httpFlag(text))
	}
	if len(f.http) == 0 && (f.secretEnv != "" || f.unsigned || f.allowPrivate) {
		errs = append(errs, usagef("--http-secret-env, --http-unsigned and --http-allow-private go with --http; in a file, each handler says so itself"))
	}
	var queues config.Queues
	if f.file != "" {
		more, q, err := readHandlerFile(f.file)
		if err != nil {
			errs = append(errs, err)
		}
		specs, queues = append(specs, more...), q
	}
	return specs, queues, errors.Join(errs...)
}

func execFlag(text string) (handlerSpec, error) {
	typ, line, err := typed("--exec", "COMMAND", text)
	if err != nil {
		return handlerSpec{}, err
	}
	args, err := command.Split(line)
	if err != nil {
		return handlerSpec{}, usagef("--exec %s: %w", typ, err)
	}
	return handlerSpec{typ: typ, from: "--exec " + typ, exec: &command.Config{Args: args}}, nil
}

func (f *handlerFlags) httpFlag(text string) (handlerSpec, error) {
	typ, url, err := typed("--http", "URL", text)
	if err != nil {
		return handlerSpec{}, err
	}
	cfg := &httpcall.Config{URL: url, Unsigned: f.unsigned, AllowPrivate: f.allowPrivate}
	switch {
	case f.secretEnv != "":
		if cfg.Secret, err = secretFromEnv(f.secretEnv); err != nil {
			return handlerSpec{}, usagef("--http %s: %w", typ, err)
		}
	case !f.unsigned:
		return handlerSpec{}, usagef("--http %s: name the variable with the secret to sign with (--http-secret-env), or ask for --http-unsigned", typ)
	}
	return handlerSpec{typ: typ, from: "--http " + typ, http: cfg}, nil
}

// typed cuts TYPE=REST. Its errors do not quote the rest, which may hold secrets.
func typed(flag, what, text string) (typ, rest string, err error) {
	typ, rest, ok := strings.Cut(text, "=")
	if !ok || typ == "" || strings.TrimSpace(rest) == "" {
		return "", "", usagef("%s: needs TYPE=%s", flag, what)
	}
	if err := job.ValidateName("type", typ, job.MaxName); err != nil {
		return "", "", usagef("%s: %w", flag, err)
	}
	return typ, rest, nil
}

func secretFromEnv(name string) (string, error) {
	v := os.Getenv(name)
	if v == "" {
		return "", fmt.Errorf("the secret's variable %q is not set", name)
	}
	return v, nil
}

// handlers are the handlers of a worker that are no Go. They are checked and ready to be registered.
type handlers struct {
	queues config.Queues // of the file
	list   []handler
}

type handler struct {
	typ   string
	run   func(context.Context, *job.Job, jsontext.Value) (any, error)
	opts  []worker.HandleOption
	close func()
}

// open makes what the flags name, besides the types that have handlers already. All that is wrong is reported.
func (f *handlerFlags) open(cfg *config.Config, taken []string, log zerolog.Logger) (*handlers, error) {
	specs, queues, err := f.specs()
	errs := []error{err}
	h := &handlers{queues: queues}
	from := map[string]string{}
	for _, typ := range taken {
		from[typ] = "--builtin"
	}
	for _, spec := range specs {
		if first, twice := from[spec.typ]; twice {
			errs = append(errs, usagef("%s: type %q has a handler already (%s)", spec.from, spec.typ, first))
			continue
		}
		from[spec.typ] = spec.from
		one, err := spec.open(cfg, log)
		if err != nil {
			errs = append(errs, usagef("%s: handler %q: %w", spec.from, spec.typ, err))
			continue
		}
		h.list = append(h.list, one)
	}
	if err := errors.Join(errs...); err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

// open makes one handler. What it leaves open is taken from the worker's settings.
func (s *handlerSpec) open(cfg *config.Config, log zerolog.Logger) (handler, error) {
	h := handler{typ: s.typ, opts: []worker.HandleOption{worker.WithRetry(s.retry)}}
	timeout := s.timeout
	if s.exec != nil {
		s.exec.Logger = log
		// Under the worker's own grace, after which the handler counts as stuck.
		s.exec.Grace = min(command.DefaultGrace, cfg.Grace/2)
		c, err := command.New(*s.exec)
		if err != nil {
			return handler{}, err
		}
		h.run, h.close = c.Run, c.Close
	} else {
		s.http.UserAgent = "jetcrew/" + programVersion()
		c, err := httpcall.New(*s.http)
		if err != nil {
			return handler{}, err
		}
		if !c.Encrypted() {
			log.Warn().Str("type", s.typ).Str("host", c.Host()).Msg("jobs are sent by http, which anybody on the way can read")
		}
		if timeout == 0 && cfg.Source("JETCREW_TIMEOUT") == config.FromDefault {
			timeout = httpcall.DefaultTimeout
		}
		h.run, h.close = c.Run, c.Close
	}
	if timeout > 0 {
		h.opts = append(h.opts, worker.WithTimeout(timeout))
	}
	return h, nil
}

// apply has the file's queues taken, unless a flag or the environment says which.
func (h *handlers) apply(cfg *config.Config, log zerolog.Logger) {
	if len(h.queues) == 0 {
		return
	}
	if source := cfg.Source("JETCREW_QUEUES"); source != config.FromDefault {
		log.Warn().Str("queues", cfg.Queues.String()).Msgf("the queues of the file are not used: the %s says which", source)
		return
	}
	cfg.Queues = h.queues
}

func (h *handlers) register(w *worker.Worker) {
	if h == nil {
		return
	}
	for _, one := range h.list {
		worker.Handle(w, one.typ, one.run, one.opts...)
	}
}

// close ends the programs that still run: none, unless the worker was killed.
func (h *handlers) close() {
	if h == nil {
		return
	}
	done := make(chan struct{})
	for _, one := range h.list {
		go func() {
			one.close()
			done <- struct{}{}
		}()
	}
	for range h.list {
		<-done
	}
}
