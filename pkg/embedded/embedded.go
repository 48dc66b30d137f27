// Package embedded runs a nats-server with JetStream inside the process, for
// development and tests. It is the real server, so everything that works
// against it works against a separate one; it is not meant for production,
// since it shares the process's memory and dies with it.
//
// A store directory belongs to one server at a time: a second one, in this
// process or another, is refused. A separate nats-server that is pointed at
// the same directory does not know of this and must be kept away by hand.
package embedded

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

// ErrInUse says that another server has the directory or the port.
var ErrInUse = errors.New("in use by another server")

// Config describes a server. The zero value is a server on a free loopback
// port with a temporary directory.
type Config struct {
	// Dir is the store directory; it is made if it is missing. Defaults to a
	// temporary one that Shutdown removes.
	Dir string

	// Host is the address to listen on. Defaults to 127.0.0.1.
	Host string

	// Port is the port to listen on. Defaults to a free one.
	Port int

	// MaxStore is the most that streams may take on disk, in bytes. Defaults
	// to three quarters of what is free.
	MaxStore int64

	// ReadyTimeout bounds the wait for a server that listens. The recovery of
	// what is stored comes before, and is not counted. Defaults to 10 s.
	ReadyTimeout time.Duration

	// Logger gets the server's warnings and errors. Defaults to none.
	Logger zerolog.Logger
}

// Server is a running nats-server. Its methods may be called from any
// goroutine.
type Server struct {
	srv  *server.Server
	dir  string
	temp bool
	lock *dirLock
	stop sync.Once
}

// Start runs a server and returns when it accepts connections and JetStream is
// up. The error is ErrInUse if another server has the directory or the port.
func Start(cfg Config) (*Server, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	s := &Server{dir: cfg.Dir}
	if err := s.openDir(); err != nil {
		return nil, err
	}
	if err := s.run(cfg); err != nil {
		s.Shutdown()
		return nil, err
	}
	return s, nil
}

// URL is where clients connect, such as nats://127.0.0.1:4222.
func (s *Server) URL() string {
	return s.srv.ClientURL()
}

// Dir is the store directory.
func (s *Server) Dir() string {
	return s.dir
}

// InProcess is the option with which a client in this process connects without
// a socket; the URL given to nats.Connect is then ignored.
func (s *Server) InProcess() nats.Option {
	return nats.InProcessServer(s.srv)
}

// CLIHint is a command line that lists the streams with the stock nats CLI.
func (s *Server) CLIHint() string {
	return "nats --server " + s.URL() + " stream ls"
}

// Shutdown stops the server and waits until it has stopped, releases the
// directory, and removes it if it was a temporary one. Calling it again does
// nothing.
func (s *Server) Shutdown() {
	s.stop.Do(func() {
		if s.srv != nil {
			s.srv.Shutdown()
			s.srv.WaitForShutdown()
		}
		s.lock.release()
		if s.temp {
			// What cannot be removed is the system's temporary directory's to
			// clean up; there is nothing left for a caller to do about it.
			_ = os.RemoveAll(s.dir)
		}
	})
}

func (c *Config) complete() error {
	if c.Host == "" {
		c.Host = "127.0.0.1"
	}
	if c.Port < 0 || c.Port > 65535 {
		return fmt.Errorf("embedded: port %d: must be between 0 and 65535", c.Port)
	}
	if c.MaxStore < 0 {
		return fmt.Errorf("embedded: max store of %d bytes: must not be negative", c.MaxStore)
	}
	if c.ReadyTimeout == 0 {
		c.ReadyTimeout = 10 * time.Second
	}
	if c.ReadyTimeout < 0 {
		return fmt.Errorf("embedded: ready timeout %s: must not be negative", c.ReadyTimeout)
	}
	return nil
}

func (s *Server) openDir() error {
	if s.dir == "" {
		dir, err := os.MkdirTemp("", "jetcrew-nats-")
		if err != nil {
			return fmt.Errorf("embedded: make a temporary directory: %w", err)
		}
		s.dir, s.temp = dir, true
	}
	dir, err := filepath.Abs(s.dir)
	if err != nil {
		return fmt.Errorf("embedded: directory %s: %w", s.dir, err)
	}
	s.dir = dir
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("embedded: directory %s: %w", s.dir, err)
	}
	s.lock, err = lockDir(s.dir)
	if err != nil {
		return fmt.Errorf("embedded: directory %s: %w", s.dir, err)
	}
	return nil
}

func (s *Server) run(cfg Config) error {
	if err := checkPort(cfg.Host, cfg.Port); err != nil {
		return err
	}
	port := cfg.Port
	if port == 0 {
		port = server.RANDOM_PORT
	}
	srv, err := server.NewServer(&server.Options{
		Host:              cfg.Host,
		Port:              port,
		JetStream:         true,
		StoreDir:          s.dir,
		JetStreamMaxStore: cfg.MaxStore,
		NoSigs:            true,
	})
	if err != nil {
		return fmt.Errorf("embedded: %w", err)
	}
	s.srv = srv
	fatal := &serverLog{log: cfg.Logger}
	srv.SetLoggerV2(fatal, false, false, false)
	srv.Start()
	if msg := fatal.first(); msg != "" {
		return fmt.Errorf("embedded: %s", msg)
	}
	if !srv.ReadyForConnections(cfg.ReadyTimeout) {
		return fmt.Errorf("embedded: not ready for connections after %s", cfg.ReadyTimeout)
	}
	if !srv.JetStreamEnabled() {
		return errors.New("embedded: JetStream is not up")
	}
	return nil
}

// checkPort finds a taken port before the server has opened any store. A port
// that is taken in the instant after is reported by the server itself.
func checkPort(host string, port int) error {
	addr := net.JoinHostPort(host, strconv.Itoa(port))
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("embedded: address %s: %w", addr, ErrInUse)
	}
	if err != nil {
		return fmt.Errorf("embedded: address %s: %w", addr, err)
	}
	if err := l.Close(); err != nil {
		return fmt.Errorf("embedded: address %s: %w", addr, err)
	}
	return nil
}
