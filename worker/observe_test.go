package worker

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

type witness struct {
	mu      sync.Mutex
	seen    []Ended
	started []Started
}

func (w *witness) AttemptStarted(s Started) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.started = append(w.started, s)
}

func (w *witness) AttemptEnded(e Ended) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, e)
}

// Every attempt is told of once, whatever becomes of it.
func TestAttemptsAreObserved(t *testing.T) {
	var w witness
	bubble(t, Config{Observer: &w, Queues: map[string]int{"default": 1}}, func(c *crew) {
		c.handle(func(_ context.Context, j *job.Job) (any, error) {
			switch j.ID {
			case "refused":
				return nil, job.Refuse(job.CodeDisabled, "no")
			case "failing":
				return nil, errors.New("no")
			case "panics":
				panic("no")
			}
			return nil, nil
		})
		c.run()
		for _, id := range []string{"fine", "refused", "failing", "panics"} {
			c.ended(c.enqueue(job.Spec{ID: id, MaxAttempts: 2}))
		}
		c.end()
		results := make(map[string][]Result)
		for _, e := range w.seen {
			require.True(t, e.Started)
			require.NotEmpty(t, e.Type)
			results[e.Key.ID] = append(results[e.Key.ID], e.Result)
			require.Equal(t, e.Key.ID == "refused", e.Refusal == job.CodeDisabled)
		}
		require.Equal(t, map[string][]Result{
			"fine": {ResultSucceeded}, "refused": {ResultDead}, "failing": {ResultRetried, ResultDead}, "panics": {ResultRetried, ResultDead},
		}, results)
	})
}

// How long a job waited is told when its handler is called, not when it ends.
func TestStartsAreObserved(t *testing.T) {
	var w witness
	bubble(t, Config{Observer: &w, Queues: map[string]int{"default": 1, "none": 0}}, func(c *crew) {
		require.Equal(t, []string{"default"}, c.w.Queues())
		called, end := make(chan struct{}), make(chan struct{})
		c.handle(func(context.Context, *job.Job) (any, error) {
			close(called)
			<-end
			return nil, nil
		})
		key := c.enqueue(job.Spec{ID: "1"})
		time.Sleep(3 * time.Second) // of the bubble
		c.run()
		<-called
		w.mu.Lock()
		require.Equal(t, []Started{{Key: key, Type: "t", Attempt: 1, Waited: 3 * time.Second}}, w.started)
		require.Empty(t, w.seen)
		w.mu.Unlock()
		close(end)
		c.ended(key)
		c.end()
	})
}

// A retry that could not be written, since its job had grown too large, is the end that was written instead.
func TestAResultIsWhatWasWritten(t *testing.T) {
	t.Parallel()
	require.Equal(t, ResultRetried, resultOf(job.Fail(time.Second, "no"), nil))
	require.Equal(t, ResultRetried, resultOf(job.Fail(time.Second, "no"), &job.Job{Status: job.Pending}))
	require.Equal(t, ResultDead, resultOf(job.Fail(time.Second, "no"), &job.Job{Status: job.Dead}))
	require.Equal(t, ResultHandedBack, resultOf(job.HandBack(0, "no"), &job.Job{Status: job.Pending}))
	require.Equal(t, ResultSucceeded, resultOf(job.Succeed(nil), &job.Job{Status: job.Cancelled}))
}
