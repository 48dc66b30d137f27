package chaos

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

// identity is an operator, an account or a user, as servers know them that trust an operator.
type identity struct {
	t    testing.TB
	keys nkeys.KeyPair
	id   string
}

func newIdentity(t testing.TB, create func() (nkeys.KeyPair, error)) *identity {
	t.Helper()
	keys, err := create()
	require.NoError(t, err)
	id, err := keys.PublicKey()
	require.NoError(t, err)
	return &identity{t: t, keys: keys, id: id}
}

// token is what an identity says of another one, signed. It expires after a lifetime, unless that is 0.
func (i *identity) token(of *identity, lifetime time.Duration, claims map[string]any) string {
	i.t.Helper()
	now := time.Now()
	claims["version"] = 2
	body := map[string]any{"jti": rand.Text(), "iat": now.Unix(), "iss": i.id, "sub": of.id, "name": of.id, "nats": claims}
	if lifetime > 0 {
		body["exp"] = now.Add(lifetime).Unix()
	}
	part := func(v any) string {
		text, err := json.Marshal(v)
		require.NoError(i.t, err)
		return base64.RawURLEncoding.EncodeToString(text)
	}
	signed := part(map[string]string{"typ": "JWT", "alg": "ed25519-nkey"}) + "." + part(body)
	signature, err := i.keys.Sign([]byte(signed))
	require.NoError(i.t, err)
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// authority hands out credentials for one account, which the server with its configuration takes.
type authority struct {
	t             testing.TB
	account       *identity
	configuration string
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	operator, account := newIdentity(t, nkeys.CreateOperator), newIdentity(t, nkeys.CreateAccount)
	system := newIdentity(t, nkeys.CreateAccount)
	limits := map[string]any{"wildcards": true}
	for _, what := range []string{"subs", "data", "payload", "imports", "exports", "conn", "leaf"} {
		limits[what] = -1
	}
	describe := func(a *identity) string {
		return operator.token(a, 0, map[string]any{"type": "account", "limits": maps.Clone(limits)})
	}
	internal := describe(system)
	for _, what := range []string{"mem_storage", "disk_storage", "streams", "consumer"} {
		limits[what] = -1 // a system account has no streams
	}
	return &authority{t: t, account: account, configuration: fmt.Sprintf(
		"operator: %s\nsystem_account: %s\nresolver: MEMORY\nresolver_preload: {\n  %s: %s\n  %s: %s\n}\n",
		operator.token(operator, 0, map[string]any{"type": "operator"}), system.id,
		account.id, describe(account), system.id, internal)}
}

// credentials are a new user's, in a file as the NATS tools write it.
func (a *authority) credentials(lifetime time.Duration) string {
	a.t.Helper()
	user := newIdentity(a.t, nkeys.CreateUser)
	seed, err := user.keys.Seed()
	require.NoError(a.t, err)
	token := a.account.token(user, lifetime, map[string]any{"type": "user", "subs": -1, "data": -1, "payload": -1})
	path := filepath.Join(a.t.TempDir(), "user.creds")
	text := fmt.Sprintf("-----BEGIN NATS USER JWT-----\n%s\n------END NATS USER JWT------\n\n"+
		"-----BEGIN USER NKEY SEED-----\n%s\n------END USER NKEY SEED------\n", token, seed)
	require.NoError(a.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// A worker's credentials expire while it runs jobs, and nobody renews them: its connection is closed for good, its
// process ends, and another takes its jobs over. Whose file is renewed in time goes on.
func TestCredentialsExpire(t *testing.T) {
	heavy(t)
	t.Parallel()
	of := newAuthority(t)
	server := natstest.StartServer(t, natstest.ServerConfig{Extra: of.configuration})
	lasting := of.credentials(0)
	c := newCrew(t, server.URL(), workerConfig{Lease: 2 * time.Second, Credentials: lasting})
	steady := c.work("steady")
	const lifetime = 8 * time.Second
	c.cfg.Credentials = of.credentials(lifetime)
	victim := c.work("victim")
	renewed := of.credentials(lifetime)
	c.cfg.Credentials = renewed
	careful := c.work("careful")
	text, err := os.ReadFile(lasting)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(renewed, text, 0o600))

	c.start(2, 20*time.Millisecond)
	c.progress(60)
	ids := c.put(60, "held", input{Sleep: 2000})
	victim.busy(2)
	victim.ends()
	c.faulted()
	c.until(func() error {
		for _, id := range ids {
			if c.account.count(is(eventSettled, "", id)) == 0 {
				return fmt.Errorf("job %s was not taken over", id)
			}
		}
		return nil
	})
	c.progress(60)
	c.finish()
	c.check(vanished)
	c.dismiss(steady, careful)
}
