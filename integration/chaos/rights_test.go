package chaos

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

// user is one of a server's users. Whoever has no password is none.
type user struct {
	name, password, permissions string
}

func authorization(users ...user) string {
	var b strings.Builder
	for _, u := range users {
		if u.password != "" {
			fmt.Fprintf(&b, "    { user: %q, password: %q, permissions: { %s } }\n", u.name, u.password, u.permissions)
		}
	}
	return "authorization {\n  users: [\n" + b.String() + "  ]\n}"
}

// as is a server's URL for a user.
func as(p *natstest.Process, name, password string) string {
	return strings.Replace(p.URL(), "://", "://"+name+":"+password+"@", 1)
}

// ends waits until a worker cannot go on, and wants its process to say so by its exit code.
func (h *hand) ends() {
	h.crew.t.Helper()
	h.says("worker cannot go on")
	require.Equal(h.crew.t, 1, h.Wait(patience), "exit code of worker %s", h.id)
}

// A user's password is changed, and another user is removed, while their workers run jobs. Their connections are closed
// for good, their processes end, and others take their jobs over.
func TestCredentialsRotatedAndRevoked(t *testing.T) {
	heavy(t)
	t.Parallel()
	admin := user{name: "admin", password: "a"}
	one, two := user{name: "one", password: "1"}, user{name: "two", password: "2"}
	server := natstest.StartServer(t, natstest.ServerConfig{Extra: authorization(admin, one, two)})
	c := newCrew(t, as(server, "admin", "a"), workerConfig{Lease: 2 * time.Second})
	steady := c.work("steady")
	c.cfg.URL = as(server, "one", "1")
	first := c.work("first")
	c.cfg.URL = as(server, "two", "2")
	second := c.work("second")
	c.start(2, 20*time.Millisecond)

	for _, v := range []struct {
		victim *hand
		change func()
	}{
		{first, func() { one.password = "new" }},
		{second, func() { two.password = "" }},
	} {
		c.progress(60)
		ids := c.put(24, "held-by-"+v.victim.id, input{Sleep: 1500})
		v.victim.busy(2)
		v.change()
		server.Reload(t, authorization(admin, one, two))
		c.faulted()
		v.victim.ends()
		for _, line := range v.victim.said {
			require.NotContains(t, line, "@127.0.0.1", "a URL with a password was logged")
		}
		c.until(func() error {
			for _, id := range ids {
				if c.account.count(is(eventSettled, "", id)) == 0 {
					return fmt.Errorf("job %s was not taken over", id)
				}
			}
			return nil
		})
	}
	c.cfg.URL = as(server, "one", "new")
	again := c.work("again")
	c.progress(60)
	again.busy(1)
	c.finish()
	c.check(vanished)
	c.dismiss(steady, again)
}

// A worker may not write outcomes any more, or not acknowledge, or not ask for jobs; and then it may again. It goes on
// by itself.
func TestPermissionsTakenAwayAndGivenBack(t *testing.T) {
	heavy(t)
	t.Parallel()
	admin, one := user{name: "admin", password: "a"}, user{name: "one", password: "1"}
	server := natstest.StartServer(t, natstest.ServerConfig{Extra: authorization(admin, one)})
	c := newCrew(t, as(server, "admin", "a"), workerConfig{Lease: 2 * time.Second})
	steady := c.work("steady")
	c.cfg.URL = as(server, "one", "1")
	victim := c.work("victim")
	c.start(2, 20*time.Millisecond)
	for _, denied := range []string{"jetcrew.job.>", "$JS.ACK.>", "$JS.API.CONSUMER.MSG.NEXT.>", "$JS.API.DIRECT.>"} {
		c.progress(40)
		victim.busy(1)
		one.permissions = fmt.Sprintf("publish: { deny: [%q] }", denied)
		server.Reload(t, authorization(admin, one))
		c.faulted()
		time.Sleep(3 * time.Second) // the fault itself: longer than a lease
		one.permissions = ""
		server.Reload(t, authorization(admin, one))
		before := c.account.count(is(eventSettled, victim.id, ""))
		c.until(func() error {
			if got := c.account.count(is(eventSettled, victim.id, "")); got < before+5 {
				return fmt.Errorf("%s: the worker has settled %d jobs since it may again", denied, got-before)
			}
			return nil
		})
	}
	c.finish()
	c.check(vanished)
	c.dismiss(steady, victim)
}
