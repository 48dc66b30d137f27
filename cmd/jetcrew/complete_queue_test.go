package main

import (
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

func TestAShellCompletesQueues(t *testing.T) {
	url := serve(t)
	call(t, "setup").ok(t)
	for _, q := range []string{"mail", "mass", "other", "evil\x1b[2J", "two\nlines"} {
		call(t, "queue", "configure", q, "--concurrency", "7").ok(t)
	}
	for _, c := range []struct {
		args []string
		out  string
	}{
		{[]string{"job", "list", "--queue", "m"}, "mail\nmass\n:4\n"},
		{[]string{"job", "get", "x", "--queue", "ma"}, "mail\nmass\n:4\n"},
		{[]string{"job", "wait", "x", "--queue", "o"}, "other\n:4\n"},
		{[]string{"job", "watch", "--queue", "o"}, "other\n:4\n"},
		{[]string{"job", "cancel", "--queue", "evil"}, ":4\n"},
		{[]string{"enqueue", "t", "--queue", "mai"}, "mail\n:4\n"},
		{[]string{"queue", "info", "ma"}, "mail\nmass\n:4\n"},
		{[]string{"queue", "pause", "ma"}, "mail\nmass\n:4\n"},
		{[]string{"queue", "resume", "ma"}, "mail\nmass\n:4\n"},
		{[]string{"queue", "configure", "ma"}, "mail\nmass\n:4\n"},
		{[]string{"queue", "purge", "two"}, ":4\n"},
		{[]string{"queue", "delete", "mas"}, "mass\n:4\n"},
		{[]string{"queue", "delete", "mass", "ma"}, ":4\n"},
		{[]string{"queue", "list", ""}, ":4\n"},
		{[]string{"--namespace", "elsewhere", "queue", "info", ""}, ":4\n"},
	} {
		r := call(t, append([]string{"__complete"}, c.args...)...).ok(t)
		require.Equal(t, c.out, r.out, "%q: %s", c.args, r.err)
	}
	t.Setenv("JETCREW_URL", "nats://127.0.0.1:1")
	r := call(t, "__complete", "--url", url, "queue", "info", "o").ok(t)
	require.Equal(t, "other\n:4\n", r.out, "flags beat the environment")

	nc, err := nats.Connect(url)
	require.NoError(t, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	_, err = js.Stream(t.Context(), "ELSEWHERE_JOBS")
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound, "to complete makes nothing")
}

func TestACompletionThatCannotBeIsSilent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, and says nothing
	require.NoError(t, err)
	defer l.Close()
	silent := "nats://" + l.Addr().String()
	for _, url := range []string{"nats://127.0.0.1:1", silent, silent + "," + silent + "," + silent, "http://no", "nats://%zz"} {
		quick := make(chan result, 1)
		go func() { quick <- call(t, "__complete", "--url", url, "queue", "info", "") }()
		select {
		case r := <-quick:
			require.Zero(t, r.code, url)
			require.Equal(t, ":4\n", r.out, url)
			require.NotContains(t, r.err, "level", url) // no log
			require.NotContains(t, r.err, "jetcrew:", url)
		case <-time.After(20 * time.Second): // a second, on a machine that is busy
			t.Fatalf("%s takes too long", url)
		}
	}
}
