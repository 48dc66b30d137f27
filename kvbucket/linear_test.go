package kvbucket

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

// call is an operation on a key, and answer what came of it.
type (
	call struct {
		op       string
		key      string
		expected *string
		next     string
		amount   int64
	}
	answer struct {
		unknown bool    // it may have been done
		undone  bool    // it was not done, for certain
		value   *string // get
		ok      bool    // swap, deleteIf
		sum     int64   // increment
	}
)

// register is a key's value, "" being none: what all operations on it must look as if they had been done to, one by one.
// An outcome that is unknown may be any: its effect may come at any time later, or after all else, which is never.
var register = porcupine.Model{
	Partition: natstest.ByKey(func(o porcupine.Operation) string { return o.Input.(call).key }),
	Init:      func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		have, in, out := state.(string), input.(call), output.(answer)
		fits := func() bool {
			return in.expected == nil && have == "" || in.expected != nil && have != "" && *in.expected == have
		}
		if out.undone {
			return true, have
		}
		switch in.op {
		case "get":
			return out.unknown || out.value == nil && have == "" || out.value != nil && *out.value == have, have
		case "set":
			return true, in.next
		case "delete":
			return true, ""
		case "swap", "deleteIf":
			if !fits() {
				return out.unknown || !out.ok, have
			}
			return out.unknown || out.ok, in.next
		default:
			n, _ := strconv.ParseInt("0"+have, 10, 64)
			n += in.amount
			return out.unknown || out.sum == n, strconv.FormatInt(n, 10)
		}
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}

// client does operations, and writes down when each was asked and answered.
type client struct {
	id      int
	b       *Bucket
	leader  bool // reads are from the leader, since a replica may be behind
	start   time.Time
	seen    map[string]string
	history []porcupine.Operation
}

// get reads as the client is to.
func (c *client) get(ctx context.Context, key string) (string, bool, error) {
	if !c.leader {
		return c.b.Get(ctx, key)
	}
	e, err := c.b.leaders(ctx, c.b.subject(key))
	if err != nil || !e.there(c.b.clock.Now()) {
		return "", false, err
	}
	return string(e.value), true, nil
}

func (c *client) do(ctx context.Context, in call) error {
	asked := time.Since(c.start).Nanoseconds()
	var out answer
	var err error
	switch in.op {
	case "get":
		var v string
		var ok bool
		if v, ok, err = c.get(ctx, in.key); ok {
			out.value = &v
		}
	case "set":
		err = c.b.Set(ctx, in.key, in.next, 0)
	case "delete":
		err = c.b.Delete(ctx, in.key)
	case "swap":
		out.ok, err = c.b.Swap(ctx, in.key, in.expected, in.next, 0)
	case "deleteIf":
		out.ok, err = c.b.DeleteIf(ctx, in.key, *in.expected)
	case "increment":
		out.sum, err = c.b.Increment(ctx, in.key, in.amount)
	}
	answered := time.Since(c.start).Nanoseconds()
	switch {
	case errors.Is(err, kv.ErrUnknown):
		out.unknown, answered, err = true, int64(time.Hour), nil
	case errors.Is(err, context.DeadlineExceeded):
		out.undone, err = true, nil
	}
	c.history = append(c.history, porcupine.Operation{ClientId: c.id, Input: in, Call: asked, Output: out, Return: answered})
	return err
}

// random is an operation on one of a few keys. No value is written twice: who reads one knows whose it is.
func (c *client) random(rnd *rand.Rand) call {
	if rnd.IntN(3) == 0 {
		return call{op: "increment", key: "c" + strconv.Itoa(rnd.IntN(2)), amount: int64(1 + rnd.IntN(9))}
	}
	in := call{key: "s" + strconv.Itoa(rnd.IntN(3)), next: fmt.Sprintf("%d-%d", c.id, len(c.history))}
	if last := c.seen[in.key]; last != "" {
		in.expected = &last
	}
	switch n := rnd.IntN(20); {
	case n < 6:
		in.op = "get"
	case n < 16:
		in.op = "swap"
	case n < 17:
		in.op = "set"
	case n < 18:
		in.op, in.next = "delete", ""
	case in.expected != nil:
		in.op, in.next = "deleteIf", ""
	default:
		in.op = "get"
	}
	return in
}

// step does one of them.
func (c *client) step(ctx context.Context, rnd *rand.Rand) error {
	in := c.random(rnd)
	if err := c.do(ctx, in); err != nil {
		return err
	}
	switch out := c.history[len(c.history)-1].Output.(answer); {
	case out.undone:
	case out.value != nil:
		c.seen[in.key] = *out.value
	case in.op == "get":
		delete(c.seen, in.key)
	case in.op == "set" && !out.unknown, in.op == "swap" && out.ok:
		c.seen[in.key] = in.next
	}
	return nil
}

func TestHistoriesAreLinearizable(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(d *natstest.FaultDialer, rnd *rand.Rand){
		"undisturbed":  nil,
		"lost answers": func(d *natstest.FaultDialer, _ *rand.Rand) { d.DropFromServer(1, natstest.IsPubAck) },
		"lost writes": func(d *natstest.FaultDialer, _ *rand.Rand) {
			d.DropToServer(1, func(f []byte) bool { return isWrite(f) })
		},
		"cut connections": func(d *natstest.FaultDialer, rnd *rand.Rand) { d.ResetFromServer(rnd.IntN(2000)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			history := record(t, lose)
			unknown := isLinearizable(t, history)
			if lose == nil {
				require.Zero(t, unknown)
				doctor(t, history)
			}
		})
	}
}

// isLinearizable answers how many outcomes are unknown.
func isLinearizable(t *testing.T, history []porcupine.Operation) (unknown int) {
	t.Helper()
	undone := 0
	for _, o := range history {
		switch out := o.Output.(answer); {
		case out.unknown:
			unknown++
		case out.undone:
			undone++
		}
	}
	t.Logf("%d operations, %d of them unknown, %d not done", len(history), unknown, undone)
	require.Equal(t, porcupine.Ok, porcupine.CheckOperationsTimeout(register, history, 2*time.Minute))
	return unknown
}

func isWrite(frame []byte) bool {
	for _, key := range []string{"s0", "s1", "s2", "c0", "c1"} {
		if isPublish(frame, "$KV.JETCREW_KV."+key) {
			return true
		}
	}
	return false
}

// record has several clients do random operations, while what they say or hear is lost now and then.
func record(t *testing.T, lose func(*natstest.FaultDialer, *rand.Rand)) []porcupine.Operation {
	t.Helper()
	url := server(t)
	const clients, each = 4, 120
	start := time.Now()
	histories := make([][]porcupine.Operation, clients)
	var all sync.WaitGroup
	for id := range clients {
		d := &natstest.FaultDialer{}
		b := open(t, url, config(), d.Option())
		if b.timeout = soon; lose != nil {
			b.timeout = 300 * time.Millisecond
		}
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(id), 7))
			c := &client{id: id, b: b, start: start, seen: map[string]string{}}
			for range each {
				if lose != nil && rnd.IntN(12) == 0 {
					lose(d, rnd)
				}
				if !assert.NoError(t, c.step(t.Context(), rnd)) {
					return
				}
			}
			histories[id] = c.history
		})
	}
	all.Wait()
	var history []porcupine.Operation
	for _, h := range histories {
		history = append(history, h...)
	}
	return history
}
