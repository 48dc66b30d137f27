package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/worker"
)

// work runs a worker with one handler for each way in which a job can end.
func work(t *testing.T, url string) {
	t.Helper()
	c, err := client.Connect(t.Context(), client.Config{URLs: []string{url}})
	require.NoError(t, err)
	w, err := worker.New(c.Store(), worker.Config{})
	require.NoError(t, err)
	type none struct{}
	for typ, answer := range map[string]func() (any, error){
		"text":    func() (any, error) { return "hello", nil },
		"object":  func() (any, error) { return map[string]int{"n": 1}, nil },
		"nothing": func() (any, error) { return nil, nil },
		"refuse":  func() (any, error) { return nil, job.Refuse("no_funds", "the card has no funds") },
		"give-up": func() (any, error) { return nil, job.GiveUp(errors.New("no such customer")) },
	} {
		worker.Handle(w, typ, func(context.Context, *job.Job, none) (any, error) { return answer() })
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
		c.Close()
	})
}

func TestEnqueueWaitAnswersAsTheJobEnds(t *testing.T) {
	url := serve(t)
	work(t, url)
	for _, c := range []struct {
		typ       string
		code      int
		out, says string
	}{
		{"text", 0, "hello\n", ""},
		{"object", 0, `{"n":1}` + "\n", ""},
		{"nothing", 0, "", ""},
		{"refuse", exitJobFailed, "", "the card has no funds"},
		{"give-up", exitJobDead, "", "no such customer"},
	} {
		r := call(t, "enqueue", c.typ, "--wait", "--id", c.typ)
		require.Equal(t, c.code, r.code, r.err)
		require.Equal(t, c.out, r.out)
		require.Contains(t, r.err, c.says)

		again := call(t, "job", "wait", c.typ)
		require.Equal(t, r, again, "the wait for a job that has ended answers the same")

		r = call(t, "job", "wait", c.typ, "--json")
		require.Equal(t, c.code, r.code, r.err)
		var record map[string]any
		require.NoError(t, json.Unmarshal([]byte(r.out), &record))
		require.Equal(t, c.typ, record["id"])
	}
}

func TestWaitHasLimits(t *testing.T) {
	serve(t)
	r := call(t, "job", "wait", "nobody")
	require.Equal(t, exitNoJob, r.code, r.err)

	call(t, "enqueue", "text", "--id", "waits").ok(t) // no worker is there
	r = call(t, "job", "wait", "waits", "--timeout", "300ms")
	require.Equal(t, exitWaited, r.code, r.err)
	require.Contains(t, r.err, "not ended")
	r = call(t, "enqueue", "text", "--id", "waits", "--wait", "--wait-timeout", "300ms")
	require.Equal(t, exitWaited, r.code, r.err)

	for _, args := range [][]string{
		{"job", "wait"},
		{"job", "wait", ""},
		{"job", "wait", "x", "--timeout", "-1s"},
		{"job", "wait", "x", "--timeout", "soon"},
		{"enqueue", "text", "--wait-timeout", "1s"},
		{"enqueue", "--file", "jobs.jsonl", "--wait"},
	} {
		require.Equal(t, exitUsage, call(t, args...).code, "%q", args)
	}
}

func TestAWaitForAJobThatLeavesNoRecordSaysSo(t *testing.T) {
	serve(t)
	w := start(t, "enqueue", "text", "--wait") // no worker is there
	w.waitFor(t, "waiting for ")
	key := strings.TrimSpace(strings.TrimPrefix(w.err.String(), "waiting for "))
	call(t, "job", "delete", key[strings.LastIndex(key, "/")+1:]).ok(t)
	require.Equal(t, exitNoJob, w.ends(t))
	require.Contains(t, w.err.String(), "jetcrew: job "+key+" has ended and its queue keeps no record, or it was deleted: how it ended is not known\n")
	require.Empty(t, w.out.String())
}

func TestAnInterruptedWaitSaysSo(t *testing.T) {
	serve(t)
	call(t, "enqueue", "text", "--id", "waits").ok(t) // no worker is there
	for _, args := range [][]string{
		{"job", "wait", "waits"},
		{"enqueue", "text", "--id", "waits", "--wait"},
	} {
		w := start(t, args...)
		require.Equal(t, exitFailure, w.stop(t))
		require.Equal(t, "jetcrew: interrupted\n", w.err.String())
		require.Empty(t, w.out.String())
	}
}

func TestADeniedEnqueueEndsAtOnceAndSaysWhy(t *testing.T) {
	store := t.TempDir()
	admin, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, JetStream: true, StoreDir: store,
		Users: []*server.User{
			{Username: "admin", Password: "a"},
			{Username: "reader", Password: "r", Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Deny: []string{"jetcrew.job.>"}},
			}},
		},
	})
	require.NoError(t, err)
	admin.Start()
	require.True(t, admin.ReadyForConnections(10*time.Second))
	t.Cleanup(func() { admin.Shutdown(); admin.WaitForShutdown() })
	t.Setenv("JETCREW_URL", admin.ClientURL())
	t.Setenv("JETCREW_USER", "admin")
	t.Setenv("JETCREW_PASSWORD", "a")
	call(t, "setup").ok(t)
	t.Setenv("JETCREW_USER", "reader")
	t.Setenv("JETCREW_PASSWORD", "r")
	for _, args := range [][]string{{"enqueue", "t", "--id", "x"}, {"enqueue", "t", "--id", "x", "--wait"}, {"enqueue", "--file", "-"}} {
		from := time.Now()
		r := callWith(t, `{"type":"t","id":"x"}`, args...)
		require.Equal(t, exitFailure, r.code, r.err)
		require.Contains(t, r.err, `the server does not permit: Publish to "jetcrew.job.ready.default.default.x"`)
		require.NotContains(t, r.err, "context")
		require.Less(t, time.Since(from), 4*time.Second, "%q", args)
	}
}

func TestBenchMeasuresAServer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	serve(t)
	r := call(t, "bench", "--jobs", "100", "--rounds", "1", "--case", "enqueue,pickup", "--json").ok(t)
	var rep struct{ Figures []struct{ Ratio float64 } }
	require.NoError(t, json.Unmarshal([]byte(r.out), &rep))
	require.Len(t, rep.Figures, 3)
	r = call(t, "bench", "--jobs", "100", "--rounds", "1", "--case", "enqueue", "--embedded").ok(t)
	require.Contains(t, r.out, "goal")

	for _, args := range [][]string{
		{"bench", "--jobs", "1"},
		{"bench", "--case", "nonsense"},
		{"bench", "--rounds", "0x"},
		{"bench", "--replicas", "9"},
		{"bench", "--jobs", "0"},
		{"bench", "--embedded", "--url", "nats://127.0.0.1:1"},
		{"bench", "now"},
	} {
		require.Equal(t, exitUsage, call(t, args...).code, "%q", args)
	}
}
