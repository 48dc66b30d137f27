package doctor

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
)

// deployed is a server with the accounts of docs/nats, changed as wanted, where each user's password is its name.
func deployed(t *testing.T, change ...string) string {
	t.Helper()
	b, err := os.ReadFile("../../docs/nats/accounts.conf")
	require.NoError(t, err)
	conf := strings.NewReplacer(change...).Replace(string(b))
	for i := 0; i < len(change); i += 2 {
		require.Contains(t, string(b), change[i])
	}
	var vars strings.Builder
	fmt.Fprintln(&vars, "NATS_SYS_PASSWORD: sys")
	for _, user := range append(Roles(), "admin") {
		fmt.Fprintf(&vars, "JETCREW_%s_PASSWORD: %s\n", strings.ToUpper(user), user)
	}
	p := natstest.StartServer(t, natstest.ServerConfig{Extra: vars.String() + conf})
	settle(t, as(p.URL(), "admin"), 1)
	return p.URL()
}

func as(url, user string) string { return strings.Replace(url, "://", "://"+user+":"+user+"@", 1) }

func TestEachRoleHasWhatItNeeds(t *testing.T) {
	t.Parallel()
	url := deployed(t)
	for _, role := range Roles() {
		inbox := nats.CustomInboxPrefix("_INBOX_" + role)
		r := examine(t, as(url, role), Config{Role: role}, inbox)
		r.allOK(t, "permissions", "jobs-stream", "jetstream", "inbox")
		require.Contains(t, examine(t, as(url, role), Config{}, inbox).has(t, "permissions", OK, "").Facts["roles"], role)
	}
	r := examine(t, as(url, "admin"), Config{})
	require.Equal(t, Roles(), r.has(t, "permissions", OK, "").Facts["roles"])
}

// A user that may not look is told so at once, and by which right that it lacks.
func TestWhatMayNotBeLookedAtIsNotChecked(t *testing.T) {
	t.Parallel()
	url := deployed(t)
	r := examine(t, as(url, "producer"), Config{Role: "producer"}, nats.CustomInboxPrefix("_INBOX_producer"))
	for id, subject := range map[string]string{
		"kv-bucket":        "$JS.API.STREAM.INFO.KV_JETCREW_KV",
		"schedules-bucket": "$JS.API.STREAM.INFO.KV_JETCREW_SCHEDULES",
		"leader-bucket":    "$JS.API.STREAM.INFO.KV_JETCREW_LEADER",
		"leader":           "$JS.API.STREAM.INFO.KV_JETCREW_LEADER",
		"consumers":        "$JS.API.CONSUMER.LIST.JETCREW_JOBS",
		"queues":           "$JS.API.CONSUMER.LIST.JETCREW_JOBS",
		"dead-jobs":        "$JS.API.CONSUMER.LIST.JETCREW_JOBS",
	} {
		f := r.has(t, id, Warning, "not checked: no permission for Publish to")
		require.Equal(t, subject, f.Facts["subject"], id)
	}
	require.Zero(t, r.Count(Error), r)
	r.allOK(t, "clock", "jobs-stream", "workers-bucket", "permissions")

	ro := examine(t, as(url, "readonly"), Config{}, nats.CustomInboxPrefix("_INBOX_readonly"))
	for _, f := range ro.Findings {
		require.NotContains(t, f.Text, "no permission", "who may look at all sees all: %s", f.ID)
	}
}

func TestMissingRightsAreNamed(t *testing.T) {
	t.Parallel()
	url := deployed(t,
		`              "$JS.ACK.JETCREW_JOBS.*.>"`, ``,
		`              "jetcrew.job.*.*.>"
              "jetcrew.alarm.*.>"
              "jetcrew.event.*.*.>"
            ]`, `"jetcrew.job.ready.>" ]`,
		`subscribe { allow: ["_INBOX_worker.>", "jetcrew.control.cancel.*.>", "jetcrew.control.queue.*"] }`,
		`subscribe { allow: ["_INBOX_worker.>", "jetcrew.control.queue.*"] }`)
	r := examine(t, as(url, "worker"), Config{Role: "worker", Queue: "mail"}, nats.CustomInboxPrefix("_INBOX_worker"))
	r.has(t, "permissions", Error, `publish to "$JS.ACK.JETCREW_JOBS.ready-mail.=-doctor"`)
	r.has(t, "permissions", Error, `publish to "jetcrew.job.dead.mail.default.=-doctor"`)
	r.has(t, "permissions", Error, `publish to "jetcrew.alarm.mail.default.=-doctor.=-doctor"`)
	r.has(t, "permissions", Error, `subscribe to "jetcrew.control.cancel.mail.>"`)
	require.False(t, slices.ContainsFunc(r.Findings, func(f Finding) bool {
		return f.ID == "permissions" && strings.Contains(f.Text, "jetcrew.job.ready")
	}), "what it may do is not among them: %s", r)
	r = examine(t, as(url, "worker"), Config{}, nats.CustomInboxPrefix("_INBOX_worker"))
	require.NotContains(t, r.has(t, "permissions", Warning, "").Facts["roles"], "worker")
}

func TestWithoutAnInboxNothingIsKnown(t *testing.T) {
	t.Parallel()
	url := deployed(t)
	r := examine(t, as(url, "operator"), Config{}) // its inbox is another one
	r.has(t, "inbox", Error, "no answer can come: this user may not subscribe to _INBOX.>")
	for _, id := range []string{"jetstream", "jobs-stream", "leader", "permissions"} {
		r.has(t, id, Warning, "not checked: no permission for Subscription to")
	}
}
