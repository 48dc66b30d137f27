package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestATerminalIsAskedBeforeSchedulesArePruned(t *testing.T) {
	url := serve(t)
	path := write(t, "s.yaml", "owner: svc\nschedules: [{name: a, type: t, cron: '@daily'}]", 0o600)
	for _, c := range []struct {
		typed string
		code  int
		left  []string
	}{
		{"n\n", exitFailure, []string{"default/gone\x1b"}},
		{"y\n", exitOK, []string{"default/a"}},
	} {
		call(t, "schedule", "put", "gone\x1b", "--type", "t", "--cron", "@daily", "--owner", "svc").ok(t)
		person, tty := terminal(t)
		_, err := person.WriteString(c.typed)
		require.NoError(t, err)
		a := &app{stdin: tty, stdout: &lockedBuffer{}, stderr: tty, environ: []string{"JETCREW_URL=" + url}, signals: processSignals}
		require.Equal(t, c.code, a.run([]string{"schedule", "put", "--file", path, "--prune"}))
		require.Equal(t, c.left, schedulesOf(t))
		shown := ""
		for buf := make([]byte, 4096); !strings.Contains(shown, `delete 1 schedule of svc: default/gone\x1b? [y/N]`); {
			require.NoError(t, person.SetReadDeadline(time.Now().Add(20*time.Second)))
			n, err := person.Read(buf)
			require.NoError(t, err, shown)
			shown += string(buf[:n])
		}
	}
}
