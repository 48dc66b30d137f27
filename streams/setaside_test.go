package streams

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

func TestAPlainMessageRunsAsAJob(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	c := n.work("default", "w")
	key := keyOf("default", "readme")
	body := `{"type":"sha256","input":{"path":"README.md"}}`
	require.NoError(t, n.nc.Publish("jetcrew.job.ready.default.default.readme", []byte(body)))
	cl := claimOne(t, c)
	j := cl.Job()
	require.Equal(t, "sha256", j.Type)
	require.JSONEq(t, `{"path":"README.md"}`, string(j.Input))
	require.Equal(t, 1, j.Attempts)
	n.see(key, job.Running)
	settle(t, cl, job.Succeed([]byte(`"abc"`)))
	j = n.see(key, job.Succeeded)
	require.JSONEq(t, `"abc"`, string(j.Result))
	require.False(t, j.CreatedAt.IsZero())
	n.clean("default", 1)

	n.publish("jetcrew.job.ready.default.default.readme", body) // after its end it does not run again
	claimNone(t, c, while)
	n.clean("default", 1)
	require.Equal(t, j, n.see(key, job.Succeeded))
}

func TestAPlainMessageOverAReadyJobReplacesIt(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	key := n.enqueue(spec("q", "1"))
	n.publish(n.readySubject(key), `{"type":"other"}`)
	c := n.work("q", "w")
	cl := claimOne(t, c)
	require.Equal(t, "other", cl.Job().Type)
	settle(t, cl, job.Succeed(nil))
	claimNone(t, c, while)
	n.clean("q", 1)
}

func TestAPlainMessageOverADueOrRunningJobIsDropped(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	c := n.work("q", "w")
	key := n.enqueue(spec("q", "1"))
	cl := claimOne(t, c)
	n.see(key, job.Running)
	n.publish(n.readySubject(key), `{"type":"other"}`)
	claimNone(t, c, while)
	settle(t, cl, job.Fail(3*lease, "no"))
	n.publish(n.readySubject(key), `{"type":"another"}`)
	claimNone(t, c, lease)
	cl = claimOne(t, c)
	require.Equal(t, "t", cl.Job().Type)
	require.Equal(t, 2, cl.Job().Attempts)
	settle(t, cl, job.Succeed(nil))
	n.clean("q", 1)
}

func TestWhatIsNoJobIsSetAside(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	c := n.work("q", "w")
	bodies := map[string]string{
		"empty": "", "no-json": "\xff\x00{", "no-object": `[1]`, "no-type": `{}`, "other-version": `{"v":9,"type":"t"}`,
		"other-id": `{"type":"t","id":"z"}`, "other-space": `{"type":"t","space":"z"}`, "other-queue": `{"type":"t","queue":"z"}`,
		"other-status": `{"type":"t","status":"succeeded"}`, "twice": `{"type":"t","type":"t"}`, "huge": strings.Repeat("x", 900<<10),
	}
	for id, body := range bodies {
		n.publish("jetcrew.job.ready.q.default."+id, body)
	}
	subjects := []string{
		"", ".default", ".default.=41", ".default.=2e", ".a.b.c.d", ".default.é", ".default.😀", ".default.=", ".default." + strings.Repeat("x", 4000),
		".default.\xff",
	}
	bySeq := map[uint64]string{}
	for i, s := range subjects {
		if i == 0 {
			s = ".only"
		}
		bySeq[n.publish("jetcrew.job.ready.q"+s, "garbage "+fmt.Sprint(i))] = "garbage " + fmt.Sprint(i)
	}
	n.enqueue(spec("q", "good")) // the queue goes on
	cl := claimOne(t, c)
	require.Equal(t, "good", cl.Job().ID)
	settle(t, cl, job.Succeed(nil))
	n.clean("q", len(bodies)+len(bySeq)+1)
	check := func(key job.Key, raw string) {
		t.Helper()
		j := n.see(key, job.Dead)
		require.Equal(t, raw, string(j.Raw))
		require.Contains(t, j.Error, "set aside: ")
		require.Greater(t, len(j.Error), len("set aside: "))
		require.Equal(t, key, j.Key())
	}
	for id, body := range bodies {
		check(keyOf("q", id), body)
	}
	for seq, body := range bySeq {
		check(job.Key{Queue: "q", Space: setAsideSpace, ID: fmt.Sprint("message-", seq)}, body)
	}
	got, err := n.Enqueue(t.Context(), spec("q", "empty"))
	require.NoError(t, err)
	require.False(t, got.Created, "its record stands")
}

// The server takes no wildcard as a subject to publish to from its own clients' libraries, but from whoever speaks its
// protocol.
func TestWildcardsAsTokensAreSetAside(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	c := n.work("q", "w")
	taken := 0
	for _, s := range []string{"jetcrew.job.ready.q.default.*", "jetcrew.job.ready.q.default.>", "jetcrew.job.ready.q.*.1", "jetcrew.job.ready.q.>"} {
		if _, err := n.js.Publish(t.Context(), s, []byte(`{"type":"t"}`), jetstream.WithRetryAttempts(0)); err == nil {
			taken++
		}
	}
	n.enqueue(spec("q", "good"))
	cl := claimOne(t, c)
	require.Equal(t, "good", cl.Job().ID)
	settle(t, cl, job.Succeed(nil))
	n.clean("q", taken+1)
}

func TestGarbageOverwritesNoRecord(t *testing.T) {
	t.Parallel()
	n := server(t).open(t)
	c := n.work("q", "w")
	ended := n.enqueue(spec("q", "ended"))
	settle(t, claimOne(t, c), job.Succeed(nil))
	due := n.enqueue(job.Spec{Queue: "q", ID: "due", Type: "t", Delay: 4 * lease})
	running := n.enqueue(spec("q", "running"))
	cl := claimOne(t, c)
	n.see(running, job.Running)
	var seqs []uint64
	for _, k := range []job.Key{ended, due, running} {
		seqs = append(seqs, n.publish(n.readySubject(k), "garbage"))
	}
	for _, seq := range seqs {
		j := n.see(keyOf("q", fmt.Sprint("message-", seq)), job.Dead)
		require.Equal(t, "garbage", string(j.Raw))
	}
	n.see(ended, job.Succeeded)
	n.see(due, job.Pending)
	require.Equal(t, 1, n.see(running, job.Running).Attempts)
	settle(t, cl, job.Succeed(nil))
	settle(t, claimOne(t, c), job.Succeed(nil))
	n.see(due, job.Succeeded)
	n.clean("q", 6)
}
