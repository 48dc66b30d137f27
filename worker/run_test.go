package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

func TestContractB1_NeverMoreThanItsConcurrencyAtOnce(t *testing.T) {
	bubble(t, Config{Queues: map[string]int{"default": 3}}, func(c *crew) {
		var now, most, all atomic.Int32
		c.handle(func(ctx context.Context, _ *job.Job) (any, error) {
			n := now.Add(1)
			defer now.Add(-1)
			for {
				m := most.Load()
				if n <= m || most.CompareAndSwap(m, n) {
					break
				}
			}
			time.Sleep(time.Second)
			all.Add(1)
			return nil, nil
		})
		var keys []job.Key
		for range 20 {
			keys = append(keys, c.enqueue(job.Spec{}))
		}
		start := time.Now()
		c.run()
		for _, k := range keys {
			require.Equal(t, job.Succeeded, c.ended(k).Status)
		}
		require.EqualValues(t, 3, most.Load())
		require.EqualValues(t, 20, all.Load())
		require.Equal(t, 7*time.Second, time.Since(start))
		c.end()
	})
}

func TestContractB1_ZeroTakesNothing(t *testing.T) {
	bubble(t, Config{Queues: map[string]int{"default": 0, "other": 1}}, func(c *crew) {
		c.handle(func(context.Context, *job.Job) (any, error) { return nil, nil })
		key := c.enqueue(job.Spec{})
		c.run()
		c.ended(c.enqueue(job.Spec{Queue: "other"}))
		synctest.Wait()
		require.Len(t, c.q.consumers, 1, "no consumer for a queue that nothing is taken from")
		require.Equal(t, job.ConsumerConfig{
			Queue: "other", WorkerID: c.w.ID(), Slots: 1, Lease: 30 * time.Second, Types: c.w.Types(),
		}, c.q.consumers[0])
		j, err := c.q.Get(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, job.Pending, j.Status)
		c.end()
	})
}

func TestContractB1_EveryWorkerHasANewID(t *testing.T) {
	a, err := New(newFake(), Config{})
	require.NoError(t, err)
	b, err := New(newFake(), Config{})
	require.NoError(t, err)
	require.NotEqual(t, a.ID(), b.ID())
	require.Regexp(t, `^\d+-[0-9a-f]{16}$`, a.ID())
}

func TestContractB1_ASlotIsFreeWhileOutcomesAreWritten(t *testing.T) {
	bubble(t, Config{Queues: map[string]int{"default": 1}}, func(c *crew) {
		var started atomic.Int32
		slow := make(chan struct{})
		c.q.onSettle = func(context.Context, job.Key, job.Outcome) error { <-slow; return nil }
		c.handle(func(context.Context, *job.Job) (any, error) { started.Add(1); return nil, nil })
		var keys []job.Key
		for range 6 {
			keys = append(keys, c.enqueue(job.Spec{}))
		}
		c.run()
		synctest.Wait()
		require.EqualValues(t, 3, started.Load(), "two being written, and one that waits to be")
		require.Equal(t, 2, c.w.Stats().Settling)
		close(slow)
		for _, k := range keys {
			c.ended(k)
		}
		c.end()
	})
}

func TestContractB4_NotNowKeepsTheAttempt(t *testing.T) {
	for _, code := range []job.Code{job.CodeDuplicate, job.CodeOverCapacity} {
		bubble(t, Config{}, func(c *crew) {
			n := 0
			c.handle(func(context.Context, *job.Job) (any, error) {
				if n++; n <= 5 {
					return nil, job.Refuse(code, "busy")
				}
				return nil, nil
			})
			key := c.enqueue(job.Spec{MaxAttempts: 2})
			c.run()
			j := c.ended(key)
			require.Equal(t, job.Succeeded, j.Status)
			require.Equal(t, 1, j.Attempts)
			for _, o := range c.q.outcomes(key.ID)[:5] {
				require.True(t, o.Refund)
				require.Equal(t, "not started: busy", o.Error)
				require.GreaterOrEqual(t, o.Delay, 30*time.Second)
				require.LessOrEqual(t, o.Delay, time.Minute)
			}
			c.end()
		})
	}
}

func TestContractB4_ATypeWithoutHandlerGoesBackWithADelayThatDoubles(t *testing.T) {
	bubble(t, Config{}, func(c *crew) {
		key := c.enqueue(job.Spec{Type: "unknown", Delay: time.Hour})
		c.run()
		c.until(key, func(*job.Job) bool { return len(c.q.outcomes(key.ID)) == 8 })
		outcomes := c.q.outcomes(key.ID)
		for i, o := range outcomes {
			require.True(t, o.Refund)
			require.Equal(t, `not started: no handler for type "unknown"`, o.Error)
			require.LessOrEqual(t, o.Delay, 15*time.Minute+maxSpread)
			if i > 0 && outcomes[i-1].Delay < 7*time.Minute {
				require.GreaterOrEqual(t, o.Delay, 2*outcomes[i-1].Delay-maxSpread)
			}
		}
		require.Less(t, outcomes[0].Delay, time.Minute+time.Second)
		require.GreaterOrEqual(t, outcomes[7].Delay, 15*time.Minute)
		c.end()
		require.Equal(t, 1, strings.Count(c.logs.String(), "said once"))
		require.Contains(t, c.logs.String(), `"type":"unknown","handedBack":8`)
		j, err := c.q.Get(t.Context(), key)
		require.NoError(t, err)
		require.Zero(t, j.Attempts)
		require.Empty(t, j.History)
	})
}

func TestContractB5_NotEverEndsTheJobAtOnce(t *testing.T) {
	for _, give := range []error{
		job.Refuse(job.CodeNotFound, "why"), job.Refuse(job.CodeDisabled, "why"),
		job.Refuse(job.CodeForbidden, "why"), job.Refuse(job.CodeRecursion, "why"), job.GiveUp(errors.New("why")),
	} {
		bubble(t, Config{}, func(c *crew) {
			c.handle(func(context.Context, *job.Job) (any, error) { return nil, give })
			c.run()
			j := c.ended(c.enqueue(job.Spec{MaxAttempts: 50}))
			require.Equal(t, job.Dead, j.Status)
			require.Equal(t, 1, j.Attempts)
			require.Equal(t, "why", j.Error)
			c.end()
		})
	}
}

func TestContractB6_ExhaustedSaysWhichStepFailedAndWhy(t *testing.T) {
	bubble(t, Config{}, func(c *crew) {
		c.handle(func(ctx context.Context, _ *job.Job) (any, error) {
			return nil, job.Step(ctx, "charge", func(context.Context) error {
				return errors.New("card declined by https://shop:key@bank/")
			})
		})
		start := time.Now()
		c.run()
		j := c.ended(c.enqueue(job.Spec{MaxAttempts: 3}))
		require.Equal(t, job.Dead, j.Status)
		require.Equal(t, `step "charge" failed: card declined by https://[redacted]@bank/`, j.Error)
		require.Equal(t, 3, j.Attempts)
		require.Len(t, j.History, 3)
		require.GreaterOrEqual(t, time.Since(start), 90*time.Second)
		require.NotContains(t, c.logs.String(), "shop:key")
		c.end()
	})
}

func TestContractB7_ACancelEndsTheRunAsCancelled(t *testing.T) {
	bubble(t, Config{Timeout: time.Hour}, func(c *crew) {
		started := make(chan struct{})
		c.handle(func(ctx context.Context, _ *job.Job) (any, error) {
			close(started)
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), job.ErrCancelRequested)
			return nil, fmt.Errorf("query: %w", ctx.Err())
		})
		key := c.enqueue(job.Spec{})
		c.run()
		<-started
		c.q.interrupt(key, job.ErrCancelRequested)
		j := c.ended(key)
		require.Equal(t, job.Cancelled, j.Status)
		require.Equal(t, "cancelled by an operator", j.Error)
		c.end()
	})
}

func TestContractB7_ACancelBeforeTheStartDoesNotStart(t *testing.T) {
	bubble(t, Config{}, func(c *crew) {
		c.handle(func(context.Context, *job.Job) (any, error) { t.Error("started"); return nil, nil })
		key := c.enqueue(job.Spec{})
		c.q.jobs[0].CancelRequested = true
		c.run()
		require.Equal(t, job.Cancelled, c.ended(key).Status)
		c.end()
	})
}

func TestALostLeaseCancelsTheHandlerAndSettlesNothing(t *testing.T) {
	bubble(t, Config{}, func(c *crew) {
		started, stopped := make(chan struct{}), make(chan struct{})
		c.handle(func(ctx context.Context, j *job.Job) (any, error) {
			if j.Space == "other" {
				return nil, nil
			}
			close(started)
			<-ctx.Done()
			defer close(stopped)
			return nil, context.Cause(ctx)
		})
		key := c.enqueue(job.Spec{})
		c.run()
		<-started
		c.q.interrupt(key, job.ErrLeaseLost)
		<-stopped
		synctest.Wait()
		require.Empty(t, c.q.log())
		c.ended(c.enqueue(job.Spec{Space: "other"}))
		c.end()
	})
}

func TestALateSettlementIsAWarning(t *testing.T) {
	bubble(t, Config{}, func(c *crew) {
		c.q.onSettle = func(context.Context, job.Key, job.Outcome) error { return job.ErrLeaseLost }
		c.handle(func(context.Context, *job.Job) (any, error) { return nil, nil })
		c.enqueue(job.Spec{})
		c.run()
		synctest.Wait()
		require.Contains(t, c.logs.String(), "went to somebody else")
		c.end()
	})
}

func TestContractB9_AnOutageIsLoggedOnceAtEachEnd(t *testing.T) {
	bubble(t, Config{}, func(c *crew) {
		var failures atomic.Int32
		c.q.onSettle = func(ctx context.Context, _ job.Key, _ job.Outcome) error {
			require.NoError(t, ctx.Err())
			if failures.Add(1) <= 20 {
				return errors.New("no leader")
			}
			return nil
		}
		c.handle(func(context.Context, *job.Job) (any, error) { return nil, nil })
		c.run()
		require.Equal(t, job.Succeeded, c.ended(c.enqueue(job.Spec{})).Status)
		c.end()
		require.Equal(t, 1, strings.Count(c.logs.String(), "no leader"))
		require.Equal(t, 1, strings.Count(c.logs.String(), `"failures":20`))
	})
}

func TestContractB11_AClosedConnectionEndsRunWithAnError(t *testing.T) {
	closed := errors.New("nats: connection closed")
	bubble(t, Config{}, func(c *crew) {
		started, finish := make(chan struct{}), make(chan struct{})
		c.handle(func(context.Context, *job.Job) (any, error) { close(started); <-finish; return nil, nil })
		key := c.enqueue(job.Spec{})
		c.run()
		<-started
		c.q.breakDown(closed)
		synctest.Wait()
		require.Empty(t, c.err, "what runs may end")
		close(finish)
		require.ErrorIs(t, <-c.err, closed)
		require.Equal(t, job.Succeeded, c.ended(key).Status)
		require.Equal(t, 1, strings.Count(c.logs.String(), "connection closed"))
	})
	bubble(t, Config{}, func(c *crew) { // but not for ever
		started := make(chan struct{})
		c.handle(func(ctx context.Context, _ *job.Job) (any, error) {
			close(started)
			<-ctx.Done()
			return nil, ctx.Err()
		})
		c.enqueue(job.Spec{})
		c.run()
		<-started
		c.q.breakDown(closed)
		start := time.Now()
		require.ErrorIs(t, <-c.err, closed)
		require.Equal(t, 30*time.Second, time.Since(start))
	})
}

func TestContractB12_RetryAfterAndPolicies(t *testing.T) {
	bubble(t, Config{}, func(c *crew) {
		c.handle(func(_ context.Context, j *job.Job) (any, error) {
			if j.Attempts == 1 {
				return nil, job.RetryAfter(3*time.Hour, errors.New("x"))
			}
			return nil, errors.New("y")
		}, WithRetry(RetryPolicy{Next: func(attempt int, err error) time.Duration {
			require.EqualError(t, err, "y")
			return time.Duration(attempt) * time.Second
		}}))
		key := c.enqueue(job.Spec{MaxAttempts: 4})
		c.run()
		c.ended(key)
		var delays []time.Duration
		for _, o := range c.q.outcomes(key.ID) {
			delays = append(delays, o.Delay)
		}
		require.Equal(t, []time.Duration{3 * time.Hour, 2 * time.Second, 3 * time.Second, 0}, delays)
		c.end()
	})
}

func TestContractB12_TimeoutOfJobBeatsTypeBeatsWorker(t *testing.T) {
	bubble(t, Config{Timeout: 3 * time.Second}, func(c *crew) {
		fn := func(ctx context.Context, _ *job.Job, _ struct{}) (any, error) {
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), job.ErrTimeout)
			return nil, ctx.Err()
		}
		Handle(c.w, "plain", fn)
		Handle(c.w, "typed", fn, WithTimeout(2*time.Second))
		c.run()
		for typ, want := range map[string]string{"plain": "timed out after 3s", "typed": "timed out after 2s"} {
			j := c.ended(c.enqueue(job.Spec{Type: typ, MaxAttempts: 1}))
			require.Equal(t, want, j.Error)
			require.Equal(t, job.Dead, j.Status)
		}
		j := c.ended(c.enqueue(job.Spec{Type: "typed", MaxAttempts: 1, Timeout: time.Second}))
		require.Equal(t, "timed out after 1s", j.Error)
		c.end()
	})
}

func TestContractB12_DeadlineByTheStoresClock(t *testing.T) {
	bubble(t, Config{}, func(c *crew) {
		c.q.skew = -time.Hour // the store's clock is what counts
		c.handle(func(ctx context.Context, _ *job.Job) (any, error) {
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), job.ErrDeadline)
			return nil, ctx.Err()
		}, WithTimeout(24*time.Hour))
		start := time.Now()
		c.run()
		j := c.ended(c.enqueue(job.Spec{Deadline: c.q.Now().Add(10 * time.Minute), MaxAttempts: 9}))
		require.Equal(t, job.Dead, j.Status)
		require.Equal(t, "deadline passed", j.Error)
		require.Equal(t, 10*time.Minute, time.Since(start))
		late := c.ended(c.enqueue(job.Spec{Deadline: c.q.Now().Add(time.Minute), Delay: time.Minute}))
		require.Equal(t, job.Dead, late.Status)
		require.Equal(t, "deadline passed before the attempt started", late.Error)
		c.end()
	})
}
