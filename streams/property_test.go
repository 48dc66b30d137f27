package streams

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/job"
)

// step is one thing that somebody does; several are under way at a time.
type step struct {
	Op      string
	Node    int
	ID      int
	Delay   time.Duration
	Max     int
	Hold    time.Duration
	Outcome int
	Point   int
	Pause   time.Duration
}

var outcomes = []job.Outcome{
	{Status: job.Succeeded},
	{Status: job.Succeeded},
	{Status: job.Pending, Error: "no"},
	{Status: job.Pending, Error: "no", Delay: 150 * time.Millisecond},
	{Status: job.Pending, Refund: true},
	{Status: job.Pending, Refund: true, Delay: 150 * time.Millisecond},
	{Status: job.Dead},
	{Status: job.Failed},
	{Status: job.Cancelled},
}

var points = []Point{
	AfterAlarm, AfterEnqueue, AfterDelivery, AfterClaimWrite, BeforeSettle, AfterSettle, BeforeAck, AfterAck,
	AfterWakeMove, AfterWakeDelete, AfterSweepWrite,
}

func scripts() *rapid.Generator[[]step] {
	short := rapid.SampledFrom([]time.Duration{0, 0, 150 * time.Millisecond})
	one := rapid.Custom(func(t *rapid.T) step {
		return step{
			Op:      rapid.SampledFrom([]string{"enqueue", "enqueue", "run", "run", "run", "run", "abandon", "die at", "die", "sweep", "flag"}).Draw(t, "op"),
			Node:    rapid.IntRange(0, 2).Draw(t, "node"),
			ID:      rapid.IntRange(0, 3).Draw(t, "id"),
			Delay:   short.Draw(t, "delay"),
			Max:     rapid.IntRange(1, 3).Draw(t, "max"),
			Hold:    short.Draw(t, "hold"),
			Outcome: rapid.IntRange(0, len(outcomes)-1).Draw(t, "outcome"),
			Point:   rapid.IntRange(0, len(points)-1).Draw(t, "point"),
			Pause:   rapid.SampledFrom([]time.Duration{0, 5 * time.Millisecond, 60 * time.Millisecond, 250 * time.Millisecond}).Draw(t, "pause"),
		}
	})
	return rapid.SliceOfN(one, 15, 40)
}

// told is what the users of one job were told, which is all that the rules are about.
type told struct {
	created int
	asked   bool
	end     job.Status // of a settlement that was acknowledged
	runID   string
	claims  int
}

// world runs a script, and holds every answer against the rules.
type world struct {
	t     *testing.T
	p     *place
	queue string
	wg    sync.WaitGroup

	slots [3]*actor

	mu   sync.Mutex // guards what follows
	jobs map[string]*told
	bad  []string
}

// actor is a process that may die at a point.
type actor struct {
	*node
	c  *consumer
	at atomic.Value // Point at which it dies
}

func (w *world) violated(format string, args ...any) {
	w.bad = append(w.bad, fmt.Sprintf(format, args...))
}

// actor answers the process in a slot; a dead one is replaced.
func (w *world) actor(i int) *actor {
	if a := w.slots[i]; a != nil {
		select {
		case <-a.died:
		default:
			return a
		}
	}
	a := &actor{node: &node{t: w.t, nc: natstest.Connect(w.t, w.p.url()), died: make(chan struct{})}}
	a.at.Store(Point(""))
	cfg := w.p.config()
	cfg.Failpoint = func(passed Point) error {
		if passed == a.at.Load() {
			a.crash()
		}
		select {
		case <-a.died:
			return errDied
		default:
			return nil
		}
	}
	a.openStore(cfg)
	a.c = a.work(w.queue, fmt.Sprint("w", i, "-", nuid.Next()))
	w.slots[i] = a
	return a
}

func (w *world) do(s step) {
	a := w.actor(s.Node)
	id := fmt.Sprint(s.ID)
	switch s.Op {
	case "enqueue":
		w.wg.Go(func() { w.enqueue(a, id, s) })
	case "run", "abandon":
		w.wg.Go(func() { w.run(a, s) })
	case "die at":
		a.at.Store(points[s.Point])
	case "die":
		a.crash()
	case "sweep":
		w.wg.Go(func() { _, _ = a.Sweep(w.t.Context()) }) // it may die meanwhile
	case "flag":
		w.wg.Go(func() { w.flag(a, id) })
	}
	time.Sleep(s.Pause)
}

func (w *world) enqueue(a *actor, id string, s step) {
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	w.mu.Lock()
	w.jobs[id].asked = true
	w.mu.Unlock()
	got, err := a.Enqueue(ctx, job.Spec{Queue: w.queue, ID: id, Type: "t", Delay: s.Delay, MaxAttempts: s.Max})
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil && got.Created {
		if w.jobs[id].created++; w.jobs[id].created > 1 {
			w.violated("%s: two producers were told true", id)
		}
	}
}

func (w *world) run(a *actor, s step) {
	ctx, cancel := context.WithTimeout(w.t.Context(), 400*time.Millisecond)
	defer cancel()
	cl, err := a.c.Claim(ctx)
	if err != nil {
		return
	}
	j := cl.Job()
	w.mu.Lock()
	of := w.jobs[j.ID]
	of.claims++
	mine := of.claims
	switch {
	case of.end != "":
		w.violated("%s: started after it had ended %s", j.ID, of.end)
	case j.Attempts > j.MaxAttempts:
		w.violated("%s: attempt %d of %d", j.ID, j.Attempts, j.MaxAttempts)
	case j.Attempts != len(j.History)+1:
		w.violated("%s: attempt %d with a history of %d", j.ID, j.Attempts, len(j.History))
	}
	w.mu.Unlock()
	if s.Op == "abandon" {
		time.Sleep(s.Hold)
		cl.Abandon()
		return
	}
	time.Sleep(s.Hold)
	o := outcomes[s.Outcome]
	o.RunID = nuid.Next()
	w.mu.Lock()
	followed := of.claims != mine
	w.mu.Unlock()
	sctx, scancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer scancel()
	done, err := cl.Settle(sctx, o)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if followed {
		w.violated("%s: a settlement was taken from a worker that another had followed", j.ID)
	}
	if done.Status.Terminal() {
		if of.end != "" {
			w.violated("%s: ended %s, and then %s", j.ID, of.end, done.Status)
		}
		of.end, of.runID = done.Status, done.RunID
	}
}

// flag asks to cancel a running job.
func (w *world) flag(a *actor, id string) {
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
	defer cancel()
	recs, err := a.fromLeader(ctx, tail(keyOf(w.queue, id)))
	top := newest(recs)
	if err != nil || top == nil || top.state != stateRunning {
		return
	}
	d := top.document
	d.Rev++
	d.Writer = newWriter()
	d.Job.CancelRequested = true
	_, _ = a.put(ctx, write{tail: top.tail, state: stateRunning, doc: &d, guard: last(recs)}) // somebody may be faster
}

// rest brings the script to its end: whoever lives stops in order, and a healthy process runs what is left.
func (w *world) rest() {
	w.wg.Wait()
	for _, a := range w.slots {
		if a == nil {
			continue
		}
		a.at.Store(Point(""))
		ctx, cancel := context.WithTimeout(w.t.Context(), 2*time.Second)
		_ = a.c.Close(ctx) // it may have died
		cancel()
		a.crash()
	}
	n := w.p.open(w.t)
	jobs := 0
	for id, of := range w.jobs {
		if !of.asked {
			continue
		}
		jobs++
		got, err := n.Enqueue(w.t.Context(), spec(w.queue, id))
		require.NoError(w.t, err)
		if got.Created && of.created > 0 {
			w.violated("%s: a job that was acknowledged is gone", id)
		}
	}
	c := n.work(w.queue, "last")
	natstest.Eventually(w.t, 60*time.Second, func() error {
		if _, err := n.Sweep(w.t.Context()); err != nil {
			return err
		}
		for {
			ctx, cancel := context.WithTimeout(w.t.Context(), 200*time.Millisecond)
			cl, err := c.Claim(ctx)
			cancel()
			if err != nil {
				break
			}
			j := cl.Job()
			if end := w.jobs[j.ID].end; end != "" {
				w.violated("%s: started after it had ended %s", j.ID, end)
			}
			if _, err := cl.Settle(w.t.Context(), job.Succeed(nil)); err != nil && !errors.Is(err, job.ErrLeaseLost) {
				return err
			}
		}
		return n.isClean(w.queue, jobs)
	})
	for id, of := range w.jobs {
		if !of.asked {
			continue
		}
		j, err := n.Get(w.t.Context(), keyOf(w.queue, id))
		require.NoError(w.t, err)
		if of.end != "" && (of.end != j.Status || of.runID != j.RunID) {
			w.violated("%s: it was told that it ended %s (%s), and its record says %s (%s)", id, of.end, of.runID, j.Status, j.RunID)
		}
		if j.Attempts > j.MaxAttempts {
			w.violated("%s: %d attempts of %d", id, j.Attempts, j.MaxAttempts)
		}
		if j.Attempts != len(j.History) && j.Status != job.Cancelled { // a cancelled hand-back adds nothing to the history
			w.violated("%s: %d attempts, and a history of %d", id, j.Attempts, len(j.History))
		}
	}
}

func TestAnyInterleavingKeepsTheRules(t *testing.T) {
	t.Parallel()
	p := server(t)
	p.open(t)
	n := 32
	if testing.Short() {
		n = 6
	}
	for range n {
		seed := rand.IntN(1 << 30)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			script := scripts().Example(seed)
			w := &world{t: t, p: p, queue: fmt.Sprint("q", seed), jobs: make(map[string]*told)}
			for i := range 4 {
				w.jobs[fmt.Sprint(i)] = &told{}
			}
			p.open(t).quickWakes(w.queue)
			for _, s := range script {
				w.do(s)
			}
			w.rest()
			if len(w.bad) > 0 {
				require.Fail(t, "rules were broken", "%q\nscript: %+v", w.bad, script)
			}
		})
	}
}
