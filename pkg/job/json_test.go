package job_test

import (
	stdjson "encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 7_000_000, time.UTC)

func full() job.Job {
	return job.Job{
		ID: "1", Space: "acme", Type: "email", Queue: "mail", Environment: "main", Trigger: job.TriggerCall,
		Input: jsontext.Value(`{"to":"ann"}`), DueAt: noon, MaxAttempts: 3, Missed: 2, Timeout: 90 * time.Second,
		Deadline: noon.Add(time.Hour), Retry: &job.Retry{Base: time.Second, Max: time.Minute},
		Status: job.Running, RunAt: noon, Attempts: 2, StartedAt: noon, LeaseUntil: noon.Add(30 * time.Second),
		WorkerID: "7-ab", RunID: "r", CancelRequested: true, CreatedAt: noon, UpdatedAt: noon, Error: "x",
		Result: jsontext.Value(`[1]`), Raw: []byte{0, 255},
		History: []job.Attempt{{Attempt: 1, Status: job.AttemptLost, StartedAt: noon, EndedAt: noon, WorkerID: "w", RunID: "r", Error: job.LostError}},
	}
}

func TestAJobSurvivesJSON(t *testing.T) {
	for name, codec := range map[string]struct {
		encode func(any) ([]byte, error)
		decode func([]byte, any) error
	}{
		"ours":          {job.Encode, job.Decode},
		"encoding/json": {stdjson.Marshal, stdjson.Unmarshal},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := codec.encode(full())
			require.NoError(t, err)
			var back job.Job
			require.NoError(t, codec.decode(b, &back))
			require.Equal(t, full(), back)
		})
	}
}

func TestInstantsAreUTCWithMillisecondsAndDurationsAreText(t *testing.T) {
	j := job.Job{
		CreatedAt: time.Date(2026, 3, 4, 13, 0, 0, 0, time.FixedZone("", 3600)), Timeout: 90 * time.Second,
		RunAt: noon.Add(999 * time.Microsecond),
	}
	b, err := job.Encode(j)
	require.NoError(t, err)
	require.Contains(t, string(b), `"createdAt":"2026-03-04T12:00:00.000Z"`)
	require.Contains(t, string(b), `"runAt":"2026-03-04T12:00:00.007Z"`)
	require.Contains(t, string(b), `"timeout":"1m30s"`)
	require.NotContains(t, string(b), "dueAt", "what is not set is not written")
	require.Equal(t, noon.Add(time.Millisecond), job.CeilMillis(noon.Add(1)))
	require.Equal(t, noon, job.CeilMillis(noon))
	require.Equal(t, noon, job.Millis(noon.Add(time.Millisecond-1)))
}

func TestContractA16_WhatANewerVersionWroteIsKept(t *testing.T) {
	const newer = `{"id":"1","space":"s","type":"t","queue":"q","priority":{"level":[1,2]},"attempts":1,` +
		`"history":[{"attempt":1,"status":"failed","host":"h1"}]}`
	var j job.Job
	require.NoError(t, job.Decode([]byte(newer), &j))
	j.Attempts = 2
	j.AddAttempt(job.Attempt{Status: job.AttemptFailed})
	b, err := job.Encode(j)
	require.NoError(t, err)
	require.JSONEq(t, `{"id":"1","space":"s","type":"t","queue":"q","priority":{"level":[1,2]},"attempts":2,
		"history":[{"attempt":1,"status":"failed","host":"h1"},{"attempt":2,"status":"failed"}]}`, string(b))
}

func TestWhatIsAmbiguousIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"duplicate name":           `{"type":"a","type":"b"}`,
		"duplicate unknown name":   `{"x":1,"x":2}`,
		"duplicate name in input":  `{"input":{"a":1,"a":2}}`,
		"duplicate name in extra":  `{"x":{"a":1,"a":2}}`,
		"invalid UTF-8":            "{\"type\":\"\xff\"}",
		"invalid UTF-8 in a name":  "{\"\xff\":1}",
		"invalid UTF-8 in input":   "{\"input\":{\"a\":\"\xff\"}}",
		"half a surrogate":         `{"type":"\ud800"}`,
		"two values":               `{} {}`,
		"an array":                 `[]`,
		"nothing":                  ``,
		"a number for a duration":  `{"timeout":5}`,
		"no duration":              `{"timeout":"soon"}`,
		"no instant":               `{"dueAt":"yesterday"}`,
		"a text for a number":      `{"attempts":"1"}`,
		"a fraction of an attempt": `{"attempts":1.5}`,
	} {
		t.Run(name, func(t *testing.T) {
			var j job.Job
			require.Error(t, job.Decode([]byte(text), &j))
		})
	}
}

func TestErrorsAreCutAtARune(t *testing.T) {
	require.Equal(t, "short", job.CutError("short"))
	require.Equal(t, "a\uFFFDb", job.CutError("a\xffb"))
	exact := strings.Repeat("x", job.MaxError)
	require.Equal(t, exact, job.CutError(exact))
	for _, filler := range []string{"x", "ä", "€", "😀", "\xffa"} {
		for shift := range 5 {
			cut := job.CutError(strings.Repeat("x", shift) + strings.Repeat(filler, job.MaxError+1))
			require.True(t, utf8.ValidString(cut))
			require.LessOrEqual(t, len(cut), job.MaxError)
			require.Greater(t, len(cut), job.MaxError-8)
			require.True(t, strings.HasSuffix(cut, "…"))
		}
	}
}

func TestAttemptsAreNumberedByTheHistoryAndTheNewestKept(t *testing.T) {
	var j job.Job
	for range job.MaxHistory + 10 {
		j.AddAttempt(job.Attempt{Attempt: 99, Status: job.AttemptFailed, StartedAt: noon, EndedAt: noon.Add(-1)})
	}
	require.Len(t, j.History, job.MaxHistory)
	require.Equal(t, 11, j.History[0].Attempt)
	require.Equal(t, job.MaxHistory+10, j.History[job.MaxHistory-1].Attempt)
	require.Equal(t, noon, j.History[0].EndedAt, "never before its start")

	copied := j // a copy that grows leaves the original's history alone
	copied.AddAttempt(job.Attempt{Error: strings.Repeat("x", 5000)})
	j.AddAttempt(job.Attempt{Error: "mine"})
	require.Len(t, copied.History[job.MaxHistory-1].Error, job.MaxError)
	require.Equal(t, "mine", j.History[job.MaxHistory-1].Error)
}

func FuzzDecode(f *testing.F) {
	b, err := job.Encode(full())
	require.NoError(f, err)
	f.Add(b)
	f.Add([]byte(`{"type":"email"}`))
	f.Add([]byte(`{"x":{"y":[1,1e400]},"history":[{"z":null}],"raw":"AA=="}`))
	f.Add([]byte(`{"dueAt":"0000-01-01T00:00:00Z","timeout":"-1ns","retry":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var j job.Job
		if job.Decode(b, &j) != nil {
			return
		}
		_ = j.Validate()
		once, err := job.Encode(j)
		if err != nil {
			t.Fatalf("read but cannot be written: %s\n%q", err, b)
		}
		var back job.Job
		if err := job.Decode(once, &back); err != nil {
			t.Fatalf("written but cannot be read: %s\n%q\n%q", err, b, once)
		}
		twice, err := job.Encode(back)
		if err != nil || string(once) != string(twice) {
			t.Fatalf("changes as it is rewritten (%v):\n%q\n%q", err, once, twice)
		}
	})
}
