package client_test

import (
	"context"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/kvbucket"
	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
	"github.com/jetcrew/jetcrew/streams"
)

func TestAClientHasAStore(t *testing.T) {
	s := serve(t, server.Options{JetStream: true})
	cfg := client.Config{URLs: []string{s.ClientURL()}, Streams: streams.Config{Namespace: "crew"}}
	c := connect(t, cfg)
	js, err := jetstream.New(c.Conn())
	require.NoError(t, err)
	_, err = js.Stream(within(t), "KV_CREW_KV")
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound, "who does not ask for it needs no bucket")

	ctx := within(t)
	require.Same(t, c.KV(), c.KV())
	space := c.KV().Space("acme")
	require.NoError(t, space.Set(ctx, "k", 1, time.Hour))
	sum, err := space.Increment(ctx, "k", 2, 0)
	require.NoError(t, err)
	require.EqualValues(t, 3, sum)
	won, err := space.Swap(ctx, "k", 3, 4, 0)
	require.NoError(t, err)
	require.True(t, won)
	there, err := space.Expire(ctx, "k", time.Hour)
	require.NoError(t, err)
	require.True(t, there)
	gone, err := space.DeleteIf(ctx, "k", 3)
	require.NoError(t, err)
	require.False(t, gone)
	other, err := connect(t, cfg).OpenKV(ctx)
	require.NoError(t, err)
	require.Empty(t, other.Drift())
	raw, _, err := other.Get(ctx, "v/acme/k")
	require.NoError(t, err)
	require.Equal(t, "4", raw)

	for e, err := range space.Watch(ctx, "", kv.WatchOptions{}) {
		require.NoError(t, err)
		if e.Kind == kv.EventWatching {
			break
		}
		require.Equal(t, "k", e.Key)
	}
	require.NoError(t, space.Set(ctx, "x", 1, 0))
	require.NoError(t, space.Delete(ctx, "x"))
	n, err := space.Wipe(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	for key, err := range space.Keys(ctx, "") {
		t.Fatal(key, err)
	}

	c.Close()
	require.ErrorIs(t, space.Set(ctx, "k", 1, 0), kvbucket.ErrClosed)
	_, err = c.OpenKV(ctx)
	require.ErrorIs(t, err, kvbucket.ErrClosed)
}

func TestABucketThatMayOnlyBeVerifiedIsNotMade(t *testing.T) {
	s := serve(t, server.Options{JetStream: true})
	connect(t, client.Config{URLs: []string{s.ClientURL()}}) // makes the stream
	c := connect(t, client.Config{URLs: []string{s.ClientURL()}, Streams: streams.Config{Manage: streams.ManageVerify}})
	space := c.KV().Space("acme")
	err := space.Set(within(t), "k", 1, 0)
	require.ErrorIs(t, err, kvbucket.ErrSettings)
	require.ErrorContains(t, err, "it is missing")

	_, err = connect(t, client.Config{URLs: []string{s.ClientURL()}}).OpenKV(within(t))
	require.NoError(t, err)
	require.NoError(t, space.Set(within(t), "k", 1, 0), "it is tried again")
}

func TestAClientWithoutRightsForTheBucketWorksForJobs(t *testing.T) {
	c := connect(t, restricted(t, "$JS.API.STREAM.INFO.KV_JETCREW_KV"))
	_, err := c.Enqueue(within(t), "t", nil, client.WithID("x"))
	require.NoError(t, err)
	since := time.Now()
	err = c.KV().Space("acme").Set(within(t), "k", 1, 0)
	atOnce(t, since, err, "$JS.API.STREAM.INFO.KV_JETCREW_KV")
	_, err = c.OpenKV(within(t))
	require.ErrorAs(t, err, new(*client.PermissionError))
	_, err = c.Get(within(t), job.Key{ID: "x"})
	require.NoError(t, err)
}

func TestADenialEndsOnlyTheCallsThatItConcerns(t *testing.T) {
	cfg := restricted(t, "$KV.JETCREW_KV.v.denied.>", "$JS.API.DIRECT.GET.KV_JETCREW_KV.$KV.JETCREW_KV.v.denied.>",
		"$JS.API.CONSUMER.CREATE.KV_JETCREW_KV.*.$KV.JETCREW_KV.v.denied.>")
	c := connect(t, cfg)
	ctx := within(t)
	allowed, denied := c.KV().Space("allowed"), c.KV().Space("denied")
	require.NoError(t, allowed.Set(ctx, "k", 1, 0))

	watched := make(chan error, 1)
	watching := make(chan struct{})
	seen := make(chan struct{})
	watch, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		for e, err := range allowed.Watch(watch, "", kv.WatchOptions{ChangesOnly: true}) {
			switch {
			case err != nil:
				watched <- err
			case e.Kind == kv.EventWatching:
				close(watching)
			case e.Key == "last":
				close(seen)
			}
		}
	}()
	<-watching

	since := time.Now()
	err := denied.Set(ctx, "k", 1, 0)
	atOnce(t, since, err, "$KV.JETCREW_KV.v.denied.k")
	require.NotErrorIs(t, err, kv.ErrUnknown, "it is known that nothing was stored")
	since = time.Now()
	_, err = denied.Get(ctx, "k", new(int))
	atOnce(t, since, err, "$JS.API.DIRECT.GET.KV_JETCREW_KV.$KV.JETCREW_KV.v.denied.k")
	since = time.Now()
	_, err = denied.Swap(ctx, "k", nil, 1, 0)
	atOnce(t, since, err, "$KV.JETCREW_KV.v.denied.k")
	for _, err := range denied.Watch(ctx, "", kv.WatchOptions{}) {
		if err != nil {
			require.ErrorAs(t, err, new(*client.PermissionError))
			require.ErrorContains(t, err, "v.denied.>")
		}
	}

	require.NoError(t, allowed.Set(ctx, "last", 1, 0))
	select {
	case <-seen:
	case err := <-watched:
		t.Fatal("another's denial ended the watch: ", err)
	case <-ctx.Done():
		t.Fatal("the watch has seen nothing")
	}
	stop()
	require.ErrorIs(t, <-watched, context.Canceled)
}

func TestTheDocumentedPermissionsAreEnough(t *testing.T) {
	doc, err := os.ReadFile("../../docs/kv.md")
	require.NoError(t, err)
	var allow []string
	for _, subject := range regexp.MustCompile(`(?m)^(?:    publish: )? +(\$\S+)$`).FindAllStringSubmatch(string(doc), -1) {
		allow = append(allow, subject[1])
	}
	require.Len(t, allow, 8+2)
	s := serve(t, server.Options{JetStream: true, Users: []*server.User{
		{Username: "admin", Password: "a"},
		{Username: "r", Password: "r", Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: allow},
			Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
		}},
	}})
	admin := connect(t, client.Config{URLs: []string{s.ClientURL()}, User: "admin", Password: "a"})
	ctx := within(t)
	_, err = admin.OpenKV(ctx)
	require.NoError(t, err)
	c := connect(t, client.Config{
		URLs: []string{s.ClientURL()}, User: "r", Password: "r", Streams: streams.Config{Manage: streams.ManageVerify},
	})
	space := c.KV().Space("acme")
	require.NoError(t, space.Set(ctx, "a/b", 1, time.Hour))
	_, err = space.Increment(ctx, "a/b", 1, time.Minute)
	require.NoError(t, err)
	_, _, err = space.List("board").Put(ctx, "ada", 1, nil)
	require.NoError(t, err)
	n, _, err := kv.Get[int](ctx, space, "a/b")
	require.NoError(t, err)
	require.Equal(t, 2, n)
	for _, err := range space.Keys(ctx, "a/") {
		require.NoError(t, err)
	}
	for e, err := range space.Watch(ctx, "", kv.WatchOptions{}) {
		require.NoError(t, err)
		if e.Kind == kv.EventWatching {
			break
		}
	}
	wiped, err := space.Wipe(ctx)
	require.NoError(t, err)
	require.Equal(t, 2, wiped)
	require.ErrorAs(t, c.KV().Space("other").Set(ctx, "k", 1, 0), new(*client.PermissionError))
}
