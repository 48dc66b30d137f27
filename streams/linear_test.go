package streams

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/pkg/job"
)

// linear are several clients that work on one job, and the history of it.
type linear struct {
	t     *testing.T
	key   job.Key
	began time.Time
	claim atomic.Int64

	mu      sync.Mutex // guards what follows
	history []porcupine.Operation
	hasty   int // how many more calls may be broken off
}

func (l *linear) now() int64 { return int64(time.Since(l.began)) }

// tell notes what a client asked for since a call, and was answered.
func (l *linear) tell(client int, a act, call int64, told answer) {
	end := l.now()
	if told.unknown { // it may take effect at any time
		end = math.MaxInt64
	}
	l.note(client, a, call, told, end)
}

func (l *linear) note(client int, a act, call int64, told answer, end int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.history = append(l.history, porcupine.Operation{ClientId: client, Input: a, Call: call, Output: told, Return: end})
}

// ctx is a call's. Some calls are broken off at once, so that nobody knows what became of them: but few, since each may
// have happened at any time afterwards.
func (l *linear) ctx(r *rand.Rand) (context.Context, context.CancelFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hasty > 0 && r.IntN(6) == 0 {
		l.hasty--
		return context.WithTimeout(l.t.Context(), time.Duration(r.IntN(600))*time.Microsecond)
	}
	return context.WithTimeout(l.t.Context(), soon)
}

// linearClient is one client: a connection. It operates on the job, or works.
type linearClient struct {
	*linear
	*node
	n int
	r *rand.Rand
}

var linearOutcomes = []job.Outcome{
	job.Succeed(nil), job.Succeed(nil), job.Fail(0, "no"), job.Fail(linearDelay, "no"),
	job.HandBack(0, "no"), job.HandBack(linearDelay, "no"),
	{Status: job.Dead},
	{Status: job.Failed},
	{Status: job.Cancelled},
}

var linearOps = []string{
	"enqueue", "enqueue", "later", "get", "get", "get", "cancel", "requeue", "requeue", "requeue", "run-now", "run-now", "delete",
}

func (c *linearClient) operates(ops int) {
	for range ops {
		claims := c.claim.Load()
		starts := false
		switch op := linearOps[c.r.IntN(len(linearOps))]; op {
		case "enqueue", "later":
			starts = c.enqueue(op == "later")
		case "get":
			c.get()
		default:
			starts = c.operate(job.Operation(op)) && (op == string(job.OpRequeue) || op == string(job.OpRunNow))
		}
		if starts && c.r.IntN(3) > 0 {
			c.awaitClaim(claims)
		}
	}
}

// awaitClaim lets workers get at the job. Somebody else may be faster: then none of them does.
func (c *linearClient) awaitClaim(claims int64) {
	deadline := time.After(time.Second / 2)
	for c.claim.Load() == claims {
		select {
		case <-deadline:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// works claims the job and settles it, again and again, until ctx ends.
func (c *linearClient) works(ctx context.Context, w job.Consumer) {
	for {
		call := c.linear.now()
		got, err := w.Claim(ctx)
		if err != nil {
			return
		}
		cl, j := got.(*claim), got.Job()
		a := act{claim: int(c.claim.Add(1)), seq: cl.seq, attempts: j.Attempts, history: len(j.History)}
		if c.r.IntN(3) > 0 { // until others can see it
			c.awaitWritten(cl)
			time.Sleep(time.Duration(c.r.IntN(20)) * time.Millisecond) // it runs
		}
		c.settle(cl, a)
		a.op = "claim" // it may have been written at any time until now, or not at all
		c.note(c.n, a, call, answer{unknown: true}, c.linear.now())
	}
}

func (c *linearClient) enqueue(later bool) bool {
	ctx, cancel := c.ctx(c.r)
	defer cancel()
	s := spec(c.key.Queue, c.key.ID)
	s.MaxAttempts = linearAttempts
	if later {
		s.Delay = linearDelay
	}
	call := c.linear.now()
	got, err := c.Enqueue(ctx, s)
	c.tell(c.n, act{op: "enqueue", later: later}, call, answer{unknown: err != nil, done: got.Created && err == nil})
	return err == nil && got.Created && !later
}

func (c *linearClient) get() {
	ctx, cancel := context.WithTimeout(c.linear.t.Context(), soon)
	defer cancel()
	call := c.linear.now()
	j, err := c.Get(ctx, c.key)
	if errors.Is(err, job.ErrNotFound) {
		c.tell(c.n, act{op: "get"}, call, answer{missing: true})
		return
	}
	if err != nil {
		c.linear.t.Error(err)
		return
	}
	c.tell(c.n, act{op: "get"}, call, c.record(j))
}

func (c *linearClient) record(j *job.Job) answer {
	return answer{
		record: true, status: j.Status, flagged: j.CancelRequested, attempts: j.Attempts, history: len(j.History),
		later: j.Status == job.Pending && j.RunAt.After(c.Now().Add(linearDelay/2)),
	}
}

func (c *linearClient) operate(op job.Operation) bool {
	ctx, cancel := c.ctx(c.r)
	defer cancel()
	call := c.linear.now()
	changed, err := c.Store.steer(ctx, op, c.key)
	told := answer{done: changed.Done, status: changed.Status, flagged: changed.CancelRequested}
	switch {
	case errors.Is(err, job.ErrNotFound):
		told = answer{missing: true}
	case err != nil:
		told = answer{unknown: true}
	}
	c.tell(c.n, act{op: string(op)}, call, told)
	return told.done
}

// awaitWritten waits until a claim is known to be stored, or its holder was told that the job is not to go on.
func (c *linearClient) awaitWritten(cl *claim) {
	deadline := time.Now().Add(soon)
	for {
		cl.mu.Lock()
		known := cl.claimed || cl.told != nil
		cl.mu.Unlock()
		if known {
			return
		}
		if time.Now().After(deadline) {
			c.linear.t.Errorf("claim %+v was neither written nor taken away", cl.rec.job().Key())
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// settle ends the attempt. What was broken off is asked for again: the claim then knows what became of it, unless
// somebody has gone on from there.
func (c *linearClient) settle(cl *claim, a act) {
	a.op, a.outcome = "settle", linearOutcomes[c.r.IntN(len(linearOutcomes))]
	call := c.linear.now()
	ctx, cancel := c.ctx(c.r)
	j, err := cl.Settle(ctx, a.outcome)
	cancel()
	again := err != nil && !errors.Is(err, job.ErrLeaseLost)
	if again {
		j, err = cl.Settle(c.linear.t.Context(), a.outcome)
	}
	switch {
	case err == nil:
		c.tell(c.n, a, call, c.record(j))
	case errors.Is(err, job.ErrLeaseLost):
		c.note(c.n, a, call, answer{lost: !again, unknown: again}, c.linear.now())
	default:
		c.linear.t.Error(err)
	}
}

// linearText is a history as a reader of a failure wants it.
func linearText(history []porcupine.Operation) string {
	slices.SortFunc(history, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	var b strings.Builder
	for _, o := range history {
		fmt.Fprintf(&b, "%9s to %9s, client %d: %+v -> %+v\n",
			time.Duration(o.Call).Round(time.Microsecond), time.Duration(o.Return).Round(time.Microsecond), o.ClientId, o.Input, o.Output)
	}
	return b.String()
}

// What several clients are told of one job fits an order in which it all happened. Nothing lapses here, and nobody
// dies: takeovers have tests of their own.
func TestOneJobsLifeIsLinear(t *testing.T) {
	t.Parallel()
	const clients, ops, hasty = 3, 30, 3
	p := server(t)
	cfg := p.config()
	cfg.Lease = time.Minute
	histories := 6
	if testing.Short() {
		histories = 2
	}
	for range histories {
		seed := rand.Uint64()
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			l := &linear{t: t, key: keyOf(queueName(t), "1"), began: time.Now(), hasty: hasty}
			var operators, workers sync.WaitGroup
			begin := make(chan struct{})
			done, stop := context.WithCancel(t.Context())
			defer stop()
			for i := range clients {
				n := p.openAs(t, cfg)
				client := func(part uint64) *linearClient {
					return &linearClient{linear: l, node: n, n: i, r: rand.New(rand.NewPCG(seed, 2*uint64(i)+part))}
				}
				w, err := n.Consume(t.Context(), job.ConsumerConfig{Queue: l.key.Queue, WorkerID: fmt.Sprint("w", i), Slots: 1, Lease: cfg.Lease})
				require.NoError(t, err)
				t.Cleanup(func() {
					ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second) // the test's own has ended
					defer cancel()
					_ = w.Close(ctx)
				})
				workers.Go(func() { client(0).works(done, w) })
				operators.Go(func() {
					<-begin
					client(1).operates(ops)
				})
			}
			close(begin)
			operators.Wait()
			stop()
			workers.Wait()
			require.Equal(t, porcupine.Ok, porcupine.CheckOperationsTimeout(linearModel(), l.history, soon), "%s", linearText(l.history))
		})
	}
}
