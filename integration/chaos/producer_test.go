package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/streams"
)

// asked is what a producer knows of one job that it asked for.
type asked struct {
	spec    job.Spec
	ends    job.Status // as which the job has to end
	acked   bool       // the store said that the job is there
	created bool       // by our own doing
	unknown int        // tries whose outcome nobody told
	refused int        // tries that were not taken
}

// mix is the i-th job of a load: most are quick, some are slow, delayed, fail at first, or always.
func mix(queue, producer string, i int) *asked {
	in, ends := input{}, job.Succeeded
	spec := job.Spec{
		ID: fmt.Sprintf("%s-%05d", producer, i), Queue: queue, Type: jobType, MaxAttempts: 20,
		Retry: &job.Retry{Base: 50 * time.Millisecond, Max: 200 * time.Millisecond},
	}
	switch {
	case i%50 == 29:
		in.Fails, spec.MaxAttempts, ends = 1000, 2, job.Dead
	case i%10 == 3:
		in.Fails = 1
	case i%20 == 7:
		in.Sleep = 300
	case i%20 == 13:
		spec.Delay = 200 * time.Millisecond
	}
	spec.Input = in.json()
	return &asked{spec: spec, ends: ends}
}

func (in input) json() []byte {
	b, err := json.Marshal(in)
	if err != nil {
		panic(err) // it has no field that cannot be written
	}
	return b
}

// producers enqueue a mix of jobs at a steady pace, and keep the history of what they were told.
type producers struct {
	t     testing.TB
	store *streams.Store
	queue string
	ctx   context.Context // ends with the test
	stop  chan struct{}
	wg    sync.WaitGroup

	acked atomic.Int64
	mu    sync.Mutex
	jobs  map[string]*asked
}

func newProducers(t testing.TB, store *streams.Store, queue string) *producers {
	p := &producers{t: t, store: store, queue: queue, stop: make(chan struct{}), jobs: make(map[string]*asked)}
	var end context.CancelFunc
	p.ctx, end = context.WithCancel(context.Background())
	t.Cleanup(func() {
		end()
		p.wg.Wait()
	})
	return p
}

// start begins a load of n producers, each with a job every pace.
func (p *producers) start(n int, pace time.Duration) {
	for k := range n {
		name := fmt.Sprintf("p%d", k)
		p.wg.Go(func() {
			tick := time.NewTicker(pace)
			defer tick.Stop()
			for i := 0; ; i++ {
				select {
				case <-p.stop:
					return
				case <-p.ctx.Done():
					return
				case <-tick.C:
				}
				// One in ten does not ask again when it was told nothing.
				p.enqueue(mix(p.queue, name, i), i%10 == 9)
			}
		})
	}
}

// finish ends the load when every job of it has an answer.
func (p *producers) finish() {
	close(p.stop)
	p.wg.Wait()
}

// enqueue asks for a job until the store says that it is there, or, with forget, until a try has an unknown
// outcome.
func (p *producers) enqueue(a *asked, forget bool) {
	p.mu.Lock()
	p.jobs[a.spec.ID] = a
	p.mu.Unlock()
	for end := time.Now().Add(patience); ; {
		ctx, cancel := context.WithTimeout(p.ctx, 2*time.Second)
		got, err := p.store.Enqueue(ctx, a.spec)
		cancel()
		p.mu.Lock()
		switch {
		case err == nil:
			a.acked, a.created = true, got.Created
		case errors.Is(err, job.ErrUnknown):
			a.unknown++
		default:
			a.refused++
		}
		p.mu.Unlock()
		if err == nil {
			p.acked.Add(1)
			return
		}
		if forget && a.unknown > 0 || p.ctx.Err() != nil {
			return
		}
		if time.Now().After(end) {
			p.t.Errorf("job %s could not be enqueued for %s: %v", a.spec.ID, patience, err)
			return
		}
		time.Sleep(20 * time.Millisecond) // the pace of a producer that asks again
	}
}

// history is what the producers know. They must have finished.
func (p *producers) history() map[string]*asked { return p.jobs }
