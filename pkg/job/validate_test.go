package job_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

func TestEveryRefusalNamesItsField(t *testing.T) {
	long := strings.Repeat("x", job.MaxName+1)
	for _, c := range []struct {
		name, field string
		change      func(*job.Spec)
	}{
		{"no type", "type", func(s *job.Spec) { s.Type = "" }},
		{"long type", "type", func(s *job.Spec) { s.Type = long }},
		{"long queue", "queue", func(s *job.Spec) { s.Queue = long }},
		{"long space", "space", func(s *job.Spec) { s.Space = long }},
		{"long id", "id", func(s *job.Spec) { s.ID = long }},
		{"id that is no text", "id", func(s *job.Spec) { s.ID = "\xff" }},
		{"id with a NUL", "id", func(s *job.Spec) { s.ID = "a\x00" }},
		{"long environment", "environment", func(s *job.Spec) { s.Environment = strings.Repeat("x", job.MaxShortName+1) }},
		{"long run id", "runId", func(s *job.Spec) { s.RunID = long }},
		{"run id that is no text", "runId", func(s *job.Spec) { s.RunID = "\xff" }},
		{"unknown trigger", "trigger", func(s *job.Spec) { s.Trigger = "magic" }},
		{"input that is no JSON", "input", func(s *job.Spec) { s.Input = jsontext.Value(`{`) }},
		{"empty input", "input", func(s *job.Spec) { s.Input = jsontext.Value{} }},
		{"input that is no object", "input", func(s *job.Spec) { s.Input = jsontext.Value(`[]`) }},
		{"input of null", "input", func(s *job.Spec) { s.Input = jsontext.Value(`null`) }},
		{"input with duplicate names", "input", func(s *job.Spec) { s.Input = jsontext.Value(`{"a":1,"a":1}`) }},
		{"input that is no UTF-8", "input", func(s *job.Spec) { s.Input = jsontext.Value("{\"a\":\"\xff\"}") }},
		{"two inputs", "input", func(s *job.Spec) { s.Input = jsontext.Value(`{}{}`) }},
		{"negative attempts", "maxAttempts", func(s *job.Spec) { s.MaxAttempts = -1 }},
		{"too many attempts", "maxAttempts", func(s *job.Spec) { s.MaxAttempts = job.MaxMaxAttempts + 1 }},
		{"negative missed", "missed", func(s *job.Spec) { s.Missed = -1 }},
		{"negative timeout", "timeout", func(s *job.Spec) { s.Timeout = -1 }},
		{"negative delay", "delay", func(s *job.Spec) { s.Delay = -1 }},
		{"delay and dueAt", "delay", func(s *job.Spec) { s.Delay, s.DueAt = 1, noon }},
		{"dueAt too early", "dueAt", func(s *job.Spec) { s.DueAt = time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC) }},
		{"dueAt too late", "dueAt", func(s *job.Spec) { s.DueAt = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }},
		{"deadline too late", "deadline", func(s *job.Spec) { s.Deadline = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }},
		{"negative retry", "retry", func(s *job.Spec) { s.Retry = &job.Retry{Base: -1} }},
		{"negative longest retry", "retry", func(s *job.Spec) { s.Retry = &job.Retry{Max: -1} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := job.Spec{Type: "t"}
			c.change(&s)
			var wrong *job.FieldError
			require.ErrorAs(t, s.Normalize(), &wrong)
			require.Equal(t, c.field, wrong.Field)
			require.NotEmpty(t, wrong.Reason)
			require.Equal(t, c.field+": "+wrong.Reason, wrong.Error())
		})
	}
}

func TestASpecNeedsOnlyItsType(t *testing.T) {
	s := job.Spec{Type: "t"}
	require.NoError(t, s.Normalize())
	id, err := uuid.Parse(s.ID)
	require.NoError(t, err)
	require.EqualValues(t, 7, id.Version())
	require.Equal(t, job.Spec{
		ID: s.ID, Type: "t", Queue: "default", Space: "default", Environment: "main", Trigger: job.TriggerCustom, MaxAttempts: 3,
	}, s)
	require.Equal(t, job.Key{Queue: "default", Space: "default", ID: s.ID}, s.Key())
	require.Equal(t, s.Key(), s.Job().Key())
	require.Equal(t, job.Pending, s.Job().Status)
	again := s
	require.NoError(t, again.Normalize())
	require.Equal(t, s, again)
}

func TestNamesMayBeAnyText(t *testing.T) {
	for _, name := range []string{"a.b", "*", ">", "a b", "😀", strings.Repeat("x", job.MaxName), "$x:@/\\\n"} {
		s := job.Spec{Type: name, ID: name, Queue: name, Space: name}
		require.NoError(t, s.Normalize())
	}
	require.Equal(t, "q/s/1", job.Key{Queue: "q", Space: "s", ID: "1"}.String())
}

func TestWordsOfTheVocabulary(t *testing.T) {
	for s, terminal := range map[job.Status]bool{
		job.Pending: false, job.Running: false, job.Succeeded: true, job.Failed: true, job.Dead: true, job.Cancelled: true,
	} {
		require.True(t, s.Valid())
		require.Equal(t, terminal, s.Terminal())
	}
	require.False(t, job.Status("lost").Valid())
	for o, want := range map[job.Status]job.AttemptStatus{
		job.Succeeded: job.AttemptSucceeded, job.Cancelled: job.AttemptCancelled,
		job.Failed: job.AttemptFailed, job.Dead: job.AttemptFailed, job.Pending: job.AttemptFailed,
	} {
		require.Equal(t, want, job.Outcome{Status: o}.AttemptStatus())
	}
}

func TestContractB6_AStepNamesItselfAndKeepsWhatItSays(t *testing.T) {
	declined := errors.New("card declined")
	err := job.Step(t.Context(), "charge", func(context.Context) error { return job.GiveUp(declined) })
	require.EqualError(t, err, `step "charge" failed: card declined`)
	require.ErrorIs(t, err, declined)
	var give *job.GiveUpError
	require.ErrorAs(t, err, &give)
	require.NoError(t, job.Step(t.Context(), "charge", func(context.Context) error { return nil }))

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(job.ErrCancelRequested)
	err = job.Step(ctx, "charge", func(context.Context) error { t.Error("began"); return nil })
	require.ErrorIs(t, err, job.ErrCancelRequested)
}

func TestSteeringIsNeverWithoutAReason(t *testing.T) {
	require.EqualError(t, job.GiveUp(nil), "given up")
	require.EqualError(t, job.RetryAfter(-1, nil), "retry asked for")
	require.EqualError(t, job.Snooze(-1, ""), "not now: again in 0s")
}

func TestTheJobTravelsInTheContext(t *testing.T) {
	require.Nil(t, job.FromContext(t.Context()))
	j := &job.Job{ID: "1"}
	require.Same(t, j, job.FromContext(job.NewContext(t.Context(), j)))
}

func TestErrorsNameWhatTheyAreAbout(t *testing.T) {
	var many []job.Key
	for _, id := range []string{"1", "2", "3", "4", "5", "6", "7"} {
		many = append(many, job.Key{Queue: "q", Space: "s", ID: id})
	}
	err := error(&job.ConflictError{Keys: many})
	require.ErrorIs(t, err, job.ErrConflict)
	require.EqualError(t, err, "nothing was enqueued, since these exist already: q/s/1, q/s/2, q/s/3, q/s/4, q/s/5, and 2 more")
	err = &job.AmbiguousError{Space: "s", ID: "1", Queues: []string{"a", "b"}}
	require.ErrorIs(t, err, job.ErrAmbiguous)
	require.EqualError(t, err, "job s/1 is in several queues, name one: a, b")
}
