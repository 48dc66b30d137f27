package schedules

import (
	"context"
	"encoding/json"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/scheduler"
	"github.com/jetcrew/jetcrew/streams"
)

// patience is how long anything may take that has to happen.
const patience = 90 * time.Second

// fleet is the scheduler processes of a test, on a server that the test treats badly.
type fleet struct {
	t        testing.TB
	url      string
	ttl      time.Duration
	js       jetstream.JetStream
	jobs     *streams.Store
	store    *scheduler.Store
	election *scheduler.Election // only to see who leads
	procs    map[string]*natstest.Proc
	started  int
	frozen   int // processes that were frozen
}

func newFleet(t testing.TB, url string, ttl time.Duration) *fleet {
	t.Helper()
	nc, err := connect(url)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	f := &fleet{t: t, url: url, ttl: ttl, procs: make(map[string]*natstest.Proc)}
	f.js, err = jetstream.New(nc)
	require.NoError(t, err)
	f.jobs, err = streams.Open(ctx, nc, streams.Config{})
	require.NoError(t, err)
	t.Cleanup(f.jobs.Close)
	f.store, err = scheduler.OpenStore(ctx, nc, scheduler.StoreConfig{Clock: f.jobs})
	require.NoError(t, err)
	f.election, err = scheduler.NewElection(ctx, nc, scheduler.Config{ID: "test", TTL: ttl})
	require.NoError(t, err)
	return f
}

// start starts a scheduler process, and answers its id when it takes part in the election.
func (f *fleet) start(mischief string) string {
	f.t.Helper()
	f.started++
	id := fmt.Sprint("scheduler-", f.started)
	text, err := json.Marshal(schedulerConfig{ID: id, URL: f.url, TTL: f.ttl, Mischief: mischief})
	require.NoError(f.t, err)
	f.procs[id] = natstest.StartRole(f.t, roleScheduler, schedulerEnv+"="+string(text))
	f.says(id, up)
	return id
}

// leader waits until a process leads that is none of others, and answers who.
func (f *fleet) leader(others ...string) scheduler.Leader {
	f.t.Helper()
	var leader scheduler.Leader
	f.until(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		l, err := f.election.Leader(ctx)
		if err != nil {
			return err
		}
		for _, o := range others {
			if l.ID == o {
				return fmt.Errorf("%s leads", o)
			}
		}
		leader = l
		return nil
	})
	return leader
}

func (f *fleet) until(cond func() error) {
	f.t.Helper()
	natstest.Eventually(f.t, patience, cond)
}

// dismiss has processes stop, and wants them to end well.
func (f *fleet) dismiss(ids ...string) {
	f.t.Helper()
	for _, id := range ids {
		f.procs[id].Signal(syscall.SIGTERM)
	}
	for _, id := range ids {
		require.Zero(f.t, f.procs[id].Wait(patience), "exit code of %s", id)
		delete(f.procs, id)
	}
}

// ids are those of the processes that are there.
func (f *fleet) ids() []string {
	var out []string
	for id := range f.procs {
		out = append(out, id)
	}
	return out
}

// says waits for a line of a process's output.
func (f *fleet) says(id, want string) {
	f.t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case line, ok := <-f.procs[id].Lines():
			require.True(f.t, ok, "%s has ended, and has not said %q", id, want)
			if line == want {
				return
			}
		case <-timeout:
			require.Fail(f.t, "nothing was said", "%s has not said %q", id, want)
		}
	}
}

// newer waits until each schedule has fired an instant that was promised for now or later.
func (f *fleet) newer(promised []*scheduler.Schedule) {
	f.t.Helper()
	now := f.jobs.Now()
	f.until(func() error {
		for _, p := range promised {
			s, err := f.get(p)
			if err == nil && s.LastFireAt.Before(now) {
				err = fmt.Errorf("%s has fired last at %s, want %s or later", s.Name, s.LastFireAt, now)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (f *fleet) get(s *scheduler.Schedule) (*scheduler.Schedule, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return f.store.Get(ctx, s.Space, s.Name)
}
