package httpapi

import (
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"time"

	"github.com/rs/zerolog"
)

// ErrOpen: without tokens, it is not served beyond this machine.
var ErrOpen = errors.New("without tokens it is served on a loopback address only")

// Listen listens for the API on host:port. Unless it is closed to all who have no token, be it a configured or a stored
// one, it refuses with ErrOpen what is not a loopback address.
func Listen(address string, closed bool) (net.Listener, error) {
	addr, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("httpapi: %w", err)
	}
	if !closed && (addr.IP == nil || !addr.IP.IsLoopback()) {
		return nil, fmt.Errorf("httpapi: %s: %w", address, ErrOpen)
	}
	l, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("httpapi: %w", err)
	}
	return l, nil
}

// Server serves a handler with every wait bounded. Handler is required.
type Server struct {
	Handler http.Handler
	// HeaderTimeout bounds the wait for a request's header. Defaults to 5 s.
	HeaderTimeout time.Duration
	// ReadTimeout bounds the wait for the whole of a request. Defaults to 30 s.
	ReadTimeout time.Duration
	// WriteTimeout bounds a request from the end of its header to the end of its answer. Defaults to 60 s.
	WriteTimeout time.Duration
	// IdleTimeout is how long a connection stays without a request. Defaults to 2 min.
	IdleTimeout time.Duration
	// DrainTimeout bounds the wait for requests that run when it is told to stop. Defaults to 20 s.
	DrainTimeout time.Duration
	// Logger takes what the server has to say. Defaults to none.
	Logger zerolog.Logger
}

// maxHeader is how many bytes a request's header may have.
const maxHeader = 16 << 10

// Run serves until ctx ends, and then lets the requests that run come to their ends. It closes the listener.
func (s *Server) Run(ctx context.Context, l net.Listener) error {
	conf := *s
	setDefault(&conf.HeaderTimeout, 5*time.Second)
	setDefault(&conf.ReadTimeout, 30*time.Second)
	setDefault(&conf.WriteTimeout, time.Minute)
	setDefault(&conf.IdleTimeout, 2*time.Minute)
	setDefault(&conf.DrainTimeout, 20*time.Second)
	srv := &http.Server{
		Handler:           conf.Handler,
		ReadHeaderTimeout: conf.HeaderTimeout,
		ReadTimeout:       conf.ReadTimeout,
		WriteTimeout:      conf.WriteTimeout,
		IdleTimeout:       conf.IdleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          stdlog.New(serverLog{conf.Logger}, "", 0),
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("httpapi: %w", err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), conf.DrainTimeout)
	defer cancel()
	err := srv.Shutdown(drain)
	if err != nil {
		_ = srv.Close() // ends what would not end by itself; its connections are gone either way
		err = fmt.Errorf("httpapi: requests still ran after %s", conf.DrainTimeout)
	}
	<-failed // http.ErrServerClosed
	return err
}

// serverLog passes on what net/http says of connections, which is mostly of others' making.
type serverLog struct{ log zerolog.Logger }

func (s serverLog) Write(p []byte) (int, error) {
	s.log.Debug().Str("says", cut(string(p))).Msg("http server")
	return len(p), nil
}
