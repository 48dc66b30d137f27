//go:build linux

package command_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/worker/command"
)

const long = "sleep 300"

func TestOutputWithoutBoundsCostsNoMemoryAndItsResultIsRefused(t *testing.T) {
	size := "1G"
	if testing.Short() {
		size = "64M"
	}
	s := script(t, `head -c `+size+` /dev/zero; echo done >"$D/done"`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := s.run("")
	runtime.ReadMemStats(&after)
	require.ErrorAs(t, err, new(*job.GiveUpError), "to run it again would do its work again")
	require.ErrorContains(t, err, "its result is refused: it wrote ")
	require.ErrorContains(t, err, "at most 262144 are allowed")
	require.Equal(t, "done", s.read("done"), "it was let run to its end")
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20))
}

func TestAResultOfExactlyTheMostIsKept(t *testing.T) {
	s := script(t, `printf 12345`, func(cfg *command.Config) { cfg.MaxOutput = 5 })
	got, err := s.run("")
	require.NoError(t, err)
	require.Equal(t, "12345", got)
}

func TestAProgramThatNeverEndsIsEndedWithAllItStarted(t *testing.T) {
	s := script(t, long+` & echo $! >"$D/child"; echo $$ >"$D/pid"; echo working >&2; wait`)
	ctx, cancel := context.WithCancelCause(t.Context())
	pid, ended := s.begin(ctx)
	child := s.pid("child")
	require.True(t, alive(pid))
	cancel(job.ErrTimeout)
	require.EqualError(t, ended(), "the program was ended by SIGTERM, after it was told to stop: working")
	require.False(t, alive(pid))
	require.False(t, alive(child))
}

func TestAProgramThatIgnoresSIGTERMIsKilled(t *testing.T) {
	s := script(t, `trap '' TERM; echo $$ >"$D/pid"; while :; do sleep 300; done`, grace(100*time.Millisecond))
	ctx, cancel := context.WithCancelCause(t.Context())
	pid, ended := s.begin(ctx)
	cancel(job.ErrCancelRequested)
	require.EqualError(t, ended(), "the program was ended by SIGKILL, after it was told to stop")
	require.False(t, alive(pid))
}

func TestEndingWith0AfterItWasToldToStopIsNoSuccess(t *testing.T) {
	s := script(t, `trap 'exit 0' TERM; echo $$ >"$D/pid"; while :; do sleep 0.01; done`)
	ctx, cancel := context.WithCancel(t.Context())
	_, ended := s.begin(ctx)
	cancel()
	require.ErrorContains(t, ended(), "exit code 0, after it was told to stop")
}

func TestChildrenHaveTheGraceToo(t *testing.T) {
	s := script(t, `
		sh -c 'trap "sleep 0.2; echo yes >\"$D/cleaned\"; exit" TERM; echo $$ >"$D/child"; while :; do sleep 0.01; done' >/dev/null 2>&1 &
		echo $$ >"$D/pid"; wait`)
	ctx, cancel := context.WithCancel(t.Context())
	_, ended := s.begin(ctx)
	child := s.pid("child")
	cancel()
	require.Error(t, ended())
	require.FileExists(t, filepath.Join(s.dir, "cleaned"))
	require.False(t, alive(child))
}

func TestChildrenLeftBehindAreEnded(t *testing.T) {
	for name, text := range map[string]string{
		"that hold its output": long + ` &`,
		"that hold nothing":    long + ` >/dev/null 2>&1 </dev/null &`,
		"that ignore SIGTERM":  `sh -c "trap '' TERM HUP; echo up >$D/up; while :; do sleep 300; done" & until [ -s "$D/up" ]; do sleep 0.01; done;`,
	} {
		t.Run(name, func(t *testing.T) {
			s := script(t, text+` echo $! >"$D/child"; echo '"done"'`)
			start := time.Now()
			got, err := s.run("")
			require.NoError(t, err)
			require.Equal(t, `"done"`, got)
			require.Less(t, time.Since(start), 20*time.Second)
			require.False(t, alive(s.pid("child")))
		})
	}
}

func TestWhatLeavesTheGroupDoesNotHoldTheSlot(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("needs setsid")
	}
	for name, more := range map[string]string{"silent": "exec sleep 300", "talking": "while :; do echo; sleep 0.01; done"} {
		t.Run(name, func(t *testing.T) { leaves(t, more) })
	}
}

func leaves(t *testing.T, more string) {
	s := script(t, `setsid sh -c 'echo $$ >"$D/child"; `+more+`' & until [ -s "$D/child" ]; do sleep 0.01; done; echo 1`)
	got, err := s.run("")
	child := s.pid("child")
	defer func() { require.NoError(t, syscall.Kill(child, syscall.SIGKILL)) }()
	require.NoError(t, err)
	require.Equal(t, "1", got)
	require.Contains(t, s.logs.String(), "still holds its input or output")
}

// However slowly it is read, what a program wrote before it ended is not lost.
func TestWhatWasWrittenLastIsRead(t *testing.T) {
	slow := func(cfg *command.Config) {
		cfg.Redact = func(s string) string {
			pause := 2 * time.Millisecond
			if s == "first" {
				pause = time.Second // the program writes the rest meanwhile, and ends
			}
			time.Sleep(pause)
			return s
		}
		cfg.Set["W"] = strings.Repeat(strings.Repeat("x", 59)+"\n", 1000) // fits a pipe
	}
	_, err := script(t, `echo first >&2; sleep 0.1; printf '%s' "$W" >&2; echo last >&2; exit 3`, slow).run("")
	require.ErrorContains(t, err, "exit code 3: ")
	require.True(t, strings.HasSuffix(err.Error(), "x\nlast"), err)
}

func TestInputThatIsNotReadBlocksNothing(t *testing.T) {
	big := `{"x":"` + strings.Repeat("x", 4<<20) + `"}`
	for _, text := range []string{`echo 1`, `exec <&-; sleep 0.05; echo 1`, `head -c 10 >/dev/null; echo 1`} {
		got, err := script(t, text).run(big)
		require.NoError(t, err)
		require.Equal(t, "1", got)
	}
}

func TestAProgramThatWritesWithoutEndIsEnded(t *testing.T) {
	for _, text := range []string{`echo $$ >"$D/pid"; yes`, `echo $$ >"$D/pid"; yes >&2`, `echo $$ >"$D/pid"; cat /dev/zero >&2`} {
		s := script(t, text, grace(time.Second))
		ctx, cancel := context.WithCancel(t.Context())
		pid, ended := s.begin(ctx)
		cancel()
		require.Error(t, ended())
		require.False(t, alive(pid))
		require.Less(t, len(s.logs.String()), 1<<20)
	}
}

func TestCloseEndsWhatRunsAndStartsNothingMore(t *testing.T) {
	for name, trap := range map[string]string{"willing": "", "unwilling": "trap '' TERM;"} {
		t.Run(name, func(t *testing.T) {
			s := script(t, trap+` echo $$ >"$D/pid"; while :; do sleep 300; done`, grace(time.Hour))
			pid, ended := s.begin(t.Context())
			start := time.Now()
			s.Close()
			require.Less(t, time.Since(start), 15*time.Second)
			require.False(t, alive(pid))
			require.ErrorContains(t, ended(), "after it was told to stop")
			s.Close()
			_, err := s.run("")
			require.ErrorAs(t, err, new(*job.SnoozeError))
		})
	}
}

func TestCloseShortensTheGraceThatRuns(t *testing.T) {
	s := script(t, `trap 'echo x >"$D/told"' TERM; echo $$ >"$D/pid"; while :; do sleep 0.01; done`, grace(time.Hour))
	ctx, cancel := context.WithCancel(t.Context())
	pid, ended := s.begin(ctx)
	cancel()
	s.read("told")
	s.Close()
	require.Error(t, ended())
	require.False(t, alive(pid))
}

func TestNothingIsStartedForAJobThatHasEnded(t *testing.T) {
	s := script(t, `echo ran >"$D/ran"`)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(job.ErrLeaseLost)
	_, err := s.runIn(ctx, "")
	require.ErrorIs(t, err, job.ErrLeaseLost)
	require.NoFileExists(t, filepath.Join(s.dir, "ran"))
}

func TestAProgramDiesWithAWorkerThatIsKilled(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	w := exec.Command(os.Args[0], "sh", "-c", `echo $$ >"$1"; exec `+long, "-", file)
	w.Env = append(os.Environ(), roleVariable+"=worker")
	require.NoError(t, w.Start())
	s := &a{t: t, dir: filepath.Dir(file), logs: &lockedBuffer{}}
	pid := s.pid("pid")
	require.True(t, alive(pid))
	require.NoError(t, w.Process.Kill())
	require.Error(t, w.Wait())
	require.Eventually(t, func() bool { return !alive(pid) }, 20*time.Second, time.Millisecond)
}
