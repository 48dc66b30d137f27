package worker

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/jetcrew/jetcrew/pkg/job"
)

func TestContractB3_DoublesFromBaseToMax(t *testing.T) {
	for attempt, want := range map[int]time.Duration{
		1: 30 * time.Second, 2: time.Minute, 3: 2 * time.Minute, 4: 4 * time.Minute, 5: 8 * time.Minute,
		6: 15 * time.Minute, 7: 15 * time.Minute, 500: 15 * time.Minute,
	} {
		require.Equal(t, want, defaultRetry.step(attempt), "attempt %d", attempt)
	}
}

func TestContractB3_EveryWaitIsItsStepAndAtMostTheSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := RetryPolicy{
			Base: time.Duration(rapid.Int64Range(1, math.MaxInt64).Draw(t, "base")),
			Max:  time.Duration(rapid.Int64Range(1, math.MaxInt64).Draw(t, "max")),
		}
		attempt := rapid.IntRange(-1, job.MaxMaxAttempts).Draw(t, "attempt")
		step, wait := p.step(attempt), p.wait(attempt, nil)
		if step <= 0 || step > p.Max || step < min(p.Base, p.Max) {
			t.Fatalf("step %s of %+v", step, p)
		}
		if next := p.step(attempt + 1); next < step {
			t.Fatalf("step fell from %s to %s", step, next)
		}
		if wait < step || wait-step > min(step, maxSpread) {
			t.Fatalf("wait %s for step %s", wait, step)
		}
	})
}

func TestContractB3_WhatFailedTogetherDoesNotReturnTogether(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 100 {
		seen[defaultRetry.wait(1, nil)] = true
	}
	require.Greater(t, len(seen), 50)
}

func TestContractB12_PolicyOfJobBeatsTypeBeatsWorker(t *testing.T) {
	next := RetryPolicy{Next: func(attempt int, _ error) time.Duration { return time.Duration(attempt) }}
	for name, c := range map[string]struct {
		typ       RetryPolicy
		job       *job.Retry
		base, max time.Duration
	}{
		"worker's":               {RetryPolicy{}, nil, 30 * time.Second, 15 * time.Minute},
		"type's":                 {RetryPolicy{Base: 1, Max: 5}, nil, 1, 5},
		"type's base":            {RetryPolicy{Base: 1}, nil, 1, 15 * time.Minute},
		"type's long base":       {RetryPolicy{Base: time.Hour}, nil, time.Hour, time.Hour},
		"type's short max":       {RetryPolicy{Max: time.Second}, nil, time.Second, time.Second},
		"job's":                  {RetryPolicy{Base: 1, Max: 5}, &job.Retry{Base: 2, Max: 7}, 2, 7},
		"job's base, type's max": {RetryPolicy{Base: 1, Max: 5}, &job.Retry{Base: 2}, 2, 5},
		"job's over a function":  {next, &job.Retry{Base: 2, Max: 9}, 2, 9},
	} {
		t.Run(name, func(t *testing.T) {
			p := c.typ.over(defaultRetry).of(&job.Job{Retry: c.job})
			require.Nil(t, p.Next)
			require.Equal(t, [2]time.Duration{c.base, c.max}, [2]time.Duration{p.Base, p.Max})
		})
	}
	require.Equal(t, time.Duration(7), next.over(defaultRetry).of(&job.Job{}).wait(7, errors.New("x")))
	negative := RetryPolicy{Next: func(int, error) time.Duration { return -1 }}
	require.Zero(t, negative.wait(1, nil))
}
