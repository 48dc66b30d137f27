package embedded

import (
	"fmt"
	"sync"

	"github.com/rs/zerolog"
)

// serverLog passes the server's warnings and errors on, and keeps the first
// fatal one: the server goes on after it, and Start must not.
type serverLog struct {
	log zerolog.Logger

	mu    sync.Mutex
	fatal string
}

func (l *serverLog) first() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fatal
}

func (l *serverLog) Noticef(string, ...any) {}
func (l *serverLog) Debugf(string, ...any)  {}
func (l *serverLog) Tracef(string, ...any)  {}

func (l *serverLog) Warnf(format string, v ...any) {
	l.log.Warn().Msgf("nats-server: "+format, v...)
}

func (l *serverLog) Errorf(format string, v ...any) {
	l.log.Error().Msgf("nats-server: "+format, v...)
}

func (l *serverLog) Fatalf(format string, v ...any) {
	msg := fmt.Sprintf(format, v...)
	l.mu.Lock()
	if l.fatal == "" {
		l.fatal = msg
	}
	l.mu.Unlock()
	l.log.Error().Msg("nats-server: " + msg)
}
