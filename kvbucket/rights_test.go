package kvbucket

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

// A space is a subject filter, so rights can be given for one: here acme's, as docs/nats/accounts.conf has them for all.
const acmeOnly = `authorization { users: [
  { user: admin, password: admin }
  { user: acme, password: acme, permissions: {
    publish: { allow: [
      "$JS.API.INFO", "$JS.API.STREAM.INFO.KV_JETCREW_KV", "$JS.API.STREAM.MSG.GET.KV_JETCREW_KV"
      "$JS.API.DIRECT.GET.KV_JETCREW_KV.$KV.JETCREW_KV.v.acme.>"
      "$JS.API.CONSUMER.CREATE.KV_JETCREW_KV.*.$KV.JETCREW_KV.v.acme.>"
      "$JS.API.CONSUMER.MSG.NEXT.KV_JETCREW_KV.*", "$JS.API.CONSUMER.DELETE.KV_JETCREW_KV.*"
      "$KV.JETCREW_KV.v.acme.>"
    ]}
    subscribe: { allow: ["_INBOX.>"] }
  }}
]}`

func TestRightsToOneSpaceAreEnoughForIt(t *testing.T) {
	t.Parallel()
	url := natstest.StartServer(t, natstest.ServerConfig{Extra: acmeOnly}).URL()
	admin := open(t, url, config(), nats.UserInfo("admin", "admin"))
	for _, key := range []string{"v/acme/a", "v/acme/b/", "v/other/a", "v/acme2/a"} {
		set(t, admin, key, "1", 0)
	}
	cfg := config()
	cfg.Manage = ManageVerify
	acme := open(t, url, cfg, nats.UserInfo("acme", "acme"))
	has(t, acme, "v/acme/a", "1")
	set(t, acme, "v/acme//", "v", time.Hour)
	ok, err := acme.Swap(t.Context(), "v/acme/a", new("1"), "2", time.Hour)
	require.NoError(t, err)
	require.True(t, ok)
	sum, err := acme.Increment(t.Context(), "v/acme/a", 1)
	require.NoError(t, err)
	require.EqualValues(t, 3, sum)
	require.ElementsMatch(t, []string{"v/acme/a", "v/acme/b/", "v/acme//"}, keysOf(t, acme, "v/acme/"))
	n, err := acme.Wipe(t.Context(), "v/acme/")
	require.NoError(t, err)
	require.Equal(t, 3, n)

	denied := func(what string, do func(ctx context.Context) error) { // which looks like silence
		t.Helper()
		brief, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		require.Error(t, do(brief), what)
		require.ErrorIs(t, acme.nc.LastError(), nats.ErrPermissionViolation, what)
	}
	denied("set", func(ctx context.Context) error { return acme.Set(ctx, "v/other/a", "2", 0) })
	for _, prefix := range []string{"v/other/", "v/acme", ""} {
		denied("keys "+prefix, func(ctx context.Context) (last error) {
			for _, last = range acme.Keys(ctx, prefix) {
			}
			return last
		})
	}
	require.ElementsMatch(t, []string{"v/other/a", "v/acme2/a"}, keysOf(t, admin, ""))
	has(t, admin, "v/other/a", "1")
}
