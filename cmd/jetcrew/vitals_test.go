package main

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

// Every role says how it is where it is told to, and nothing of the jobs' own.
func TestEveryRoleAnswersHowItIs(t *testing.T) {
	serve(t)
	const canary = "canary-77ab"
	w := start(t, "work", "--builtin", "echo", "--listen", "127.0.0.1:0")
	url := w.listening(t)
	call(t, "enqueue", "echo", "--id", canary, "--input", `{"secret":"`+canary+`"}`).ok(t)
	call(t, "schedule", "put", "tick", "--type", "echo", "--cron", "@every 1s").ok(t)
	natstest.Eventually(t, time.Minute, func() error {
		_, body := request(t, "GET", url+"/metrics", "", "")
		for _, want := range []string{
			`jetcrew_attempts_total{queue="default",result="succeeded",type="echo"}`, `jetcrew_schedule_fires_total{result="enqueued"}`,
			"jetcrew_leading 1\n", "jetcrew_store_up 1\n", `role="work"`,
		} {
			if !strings.Contains(body, want) {
				return errors.New("no " + want + " in " + body)
			}
		}
		require.NotContains(t, body, canary)
		return nil
	})
	call(t, "health", url+"/healthz").ok(t)
	call(t, "health", url+"/readyz").ok(t)

	s := start(t, "schedule", "--listen", "127.0.0.1:0")
	_, body := request(t, "GET", s.listening(t)+"/metrics", "", "")
	require.Contains(t, body, "jetcrew_leading 0\n")
	require.Contains(t, body, `role="schedule"`)
	require.Equal(t, exitOK, s.stop(t))

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	r := call(t, "work", "--builtin", "echo", "--listen", taken.Addr().String())
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.err, "--listen")
	r = call(t, "serve", "--listen", "127.0.0.1:0", "--metrics-listen", taken.Addr().String())
	require.Equal(t, exitFailure, r.code)
	require.Contains(t, r.err, "--metrics-listen")
	require.Equal(t, exitOK, w.stop(t))
}

// A worker that waits for its last jobs is not to be taken for dead.
func TestAWorkerAnswersWhileItDrains(t *testing.T) {
	serve(t)
	w := start(t, "work", "--builtin", "sleep", "--listen", "127.0.0.1:0")
	url := w.listening(t)
	call(t, "enqueue", "sleep", "--id", "long", "--input", `{"for":"1h"}`).ok(t)
	get(t, "running", "long")
	w.signals <- syscall.SIGTERM
	w.waitFor(t, "waiting for the jobs that run")
	call(t, "health", url+"/healthz").ok(t)
	_, body := request(t, "GET", url+"/metrics", "", "")
	require.Contains(t, body, `role="work"`)
	w.signals <- syscall.SIGTERM
	require.Equal(t, exitFailure, w.ends(t))
}
