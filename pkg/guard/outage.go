package guard

import (
	"sync"

	"github.com/rs/zerolog"

	"github.com/jetcrew/jetcrew/pkg/redact"
)

// outage tells the log once when runs cannot learn whether they were cancelled, and once when they can again.
type outage struct {
	log zerolog.Logger

	mu    sync.Mutex
	count int
}

func (o *outage) failed(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.count++; o.count == 1 {
		o.log.Warn().Str("error", redact.Text(err.Error())).Msg("runs cannot learn whether they were cancelled")
	}
}

func (o *outage) over() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.count > 0 {
		o.log.Info().Int("failures", o.count).Msg("runs learn again whether they were cancelled")
	}
	o.count = 0
}
