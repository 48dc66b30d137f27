package worker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

func TestContractB8_DrainWaitsForWhatRuns(t *testing.T) {
	bubble(t, Config{}, func(c *crew) {
		started := make(chan struct{})
		c.handle(func(ctx context.Context, _ *job.Job) (any, error) {
			close(started)
			time.Sleep(5 * time.Minute) // ten leases
			return "done", ctx.Err()
		})
		key := c.enqueue(job.Spec{})
		c.run()
		<-started
		c.stop()
		synctest.Wait()
		later := c.enqueue(job.Spec{})
		start := time.Now()
		require.NoError(t, <-c.err)
		require.Equal(t, 5*time.Minute, time.Since(start))
		j := c.ended(key)
		require.Equal(t, job.Succeeded, j.Status)
		require.Equal(t, `"done"`, string(j.Result))
		require.Equal(t, []string{"drain", "settle " + key.ID + " succeeded", "close"}, c.q.log(),
			"the consumer, and so the heartbeats, end last")
		require.GreaterOrEqual(t, strings.Count(c.logs.String(), `"running":1`), 29, "says every ten seconds what it waits for")
		untouched, err := c.q.Get(t.Context(), later)
		require.NoError(t, err)
		require.Zero(t, untouched.Attempts, "nothing new is taken")
	})
}

func TestContractB8_WhatWasClaimedButNotStartedGoesBackRefunded(t *testing.T) {
	bubble(t, Config{}, func(c *crew) {
		r, err := c.w.begin(c.ctx)
		require.NoError(t, err)
		require.NoError(t, r.open(c.ctx))
		key := c.enqueue(job.Spec{})
		claim, err := r.queues[0].consumer.Claim(c.ctx)
		require.NoError(t, err)
		r.draining.Store(true)
		require.True(t, r.queues[0].take(claim))
		synctest.Wait()
		require.Equal(t, []job.Outcome{job.HandBack(0, "not started: the worker was shutting down")}, c.q.outcomes(key.ID))
		r.close()
	})
}

func TestContractB8_PastTheDrainTimeoutTheRestIsHandedBack(t *testing.T) {
	bubble(t, Config{DrainTimeout: time.Minute}, func(c *crew) {
		started := make(chan struct{}, 2)
		c.handle(func(ctx context.Context, j *job.Job) (any, error) {
			started <- struct{}{}
			if j.Space == "quick" {
				time.Sleep(30 * time.Second)
				return nil, ctx.Err()
			}
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), job.ErrShutdown)
			return nil, errors.New("half done")
		})
		slow, quick := c.enqueue(job.Spec{MaxAttempts: 1}), c.enqueue(job.Spec{Space: "quick"})
		c.run()
		<-started
		<-started
		c.stop()
		start := time.Now()
		require.NoError(t, <-c.err)
		require.Equal(t, time.Minute, time.Since(start))
		require.Equal(t, job.Succeeded, c.ended(quick).Status)
		require.Equal(t, []job.Outcome{job.HandBack(0, "interrupted: the worker was shutting down")}, c.q.outcomes(slow.ID))
	})
}

func TestContractB8_WhoIgnoresTheDrainTimeoutIsLeftBehind(t *testing.T) {
	bubble(t, Config{DrainTimeout: time.Minute, Grace: 10 * time.Second}, func(c *crew) {
		started, free := make(chan struct{}), make(chan struct{})
		c.handle(func(context.Context, *job.Job) (any, error) { close(started); <-free; return nil, nil })
		key := c.enqueue(job.Spec{})
		c.run()
		<-started
		c.stop()
		start := time.Now()
		require.ErrorIs(t, <-c.err, ErrStuck)
		require.Equal(t, 70*time.Second, time.Since(start))
		require.Equal(t, []string{"drain", "abandon " + key.ID, "close"}, c.q.log())
		close(free)
	})
}

func TestContractB8_KillReturnsAtOnce(t *testing.T) {
	for _, draining := range []bool{false, true} {
		bubble(t, Config{}, func(c *crew) {
			started, free := make(chan struct{}), make(chan struct{})
			c.handle(func(context.Context, *job.Job) (any, error) { close(started); <-free; return nil, nil })
			key := c.enqueue(job.Spec{})
			c.run()
			<-started
			if draining {
				c.stop()
				time.Sleep(time.Minute)
			}
			start := time.Now()
			c.w.Kill()
			c.w.Kill()
			require.ErrorIs(t, <-c.err, ErrKilled)
			require.Zero(t, time.Since(start))
			synctest.Wait()
			require.Contains(t, c.q.log(), "abandon "+key.ID, "its heartbeats have ended")
			close(free)
			synctest.Wait()
			require.Empty(t, c.q.outcomes(key.ID), "its job is redelivered")
		})
	}
}

func TestContractB8_OutcomesAreWrittenThroughAnOutageInTheDrain(t *testing.T) {
	bubble(t, Config{}, func(c *crew) {
		up := time.Now().Add(10 * time.Minute)
		started := make(chan struct{})
		c.q.onSettle = func(ctx context.Context, _ job.Key, _ job.Outcome) error {
			select { // as a queue does while its store cannot be reached
			case <-time.After(time.Until(up)):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		c.handle(func(context.Context, *job.Job) (any, error) { close(started); return nil, nil })
		key := c.enqueue(job.Spec{})
		c.run()
		<-started
		c.stop()
		require.NoError(t, <-c.err)
		require.Equal(t, job.Succeeded, c.ended(key).Status)
	})
	bubble(t, Config{DrainTimeout: time.Minute}, func(c *crew) {
		started := make(chan struct{})
		c.q.onSettle = func(context.Context, job.Key, job.Outcome) error { return errors.New("no leader") }
		c.handle(func(context.Context, *job.Job) (any, error) { close(started); return nil, nil })
		c.enqueue(job.Spec{})
		c.run()
		<-started
		c.stop()
		require.ErrorContains(t, <-c.err, "1 outcomes could not be written", "but not past its timeout")
	})
}

func TestContractB8_AnIdleWorkerStopsAtOnce(t *testing.T) {
	for _, queues := range []map[string]int{nil, {"default": 0}} {
		bubble(t, Config{Queues: queues}, func(c *crew) {
			c.run()
			synctest.Wait()
			start := time.Now()
			c.end()
			require.Zero(t, time.Since(start))
		})
	}
}
