package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/jetcrew/jetcrew/pkg/job"
)

const (
	closeGrace = time.Second // from SIGTERM to SIGKILL once the Command is closed
	pipeDelay  = time.Second // for input or output that somebody outside of the group still holds
)

// Run runs the program for a job, and is a handler for worker.Handle. The job's input goes to standard
// input, {} if it has none. The exit codes with a meaning are ExitGiveUp, ExitLater and ExitRefuse.
//
// A program that exits with 0 after it was told to stop has not succeeded: many end so without having done
// their work.
func (c *Command) Run(ctx context.Context, j *job.Job, input jsontext.Value) (any, error) {
	if !c.enter() {
		return nil, job.Snooze(0, errClosed.Error())
	}
	defer c.running.Done()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if len(input) == 0 {
		input = jsontext.Value("{}")
	}
	log := c.cfg.Logger.With().Stringer("job", j.Key()).Str("type", j.Type).Int("attempt", j.Attempts).Logger()
	out := &capture{limit: c.cfg.MaxOutput}
	errs := &lineLog{log: log, redact: c.redact, say: func(line string) { job.Logf(ctx, "%s", line) }}
	p := &process{cmd: &exec.Cmd{
		Path: c.path, Args: c.cfg.Args, Dir: c.cfg.Dir, Env: append(facts(ctx, j), c.base...),
		// A newline at the end, for whoever reads a line.
		Stdin: strings.NewReader(string(input) + "\n"), WaitDelay: pipeDelay, SysProcAttr: ownGroup(),
	}}
	// The kernel ends the program when the thread that started it ends, not when the process does. The
	// thread stays this goroutine's until the program has ended, so that nobody can end it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := p.start(out, errs); err != nil {
		return nil, c.notStarted(err)
	}
	why, err := p.supervise(ctx, c.cfg.Grace, c.closing)
	letGo := p.finish()
	errs.end()
	if p.cmd.ProcessState == nil {
		return nil, fmt.Errorf("wait for the program: %w", err)
	}
	if !letGo || errors.Is(err, exec.ErrWaitDelay) {
		log.Warn().Msg("the program has ended, but something that left its process group still holds its input or output")
	}
	return ended{state: p.cmd.ProcessState, why: why, out: out, tail: errs.tail}.answer()
}

// notStarted is the error of a program that could not be started. It was there when the Command was made, so
// this is taken for a disturbance (a deployment, no memory) that costs no attempt; but a file that is no program
// will not become one by itself.
func (c *Command) notStarted(err error) error {
	err = fmt.Errorf("%s cannot be started: %w", c.path, reason(err))
	c.cfg.Logger.Warn().Err(err).Msg("program cannot be started")
	if errors.Is(err, syscall.ENOEXEC) || errors.Is(err, syscall.E2BIG) || errors.Is(err, syscall.EINVAL) {
		return err
	}
	return job.Refuse(job.CodeOverCapacity, err.Error())
}

// process is a program that runs, and its group.
type process struct {
	cmd   *exec.Cmd
	pipes []*pipe

	mu     sync.Mutex
	killAt time.Time // once it was told to end
	reaped bool      // its group's id may be somebody else's by now
}

// start starts it, with what it writes going to out and errs.
func (p *process) start(out, errs io.Writer) error {
	for _, s := range []struct {
		to   io.Writer
		file *io.Writer
	}{{out, &p.cmd.Stdout}, {errs, &p.cmd.Stderr}} {
		pipe, end, err := newPipe(s.to)
		if err != nil {
			p.dismiss()
			return err
		}
		defer end.Close() // the program has its own
		*s.file = end
		p.pipes = append(p.pipes, pipe)
	}
	if err := p.cmd.Start(); err != nil {
		p.dismiss()
		return err
	}
	for _, one := range p.pipes {
		one.start()
	}
	return nil
}

// dismiss closes the pipes of a program that was not started.
func (p *process) dismiss() {
	for _, one := range p.pipes {
		one.from.Close()
	}
}

// finish waits for the last of what the program wrote. It answers whether nobody else holds its output.
func (p *process) finish() bool {
	letGo := true
	for _, one := range p.pipes {
		letGo = one.finish() && letGo
	}
	return letGo
}

// supervise waits for the program's end, and brings it about when ctx or closing ends. It answers why, if it
// did, and what the wait came to.
func (p *process) supervise(ctx context.Context, grace time.Duration, closing context.Context) (why, err error) {
	ended := make(chan error, 1)
	go func() { ended <- p.reap() }()
	closed := closing.Done()
	select {
	case err := <-ended:
		return nil, err
	case <-ctx.Done():
		why = context.Cause(ctx)
	case <-closed:
		why, grace, closed = errClosed, min(grace, closeGrace), nil
	}
	p.signal(syscall.SIGTERM, grace)
	kill := time.NewTimer(grace)
	defer kill.Stop()
	for {
		select {
		case err := <-ended:
			return why, err
		case <-closed:
			closed = nil
			kill.Reset(min(grace, closeGrace))
			continue
		case <-kill.C:
		}
		p.signal(syscall.SIGKILL, 0)
		return why, <-ended
	}
}

// signal sends to the whole group; what has not ended after grace is killed.
func (p *process) signal(s syscall.Signal, grace time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killAt = time.Now().Add(grace)
	if !p.reaped {
		signalGroup(p.cmd.Process.Pid, s)
	}
}

// lingers reports whether what the program left in its group still has time to end by itself: it was told to
// end together with the program.
func (p *process) lingers() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Before(p.killAt)
}

// endGroup kills what is left of the group.
func (p *process) endGroup() {
	p.mu.Lock()
	defer p.mu.Unlock()
	signalGroup(p.cmd.Process.Pid, syscall.SIGKILL)
	p.reaped = true
}
