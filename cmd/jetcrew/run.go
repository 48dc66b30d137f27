package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
	"github.com/jetcrew/jetcrew/scheduler"
)

// The exit codes, as the help says them.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
	exitNoJob   = 3

	// Of commands that wait for a job: how it ended.
	exitJobFailed    = 4
	exitJobDead      = 5
	exitJobCancelled = 6
	exitWaited       = 7

	// Of commands that change something.
	exitUnchanged = 8
	exitUnknown   = 10

	// Of commands that look who leads.
	exitNoLeader = 9
)

const rootHelp = `jetcrew runs background jobs on NATS JetStream, with no other server.

Settings come from flags, then from JETCREW_* in the environment, then from
defaults; "jetcrew config" shows what is in effect.

` + apiHelp + `

Exit codes:
  0  done
  1  it failed, or was interrupted
  2  wrong usage: a flag, an argument, a setting or an input file, or an id that
     several queues have: name one with --queue
  3  there is no such job, queue, key, schedule or token
  8  nothing was changed: the state of the job, queue or key does not allow it, or
     the schedule is declared by another owner
  9  nobody leads ("jetcrew scheduler status")
  10 no answer came, so it may have been done or not: look, or ask again
and of commands that wait for a job:
  4  the job failed (it was refused)
  5  the job is dead
  6  the job was cancelled
  7  the job has not ended in time`

const rootExample = `  # a server, a worker and example handlers in one process
  jetcrew dev

  # in another terminal
  jetcrew enqueue echo --id hello --input '{"hello":"world"}'
  jetcrew job get hello
  jetcrew job list
  jetcrew queue list

  # the whole of it on your own files, with a worker killed in the middle
  jetcrew demo .`

// app is one invocation. Its commands hang off newRoot.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string
	started        bool        // past the parsing of flags and arguments
	interrupted    atomic.Bool // a signal ended what could be ended
	spans          spans

	// signals tells of SIGINT and SIGTERM until stop is called.
	signals func() (ch <-chan os.Signal, stop func())
}

// run is the program without its process: the arguments after the name, and the exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, environ: os.Environ(), signals: processSignals}
	return a.run(args)
}

func (a *app) run(args []string) int {
	out := &checkedWriter{to: a.stdout}
	a.stdout = out
	root := a.newRoot()
	root.SetArgs(args)
	err := root.Execute()
	a.spans.stop()
	switch {
	case err == nil && out.failure() == nil:
		return exitOK
	case err == nil:
		fmt.Fprintf(a.stderr, "jetcrew: %s\n", oneLine(out.failure()))
		return exitFailure
	case a.interrupted.Load() && errors.Is(err, context.Canceled):
		err = errInterrupted
	}
	fmt.Fprintf(a.stderr, "jetcrew: %s\n", oneLine(err))
	var outcome outcomeError
	switch {
	case errors.As(err, &outcome):
		return outcome.code()
	case errors.Is(err, errWaited):
		return exitWaited
	case !a.started, isUsage(err):
		return exitUsage
	case errors.Is(err, job.ErrNotFound), errors.Is(err, job.ErrNoQueue), errors.Is(err, errNoKey),
		errors.Is(err, scheduler.ErrNotFound):
		return exitNoJob
	case errors.As(err, new(unchangedError)), errors.Is(err, job.ErrNotRequeuable), errors.Is(err, job.ErrQueueInUse),
		errors.Is(err, scheduler.ErrOwned):
		return exitUnchanged
	case errors.As(err, new(*client.PermissionError)):
		return exitFailure // what is not permitted was not done
	case errors.Is(err, job.ErrUnknown), errors.Is(err, kv.ErrUnknown):
		return exitUnknown
	case errors.Is(err, scheduler.ErrNoLeader):
		return exitNoLeader
	default:
		return exitFailure
	}
}

func (a *app) newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "jetcrew",
		Short:         "Background jobs on NATS JetStream",
		Long:          rootHelp,
		Example:       rootExample,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRun: func(*cobra.Command, []string) {
			a.started = true
		},
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	addGlobalFlags(root)
	root.AddCommand(a.newDev(), a.newWork(), a.newSchedule(), a.newScheduler(), a.newServe(), a.newToken(), a.newRefusal(), a.newSetup(), a.newHealth(), a.newEnqueue(), a.newJob(), a.newQueue(), a.newWorker(), a.newKV(), a.newBench(), a.newDemo(), a.newDemoWorker(), a.newConfig(), a.newDoctor(), a.newVersion())
	a.addCompletion(root)
	a.complete(root)
	return root
}

// errInterrupted is the end of a command that a signal cut short.
var errInterrupted = errors.New("interrupted")

// usageError is a mistake of whoever typed the command.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func isUsage(err error) bool {
	var u usageError
	var f *job.FieldError
	return errors.As(err, &u) || errors.As(err, &f) || errors.Is(err, job.ErrAmbiguous)
}

// oneLine is an error's text on one line, safe for a terminal.
func oneLine(err error) string {
	parts := strings.Split(strings.TrimSpace(err.Error()), "\n")
	for i, p := range parts {
		parts[i] = safe(p)
	}
	return strings.Join(parts, "; ")
}

func processSignals() (<-chan os.Signal, func()) {
	ch := make(chan os.Signal, 2)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM)
	return ch, func() { signal.Stop(ch) }
}
