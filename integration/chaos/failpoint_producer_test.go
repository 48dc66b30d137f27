//go:build failpoints

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/jetcrew/jetcrew/integration/natstest"
	"github.com/jetcrew/jetcrew/pkg/failpoint"
	"github.com/jetcrew/jetcrew/pkg/job"
	"github.com/jetcrew/jetcrew/streams"
)

const (
	roleProducer = "producer"
	producerEnv  = "JETCREW_CHAOS_PRODUCER"

	eventAsked   event = "asked"   // a producer is about to ask for a job
	eventCreated event = "created" // it was told that the job is there, by its own doing
	eventExisted event = "existed" // it was told that the job was there already
	eventNotTold event = "nottold" // it was told something else
)

func init() { roles = append(roles, natstest.Role(roleProducer, runProducer)) }

// The ways to ask for jobs.
const (
	oneByOne   = "one"
	manyAtOnce = "many"
	allOrNone  = "all"
)

// producerConfig is what a producer process is told: the same jobs in every life.
type producerConfig struct {
	ID     string
	URL    string
	Ledger string
	Queue  string
	Way    string
	Groups int
}

// groupSize is how many jobs are asked for at a time, but for one by one.
const groupSize = 10

// groups are the ids of the jobs that a producer asks for, as it does.
func (p producerConfig) groups() [][]string {
	size := groupSize
	if p.Way == oneByOne {
		size = 1
	}
	out := make([][]string, p.Groups)
	for g := range out {
		for i := range size {
			out[g] = append(out[g], fmt.Sprintf("%s-%03d-%d", p.Way, g, i))
		}
	}
	return out
}

func (p producerConfig) spec(id string) job.Spec {
	return job.Spec{ID: id, Queue: p.Queue, Type: jobType, MaxAttempts: 20, Input: input{}.json()}
}

// runProducer is a producer process: it asks for each of its jobs once, writes down what it is told, and ends.
func runProducer() int {
	var cfg producerConfig
	if err := json.Unmarshal([]byte(os.Getenv(producerEnv)), &cfg); err != nil {
		return complain(err)
	}
	book, err := openLedger(cfg.Ledger, cfg.ID)
	if err != nil {
		return complain(err)
	}
	nc, err := connect(cfg.URL)
	if err != nil {
		return complain(err)
	}
	defer nc.Close()
	ctx := context.Background()
	store, err := streams.Open(ctx, nc, streams.Config{})
	if err != nil {
		return complain(err)
	}
	defer store.Close()
	for _, ids := range cfg.groups() {
		specs := make([]job.Spec, len(ids))
		for i, id := range ids {
			specs[i] = cfg.spec(id)
			book.write(entry{Event: eventAsked, Job: id})
		}
		cfg.ask(ctx, store, specs, func(e event, id string, err error) {
			line := entry{Event: e, Job: id}
			if err != nil {
				line.Error = err.Error()
			}
			book.write(line)
		})
		time.Sleep(5 * time.Millisecond) // the producer's pace
	}
	return 0
}

// ask asks for a group of jobs, and passes on what is said of each.
func (p producerConfig) ask(ctx context.Context, store *streams.Store, specs []job.Spec, tell func(event, string, error)) {
	var got []job.Enqueued
	switch p.Way {
	case oneByOne:
		one, err := store.Enqueue(ctx, specs[0])
		one.Err = err
		got = append(got, one)
	case manyAtOnce:
		got, _ = store.EnqueueMany(ctx, specs) // its error is one of the jobs'
	case allOrNone:
		all, err := store.EnqueueAll(ctx, specs)
		for i, spec := range specs {
			one := job.Enqueued{Key: spec.Key(), Err: err}
			var met *job.ConflictError
			switch {
			case err == nil:
				one = all[i]
			case errors.As(err, &met) && len(met.Keys) == len(specs):
				one.Err = nil
			}
			got = append(got, one)
		}
	}
	for i, one := range got {
		switch id := specs[i].ID; {
		case one.Err != nil:
			tell(eventNotTold, id, one.Err)
		case one.Created:
			tell(eventCreated, id, nil)
		default:
			tell(eventExisted, id, nil)
		}
	}
}

// A producer dies, freezes or hears nothing when a job is stored. Whoever asks for the same ids later, or meanwhile, is
// told the truth.
func TestFailpointOfProducer(t *testing.T) {
	t.Parallel()
	eachAction(t, failpoint.AfterEnqueue, func(t *testing.T, action string) {
		c := failpointCrew(t)
		steady := c.work("steady")
		for _, way := range []string{oneByOne, manyAtOnce, allOrNone} {
			c.produce(way, action)
		}
		c.finish()
		c.check(rules{})
		c.dismiss(steady)
	})
}

// produce has one producer come to harm, and another ask for the same jobs, and compares what they were told.
func (c *crew) produce(way, action string) {
	c.t.Helper()
	cfg := producerConfig{URL: c.cfg.URL, Queue: c.cfg.Queue, Way: way, Groups: 20}
	told := newAccount(c.t)
	live := func(id string, env ...string) *hand {
		p := cfg
		p.ID, p.Ledger = id, filepath.Join(c.dir, way+"-"+id+".jsonl")
		text, err := json.Marshal(p)
		require.NoError(c.t, err)
		told.add(p.Ledger)
		return &hand{Proc: natstest.StartRole(c.t, roleProducer, append(env, producerEnv+"="+string(text))...), id: way + " " + id, crew: c}
	}
	victim := live("victim", armed(failpoint.AfterEnqueue, action, 5))
	victim.says(hit(failpoint.AfterEnqueue, action))
	c.faulted()
	alone := action == errs || action == lags
	if action == dies {
		require.Equal(c.t, -1, victim.Wait(patience))
	} else if action == freezes {
		victim.AwaitStop()
	}
	if !alone {
		require.Zero(c.t, live("heir").Wait(patience), "exit code of the heir")
	}
	if action != dies {
		victim.Resume()
		require.Zero(c.t, victim.Wait(patience), "exit code of the victim")
	}
	by := make(map[string]map[event]string) // by job: who was told what
	for _, e := range told.all() {
		if by[e.Job] == nil {
			by[e.Job] = make(map[event]string)
		}
		require.NotEqual(c.t, eventNotTold, e.Event, "%s, job %s: %s was told %s", way, e.Job, e.Worker, e.Error)
		require.False(c.t, e.Event == eventCreated && by[e.Job][eventCreated] != "", "%s: job %s was created twice", way, e.Job)
		by[e.Job][e.Event] = e.Worker
	}
	unheard := 0
	for _, ids := range cfg.groups() {
		for _, id := range ids {
			was := by[id]
			switch {
			case was[eventCreated] != "":
			case action == dies && was[eventExisted] == "heir":
				unheard++ // the victim created it, and did not live to hear so
			default:
				c.t.Errorf("%s: nobody created job %s", way, id)
			}
			c.expect(cfg.spec(id))
		}
	}
	if action == dies {
		require.Positive(c.t, unheard, "%s: the victim died with a job stored, its heir was told of none", way)
	}
}

// expect notes that a job is there, by the word of somebody else than the crew's own producers.
func (c *crew) expect(spec job.Spec) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jobs[spec.ID] = &asked{spec: spec, ends: job.Succeeded, acked: true, created: true}
	c.acked.Add(1)
}
