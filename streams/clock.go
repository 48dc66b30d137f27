package streams

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// clockEvery is how often the store's clock is read again.
const clockEvery = 30 * time.Second

// clockSamples is how many round trips one reading takes; the shortest counts.
const clockSamples = 5

// clock tells the store's time between readings by this process's monotonic clock: a wall clock that is
// wrong, or jumps, changes nothing.
type clock struct {
	base   time.Time    // of this process; carries the monotonic reading
	offset atomic.Int64 // store's nanoseconds since the epoch at base
}

// startClock reads the store's clock once, and then again every clockEvery and after a reconnect.
func startClock(ctx context.Context, s *Store) (*clock, error) {
	c := &clock{base: time.Now()}
	if err := c.sync(ctx, s); err != nil {
		return nil, fmt.Errorf("streams: reading the store's clock: %w", err)
	}
	changed := s.nc.StatusChanged(nats.CONNECTED)
	s.wg.Go(func() {
		defer s.nc.RemoveStatusListener(changed)
		t := time.NewTicker(clockEvery)
		defer t.Stop()
		for {
			select {
			case <-s.ctx.Done():
				return
			case <-t.C:
			case _, ok := <-changed:
				if !ok {
					changed = nil // the connection is closed
					continue
				}
			}
			ctx, cancel := context.WithTimeout(s.ctx, requestTimeout)
			if err := c.sync(ctx, s); err != nil && s.ctx.Err() == nil {
				s.log.Debug().Err(err).Msg("the store's clock could not be read; going on by the last reading")
			}
			cancel()
		}
	})
	return c, nil
}

// sync takes the best of several readings: the instant in the server's answer against the middle of the
// round trip.
func (c *clock) sync(ctx context.Context, s *Store) error {
	best := time.Duration(-1)
	var offset int64
	for range clockSamples {
		from := time.Since(c.base)
		ts, err := s.serverTime(ctx)
		if err != nil {
			if best >= 0 {
				break
			}
			return err
		}
		trip := time.Since(c.base) - from
		if best < 0 || trip < best {
			best = trip
			offset = ts.UnixNano() - int64(from+trip/2)
		}
	}
	c.offset.Store(offset)
	return nil
}

func (c *clock) now() time.Time {
	return time.Unix(0, c.offset.Load()+int64(time.Since(c.base))).UTC()
}
