// Package command runs programs as handlers of a worker: the job's input comes on standard input, what
// the job is stands in the environment, the result is what the program writes to standard output, and its
// exit code says what becomes of the job. A worker needs no Go that way.
//
// It promises that a program never outlives its job: it runs in a process group of its own, which is ended
// (SIGTERM, then SIGKILL) when the handler's context ends and when the Command is closed, and what a program
// leaves behind in its group is killed when it exits. No output, however long, blocks the program or
// costs more memory than Config.MaxOutput and a few kilobytes.
//
// A process that leaves its group on purpose (setsid, a daemon) is not found. If the worker itself is
// killed with SIGKILL, Linux kills the program, but not the children that it started; a container or a
// service manager does that. Programs run on Unix only.
package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/redact"
)

// Defaults and limits of a Config.
const (
	DefaultMaxOutput = 256 << 10
	MaxMaxOutput     = 16 << 20
	DefaultGrace     = 5 * time.Second
)

// Config says which program runs, and how. Only Args is required.
type Config struct {
	// Args are the program and its arguments. No shell reads them. A program without a slash is looked for
	// in the PATH of this process; a relative one under Dir.
	Args []string
	// Dir is the working directory. Defaults to that of this process.
	Dir string
	// Pass names variables of this process that the program gets besides those of DefaultPass.
	Pass []string
	// Set are variables for the program, instead of those of the same name in this process.
	Set map[string]string
	// MaxOutput is how many bytes the result may have. A program that writes more is let run to its end,
	// but its result is refused. Defaults to 256 KiB, at most 16 MiB.
	MaxOutput int
	// Grace is the time from SIGTERM to SIGKILL. Keep it under worker.Config.Grace, or the handler counts
	// as stuck before its program is killed. Defaults to 5 s.
	Grace time.Duration
	// Redact takes secrets out of what the program writes to standard error, besides what looks like one
	// and the values of variables whose names say so. Defaults to nothing more.
	Redact func(text string) string
	// Logger gets what the program writes to standard error, line by line. Defaults to silence.
	Logger zerolog.Logger
}

// Command is a program that handles jobs; its Run is the handler. It is safe for concurrent use.
type Command struct {
	cfg    Config
	path   string
	base   []string // the environment but for the job's facts
	redact func(string) string

	closing context.Context
	close   context.CancelFunc

	mu      sync.Mutex
	running sync.WaitGroup
}

// errClosed is the reason of a context that ended since the Command was closed.
var errClosed = errors.New("the worker was ending")

// New checks that the program can be run, so that a mistake shows before a job is taken.
func New(cfg Config) (*Command, error) {
	if !supported {
		return nil, fmt.Errorf("programs as handlers: %w on this system", errors.ErrUnsupported)
	}
	if len(cfg.Args) == 0 || cfg.Args[0] == "" {
		return nil, errors.New("no program is named")
	}
	cfg.Args = slices.Clone(cfg.Args)
	for _, a := range cfg.Args {
		if strings.ContainsRune(a, 0) {
			return nil, errors.New("an argument has a NUL in it")
		}
	}
	if cfg.MaxOutput == 0 {
		cfg.MaxOutput = DefaultMaxOutput
	}
	if cfg.MaxOutput < 1 || cfg.MaxOutput > MaxMaxOutput {
		return nil, fmt.Errorf("the most output must be 1 to %d bytes, not %d", MaxMaxOutput, cfg.MaxOutput)
	}
	if cfg.Grace == 0 {
		cfg.Grace = DefaultGrace
	}
	if cfg.Grace < 0 {
		return nil, fmt.Errorf("the grace must not be negative, not %s", cfg.Grace)
	}
	dir, err := workingDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	cfg.Dir = dir
	path, err := find(cfg.Args[0], dir)
	if err != nil {
		return nil, err
	}
	base, secrets, err := environment(cfg.Pass, cfg.Set)
	if err != nil {
		return nil, err
	}
	c := &Command{cfg: cfg, path: path, base: base, redact: redact.Values(secrets...)}
	if more := cfg.Redact; more != nil {
		own := c.redact
		c.redact = func(s string) string { return more(own(s)) }
	}
	c.closing, c.close = context.WithCancel(context.Background())
	return c, nil
}

// Path is the program's file.
func (c *Command) Path() string { return c.path }

// Close ends the programs that still run, SIGKILL following SIGTERM after a second at most, and returns once
// they have ended. A handler called after it starts nothing. Call it before the process exits: once Run of
// the worker has returned without a Kill, there is nothing left to end.
func (c *Command) Close() {
	c.mu.Lock()
	c.close()
	c.mu.Unlock()
	c.running.Wait()
}

// enter counts a run, unless the Command is closed.
func (c *Command) enter() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing.Err() != nil {
		return false
	}
	c.running.Add(1)
	return true
}

func workingDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir) // of nothing: this process's own
	if err != nil {
		return "", fmt.Errorf("working directory: %w", err)
	}
	info, err := os.Stat(abs)
	if err != nil {
		return "", fmt.Errorf("working directory %s: %w", abs, reason(err))
	}
	if !info.IsDir() {
		return "", fmt.Errorf("working directory %s: is no directory", abs)
	}
	return abs, nil
}

// find is the program's file, absolute.
func find(name, dir string) (string, error) {
	path := name
	if !strings.ContainsRune(name, filepath.Separator) {
		found, err := exec.LookPath(name)
		if err != nil {
			return "", fmt.Errorf("program %q: %w", name, reason(err))
		}
		if path, err = filepath.Abs(found); err != nil {
			return "", fmt.Errorf("program %q: %w", name, err)
		}
	} else if !filepath.IsAbs(name) {
		path = filepath.Join(dir, name)
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", fmt.Errorf("program %s: %w", path, reason(err))
	case info.IsDir():
		return "", fmt.Errorf("program %s: is a directory", path)
	}
	if _, err := exec.LookPath(path); err != nil {
		return "", fmt.Errorf("program %s: is not executable (mode %s)", path, info.Mode())
	}
	return path, nil
}

// reason is err without the operation and the name, which stand in the text already.
func reason(err error) error {
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		return pe.Err
	}
	if ee := (*exec.Error)(nil); errors.As(err, &ee) {
		return ee.Err
	}
	return err
}

// DefaultPass are the variables that every program gets from this process, if they are set.
func DefaultPass() []string {
	return []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"}
}

// environment is what a program's environment holds besides the job, and which values in it are secret.
func environment(pass []string, set map[string]string) (env, secrets []string, err error) {
	for _, name := range slices.Concat(pass, slices.Sorted(maps.Keys(set))) {
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00"):
			return nil, nil, fmt.Errorf("%q is no name of a variable", name)
		case strings.HasPrefix(name, prefix):
			return nil, nil, fmt.Errorf("%s: variables that begin with %s are the job's", name, prefix)
		}
	}
	values := map[string]string{}
	for _, name := range slices.Concat(DefaultPass(), pass) {
		if v, ok := os.LookupEnv(name); ok {
			values[name] = v
		}
	}
	for name, v := range set {
		if strings.ContainsRune(v, 0) {
			return nil, nil, fmt.Errorf("%s: has a NUL in it", name)
		}
		values[name] = v
	}
	own := DefaultPass()
	for _, name := range slices.Sorted(maps.Keys(values)) {
		env = append(env, name+"="+values[name])
		if redact.SecretName(name) && !slices.Contains(own, name) {
			secrets = append(secrets, values[name])
		}
	}
	return env, secrets, nil
}

// prefix of the variables that tell of the job.
const prefix = "JETCREW_JOB_"

// facts are the variables that tell of the job. All of its own are always set, if need be to nothing, so that
// a script may run under set -u.
func facts(ctx context.Context, j *job.Job) []string {
	var env []string
	add := func(name, value string) {
		env = append(env, prefix+name+"="+strings.ReplaceAll(value, "\x00", ""))
	}
	instant := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format(job.TimeFormat)
	}
	timeout := ""
	if at, ok := ctx.Deadline(); ok {
		timeout = fmt.Sprint(int(max(time.Until(at).Seconds(), 1)))
	}
	add("ID", j.ID)
	add("SPACE", j.Space)
	add("QUEUE", j.Queue)
	add("TYPE", j.Type)
	add("ATTEMPT", fmt.Sprint(j.Attempts))
	add("MAX_ATTEMPTS", fmt.Sprint(j.MaxAttempts))
	add("RUN_ID", j.RunID)
	add("TRIGGER", string(j.Trigger))
	add("ENVIRONMENT", j.Environment)
	add("MISSED", fmt.Sprint(j.Missed))
	add("CREATED_AT", instant(j.CreatedAt))
	add("DUE_AT", instant(j.DueAt))
	add("DEADLINE", instant(j.Deadline))
	add("TIMEOUT", timeout)
	// What the job belongs to, as OpenTelemetry names it in an environment. Only where there is something to be said.
	if j.Trace.Parent != "" {
		env = append(env, "TRACEPARENT="+j.Trace.Parent)
	}
	if j.Trace.State != "" {
		env = append(env, "TRACESTATE="+j.Trace.State)
	}
	return env
}
