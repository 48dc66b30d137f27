package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// terminal opens a terminal: what is written to person is typed, what is read from it is shown.
func terminal(t *testing.T) (person, tty *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminals here: ", err)
	}
	t.Cleanup(func() { person.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { tty.Close() })
	return person, tty
}

func TestATerminalIsAskedBeforeManyJobsAreChanged(t *testing.T) {
	for typed, yes := range map[string]bool{"y\n": true, "YES\n": true, "n\n": false, "\n": false, "yess\n": false} {
		person, tty := terminal(t)
		out := &lockedBuffer{}
		a := &app{stdin: tty, stdout: out, stderr: tty}
		require.True(t, a.asks())
		s := &answered{result: job.BulkResult{Looked: 3, Matched: 3, Done: 3}}
		_, err := person.WriteString(typed)
		require.NoError(t, err)
		req := job.BulkRequest{Operation: job.OpDelete, Filter: job.Filter{Spaces: []string{"a\x1b"}, Queue: "q"}}
		err = a.bulk(t.Context(), s, operationOf(job.OpDelete), req, &bulkFlags{})
		shown := make([]byte, 64<<10)
		require.NoError(t, person.SetReadDeadline(time.Now().Add(10*time.Second)))
		_, rerr := person.Read(shown)
		require.NoError(t, rerr)
		require.True(t, s.asked[0].DryRun, "it counts first")
		if yes {
			require.NoError(t, err)
			require.Len(t, s.asked, 2)
			require.False(t, s.asked[1].DryRun)
			require.Equal(t, "deleted 3 jobs\n", out.String())
		} else {
			require.ErrorIs(t, err, errNotConfirmed)
			require.Len(t, s.asked, 1, "nothing was done")
		}
	}
}

func TestTheQuestionSaysWhatIsMeant(t *testing.T) {
	person, tty := terminal(t)
	a := &app{stdin: tty, stderr: &lockedBuffer{}, stdout: &lockedBuffer{}}
	_, err := person.WriteString("y\n")
	require.NoError(t, err)
	ok, err := a.confirm(t.Context(), "delete 3 jobs "+describe(&job.Filter{Spaces: []string{"a\x1b"}, Queue: "q", Statuses: []job.Status{job.Dead}}))
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, `delete 3 jobs of space a\x1b, on queue q, that are dead? [y/N] `, a.stderr.(*lockedBuffer).String())
}

func TestASignalEndsTheQuestion(t *testing.T) {
	person, tty := terminal(t)
	url := serve(t)
	call(t, "enqueue", "t", "--id", "x").ok(t)
	r := &running{signals: make(chan os.Signal, 2), out: &lockedBuffer{}, err: &lockedBuffer{}, code: make(chan int, 1)}
	a := &app{
		stdin: tty, stdout: r.out, stderr: tty, environ: []string{"JETCREW_URL=" + url},
		signals: func() (<-chan os.Signal, func()) { return r.signals, func() {} },
	}
	go func() { r.code <- a.run([]string{"job", "delete", "--all"}) }()
	shown := ""
	for buf := make([]byte, 4096); !strings.Contains(shown, "[y/N] "); {
		require.NoError(t, person.SetReadDeadline(time.Now().Add(20*time.Second)))
		n, err := person.Read(buf)
		require.NoError(t, err, shown)
		shown += string(buf[:n])
	}
	require.Contains(t, shown, "delete 1 job of space default")
	require.Equal(t, exitFailure, r.stop(t))
	get(t, "pending", "x")
	_, err := person.WriteString("y\n") // ends the read
	require.NoError(t, err)
}
