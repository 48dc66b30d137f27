package streams

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

func readyMessage(body string) message {
	return message{subject: "jetcrew.job.ready.q.s.1", data: []byte(body), seq: 7, time: noon}
}

func TestTheSmallestJobHasDefaults(t *testing.T) {
	r := names{"jetcrew"}.record(readyMessage(`{"type":"email"}`))
	require.NoError(t, r.bad)
	require.Equal(t, job.Job{
		ID: "1", Space: "s", Queue: "q", Type: "email", Environment: "main", Trigger: job.TriggerCustom, MaxAttempts: 3,
		Status: job.Pending, CreatedAt: noon, UpdatedAt: noon,
	}, *r.job())
	require.Zero(t, r.Rev)
	j := r.public()
	require.Equal(t, noon, j.DueAt)
	require.Equal(t, noon, j.RunAt)
}

func TestWhatIsNoJobSaysWhy(t *testing.T) {
	long := names{"jetcrew"}.job(stateReady, tail(job.Key{Queue: strings.Repeat("*", job.MaxName), Space: "s", ID: "1"}))
	for body, why := range map[string]string{
		``: "not a job", `{`: "not a job", `[]`: "not a job", `null`: "type", `"x"`: "not a job", `{} {}`: "not a job",
		`{}`: "type: must not be empty", `{"type":1}`: "not a job", `{"type":"t","type":"t"}`: "duplicate",
		"{\"type\":\"\xff\"}": "UTF-8", `{"type":"t","v":2}`: "version 2", `{"type":"t","v":-1}`: "version -1",
		`{"type":"t","id":"2"}`: `id "2" contradicts`, `{"type":"t","space":"z"}`: `space "z" contradicts`,
		`{"type":"t","queue":"z"}`: `queue "z" contradicts`, `{"type":"t","status":"running"}`: `status "running" contradicts`,
		`{"type":"t","attempts":-1}`: "attempts", `{"type":"t","maxAttempts":-1}`: "maxAttempts", `{"type":"t","input":[]}`: "input",
		`{"type":"t","rev":-1}`: "not a job", `{"type":"t","runAt":"soon"}`: "not a job", `{"type":"t","timeout":5}`: "not a job",
		`{"type":"` + strings.Repeat("x", 192) + `"}`: "192 bytes",
	} {
		r := names{"jetcrew"}.record(readyMessage(body))
		require.ErrorContains(t, r.bad, why, body)
		require.Equal(t, body, string(r.raw))
		require.Equal(t, keyOf("q", "1").ID, r.Job.ID)
		require.Zero(t, r.Rev)
		require.Contains(t, r.public().Error, why)
	}
	m := readyMessage(`{"type":"t"}`)
	m.subject = long
	require.ErrorContains(t, names{"jetcrew"}.record(m).bad, "queue is missing")
	m.data = []byte(`{"type":"t","queue":"other"}`)
	require.ErrorContains(t, names{"jetcrew"}.record(m).bad, "contradicts its subject")
	m.data = []byte(`{"type":"t","queue":"` + strings.Repeat("*", job.MaxName) + `"}`)
	require.NoError(t, names{"jetcrew"}.record(m).bad)
}

func TestWhatWasSetAsideKeepsItsBytes(t *testing.T) {
	m := message{
		subject: "jetcrew.job.dead.q.s.1", data: []byte("\xff{"), seq: 9, time: noon,
		header: nats.Header{headerSetAside: {"why"}, headerRev: {"1"}, headerWriter: {"w"}},
	}
	r := names{"jetcrew"}.record(m)
	require.NoError(t, r.bad)
	require.Equal(t, uint64(1), r.Rev)
	require.Equal(t, "w", r.Writer)
	require.Equal(t, job.Job{
		ID: "1", Space: "s", Queue: "q", Status: job.Dead, Error: "why", Raw: []byte("\xff{"), CreatedAt: noon, UpdatedAt: noon,
		DueAt: noon, RunAt: noon,
	}, *r.public())
	m.subject = "jetcrew.job.ready.q.s.1"
	require.Error(t, names{"jetcrew"}.record(m).bad, "only a dead document is set aside")
}

func TestTheNextDocumentKeepsWhatItDoesNotKnow(t *testing.T) {
	body := `{"type":"t","rev":4,"writer":"w","origin":["o"],"claim":"c","claims":3,"claimFirst":true,"new":{"b":1.50,"a":[null]},"z":"ü",` +
		`"leaseUntil":"2026-03-04T12:00:00.000Z","input":{"x":1.0},"history":[{"attempt":1,"status":"lost","novel":[{}]}]}`
	r := names{"jetcrew"}.record(readyMessage(body))
	require.NoError(t, r.bad)
	next := r.next("next")
	require.Equal(t, []any{1, uint64(5), "next", []string{"o"}}, []any{next.V, next.Rev, next.Writer, next.Origin})
	require.Equal(t, []any{"", uint64(0), false}, []any{next.Claim, next.Claims, next.ClaimFirst})
	require.True(t, next.Job.LeaseUntil.IsZero())
	next.Job.History[0].Status = job.AttemptFailed
	out, err := job.Encode(next)
	require.NoError(t, err)
	for _, kept := range []string{`"new":{"b":1.50,"a":[null]}`, `"z":"ü"`, `"input":{"x":1.0}`, `"novel":[{}]`} {
		require.Contains(t, string(out), kept)
	}
	next.Origin = append(next.Origin, "another")
	require.Equal(t, []string{"o"}, r.Origin, "it shares nothing that grows")
}

func FuzzRecord(f *testing.F) {
	for _, s := range []string{
		``, `{`, `{"type":"t"}`, `{"type":"t","x":1}`, `{"type":"t","history":[{"attempt":1,"n":2}],"input":{"a":1e999}}`, `null`,
		`{"v":1,"rev":18446744073709551615,"type":"t","deadline":"9999-12-31T23:59:59.999Z"}`, "\xff", `{"type":"t","raw":"AA=="}`,
	} {
		f.Add("jetcrew.job.ready.q.s.1", s)
	}
	f.Add("jetcrew.job.dead.q.s.*", "x")
	f.Add("nothing", "{}")
	f.Fuzz(func(t *testing.T, subject, body string) {
		m := readyMessage(body)
		m.subject = subject
		n := names{"jetcrew"}
		r := n.record(m)
		_ = r.public()
		if r.bad != nil {
			if r.bad.Error() == "" || string(r.raw) != body {
				t.Fatalf("%q: no reason or other bytes", body)
			}
			return
		}
		var was, is map[string]jsontext.Value
		if err := job.Decode([]byte(body), &was); err != nil {
			t.Fatalf("%q is a job, and no object: %v", body, err)
		}
		next := r.next("w")
		out, err := job.Encode(next)
		if err != nil {
			t.Fatalf("%q cannot be written: %v", body, err)
		}
		if err := job.Decode(out, &is); err != nil {
			t.Fatal(err)
		}
		var known map[string]jsontext.Value
		full := document{
			V: 1, Rev: 1, Writer: "w", Origin: []string{"o"}, Claim: "c", Claims: 1, ClaimFirst: true, Job: fields(job.Job{
				Environment: "e", Trigger: "t", Input: jsontext.Value(`{}`), DueAt: noon, MaxAttempts: 1, Missed: 1, Timeout: 1,
				Deadline: noon, Retry: &job.Retry{}, Status: "s", RunAt: noon, StartedAt: noon, LeaseUntil: noon, WorkerID: "w",
				RunID: "r", CancelRequested: true, CreatedAt: noon, UpdatedAt: noon, Error: "e", Result: jsontext.Value(`1`),
				History: []job.Attempt{{}}, Raw: []byte("x"),
			}),
		}
		b, err := job.Encode(full)
		if err != nil {
			t.Fatal(err)
		}
		if err := job.Decode(b, &known); err != nil {
			t.Fatal(err)
		}
		for name, v := range was {
			if _, ok := known[name]; !ok && string(is[name]) != string(v) {
				t.Fatalf("%q was %s and is %s", name, v, is[name])
			}
		}
		m.data = out
		if again := n.record(m); again.bad != nil && r.state == stateReady {
			t.Fatalf("%q was written as %q, which is no job: %v", body, out, again.bad)
		}
	})
}

func TestHeadersTakeAnyReason(t *testing.T) {
	require.Equal(t, "a b c", headerText("a\nb\x7fc"))
	require.LessOrEqual(t, len(headerText(strings.Repeat("é", 5000))), job.MaxError)
	require.Equal(t, "2", seconds(time.Second+1))
	require.Equal(t, "1", seconds(time.Second))
}
