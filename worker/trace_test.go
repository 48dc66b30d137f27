package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// follower writes down what a Tracer is told of each job.
type follower struct {
	mu   sync.Mutex
	told map[string][]string
}

type followed struct {
	f  *follower
	id string
}

type followedKey struct{}

func (f *follower) Begin(ctx context.Context, j *job.Job) (context.Context, Span) {
	s := &followed{f, j.ID}
	s.tell("begin %d", j.Attempts)
	j.Trace.Parent = "in " + j.ID
	return context.WithValue(ctx, followedKey{}, j.ID), s
}

func (s *followed) Ran(e Ended) { s.tell("ran %s %s", e.Result, e.Refusal) }

func (s *followed) Settled(since time.Time, r Result) { s.tell("settled %s %t", r, since.IsZero()) }

func (s *followed) tell(format string, args ...any) {
	s.f.mu.Lock()
	defer s.f.mu.Unlock()
	s.f.told[s.id] = append(s.f.told[s.id], fmt.Sprintf(format, args...))
}

// Each attempt is followed from the call of its handler to its end; its handler is within what Begin answered.
func TestAttemptsAreFollowed(t *testing.T) {
	f := &follower{told: make(map[string][]string)}
	bubble(t, Config{Tracer: f, Queues: map[string]int{"default": 1}}, func(c *crew) {
		c.handle(func(ctx context.Context, j *job.Job) (any, error) {
			if ctx.Value(followedKey{}) != j.ID || job.FromContext(ctx).Trace.Parent != "in "+j.ID {
				return nil, job.GiveUp(errors.New("it is not within"))
			}
			switch id := j.ID; id {
			case "refused":
				return nil, job.Refuse(job.CodeDisabled, "no")
			case "failing":
				*j = job.Job{} // it is the handler's own
				return nil, errors.New("no")
			case "panics":
				panic("no")
			case "lost":
				c.q.interrupt(j.Key(), job.ErrLeaseLost)
				<-ctx.Done()
			}
			return nil, nil
		})
		c.q.onSettle = func(_ context.Context, key job.Key, _ job.Outcome) error {
			switch key.ID {
			case "late":
				return job.ErrLeaseLost
			case "unwritten":
				return job.ErrTooLarge
			}
			return nil
		}
		c.run()
		c.enqueue(job.Spec{ID: "unhandled", Type: "other"})
		for _, id := range []string{"lost", "late", "unwritten", "fine", "refused", "panics", "failing"} {
			c.enqueue(job.Spec{ID: id, MaxAttempts: 2})
		}
		for _, id := range []string{"fine", "refused", "panics", "failing"} {
			c.ended(job.Key{Queue: "default", Space: "default", ID: id})
		}
		c.end()
	})
	require.Equal(t, map[string][]string{
		"fine":      {"begin 1", "ran succeeded ", "settled succeeded false"},
		"refused":   {"begin 1", "ran dead disabled", "settled dead false"},
		"panics":    {"begin 1", "ran retried ", "settled retried false", "begin 2", "ran dead ", "settled dead false"},
		"failing":   {"begin 1", "ran retried ", "settled retried false", "begin 2", "ran dead ", "settled dead false"},
		"lost":      {"begin 1", "ran lost "},
		"late":      {"begin 1", "ran succeeded ", "settled lost false"},
		"unwritten": {"begin 1", "ran succeeded ", "settled unwritten false"},
	}, f.told)
}
