package natstest

import (
	"context"
	"encoding/json"
	"fmt"
	"syscall"
	"testing"
	"time"
)

// Reload has the running server take on another configuration: what ServerConfig.Extra says is replaced. It returns
// when the server goes by it.
func (p *Process) Reload(t testing.TB, extra string) {
	t.Helper()
	before, err := p.configured()
	if err != nil {
		t.Fatalf("natstest: %v", err)
	}
	p.cfg.Extra = extra
	if err := p.configure(); err != nil {
		t.Fatalf("natstest: %v", err)
	}
	p.signal(syscall.SIGHUP)
	err = poll(patience, func() error {
		now, err := p.configured()
		if err == nil && !now.After(before) {
			err = fmt.Errorf("server %s has not taken on its configuration:\n%s", p.name, tail(p.log, 2<<10))
		}
		return err
	})
	if err != nil {
		t.Fatalf("natstest: %v", err)
	}
}

// configured is when the server read its configuration last.
func (p *Process) configured() (time.Time, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	body, _, err := p.get(ctx, "/varz")
	if err != nil {
		return time.Time{}, err
	}
	var is struct {
		Loaded time.Time `json:"config_load_time"`
	}
	err = json.Unmarshal(body, &is)
	return is.Loaded, err
}

// Retire has the server give up its part in the cluster, let its clients go one by one and end (lame duck mode). It
// returns when it has ended.
func (p *Process) Retire() {
	p.t.Helper()
	p.signal(syscall.SIGUSR2)
	if !p.child.wait(patience) {
		p.t.Errorf("natstest: server %s has not retired after %s", p.name, patience)
		p.Kill()
	}
}
