package guard_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/guard"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/pkg/kv"
)

// step is what a client did: it began a run of a key, which may be refused, or ended the one that it had.
type step struct {
	client, key int
	end         bool
}

// lock is a key with at most one holder, 0 being nobody.
var lock = porcupine.Model{
	Partition: natstest.ByKey(func(o porcupine.Operation) int { return o.Input.(step).key }),
	Init:      func() any { return 0 },
	Step: func(state, input, output any) (bool, any) {
		holder, in, began := state.(int), input.(step), output.(bool)
		switch {
		case in.end:
			return holder == in.client, 0
		case began:
			return holder == 0, in.client
		default:
			return holder != 0, holder
		}
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %v", input, output) },
}

// contend has many clients begin and end runs of a few keys.
func contend(t *testing.T, clients, each int, g func(client int) *guard.Guards) []porcupine.Operation {
	t.Helper()
	start := time.Now()
	histories := make([][]porcupine.Operation, clients)
	var all sync.WaitGroup
	for i := range clients {
		mine, keys := g(i), []guard.Key{derived(t, `{"n":0}`), derived(t, `{"n":1}`)}
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 1))
			note := func(in step, asked time.Time, began bool) {
				histories[i] = append(histories[i], porcupine.Operation{
					ClientId: i, Input: in, Output: began,
					Call: asked.Sub(start).Nanoseconds(), Return: time.Since(start).Nanoseconds(),
				})
			}
			for range each {
				in := step{client: i + 1, key: rnd.IntN(len(keys))}
				asked := time.Now()
				r, err := mine.Begin(t.Context(), request(keys[in.key]))
				var refusal *job.Refusal
				if errors.As(err, &refusal) && refusal.Code == job.CodeDuplicate {
					note(in, asked, false)
					continue
				}
				if !assert.NoError(t, err) {
					return
				}
				note(in, asked, true)
				for range 20 {
					runtime.Gosched() // let others ask for it
				}
				in.end = true
				asked = time.Now()
				if !assert.NoError(t, r.End()) {
					return
				}
				note(in, asked, true)
			}
		})
	}
	all.Wait()
	var history []porcupine.Operation
	for _, h := range histories {
		history = append(history, h...)
	}
	return history
}

func requireOneHolder(t *testing.T, history []porcupine.Operation) {
	t.Helper()
	began, refused := 0, 0
	for _, o := range history {
		switch {
		case o.Output == false:
			refused++
		case !o.Input.(step).end:
			began++
		}
	}
	t.Logf("%d operations, %d runs, %d refused", len(history), began, refused)
	require.Positive(t, began)
	require.Positive(t, refused, "nobody met anybody")
	require.Equal(t, porcupine.Ok, porcupine.CheckOperationsTimeout(lock, history, 2*time.Minute))
}

func TestTwoHoldersWouldBeNoticed(t *testing.T) {
	t.Parallel()
	op := func(client int, end, began bool, call, answer int64) porcupine.Operation {
		return porcupine.Operation{ClientId: client, Input: step{client: client, end: end}, Output: began, Call: call, Return: answer}
	}
	held := []porcupine.Operation{op(1, false, true, 0, 1), op(1, true, true, 6, 7)}
	for name, c := range map[string]struct {
		also porcupine.Operation
		want porcupine.CheckResult
	}{
		"refused while it is held":     {op(2, false, false, 2, 3), porcupine.Ok},
		"begun while it is held":       {op(2, false, true, 2, 3), porcupine.Illegal},
		"ended by who does not hold":   {op(2, true, true, 2, 3), porcupine.Illegal},
		"refused when it was released": {op(2, false, false, 8, 9), porcupine.Illegal},
	} {
		require.Equal(t, c.want, porcupine.CheckOperationsTimeout(lock, append(held[:2:2], c.also), time.Minute), name)
	}
}

func TestContractE1_AKeyHasOneHolderAtATime(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, client func() kv.Adapter) {
		fleet := []*guard.Guards{guards(t, client()), guards(t, client()), guards(t, client())}
		requireOneHolder(t, contend(t, 8, 30, func(i int) *guard.Guards { return fleet[i%len(fleet)] }))
	})
}

func TestContractE1_AKeyHasOneHolderWhereAnswersAreLost(t *testing.T) {
	t.Parallel()
	memory := kv.NewMemory(kv.MemoryOptions{})
	requireOneHolder(t, contend(t, 8, 30, func(i int) *guard.Guards {
		f := &faulty{Adapter: memory}
		rnd := rand.New(rand.NewPCG(uint64(i), 2))
		f.set(func(_ int, op, _ string) fault {
			if op != "get" && rnd.IntN(4) == 0 {
				return undone + fault(rnd.IntN(2))
			}
			return none
		})
		return guards(t, f)
	}))
}
