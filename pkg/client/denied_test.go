package client_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/streams"
)

// restricted runs a server with the stream and a job made, on which user "r" may not publish to the subjects.
func restricted(t *testing.T, deny ...string) client.Config {
	t.Helper()
	s := serve(t, server.Options{JetStream: true, Users: []*server.User{
		{Username: "admin", Password: "a"},
		{Username: "r", Password: "r", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: deny}}},
	}})
	admin := connect(t, client.Config{URLs: []string{s.ClientURL()}, User: "admin", Password: "a"})
	_, err := admin.Enqueue(within(t), "t", nil, client.WithID("there"))
	require.NoError(t, err)
	return client.Config{URLs: []string{s.ClientURL()}, User: "r", Password: "r"}
}

// denySubscriptions is restricted for what user "r" may not subscribe to.
func denySubscriptions(t *testing.T, deny ...string) client.Config {
	t.Helper()
	s := serve(t, server.Options{JetStream: true, Users: []*server.User{{
		Username: "r", Password: "r", Permissions: &server.Permissions{Subscribe: &server.SubjectPermission{Deny: deny}},
	}}})
	return client.Config{URLs: []string{s.ClientURL()}, User: "r", Password: "r"}
}

// atOnce checks that an error is a denial of a subject, and came long before a request's own time-out.
func atOnce(t *testing.T, since time.Time, err error, subject string) {
	t.Helper()
	var denied *client.PermissionError
	require.ErrorAs(t, err, &denied)
	require.Equal(t, subject, denied.Subject)
	require.ErrorIs(t, err, nats.ErrPermissionViolation)
	require.NotErrorIs(t, err, context.Canceled, "nobody cancelled it")
	require.NotContains(t, err.Error(), "context")
	require.Less(t, time.Since(since), 4*time.Second)
}

// bulkPatience is how long a bulk call with some denied jobs may take.
const bulkPatience = 12 * time.Second

func TestADeniedEnqueueFailsAtOnce(t *testing.T) {
	cfg := restricted(t, "jetcrew.job.*.*.denied.>", "jetcrew.alarm.*.late.>", "$JS.API.CONSUMER.*.*.closed.>", "$JS.API.CONSUMER.*.*.ready-closed")
	log := &lockedBuffer{}
	cfg.Logger = zerolog.New(log)
	c := connect(t, cfg)

	from := time.Now()
	_, err := c.Enqueue(within(t), "t", nil, client.WithID("a b"), client.WithSpace("denied"))
	atOnce(t, from, err, "jetcrew.job.ready.default.denied.a=20b")
	require.Equal(t, 1, strings.Count(log.String(), "denies a permission"), "logged once: %s", log)

	from = time.Now()
	_, err = c.Enqueue(within(t), "t", nil, client.WithSpace("denied"))
	var denied *client.PermissionError
	require.ErrorAs(t, err, &denied, "also without an id of the caller's")
	require.Less(t, time.Since(from), 4*time.Second)

	from = time.Now()
	_, err = c.Enqueue(within(t), "t", nil, client.WithSpace("denied"), client.WithQueue(strings.Repeat("long ", 38)))
	require.ErrorAs(t, err, &denied, "also on a queue whose name is hashed")
	require.Less(t, time.Since(from), 4*time.Second)

	from = time.Now()
	_, err = c.Enqueue(within(t), "t", nil, client.WithSpace("late"), client.WithDelay(time.Hour))
	require.ErrorAs(t, err, &denied)
	require.Contains(t, denied.Subject, "jetcrew.alarm.default.late.")
	require.Less(t, time.Since(from), 4*time.Second)

	from = time.Now()
	_, err = c.Enqueue(within(t), "t", nil, client.WithQueue("closed"))
	atOnce(t, from, err, "$JS.API.CONSUMER.INFO.JETCREW_JOBS.ready-closed")

	from = time.Now()
	_, err = c.EnqueueAll(within(t), []job.Spec{{Type: "t", ID: "1"}, {Type: "t", ID: "2", Space: "denied"}, {Type: "t", ID: "3"}})
	atOnce(t, from, err, "jetcrew.job.ready.default.denied.2")
	_, err = c.Get(within(t), job.Key{ID: "1"})
	require.ErrorIs(t, err, job.ErrNotFound)

	_, err = c.Enqueue(within(t), "t", nil)
	require.NoError(t, err, "what is permitted works all the same")
}

func TestADenialInABulkCallIsThatJobsOwn(t *testing.T) {
	c := connect(t, restricted(t, "jetcrew.job.*.*.denied.>"))
	from := time.Now()
	out, err := c.EnqueueMany(within(t), []job.Spec{
		{Type: "t", ID: "1"}, {Type: "t", ID: "2", Space: "denied"}, {Type: "t", ID: "3"}, {ID: "no-type"},
	})
	var denied *client.PermissionError
	require.ErrorAs(t, err, &denied)
	require.Equal(t, "jetcrew.job.ready.default.denied.2", denied.Subject)
	require.Less(t, time.Since(from), bulkPatience)
	require.True(t, out[0].Created)
	require.Error(t, out[1].Err)
	require.True(t, out[2].Created)
	require.ErrorContains(t, out[3].Err, "type")

	from = time.Now()
	out, err = c.EnqueueMany(within(t), []job.Spec{{Type: "t", ID: "1", Space: "denied"}, {Type: "t", ID: "2", Space: "denied"}})
	atOnce(t, from, err, "jetcrew.job.ready.default.denied.1")
	atOnce(t, from, out[1].Err, "jetcrew.job.ready.default.denied.2")
}

func TestADenialEndsNoOtherCall(t *testing.T) {
	c := connect(t, restricted(t, "jetcrew.job.*.*.denied.>"))
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	go func() {
		_, err := c.Wait(ctx, job.Key{ID: "there"})
		ended <- err
	}()
	_, err := c.Enqueue(within(t), "t", nil, client.WithID("there"), client.WithSpace("denied"))
	require.Error(t, err)
	select {
	case err := <-ended:
		t.Fatalf("the wait ended: %v", err)
	default:
	}
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestADeniedReadFailsAtOnce(t *testing.T) {
	c := connect(t, restricted(t, "$JS.API.DIRECT.GET.JETCREW_JOBS"))
	from := time.Now()
	_, err := c.Get(within(t), job.Key{ID: "there"})
	atOnce(t, from, err, "$JS.API.DIRECT.GET.JETCREW_JOBS")
	from = time.Now()
	_, err = c.Wait(within(t), job.Key{ID: "there"})
	atOnce(t, from, err, "$JS.API.DIRECT.GET.JETCREW_JOBS")
}

func TestADeniedConnectFailsAtOnce(t *testing.T) {
	cfg := restricted(t, "$JS.API.STREAM.INFO.KV_JETCREW_WORKERS")
	from := time.Now()
	_, err := client.Connect(within(t), cfg)
	atOnce(t, from, err, "$JS.API.STREAM.INFO.KV_JETCREW_WORKERS")

	s := serve(t, server.Options{JetStream: true, Users: []*server.User{{
		Username: "r", Password: "r",
		Permissions: &server.Permissions{Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX_r.>"}}},
	}}})
	cfg = client.Config{URLs: []string{s.ClientURL()}, User: "r", Password: "r"}
	from = time.Now()
	_, err = client.Connect(within(t), cfg)
	var denied *client.PermissionError
	require.ErrorAs(t, err, &denied, "no answer can come")
	require.Contains(t, denied.Subject, "_INBOX.")
	require.Less(t, time.Since(from), 4*time.Second)
	cfg.InboxPrefix = "_INBOX_r"
	cfg.Streams = streams.Config{Namespace: "other"}
	connect(t, cfg)
}
