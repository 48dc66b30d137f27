package command_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/worker/command"
)

// This test binary is also a worker process that a test kills.
const roleVariable = "COMMAND_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) != "" {
		c, err := command.New(command.Config{Args: os.Args[1:]})
		if err == nil {
			_, err = c.Run(context.Background(), aJob(), nil)
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

func aJob() *job.Job {
	return &job.Job{
		ID: "1", Space: "acme", Queue: "mail", Type: "t", Environment: "main", Trigger: job.TriggerCall,
		Attempts: 2, MaxAttempts: 3, RunID: "r",
	}
}

// a is a command under test, with a directory for what its program writes.
type a struct {
	*command.Command
	t    *testing.T
	dir  string
	logs *lockedBuffer
}

// script makes a command of a shell script. $D is a directory of the test's.
func script(t *testing.T, text string, change ...func(*command.Config)) *a {
	t.Helper()
	s := &a{t: t, dir: t.TempDir(), logs: &lockedBuffer{}}
	cfg := command.Config{
		Args: []string{"sh", "-c", text}, Grace: 10 * time.Second, Set: map[string]string{"D": s.dir},
		Logger: zerolog.New(s.logs),
	}
	for _, f := range change {
		f(&cfg)
	}
	c, err := command.New(cfg)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	s.Command = c
	return s
}

func grace(d time.Duration) func(*command.Config) {
	return func(cfg *command.Config) { cfg.Grace = d }
}

// run runs it without a limit.
func (s *a) run(input string) (string, error) {
	s.t.Helper()
	return s.runIn(s.t.Context(), input)
}

// runIn answers the result as JSON.
func (s *a) runIn(ctx context.Context, input string) (string, error) {
	s.t.Helper()
	v, err := s.Run(ctx, aJob(), jsontext.Value(input))
	if err != nil || v == nil {
		return "", err
	}
	b, err := job.Encode(v)
	require.NoError(s.t, err)
	return string(b), nil
}

// read waits until the program has written a whole line to a file.
func (s *a) read(name string) string {
	s.t.Helper()
	var text []byte
	require.Eventually(s.t, func() bool {
		text, _ = os.ReadFile(filepath.Join(s.dir, name))
		return bytes.HasSuffix(text, []byte("\n"))
	}, 20*time.Second, time.Millisecond, "%s: %s", name, s.logs)
	return strings.TrimSpace(string(text))
}

func (s *a) pid(name string) int {
	s.t.Helper()
	n, err := strconv.Atoi(s.read(name))
	require.NoError(s.t, err)
	return n
}

// begin runs it beside the test, and answers the program's process id, which it must write to the file pid.
func (s *a) begin(ctx context.Context) (pid int, ended func() error) {
	s.t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := s.Run(ctx, aJob(), nil)
		done <- err
	}()
	return s.pid("pid"), func() error {
		select {
		case err := <-done:
			return err
		case <-time.After(30 * time.Second):
			s.t.Fatal("the program has not ended")
			return nil
		}
	}
}

// alive reports whether a process runs; one that waits to be reaped does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	state := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	return len(state) > 0 && state[0] != "Z" && state[0] != "X"
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
