package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// stopTimeout is how long a worker may take to end after SIGTERM.
const stopTimeout = 20 * time.Second

// child is a worker process of the demo.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer // held open: the worker ends when it closes
	ended chan struct{}
	err   error // how it ended, once ended is closed
}

// startChild runs this program again, as a worker.
func startChild(setup workerSetup) (*child, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	line, err := json.Marshal(setup)
	if err != nil {
		return nil, fmt.Errorf("set up the worker: %w", err)
	}
	log, err := os.OpenFile(setup.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the worker's log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(exe, demoWorkerCommand)
	cmd.Stdout, cmd.Stderr = log, log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start the worker: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the worker: %w", err)
	}
	c := &child{cmd: cmd, stdin: stdin, ended: make(chan struct{})}
	go func() {
		c.err = cmd.Wait()
		close(c.ended)
	}()
	if _, err := stdin.Write(append(line, '\n')); err != nil {
		c.kill()
		return nil, fmt.Errorf("set up the worker: %w", err)
	}
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// kill ends the process by SIGKILL and waits for it. Calling it on one that has ended does nothing.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it has ended, then
	<-c.ended
	_ = c.stdin.Close()
}

// stop ends the process as an operator would, and says if it did not end well.
func (c *child) stop(ctx context.Context) error {
	defer c.kill()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop the worker: %w", err)
	}
	t := time.NewTimer(stopTimeout)
	defer t.Stop()
	select {
	case <-c.ended:
		return c.err
	case <-t.C:
		return errors.New("the worker did not end after SIGTERM")
	case <-ctx.Done():
		return ctx.Err()
	}
}
