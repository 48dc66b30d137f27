package schedules

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/scheduler"
)

// declare puts schedules that fire each second: most fold what is missed, some do not.
func (f *fleet) declare(n int) []*scheduler.Schedule {
	f.t.Helper()
	var out []*scheduler.Schedule
	for i := range n {
		spec := scheduler.Every(every, scheduler.Spec{Name: fmt.Sprint("s", i), Type: "work"})
		switch i % 10 {
		case 3, 7:
			spec.MissedPolicy, spec.MissedLimit = scheduler.MissedEach, scheduler.MaxMissedLimit
		case 5:
			spec.MissedPolicy = scheduler.MissedSkip
		case 9:
			spec.Jitter = 2 * time.Second
		}
		s, _, err := f.store.Put(context.Background(), "", spec)
		require.NoError(f.t, err)
		out = append(out, s)
	}
	return out
}

func TestEachInstantIsAccountedForUnderFaults(t *testing.T) {
	t.Parallel()
	srv := natstest.StartServer(t, natstest.ServerConfig{})
	f := newFleet(t, srv.URL(), 2*time.Second) // longer than an interval: fires are missed
	promised := f.declare(30)
	for range 3 {
		f.start("")
	}
	faults := map[string]func(){
		"the leader is killed":                  f.kill,
		"the leader is frozen past its lease":   f.freeze,
		"the leader is cut off":                 func() { f.silence(cutOff) },
		"the leader hears nothing":              func() { f.silence(deafen) },
		"the leader dies between fire and move": f.dieBetween,
		"the leader freezes between both":       f.freezeBetween,
		"the server is away for some fires":     func() { f.away(srv) },
	}
	names := []string{
		"the leader dies between fire and move", "the leader is frozen past its lease", "the leader is killed",
		"the leader freezes between both", "the leader is cut off", "the server is away for some fires", "the leader hears nothing",
	}
	rounds := 2
	if testing.Short() {
		rounds, names = 1, names[:4]
	}
	began := time.Now()
	for range rounds {
		for _, name := range names {
			since := time.Now()
			faults[name]()
			healed := time.Now()
			f.newer(promised)
			t.Logf("%s: %s until another leads, all fire again %s after", name, healed.Sub(since).Round(time.Millisecond),
				time.Since(healed).Round(time.Millisecond))
		}
	}
	sum := f.check(promised)
	t.Logf("%d jobs in %s, %d instants folded into them, %d counted as missed, the latest %s after its instant; %d processes",
		sum.jobs, time.Since(began).Round(time.Second), sum.folded, sum.missed, sum.latest.Round(time.Millisecond), f.started)
	if !testing.Short() {
		require.GreaterOrEqual(t, sum.jobs, 500)
	}
	f.dismiss(f.ids()...)
}

func (f *fleet) kill() {
	leader := f.leader().ID
	f.procs[leader].Kill()
	delete(f.procs, leader)
	f.start("")
	f.leader(leader)
}

func (f *fleet) freeze() {
	leader := f.leader().ID
	f.frozen++
	f.procs[leader].Pause()
	f.leader(leader)
	f.procs[leader].Resume()
}

// silence takes the leader's connection away until another leads.
func (f *fleet) silence(how syscall.Signal) {
	leader := f.leader().ID
	f.procs[leader].Signal(how)
	f.leader(leader)
	f.procs[leader].Signal(heal)
}

// away kills the server, and starts it again when some instants have passed.
func (f *fleet) away(srv *natstest.Process) {
	srv.Kill()
	back := f.jobs.Now().Add(5 * every / 2)
	f.until(func() error {
		if f.jobs.Now().Before(back) {
			return errors.New("it is not time yet")
		}
		return nil
	})
	srv.Restart(f.t)
	f.leader()
}

// alone has one process lead that comes to harm when it has fired; the others are stopped before, and started after.
func (f *fleet) alone(mischief string) string {
	others := f.ids()
	id := f.start(mischief)
	f.dismiss(others...)
	f.says(id, mischief)
	for range 2 {
		f.start("")
	}
	return id
}

func (f *fleet) dieBetween() {
	id := f.alone(dies)
	f.procs[id].Wait(patience)
	delete(f.procs, id)
	f.start("")
	f.leader(id)
}

func (f *fleet) freezeBetween() {
	f.frozen++
	id := f.alone(freezes)
	f.leader(id)
	f.procs[id].Resume()
}
