package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/streams"
)

// A server process is this binary, started once more: see natstest. This package's TestMain does not ask whether it
// is one, so that is done before.
func init() {
	if _, ok := os.LookupEnv("JETCREW_NATSTEST_ROLE"); ok {
		natstest.Main(nil)
	}
}

const (
	outageLease = 2 * time.Second // long enough for a busy machine to beat in time
	patience    = 2 * time.Minute
)

// plant is a worker on a real server that can fail.
type plant struct {
	t      *testing.T
	server *natstest.Process // nil if it is a cluster
	store  *streams.Store
	w      *Worker
	logs   safeBuffer
	keys   []job.Key

	mu      sync.Mutex
	running map[string]bool // jobs whose handlers block
	down    chan struct{}   // closed when the server is down
	up      chan struct{}   // closed when nothing fails any more
	calls   map[string]int
}

func newPlant(t *testing.T, lease time.Duration, slots int) *plant {
	t.Helper()
	server := natstest.StartServer(t, natstest.ServerConfig{})
	p := newPlantAt(t, server.URL(), 1, lease, slots)
	p.server = server
	return p
}

func newPlantAt(t *testing.T, url string, replicas int, lease time.Duration, slots int) *plant {
	t.Helper()
	p := &plant{t: t, running: map[string]bool{}, calls: map[string]int{}, down: make(chan struct{}), up: make(chan struct{})}
	log := zerolog.New(&p.logs)
	var err error
	p.store, err = streams.Open(t.Context(), natstest.Connect(t, url), streams.Config{Lease: lease, Replicas: replicas, Logger: log})
	require.NoError(t, err)
	t.Cleanup(p.store.Close)
	p.w, err = New(p.store, Config{
		Queues: map[string]int{"q": slots}, Lease: lease, Logger: log,
		Retry: RetryPolicy{Base: 20 * time.Millisecond, Max: 100 * time.Millisecond},
	})
	require.NoError(t, err)
	return p
}

// handle registers a handler that may look at the outage.
func (p *plant) handle(typ string, fn func(ctx context.Context, j *job.Job, down <-chan struct{}) error) {
	Handle(p.w, typ, func(ctx context.Context, j *job.Job, _ map[string]any) (any, error) {
		p.mu.Lock()
		p.calls[j.ID]++
		p.running[j.ID] = true
		down := p.down
		p.mu.Unlock()
		defer func() {
			p.mu.Lock()
			delete(p.running, j.ID)
			p.mu.Unlock()
		}()
		return nil, fn(ctx, j, down)
	})
}

// start runs the worker until the test ends, and then expects a clean drain.
func (p *plant) start() {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.w.Run(ctx) }()
	p.t.Cleanup(func() {
		stop()
		select {
		case err := <-ended:
			if err != nil {
				p.t.Errorf("the worker ended with %s", err)
			}
		case <-time.After(patience):
			p.t.Errorf("the worker does not end")
			p.w.Kill()
			<-ended
		}
	})
}

func (p *plant) enqueue(typ, id string, attempts int) job.Key {
	p.t.Helper()
	e, err := p.store.Enqueue(p.t.Context(), job.Spec{Queue: "q", Type: typ, ID: id, MaxAttempts: attempts})
	require.NoError(p.t, err)
	p.keys = append(p.keys, e.Key)
	return e.Key
}

// awaitRunning waits until the handlers of just these jobs block.
func (p *plant) awaitRunning(ids ...string) {
	p.t.Helper()
	slices.Sort(ids)
	natstest.Eventually(p.t, patience, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if got := slices.Sorted(maps.Keys(p.running)); !slices.Equal(ids, got) {
			return fmt.Errorf("these run: %s, not these: %s", got, ids)
		}
		return nil
	})
}

func (p *plant) called(id string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[id]
}

// outage has the server fail for a while, and calls during in the middle of it.
func (p *plant) outage(d time.Duration, begin, end, during func()) {
	p.t.Helper()
	begin()
	over := time.NewTimer(d) // the length of the outage, not a wait for anything
	p.mu.Lock()
	close(p.down)
	p.mu.Unlock()
	if during != nil {
		during()
	}
	<-over.C
	p.mu.Lock()
	p.down = make(chan struct{})
	p.mu.Unlock()
	end()
}

// ended waits until a job has ended; housekeeping, which some process of a fleet always does, goes on meanwhile.
func (p *plant) ended(key job.Key) *job.Job {
	p.t.Helper()
	var j *job.Job
	natstest.Eventually(p.t, patience, func() (err error) {
		if j, err = p.store.Get(p.t.Context(), key); err != nil {
			return err
		}
		if !j.Status.Terminal() {
			_, err := p.store.Sweep(p.t.Context())
			return errors.Join(fmt.Errorf("%s is %s (%q)", key, j.Status, j.Error), err)
		}
		return nil
	})
	return j
}

// lines counts the log's lines of at least a warning, and those that say that something is well again, by their
// message and what they are about.
func (p *plant) lines() map[string]int {
	p.t.Helper()
	out := map[string]int{}
	for line := range strings.Lines(p.logs.String()) {
		var l struct {
			Level, Message, Job, Type string
			Consumer                  string
		}
		require.NoError(p.t, json.Unmarshal([]byte(line), &l), line)
		if l.Level == "warn" || l.Level == "error" || strings.Contains(l.Message, "again") {
			out[strings.TrimRight(l.Message+" "+l.Job+l.Consumer, " ")]++
		}
	}
	return out
}

func TestContractB4_AnOutageTurnsNoJobDead(t *testing.T) {
	if testing.Short() {
		t.Skip("two outages of several leases")
	}
	const slots = 8
	p := newPlant(t, outageLease, slots)
	// Runs through the outages, and minds its context: each lost lease is an attempt that was lost.
	p.handle("long", func(ctx context.Context, _ *job.Job, _ <-chan struct{}) error {
		select {
		case <-p.up:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	// Ends while the server is down, when nobody can be told.
	p.handle("ends", func(ctx context.Context, _ *job.Job, down <-chan struct{}) error {
		select {
		case <-down:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	// Is refused while the server is down.
	p.handle("refused", func(ctx context.Context, j *job.Job, down <-chan struct{}) error {
		if p.called(j.ID) > 1 {
			return nil
		}
		select {
		case <-down:
			return job.Refuse(job.CodeOverCapacity, "the house is full")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	// Is refused again and again, until all is well.
	p.handle("waits", func(context.Context, *job.Job, <-chan struct{}) error {
		select {
		case <-p.up:
			return nil
		default:
			return job.Refuse(job.CodeDuplicate, "somebody runs it")
		}
	})
	p.handle("short", func(context.Context, *job.Job, <-chan struct{}) error { return nil })
	p.start()

	long := []string{"long-0", "long-1"}
	for _, id := range long {
		p.enqueue("long", id, 3)
	}
	for round, fault := range []struct{ begin, end func() }{
		{p.server.Kill, func() { p.server.Restart(t) }},
		{p.server.Pause, p.server.Resume},
	} {
		// What is handed back again and again takes slots, so it comes last.
		blocked := slices.Clone(long)
		for i := range slots - len(long) - 1 {
			typ := []string{"ends", "refused"}[i%2]
			id := fmt.Sprintf("%s-%d-%d", typ, round, i)
			p.enqueue(typ, id, 1+i/2%2)
			blocked = append(blocked, id)
		}
		if round == 0 {
			p.awaitRunning(blocked...)
			for i := range 4 {
				p.enqueue("waits", fmt.Sprintf("waits-%d", i), 1+i%2)
			}
		}
		natstest.Eventually(t, patience, func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			for _, id := range blocked {
				if !p.running[id] {
					return false
				}
			}
			return true
		})
		// The last slot is taken too, and these wait.
		last := fmt.Sprintf("ends-%d-last", round)
		p.enqueue("ends", last, 1)
		for i := range 12 {
			p.enqueue("short", fmt.Sprintf("short-%d-%d", round, i), 1+i%2)
		}
		before := map[string]int{}
		for _, id := range long {
			before[id] = p.called(id)
		}
		p.outage(3*outageLease, fault.begin, fault.end, nil)
		// Those that went on are cut off, and run once more.
		natstest.Eventually(t, patience, func() error {
			for _, id := range long {
				if got := p.called(id); got <= before[id] {
					return fmt.Errorf("%s was not begun again", id)
				}
			}
			return nil
		})
	}
	close(p.up)
	for _, key := range p.keys {
		j := p.ended(key)
		require.Equal(t, job.Succeeded, j.Status, "%s: %s: %+v", key, j.Error, j.History)
		require.LessOrEqual(t, j.Attempts, j.MaxAttempts, key)
	}
}

func TestContractB4_OverCapacityForAWhileCostsNothing(t *testing.T) {
	t.Parallel()
	p := newPlant(t, 30*time.Second, 4) // no lease lapses, however slow the machine
	var wrong atomic.Int32
	p.handle("guarded", func(_ context.Context, j *job.Job, _ <-chan struct{}) error {
		if j.Attempts != 1 || len(j.History) != 0 {
			wrong.Add(1)
		}
		select {
		case <-p.up:
			return nil
		default:
			return job.Refuse(job.CodeOverCapacity, "the house is full")
		}
	})
	p.start()
	for i := range 10 {
		p.enqueue("guarded", fmt.Sprint(i), 1+i%2)
	}
	natstest.Eventually(t, patience, func() error {
		for _, key := range p.keys {
			if got := p.called(key.ID); got < 5 {
				return fmt.Errorf("%s was refused %d times", key, got)
			}
		}
		return nil
	})
	for _, key := range p.keys { // between two tries
		natstest.Eventually(t, patience, func() error {
			j, err := p.store.Get(t.Context(), key)
			switch {
			case err != nil:
				return err
			case j.Status.Terminal():
				require.Fail(t, "it ended", "%+v", j)
			case j.Status != job.Pending:
				return fmt.Errorf("it is %s", j.Status)
			}
			require.Zero(t, j.Attempts, key)
			require.Empty(t, j.History, key)
			require.Equal(t, "not started: the house is full", j.Error)
			return nil
		})
	}
	close(p.up)
	for _, key := range p.keys {
		j := p.ended(key)
		require.Equal(t, job.Succeeded, j.Status, key)
		require.Equal(t, 1, j.Attempts, key)
		require.Len(t, j.History, 1, key)
	}
	require.Zero(t, wrong.Load(), "every try was the first attempt")
}

func TestContractB9_AnOutageOfTheServerIsLoggedOnceAtEachEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("two outages of several leases")
	}
	t.Parallel()
	const lease = time.Second
	p := newPlant(t, lease, 6)
	p.handle("long", func(ctx context.Context, _ *job.Job, _ <-chan struct{}) error {
		select {
		case <-p.up:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	p.handle("ends", func(_ context.Context, _ *job.Job, down <-chan struct{}) error {
		<-down
		return nil
	})
	p.start()
	p.enqueue("long", "long-0", 9)
	p.enqueue("long", "long-1", 9)
	for outage := 1; outage <= 2; outage++ {
		ends := []string{fmt.Sprintf("ends-%d-0", outage), fmt.Sprintf("ends-%d-1", outage)}
		for _, id := range ends {
			p.enqueue("ends", id, 9)
		}
		p.awaitRunning("long-0", "long-1", ends[0], ends[1]) // and two slots ask in vain
		p.outage(5*lease, p.server.Kill, func() { p.server.Restart(t) }, func() {
			p.awaitLine("heartbeats fail", outage)
		})
		p.awaitLine("heartbeats succeed again", outage)
	}
	p.awaitRunning("long-0", "long-1")
	close(p.up)
	for _, key := range p.keys {
		require.Equal(t, job.Succeeded, p.ended(key).Status)
	}
	lines := p.lines()
	require.Equal(t, 2, lines["heartbeats fail"], lines)
	require.Equal(t, 2, lines["heartbeats succeed again"], lines)
	for message, n := range lines {
		require.LessOrEqual(t, n, 2, "%q is said once an outage, and once a job where it is about one: %v", message, lines)
	}
	for line := range strings.Lines(p.logs.String()) {
		if !strings.Contains(line, "heartbeats succeed again") {
			continue
		}
		var l struct{ Failed int }
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		require.Positive(t, l.Failed, "it says how many failed")
	}
}

// The server answers, and has nobody to store anything.
func TestContractB4_B9_LostQuorumTurnsNoJobDeadAndIsLoggedOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("an outage of a cluster")
	}
	c := natstest.StartCluster(t, 3)
	p := newPlantAt(t, c.Node(0).URL(), 3, outageLease, 4)
	p.handle("ends", func(_ context.Context, _ *job.Job, down <-chan struct{}) error {
		<-down
		return nil
	})
	p.handle("refused", func(_ context.Context, j *job.Job, down <-chan struct{}) error {
		if p.called(j.ID) > 1 {
			return nil
		}
		<-down
		return job.Refuse(job.CodeOverCapacity, "the house is full")
	})
	ids := []string{"ends-0", "ends-1", "refused-0", "refused-1"}
	for i, id := range ids {
		typ, _, _ := strings.Cut(id, "-")
		spec := job.Spec{Queue: "q", Type: typ, ID: id, MaxAttempts: 1 + i%2}
		// A new cluster may leave a request without an answer; what is tested comes later.
		natstest.Eventually(t, patience, func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err := p.store.Enqueue(ctx, spec)
			return err
		})
		p.keys = append(p.keys, job.Key{Queue: "q", Space: job.DefaultSpace, ID: id})
	}
	p.start()
	p.awaitRunning(ids...)
	for i := range 4 {
		p.enqueue("refused", fmt.Sprintf("refused-late-%d", i), 1)
	}
	lost := func() {
		c.Node(1).Kill()
		c.Node(2).Kill()
	}
	back := func() {
		c.Node(1).Restart(t)
		c.Node(2).Restart(t)
		c.WaitReady(t)
	}
	p.outage(5*outageLease, lost, back, func() { p.awaitLine("heartbeats fail", 1) })
	p.awaitLine("heartbeats succeed again", 1)
	p.mu.Lock()
	close(p.down) // of those that were refused by nobody yet
	p.mu.Unlock()
	for _, key := range p.keys {
		j := p.ended(key)
		require.Equal(t, job.Succeeded, j.Status, "%s: %s: %+v", key, j.Error, j.History)
	}
	lines := p.lines()
	require.Equal(t, 1, lines["heartbeats fail"], lines)
	require.Equal(t, 1, lines["heartbeats succeed again"], lines)
	for message, n := range lines {
		require.LessOrEqual(t, n, 1, "%q: %v", message, lines)
	}
}

// The connection stands, and nobody answers.
func TestContractB9_ASilentServerIsLoggedOnceAtEachEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("an outage of two rounds of the watchdog")
	}
	t.Parallel()
	p := newPlant(t, time.Second, 2)
	p.handle("short", func(context.Context, *job.Job, <-chan struct{}) error { return nil })
	p.start()
	require.Equal(t, job.Succeeded, p.ended(p.enqueue("short", "before", 1)).Status)
	p.outage(32*time.Second, p.server.Pause, p.server.Resume, func() {
		p.awaitLine("heartbeats fail", 1)
	})
	p.awaitLine("heartbeats succeed again", 1)
	require.Equal(t, job.Succeeded, p.ended(p.enqueue("short", "after", 1)).Status)
	lines := p.lines()
	for message, n := range lines {
		require.LessOrEqual(t, n, 1, "%q: %v", message, lines)
	}
}

// awaitLine waits until a message stands in the log n times.
func (p *plant) awaitLine(message string, n int) {
	p.t.Helper()
	natstest.Eventually(p.t, patience, func() error {
		if got := strings.Count(p.logs.String(), `"`+message+`"`); got < n {
			return fmt.Errorf("%q was said %d times", message, got)
		}
		return nil
	})
}
