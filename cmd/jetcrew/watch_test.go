package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/embedded"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// whileWatching does something again and again until a watch shows it: nothing says from outside when one has begun.
func whileWatching(t *testing.T, w *running, text string, do func(n int)) {
	t.Helper()
	n := 0
	require.Eventually(t, func() bool {
		n++
		do(n)
		return strings.Contains(w.out.String(), text)
	}, 20*time.Second, 20*time.Millisecond, "%q in %s%s", text, w.out, w.err)
}

func TestChangesAreShownLive(t *testing.T) {
	url := serve(t)
	nc, err := nats.Connect(url)
	require.NoError(t, err)
	defer nc.Close()
	call(t, "setup").ok(t)
	put := func(n int) { call(t, "enqueue", "t", "--id", "job").ok(t); call(t, "job", "delete", "job").ok(t) }

	all := start(t, "job", "watch")
	other := start(t, "job", "watch", "--all-spaces", "--queue", "mail", "--type", "email", "--json")
	whileWatching(t, all, "default/default/job  ready\n", put)
	whileWatching(t, all, "default/default/job  deleted\n", put)
	require.Regexp(t, `(?m)^\d{4}-\S{18}Z  default/default/job  ready$`, all.out.String())
	whileWatching(t, other, `"event":"cancelled"`, func(int) {
		call(t, "enqueue", "email", "--id", "e", "--space", "acme", "--queue", "mail", "--delay", "1h").ok(t)
		call(t, "job", "cancel", "e", "--space", "acme").ok(t)
		call(t, "job", "delete", "e", "--space", "acme").ok(t)
	})

	// What handlers say, and what is no event at all.
	require.NoError(t, nc.Publish("jetcrew.event.log.default.default.job", []byte(`garbage`)))
	require.NoError(t, nc.Publish("jetcrew.event.nonsense.default.default.job", []byte(`{}`)))
	require.NoError(t, nc.Publish("jetcrew.event.log.default.default.job", []byte(`[{"at":"2030-01-31T09:00:00Z","text":"one\u001b[2J"},{"text":"two"}]`)))
	require.NoError(t, nc.Publish("jetcrew.event.progress.default.default.job", []byte(`{"done":12.5,"note":"pages","at":"2030-01-31T09:00:00Z"}`)))
	require.NoError(t, nc.Publish("jetcrew.event.progress.default.default.job", []byte(`null`)))
	all.waitFor(t, "2030-01-31T09:00:00.000Z  default/default/job  log        one\\x1b[2J\n")
	all.waitFor(t, "default/default/job  log        two\n")
	all.waitFor(t, "2030-01-31T09:00:00.000Z  default/default/job  progress   12.5 pages\n")
	require.NotContains(t, all.out.String(), "mail/", "another space is not shown")
	require.NotContains(t, all.out.String(), "nonsense")

	require.Equal(t, exitOK, all.stop(t))
	require.Equal(t, exitOK, other.stop(t))
	require.Empty(t, all.err.String())
	for _, line := range strings.Split(strings.TrimSpace(other.out.String()), "\n") {
		var e client.Event
		require.NoError(t, json.Unmarshal([]byte(line), &e), line)
		require.Equal(t, "mail/acme/e", e.Key().String())
		require.False(t, e.At.IsZero(), line)
		if e.Kind != client.EventDeleted {
			require.Equal(t, "email", e.Type)
		}
	}
}

func TestAJobIsWatchedUntilItHasEnded(t *testing.T) {
	url := serve(t)
	for typ, c := range map[string]struct {
		code int
		says string
	}{
		"text": {0, ""}, "refuse": {exitJobFailed, "the card has no funds"}, "give-up": {exitJobDead, "no such customer"},
	} {
		call(t, "enqueue", typ, "--id", typ).ok(t)
		w := start(t, "job", "watch", typ)
		w.waitFor(t, "default/default/"+typ+"  ready")
		defer func() {
			require.Equal(t, c.code, w.ends(t), w.err)
			require.Contains(t, w.err.String(), c.says)
			require.Contains(t, w.out.String(), "attempt 1  on ")
			again := call(t, "job", "watch", typ)
			require.Equal(t, c.code, again.code, "of a job that has ended, the end is shown")
			require.Equal(t, 1, strings.Count(again.out, "\n"), again.out)
		}()
	}
	work(t, url)
}

func TestWatchingOneJobHasLimits(t *testing.T) {
	serve(t)
	require.Equal(t, exitNoJob, call(t, "job", "watch", "nobody").code)
	call(t, "enqueue", "t", "--id", "x", "--queue", "a", "--delay", "1h").ok(t)
	w := start(t, "job", "watch", "x", "--json")
	w.waitFor(t, `"event":"due"`)
	require.Equal(t, exitOK, w.stop(t), "a signal is how a watch ends")
	require.Empty(t, w.err.String())

	w = start(t, "job", "watch", "x")
	w.waitFor(t, "runs at")
	call(t, "job", "delete", "x").ok(t)
	require.Equal(t, exitNoJob, w.ends(t))
	require.Contains(t, w.err.String(), "job a/default/x has ended and its queue keeps no record, or it was deleted")

	call(t, "enqueue", "t", "--id", "x", "--queue", "a").ok(t)
	call(t, "enqueue", "t", "--id", "x", "--queue", "b").ok(t)
	r := call(t, "job", "watch", "x")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.err, "several queues")
}

func TestAWatchOutlivesItsServer(t *testing.T) {
	dir := t.TempDir()
	srv, err := embedded.Start(embedded.Config{Dir: dir})
	require.NoError(t, err)
	t.Setenv("JETCREW_URL", srv.URL())
	nc, err := nats.Connect(srv.URL())
	require.NoError(t, err)
	_, port, _ := strings.Cut(nc.ConnectedAddr(), ":")
	nc.Close()
	call(t, "enqueue", "t", "--id", "x", "--delay", "1h").ok(t)
	w := start(t, "job", "watch", "x")
	w.waitFor(t, "default/default/x  due")
	counts := start(t, "job", "counts", "--watch")
	counts.waitFor(t, "CANCELLED")
	srv.Shutdown()
	w.waitFor(t, "connection to NATS lost")
	srv, err = embedded.Start(embedded.Config{Dir: dir, Port: atoi(t, port)})
	require.NoError(t, err)
	defer srv.Shutdown()
	call(t, "job", "cancel", "x").ok(t)
	require.Equal(t, exitJobCancelled, w.ends(t), "%s%s", w.out, w.err)
	require.Contains(t, w.out.String(), "default/default/x  cancelled")
	require.Contains(t, w.err.String(), "connection to NATS is back")
	lines := strings.Count(counts.out.String(), "\n")
	require.Eventually(t, func() bool { return strings.Count(counts.out.String(), "\n") > lines }, 20*time.Second, 20*time.Millisecond)
	require.Equal(t, exitOK, counts.stop(t), counts.err)
}

func atoi(t *testing.T, s string) int {
	t.Helper()
	var n int
	require.NoError(t, json.Unmarshal([]byte(s), &n))
	return n
}

func TestOldNewsAreNotShownOfOneJob(t *testing.T) {
	at := time.Date(2030, 1, 31, 9, 0, 0, 0, time.UTC)
	a := &app{stdout: &lockedBuffer{}, stderr: &lockedBuffer{}}
	w := &watching{app: a, ended: make(chan struct{}), shown: &job.Job{Status: job.Running, Attempts: 2, UpdatedAt: at}}
	for _, old := range []client.Event{
		{Kind: "running", Status: job.Running, Attempts: 2, At: at},
		{Kind: "due", Status: job.Pending, Attempts: 1, At: at.Add(-time.Second)},
	} {
		require.NoError(t, w.change(t.Context(), job.Key{}, old))
	}
	require.Empty(t, a.stdout.(*lockedBuffer).String())
	require.NoError(t, w.change(t.Context(), job.Key{}, client.Event{Kind: "dead", Status: job.Dead, Attempts: 2, At: at}))
	require.Contains(t, a.stdout.(*lockedBuffer).String(), "dead")
	<-w.ended
	require.NoError(t, w.show(client.Event{Kind: client.EventMissed, At: at}))
	require.Contains(t, a.stderr.(*lockedBuffer).String(), "some events were missed")
}

func TestOneJobsEndIsToldOnce(t *testing.T) {
	at := time.Date(2030, 1, 31, 9, 0, 0, 0, time.UTC)
	for name, first := range map[string]time.Time{"the event": at, "the record": at.Add(time.Millisecond)} {
		out := &lockedBuffer{}
		w := &watching{app: &app{stdout: out}, ended: make(chan struct{})}
		event := client.Event{Kind: "succeeded", Status: job.Succeeded, Attempts: 1, WorkerID: "w", At: at}
		record := &job.Job{Status: job.Succeeded, Attempts: 1, WorkerID: "w", UpdatedAt: at.Add(time.Millisecond)}
		if first.Equal(at) {
			require.NoError(t, w.change(t.Context(), job.Key{}, event))
			require.NoError(t, w.record(record))
		} else {
			require.NoError(t, w.record(record))
			require.NoError(t, w.change(t.Context(), job.Key{}, event))
		}
		require.Equal(t, 1, strings.Count(out.String(), "succeeded"), "%s first: %s", name, out)
	}
}

func TestAWatchTellsThatAJobIsBeingStopped(t *testing.T) {
	at := time.Date(2030, 1, 31, 9, 0, 0, 0, time.UTC)
	out := &lockedBuffer{}
	w := &watching{app: &app{stdout: out}, ended: make(chan struct{})}
	running := client.Event{Kind: "running", Status: job.Running, Attempts: 1, WorkerID: "w", At: at}
	require.NoError(t, w.change(t.Context(), job.Key{}, running))
	running.CancelRequested = true
	require.NoError(t, w.change(t.Context(), job.Key{}, running))
	require.NoError(t, w.change(t.Context(), job.Key{}, running))
	require.Equal(t, 1, strings.Count(out.String(), "running    attempt 1  on w  cancel requested\n"), out.String())
	require.Equal(t, 2, strings.Count(out.String(), "running"), out.String())
	out = &lockedBuffer{}
	w = &watching{app: &app{stdout: out}, json: true}
	require.NoError(t, w.show(running))
	require.Contains(t, out.String(), `"cancelRequested":true`)
}
