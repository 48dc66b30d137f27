package compose

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

// buildBinary builds jetcrew, with what the build cache has of it.
func buildBinary(t *testing.T, flags ...string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "jetcrew")
	args := append([]string{"build"}, flags...)
	cmd := exec.Command("go", append(args, "-o", bin, "./cmd/jetcrew")...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return bin
}

// process is a service of ours that runs.
type process struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	out  output
	done chan struct{}
}

// output is what a process writes, for whoever looks meanwhile.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// start runs the binary with nothing in its environment but env.
func start(t *testing.T, bin, name string, env map[string]string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: name, cmd: exec.Command(bin, args...), done: make(chan struct{})}
	p.cmd.Dir = t.TempDir()
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.Env = []string{"HOME=" + p.cmd.Dir}
	for k, v := range env {
		p.cmd.Env = append(p.cmd.Env, k+"="+v)
	}
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // how it ended is in its state
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.done
		if t.Failed() {
			t.Logf("%s:\n%s", name, p.out.String())
		}
	})
	return p
}

// ends waits for the process to end, and answers its exit code.
func (p *process) ends() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Fatalf("%s has not ended", p.name)
	}
	return p.cmd.ProcessState.ExitCode()
}

// stop tells the process to stop, and answers its exit code.
func (p *process) stop() int {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGTERM))
	return p.ends()
}

// says waits until the process has written something.
func (p *process) says(text string) {
	p.t.Helper()
	natstest.Eventually(p.t, patience, func() bool { return strings.Contains(p.out.String(), text) }, p.name, "says", text)
}
