package worker

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

type witness struct {
	mu   sync.Mutex
	seen []Ended
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
