package natstest

import (
	"bytes"
	"io"
	"sync"
	"syscall"
	"testing"
	"time"
)

// lineBuffer is how many lines of a role's output may wait to be received.
const lineBuffer = 1 << 16

// Proc is a process in a role of the test's own. Its methods belong to the
// test that started it.
type Proc struct {
	t     testing.TB
	name  string
	child *child
	lines *lineWriter
}

// StartRole starts the test binary in a role that was given to Main, with
// further variables ("NAME=value") in its environment. Standard error is shown
// if the test fails. The process is killed when the test ends.
func StartRole(t testing.TB, role string, env ...string) *Proc {
	t.Helper()
	log := outputFile(t, t.TempDir(), role+".log")
	lines := &lineWriter{copyTo: log, ch: make(chan string, lineBuffer)}
	c, err := launch(nil, role, env, log, lines)
	if err != nil {
		t.Fatalf("natstest: start role %s: %v", role, err)
	}
	p := &Proc{t: t, name: role, child: c, lines: lines}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		<-c.done
		lines.close()
	}()
	t.Cleanup(func() {
		p.Kill()
		<-closed
		if n := lines.lost(); n > 0 {
			t.Errorf("natstest: role %s: %d lines were dropped, since nobody received them", role, n)
		}
	})
	return p
}

// PID is the process id.
func (p *Proc) PID() int { return p.child.cmd.Process.Pid }

// Lines receives the lines of standard output, and is closed after the last.
// It holds up to 65,536 of them; losing one fails the test.
func (p *Proc) Lines() <-chan string { return p.lines.ch }

// Done is closed when the process has ended.
func (p *Proc) Done() <-chan struct{} { return p.child.done }

// Signal sends a signal; it does nothing if the process has ended.
func (p *Proc) Signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.child.signal(sig); err != nil {
		p.t.Errorf("natstest: role %s: %v: %v", p.name, sig, err)
	}
}

// Pause stops the process where it is (SIGSTOP), and returns when it has stopped.
func (p *Proc) Pause() {
	p.t.Helper()
	if err := p.child.pause(); err != nil {
		p.t.Errorf("natstest: role %s: %v", p.name, err)
	}
}

// AwaitStop returns when the process has stopped itself. (To pause it meanwhile would do harm: the signal that it is about
// to send itself might come after Resume.)
func (p *Proc) AwaitStop() {
	p.t.Helper()
	if err := p.child.awaitStop(); err != nil {
		p.t.Errorf("natstest: role %s: %v", p.name, err)
	}
}

// Resume lets a paused process go on (SIGCONT).
func (p *Proc) Resume() { p.t.Helper(); p.Signal(syscall.SIGCONT) }

// Kill ends the process (SIGKILL) and waits until it is gone.
func (p *Proc) Kill() {
	p.t.Helper()
	if err := p.child.kill(); err != nil {
		p.t.Errorf("natstest: role %s: %v", p.name, err)
	}
}

// Wait waits for the process to end by itself, and returns its exit code, -1 if
// a signal ended it. The test fails if it has not ended after d.
func (p *Proc) Wait(d time.Duration) int {
	p.t.Helper()
	if !p.child.wait(d) {
		p.t.Fatalf("natstest: role %s has not ended after %s", p.name, d)
	}
	return p.child.cmd.ProcessState.ExitCode()
}

// lineWriter cuts what is written into lines.
type lineWriter struct {
	copyTo io.Writer
	ch     chan string

	mu      sync.Mutex
	rest    []byte
	dropped int
}

func (w *lineWriter) Write(p []byte) (int, error) {
	if _, err := w.copyTo.Write(p); err != nil {
		return 0, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rest = append(w.rest, p...)
	for {
		line, rest, ok := bytes.Cut(w.rest, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		w.send(string(line))
		w.rest = rest
	}
}

func (w *lineWriter) send(line string) {
	select {
	case w.ch <- line:
	default:
		w.dropped++
	}
}

func (w *lineWriter) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.rest) > 0 {
		w.send(string(w.rest))
	}
	close(w.ch)
}

func (w *lineWriter) lost() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dropped
}
