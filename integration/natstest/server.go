package natstest

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

const loopback = "127.0.0.1"

// ServerConfig describes a server process. The zero value is a single server
// with JetStream on free ports, with a directory of the test's.
type ServerConfig struct {
	// Name is the server's name. Defaults to "n1".
	Name string

	// Dir is the store directory. Defaults to one that is removed with the
	// test.
	Dir string

	// Port is the client port. Defaults to a free one.
	Port int

	// Host is the address to listen on. Defaults to 127.0.0.1.
	Host string

	// Within is a command that runs another, which is how the server is started, such as "ip netns exec NAME".
	Within []string

	// JetStream is put into the configuration file's jetstream block, such as
	// "sync_interval: always" or "max_file_store: 10MB".
	JetStream string

	// Extra is put into the configuration file.
	Extra string
}

// Process is a nats-server process. It keeps its directory and its ports when
// it is restarted. Its methods belong to the test that started it.
type Process struct {
	t      testing.TB
	name   string
	dir    string
	host   string
	port   int
	http   int
	within []string
	config string
	cfg    ServerConfig
	group  string // the cluster block of the configuration
	log    *os.File
	client *http.Client
	child  *child
}

// StartServer starts a server process and returns when JetStream is up. The
// process is stopped when the test ends.
func StartServer(t testing.TB, cfg ServerConfig) *Process {
	t.Helper()
	for try := 1; ; try++ {
		p := newProcess(t, cfg, "")
		p.start()
		err := p.waitReady()
		if err == nil {
			return p
		}
		if try == 3 || cfg.Port != 0 || !p.portClash() {
			t.Fatalf("natstest: %v", err)
		}
		p.Kill()
	}
}

// Name is the server's name, by which a stream's info names its leader.
func (p *Process) Name() string { return p.name }

// Dir is the store directory.
func (p *Process) Dir() string { return p.dir }

// URL is where clients connect.
func (p *Process) URL() string { return fmt.Sprintf("nats://%s:%d", p.host, p.port) }

// MonitorURL is the root of the server's HTTP monitoring.
func (p *Process) MonitorURL() string { return fmt.Sprintf("http://%s:%d", p.host, p.http) }

// PID is the id of the process that runs now, or ran last.
func (p *Process) PID() int { return p.child.cmd.Process.Pid }

// Running says whether the process is there, paused or not.
func (p *Process) Running() bool { return !p.child.ended() }

// Kill ends the process (SIGKILL) and waits until it is gone.
func (p *Process) Kill() {
	p.t.Helper()
	if err := p.child.kill(); err != nil {
		p.t.Errorf("natstest: server %s: %v", p.name, err)
	}
}

// Stop has the server shut down cleanly (SIGTERM) and waits until it is gone.
func (p *Process) Stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	p.signal(syscall.SIGCONT) // a paused one could not act on it
	if !p.child.wait(patience) {
		p.t.Errorf("natstest: server %s has not stopped after %s", p.name, patience)
		p.Kill()
	}
}

// Pause stops the process where it is (SIGSTOP), and returns when it has stopped.
func (p *Process) Pause() {
	p.t.Helper()
	if err := p.child.pause(); err != nil {
		p.t.Errorf("natstest: server %s: %v", p.name, err)
	}
}

// Resume lets a paused process go on (SIGCONT).
func (p *Process) Resume() { p.t.Helper(); p.signal(syscall.SIGCONT) }

// Restart stops the server cleanly if it runs, and starts it again with the
// same directory and ports. It returns when JetStream is up; a member of a
// cluster may have to catch up then: see Cluster.WaitReady.
func (p *Process) Restart(t testing.TB) {
	t.Helper()
	p.Stop()
	p.start()
	if err := p.waitReady(); err != nil {
		t.Fatalf("natstest: %v", err)
	}
}

func (p *Process) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.child.signal(sig); err != nil {
		p.t.Errorf("natstest: server %s: %v: %v", p.name, sig, err)
	}
}

// newProcess writes a server's configuration; cluster is the text of its
// cluster block, if it is a member of one.
func newProcess(t testing.TB, cfg ServerConfig, cluster string) *Process {
	t.Helper()
	if cfg.Name == "" {
		cfg.Name = "n1"
	}
	base := t.TempDir()
	if cfg.Dir == "" {
		cfg.Dir = filepath.Join(base, "store")
	}
	if cfg.Host == "" {
		cfg.Host = loopback
	}
	ports := reservePorts(t, 2)
	if cfg.Port == 0 {
		cfg.Port = ports[0]
	}
	p := &Process{
		t: t, name: cfg.Name, dir: cfg.Dir, host: cfg.Host, port: cfg.Port, http: ports[1], within: cfg.Within,
		config: filepath.Join(base, "nats.conf"), cfg: cfg, group: cluster,
		log:    outputFile(t, base, cfg.Name+".log"),
		client: &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}},
	}
	if err := p.configure(); err != nil {
		t.Fatalf("natstest: %v", err)
	}
	return p
}

// configure writes the configuration file.
func (p *Process) configure() error {
	text := fmt.Sprintf(`server_name: %q
listen: "%s:%d"
http: "%s:%d"
jetstream {
  store_dir: %q
  %s
}
%s
%s
`, p.name, p.host, p.port, p.host, p.http, p.dir, p.cfg.JetStream, p.group, p.cfg.Extra)
	return os.WriteFile(p.config, []byte(text), 0o600)
}

// Change adjusts the configuration with which the server is started the next time: its directory, and what is put into
// the file.
func (p *Process) Change(t testing.TB, adjust func(*ServerConfig)) {
	t.Helper()
	adjust(&p.cfg)
	p.dir = p.cfg.Dir
	if err := p.configure(); err != nil {
		t.Fatalf("natstest: %v", err)
	}
}

func (p *Process) start() {
	p.t.Helper()
	c, err := launch(p.within, roleServer, []string{configEnv + "=" + p.config}, p.log, nil)
	if err != nil {
		p.t.Fatalf("natstest: start server %s: %v", p.name, err)
	}
	first := p.child == nil
	p.child = c
	if first {
		p.t.Cleanup(p.Kill)
	}
}

func (p *Process) waitReady() error {
	return poll(patience, func() error {
		if p.child.ended() {
			return stop{fmt.Errorf("server %s ended (%s): does TestMain call natstest.Main?\n%s",
				p.name, p.child.cmd.ProcessState, tail(p.log, 2<<10))}
		}
		return p.healthy("?js-enabled-only=true")
	})
}

// healthy asks the server's own health check.
func (p *Process) healthy(query string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	body, status, err := p.get(ctx, "/healthz"+query)
	if err != nil {
		return fmt.Errorf("server %s: %w", p.name, err)
	}
	if status != http.StatusOK {
		return fmt.Errorf("server %s: %s", p.name, bytes.TrimSpace(body))
	}
	return nil
}

func (p *Process) portClash() bool {
	return bytes.Contains([]byte(tail(p.log, 6<<10)), []byte("address already in use"))
}
