package main

import (
	"context"
	"fmt"
	"net"
	"net/http"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/jetcrew/jetcrew/pkg/client"
	"github.com/jetcrew/jetcrew/pkg/config"
	"github.com/jetcrew/jetcrew/pkg/httpapi"
	"github.com/jetcrew/jetcrew/pkg/metrics"
)

// vitals is where a process answers how it is, to those who watch it. Nil answers nowhere.
type vitals struct {
	listener net.Listener
	handler  http.Handler
	log      zerolog.Logger
}

func listenFlag(flags *pflag.FlagSet, listen *string) {
	flags.StringVar(listen, "listen", "", "host:port to answer /healthz, /readyz and /metrics on (default: nowhere)")
}

// openVitals listens where a flag says, if anywhere.
func openVitals(flag, listen string, c *client.Client, cfg *config.Config, m *metrics.Metrics, log zerolog.Logger) (*vitals, error) {
	if listen == "" {
		return nil, nil
	}
	ready, err := newReadiness(c, cfg)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return &vitals{l, httpapi.Health(ready, m.Handler(), log), log}, nil
}

// run answers until ctx ends.
func (v *vitals) run(ctx context.Context) error {
	if v == nil {
		<-ctx.Done()
		return nil
	}
	return runHTTP(ctx, v.listener, v.handler, v.log)
}

// newMetrics measures a process in the given role, and its connection and store.
func newMetrics(c *client.Client, role string, log zerolog.Logger) *metrics.Metrics {
	m := metrics.New(programVersion(), role, log)
	m.Conn(c.Conn())
	m.Store(c.Store())
	m.KVConflicts(c.KVConflicts)
	return m
}
