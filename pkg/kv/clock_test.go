package kv_test

import (
	"sync/atomic"
	"time"

	"github.com/jetcrew/jetcrew/pkg/kv"
)

// clock stands still until it is put forward.
type clock struct{ at atomic.Int64 }

func (c *clock) Now() time.Time          { return time.Unix(1_700_000_000, c.at.Load()) }
func (c *clock) Advance(d time.Duration) { c.at.Add(int64(d)) }

// clocked is a store in memory whose clock is the test's.
type clocked struct {
	*kv.Memory
	*clock
}

func newClocked(opts kv.MemoryOptions) clocked {
	c := &clock{}
	opts.Now = c.Now
	return clocked{Memory: kv.NewMemory(opts), clock: c}
}

// TooLarge implements kvtest.Limited, for a store with the default limits.
func (clocked) TooLarge() int { return 1<<20 + 1 }
