package worker

import (
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// outage reports a disturbance twice: when it begins, and when it ends, with a count.
type outage struct {
	log zerolog.Logger

	mu    sync.Mutex
	since time.Time
	count int
}

// failed takes note of a failure.
func (o *outage) failed(err string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.count++
	if o.count == 1 {
		o.since = time.Now()
		o.log.Error().Str("error", err).Msg("outcomes cannot be written; trying on")
	}
}

// ended takes note of a success.
func (o *outage) ended() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.count > 0 {
		o.log.Info().Int("failures", o.count).Dur("lastedMs", time.Since(o.since)).Msg("outcomes can be written again")
		o.count = 0
	}
}
