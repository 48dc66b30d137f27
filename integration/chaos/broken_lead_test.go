//go:build failpoints

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/scheduler"
)

const (
	roleLeader = "leader"
	leaderTTL  = time.Second

	eventLeads  event = "leads"  // the process is leader
	eventYields event = "yields" // it is no more
)

func init() { roles = append(roles, natstest.Role(roleLeader, runLeader)) }

// runLeader is a process that takes part in the election until SIGTERM.
func runLeader() int {
	var cfg workerConfig
	if err := json.Unmarshal([]byte(os.Getenv(workerEnv)), &cfg); err != nil {
		return complain(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	book, err := openLedger(cfg.Ledger, cfg.ID)
	if err != nil {
		return complain(err)
	}
	nc, err := connect(cfg.URL)
	if err != nil {
		return complain(err)
	}
	defer nc.Close()
	election, err := scheduler.NewElection(ctx, nc, scheduler.Config{ID: cfg.ID, TTL: leaderTTL})
	if err != nil {
		return complain(err)
	}
	book.write(entry{Event: eventUp})
	election.Run(ctx, func(lead context.Context, _ func()) {
		book.write(entry{Event: eventLeads})
		<-lead.Done()
		book.write(entry{Event: eventYields})
	})
	return 0
}

// candidate starts a process that would lead.
func (c *crew) candidate(id string) *hand {
	c.t.Helper()
	cfg := c.cfg
	cfg.ID, cfg.Ledger = id, filepath.Join(c.dir, id+".jsonl")
	text, err := json.Marshal(cfg)
	require.NoError(c.t, err)
	h := &hand{Proc: natstest.StartRole(c.t, roleLeader, workerEnv+"="+string(text)), id: id, crew: c}
	c.account.add(cfg.Ledger)
	c.await(1, "candidate "+id+" is up", is(eventUp, id, ""))
	return h
}

// leading is since when each process leads that does.
func (c *crew) leading() map[string]time.Duration {
	since := make(map[string]time.Duration)
	for _, e := range c.account.all() {
		switch e.Event {
		case eventLeads:
			since[e.Worker] = e.At
		case eventYields:
			delete(since, e.Worker)
		}
	}
	return since
}

// The leader's entry goes before its time, as it would if the server's clock jumped, and another process is elected. For
// how long both lead is bounded by the time that an entry lives.
func leadTakenAway(t *testing.T) *verdict {
	c := newCrew(t, natstest.StartServer(t, natstest.ServerConfig{}).URL(), workerConfig{})
	a, b := c.candidate("a"), c.candidate("b")
	v := &verdict{fault: t.Name()}
	for range 3 {
		c.await(1, "somebody leads", is(eventLeads, "", ""))
		c.until(func() error {
			if n := len(c.leading()); n != 1 {
				return fmt.Errorf("%d lead, want one", n)
			}
			return nil
		})
		elected := c.account.count(is(eventLeads, "", ""))
		ctx, done := c.bounded()
		kv, err := c.js.KeyValue(ctx, "JETCREW_LEADER")
		require.NoError(t, err)
		require.NoError(t, kv.Purge(ctx, "leader"))
		done()
		c.faulted()
		c.await(elected+1, "somebody was elected", is(eventLeads, "", ""))
		v.oneLeads(c)
		if len(v.said) > 0 {
			return v
		}
	}
	a.Signal(syscall.SIGTERM)
	b.Signal(syscall.SIGTERM)
	require.Zero(t, a.Wait(patience))
	require.Zero(t, b.Wait(patience))
	return v
}

// oneLeads waits until one process leads, for longer than it may take.
func (v *verdict) oneLeads(c *crew) {
	const most = 5 * leaderTTL
	for {
		since := c.leading()
		if len(since) < 2 {
			return
		}
		if both := monotonic() - max(since["a"], since["b"]); both > most {
			v.other("a and b both lead, for %s by now, where an entry lives for %s", both.Round(time.Millisecond), leaderTTL)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}
