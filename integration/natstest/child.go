package natstest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait for something that takes milliseconds on an idle
// machine, and may take many seconds on a busy one.
const patience = 60 * time.Second

// child is the test binary, running once more in a role.
type child struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has been waited for
}

// launch starts the test binary in a role; out gets both output streams unless
// lines is given, which then gets standard output. Within is the command that
// runs it, if it is not run directly.
func launch(within []string, role string, env []string, out *os.File, lines io.Writer) (*child, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	// Without natstest.Main in its TestMain, the binary would run its tests:
	// it is told to run none.
	args := append(slices.Clone(within), exe, "-test.run=^$")
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(append(os.Environ(), env...), roleEnv+"="+role)
	cmd.Stdout, cmd.Stderr = out, out
	if lines != nil {
		cmd.Stdout = lines
		cmd.WaitDelay = time.Second // for a grandchild that holds the pipe open
	}
	if _, err := cmd.StdinPipe(); err != nil {
		return nil, err
	}
	dieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		_ = cmd.Wait() // how it ended is in the process state
	}()
	return c, nil
}

// signal sends sig; that the process has ended already is no error.
func (c *child) signal(sig syscall.Signal) error {
	err := c.cmd.Process.Signal(sig)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// pause stops the process and waits until none of its threads runs any more: the signal alone only asks for it,
// and what runs for a moment longer still answers. A process that has ended is as good as stopped.
func (c *child) pause() error {
	if err := c.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	return c.awaitStop()
}

// awaitStop is pause without the signal, for a process that sends it to itself.
func (c *child) awaitStop() error {
	pid := c.cmd.Process.Pid
	err := poll(patience, func() error {
		if c.ended() {
			return nil
		}
		return stopped(pid)
	})
	if err != nil && !c.ended() {
		return fmt.Errorf("process %d has not stopped %s after SIGSTOP: %w", pid, patience, err)
	}
	return nil
}

func (c *child) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

func (c *child) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c.done:
		return true
	case <-timer.C:
		return false
	}
}

// kill ends the process, paused or not, and waits for it.
func (c *child) kill() error {
	if err := c.signal(syscall.SIGKILL); err != nil {
		return err
	}
	if !c.wait(patience) {
		return fmt.Errorf("process %d is still there %s after SIGKILL", c.cmd.Process.Pid, patience)
	}
	return nil
}

// outputFile is a file for a process's output; its end is shown if the test
// fails.
func outputFile(t testing.TB, dir, name string) *os.File {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatalf("natstest: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("natstest: the end of %s:\n%s", name, tail(f, 4<<10))
		}
		if err := f.Close(); err != nil {
			t.Errorf("natstest: %v", err)
		}
	})
	return f
}

// tail returns the last n bytes of f, for a message.
func tail(f *os.File, n int64) string {
	info, err := f.Stat()
	if err != nil {
		return err.Error()
	}
	from := max(0, info.Size()-n)
	text, err := io.ReadAll(io.NewSectionReader(f, from, n))
	if err != nil {
		return err.Error()
	}
	return string(text)
}
