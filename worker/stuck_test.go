package worker

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

type oddError struct{ p *int }

func (e *oddError) Error() string { return string(rune(*e.p)) }

type custom struct{ code int }

func TestContractB10_APanicFailsTheAttemptAndNothingElse(t *testing.T) {
	for name, c := range map[string]struct {
		fn   func() error
		want string
	}{
		"text":                    {func() error { panic("boom") }, "panic: boom"},
		"error":                   {func() error { panic(job.GiveUp(errors.New("boom"))) }, "panic: boom"},
		"custom value":            {func() error { panic(custom{7}) }, "panic: {7}"},
		"nil map write":           {writeToNilMap, "panic: assignment to entry in nil map"},
		"nil":                     {func() error { panic(nil) }, "panic: panic called with nil argument"},
		"Goexit":                  {func() error { runtime.Goexit(); return nil }, "runtime.Goexit"},
		"odd value":               {func() error { panic(&oddError{}) }, "panic: %!v(PANIC=Error method"},
		"nil pointer as an error": {func() error { return &oddError{} }, "panic: runtime error: invalid memory address"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Config{Queues: map[string]int{"default": 1}}, func(cr *crew) {
				cr.handle(func(_ context.Context, j *job.Job) (any, error) {
					if j.Attempts == 1 && j.MaxAttempts == 2 {
						return nil, c.fn()
					}
					return nil, nil
				})
				key := cr.enqueue(job.Spec{MaxAttempts: 2})
				other := cr.enqueue(job.Spec{MaxAttempts: 3})
				cr.run()
				require.Equal(t, job.Succeeded, cr.ended(other).Status, "the slot goes on")
				j := cr.ended(key)
				require.Equal(t, job.Succeeded, j.Status)
				require.Len(t, j.History, 2)
				require.Contains(t, j.History[0].Error, c.want)
				require.Contains(t, cr.logs.String(), `"stack":"`)
				require.Contains(t, cr.logs.String(), "stuck_test.go")
				cr.end()
			})
		})
	}
}

func TestContractB10_APanicOfAPolicyFailsTheAttempt(t *testing.T) {
	bubble(t, Config{}, func(c *crew) {
		c.handle(func(context.Context, *job.Job) (any, error) { return nil, errors.New("x") },
			WithRetry(RetryPolicy{Next: func(int, error) time.Duration { panic("policy") }}))
		c.run()
		j := c.ended(c.enqueue(job.Spec{MaxAttempts: 2}))
		require.Contains(t, j.Error, "x")
		require.Contains(t, j.History[0].Error, "panic (string)")
		c.end()
	})
}

func TestContractB11_AStuckHandlerIsGivenUpAndItsSlotStaysTaken(t *testing.T) {
	bubble(t, Config{Queues: map[string]int{"default": 2}, Grace: 7 * time.Second}, func(c *crew) {
		free := make(chan struct{})
		c.handle(func(_ context.Context, j *job.Job) (any, error) {
			if j.Timeout > 0 {
				<-free
			}
			time.Sleep(time.Second)
			return nil, nil
		})
		key := c.enqueue(job.Spec{Timeout: 5 * time.Second})
		c.run()
		time.Sleep(12*time.Second - time.Nanosecond)
		synctest.Wait()
		require.Equal(t, Stats{Running: 1}, c.w.Stats())
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.Equal(t, Stats{Running: 1, Stuck: 1}, c.w.Stats())
		require.Equal(t, []string{"abandon " + key.ID}, c.q.log(), "its heartbeats have ended")
		require.Contains(t, c.logs.String(), `"cause":"timed out"`)
		require.Contains(t, c.logs.String(), "stuck_test.go", "says where it is")

		start := time.Now()
		a, b := c.enqueue(job.Spec{}), c.enqueue(job.Spec{})
		c.ended(a)
		c.ended(b)
		require.Equal(t, 2*time.Second, time.Since(start), "one slot does both")

		close(free)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, Stats{}, c.w.Stats())
		require.Empty(t, c.q.outcomes(key.ID), "what it came to then is not kept")
		require.NotContains(t, c.q.log(), "late settle "+key.ID)
		start = time.Now()
		a, b = c.enqueue(job.Spec{}), c.enqueue(job.Spec{})
		c.ended(a)
		c.ended(b)
		require.Equal(t, time.Second, time.Since(start), "its slot is free again")
		c.end()
	})
}

func TestContractB11_TooManyStuckHandlersEndRun(t *testing.T) {
	for name, cfg := range map[string]Config{
		"above MaxStuck":  {Queues: map[string]int{"default": 9}, MaxStuck: 2, Timeout: time.Second},
		"with every slot": {Queues: map[string]int{"default": 3}, Timeout: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, cfg, func(c *crew) {
				free := make(chan struct{})
				c.handle(func(context.Context, *job.Job) (any, error) { <-free; return nil, nil })
				c.enqueue(job.Spec{})
				c.enqueue(job.Spec{})
				c.run()
				time.Sleep(time.Hour)
				require.Empty(t, c.err, "two are borne")
				c.enqueue(job.Spec{})
				start := time.Now()
				require.ErrorIs(t, <-c.err, ErrStuck)
				require.Equal(t, 31*time.Second, time.Since(start))
				close(free)
			})
		})
	}
}

func TestContractB11_ACancelledHandlerThatGoesOnIsStuckToo(t *testing.T) {
	bubble(t, Config{Queues: map[string]int{"default": 2}}, func(c *crew) {
		started, free := make(chan struct{}), make(chan struct{})
		c.handle(func(context.Context, *job.Job) (any, error) { close(started); <-free; return nil, nil })
		key := c.enqueue(job.Spec{})
		c.run()
		<-started
		c.q.interrupt(key, job.ErrCancelRequested)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		require.Equal(t, 1, c.w.Stats().Stuck)
		c.stop()
		require.ErrorIs(t, <-c.err, ErrStuck, "a stop does not wait for it, and says so")
		require.Equal(t, 1, strings.Count(c.logs.String(), "ignores its context"))
		close(free)
	})
}

func writeToNilMap() error {
	counts := map[string]int{}
	if len(counts) == 0 {
		counts = nil // as it happens in programs: made elsewhere, or not
	}
	counts["a"]++
	return nil
}
